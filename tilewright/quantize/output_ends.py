"""Joins and activation functions at a network's outputs that one scale of 8 bits would ruin.

Detectors end in a Concat of boxes in pixels and scores below 1: in the one scale of the result every score is 0. A
Sigmoid of scores that are nearly all close to 0 uses a few of 256 steps. Such operators have no multiply-accumulates
and nothing on the accelerator reads them, so they stay in float32 behind operands that have scales of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.jit.source.operators import any_row
from tilewright.quantize.operators import Operator, Seen

_LEAST = 25.0  #: dB of signal to noise that an output keeps where it is quantised, for its operator to be
_STEPS = 255


def faint_ends(operators: Sequence[Operator], outputs: Sequence[str], seen: Seen) -> dict[str, str]:
    """Operator's name -> why it stays. ``operators`` in the order of execution; ``outputs``: of the network."""
    readers: dict[str, list[Operator]] = {}
    for operator in operators:
        for name in operator.reads:
            readers.setdefault(name, []).append(operator)
    last: set[str] = set()  # operators from which only such operators lead to the outputs, or to a choice
    for operator in reversed(operators):
        behind = [reader.name for name in operator.makes for reader in readers.get(name, [])]
        row = any_row(operator.kind)
        if row.family == "choice":  # the network's results are made of the indices that it gives
            last.add(operator.name)
        elif (_joins(operator) or row.scores or row.is_moving) and (behind or {*operator.makes} & {*outputs}):
            last |= {operator.name} if last.issuperset(behind) else set()
    why: dict[str, str] = {}
    real: dict[str, str] = {}  #: tensor in float32 -> why
    for operator in operators:
        if operator.name not in last:
            continue
        reason = _faint(operator, seen) or next((real[name] for name in operator.reads if name in real), "")
        if reason:
            why[operator.name] = reason
            real |= dict.fromkeys(operator.makes, reason)
    return why


def _faint(operator: Operator, seen: Seen) -> str:
    """What is lost where the result of an operator is quantised; empty where that is little."""
    result = operator.makes[0]
    if not (_joins(operator) or any_row(operator.kind).scores) or result not in seen.least:
        return ""
    parts = [name for name in operator.reads if name in seen.least] if _joins(operator) else [result]
    kept = {name: _decibels(name, result, seen) for name in parts}
    worst = min(kept, key=lambda name: kept[name], default=result)
    if kept.get(worst, math.inf) >= _LEAST:
        return ""
    return f"in one scale of 8 bits {worst!r} would keep {max(kept[worst], 0):.1f} dB of signal to noise"


def _joins(operator: Operator) -> bool:
    return any_row(operator.kind).family == "concatenation"


def _decibels(name: str, result: str, seen: Seen) -> float:
    """The ratio of a tensor to the noise of rounding it to the scale of ``result``."""
    step = (seen.most[result] - seen.least[result]) / _STEPS
    signal = seen.mean_square(name)
    if not math.isfinite(signal) or not signal or not step:
        return math.inf
    return 10 * math.log10(signal / (step * step / 12))
