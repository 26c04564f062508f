"""The ALU's functions and the rounding modes as compiled functions, written from ``isa.functions``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tilewright.isa.compiled import compiler
from tilewright.isa.expression import text
from tilewright.isa.functions import SCALING, AluOp, Rounding

#: small and inlined into what calls them, whose machine code is what is kept on disk
_inlined = compiler(None)


@_inlined
def _signed(value: Any, bits: Any) -> Any:
    high = 1 << (bits - 1)
    return ((value & (2 * high - 1)) ^ high) - high


@_inlined
def _shift_right(value: Any, count: Any) -> Any:
    return value >> count if count >= 0 else value << -count


def written(parameters: str, cases: Iterable[tuple[int, str]]) -> Callable[..., Any]:
    """A function that returns, by its first parameter, the expression of a case; the last one for all others."""
    code = parameters.partition(",")[0]
    lines = [f"    if {code} == {case}: return {expression}" for case, expression in cases]
    lines[-1] = f"    return {lines[-1].partition('return ')[2]}"
    names: dict[str, Any] = {"signed": _signed, "shift_right": _shift_right}
    exec("\n".join([f"def made({parameters}):", *lines]), names)
    made: Callable[..., Any] = _inlined(names["made"])
    return made


#: ``AluOp(function).meaning`` of int64 numbers, not yet wrapped to int32
operate = written("function, x, y", [(int(f), text(f.meaning)) for f in AluOp])

#: ``Rounding(rounding).nudge``, for a mode that scales
nudge = written("rounding, negative, shift, half", [(int(r), text(r.nudge)) for r in SCALING if r.nudge is not None])

#: ``Rounding(rounding).to_even``
to_even = written("rounding", [(int(r), str(r.to_even)) for r in Rounding])

#: ``Rounding(rounding).precision``
precision = written("rounding", [(int(r), str(r.precision)) for r in Rounding])
