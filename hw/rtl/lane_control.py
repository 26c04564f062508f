"""What an instruction asks of every lane of the ALU: decoded at its issue, carried along with its vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth.hdl import Const, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data

from tilewright.hw.rtl.functions import any_of, logic, one_of
from tilewright.isa.expression import Expression, text
from tilewright.isa.functions import RESCALING, AluOp, Combine, Rounding
from tilewright.isa.spec import bits_for

MULTIPLYING = tuple(function for function in AluOp if function.multiplies)
SHIFTING = {function: function.count for function in AluOp if function.count is not None}
JOINING = tuple(function for function in AluOp if function not in (*MULTIPLYING, *SHIFTING))
#: ways to make of acc[d], x, and of what comes out of the shifter, y, what is written: each stated once
JOINS: tuple[Expression, ...] = tuple({text(f.meaning): f.meaning for f in (*Combine, *JOINING)}.values())
_JOIN_OF = {text(expression): k for k, expression in enumerate(JOINS)}
_WRITES = _JOIN_OF[text(Combine.WRITE.meaning)]
NARROW = 44  #: bits of a nudge that the multiplier's adder takes with the offset; wider ones have an adder of their own
_FIELDS = {
    "requantize": unsigned(1), "rescale": unsigned(1), "scaled": unsigned(1), "shifts": unsigned(1),
    "joins": unsigned(1), "rounds": unsigned(1), "function": unsigned(bits_for(len(AluOp))),
    "use_imm": unsigned(1), "imm": signed(32), "zero_point": signed(8), "lo": signed(8), "hi": signed(8),
    "least": signed(9), "most": signed(9), "join": unsigned(bits_for(len(JOINS))), "paced": unsigned(1),
}  # fmt: skip


def _is_wide(rounding: Rounding) -> bool:
    return rounding.nudge is not None and rounding.nudge.bits > NARROW


class LaneControl:
    """The decoded instruction as it stands in one pipeline stage; of the ``roundings`` there are, a flag for each that
    is not half up.

    scaled: r is a scaled value; rounds: by the highest bit shifted out; in_float: as floating point does, None if no
    mode is such; shifts: the function does; joins: it does nothing else; join: how, of :data:`JOINS`. From stage 2 on
    ``lo`` is at most ``hi``, and from stage 3 on ``least`` and ``most`` are both less the zero point.
    """

    def __init__(self, name: str, roundings: Sequence[Rounding]) -> None:
        flagged = [rounding for rounding in roundings if not rounding.plain]
        layout = data.StructLayout({**_FIELDS, **{rounding.name: unsigned(1) for rounding in flagged}})
        self.word = Signal(layout.size, name=f"mode_{name}", reset_less=True)
        view = data.View(layout, self.word)
        self.requantize, self.rescale, self.scaled = view.requantize, view.rescale, view.scaled
        self.shifts, self.joins, self.rounds = view.shifts, view.joins, view.rounds
        self.function, self.use_imm, self.imm, self.paced = view.function, view.use_imm, view.imm, view.paced
        self.zero_point, self.lo, self.hi = view.zero_point, view.lo, view.hi
        self.least, self.most, self.join = view.least, view.most, view.join
        self.flags = {rounding: view[rounding.name] for rounding in flagged}
        self.blank = any_of(flag for rounding, flag in self.flags.items() if rounding.nudge is None)
        self.to_even = any_of(flag for r, flag in self.flags.items() if r.to_even and not r.precision)
        self.in_float = next((flag for rounding, flag in self.flags.items() if rounding.precision), None)
        self.wide_to_even = any_of(f for rounding, f in self.flags.items() if rounding.to_even and _is_wide(rounding))

    def decode(self, alu: data.View, req: data.View, res: data.View, is_alu: Value, is_req: Value) -> list[Any]:
        """Stage 0: what drives the word for an instruction seen as each of its formats."""
        rounding = Mux(is_req, req.rounding, res.rounding)
        flags = {r: ~is_alu & (rounding == r) if r in RESCALING else is_req & (rounding == r) for r in self.flags}
        blank = any_of(flag for r, flag in flags.items() if r.nudge is None)
        otherwise = any_of(flag for r, flag in flags.items() if _is_wide(r) or r.precision)
        joins = _code({f: _JOIN_OF[text(f.meaning)] for f in JOINING}, alu.function)
        combines = _code({c: _JOIN_OF[text(c.meaning)] for c in Combine}, res.combine)
        return [
            self.requantize.eq(is_req), self.rescale.eq(~is_alu & ~is_req), self.scaled.eq(~is_alu & ~blank),
            self.rounds.eq(~is_alu & ~blank & ~otherwise), self.shifts.eq(is_alu & one_of(alu.function, SHIFTING)),
            self.joins.eq(is_alu & one_of(alu.function, JOINING)), self.function.eq(alu.function),
            self.use_imm.eq(alu.use_imm), self.imm.eq(alu.imm), self.zero_point.eq(req.zero_point), self.lo.eq(req.lo),
            self.hi.eq(req.hi), *[self.flags[r].eq(flag) for r, flag in flags.items()],
            self.join.eq(Mux(is_alu, joins, combines)), self.paced.eq(is_alu & alu.pace),
        ]  # fmt: skip

    def settle(self, earlier: LaneControl) -> list[Any]:
        """Stage 1 to 2: the clamp's bounds. The upper one comes last, so it is the lower one where that is above it."""
        return [self.word.eq(earlier.word), self.lo.eq(Mux(earlier.lo > earlier.hi, earlier.hi, earlier.lo))]

    def center(self, earlier: LaneControl) -> list[Any]:
        """Stage 2 to 3: the bounds less the zero point."""
        point = earlier.zero_point
        return [
            self.word.eq(earlier.word), self.least.eq(earlier.lo - point), self.most.eq(earlier.hi - point),
        ]  # fmt: skip

    @staticmethod
    def nudge(flags: Mapping[Rounding, Value], values: Mapping[str, Value]) -> tuple[Value, Value | None]:
        """What the rounding mode of the ``flags`` adds ahead of the shift, and with half where that needs a wide adder,
        if one does."""
        nudge: Value = Const(0)
        wide: Value | None = None
        for rounding, flag in flags.items():
            meaning = rounding.nudge
            if meaning is None or meaning.value == 0:
                continue
            if meaning.operator == "select" and meaning.operands[2].value == 0:  # one choice, not two in a row
                flag, meaning = flag & logic(meaning.operands[0], values), meaning.operands[1]
            if _is_wide(rounding):
                both = logic(meaning, values) + values["half"]
                wide = Mux(flag, both, Const(0) if wide is None else wide)
            else:
                nudge = Mux(flag, logic(meaning, values), nudge)
        return nudge, wide


def _code(table: Mapping[AluOp, int] | Mapping[Combine, int], code: Value) -> Value:
    """What the table has for a code; :data:`_WRITES` where it has nothing."""
    result: Value = Const(_WRITES, bits_for(len(JOINS)))
    for member, value in table.items():
        result = Mux(code == member, value, result)
    return result
