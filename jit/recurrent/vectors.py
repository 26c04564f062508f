"""ALU instructions over runs of accumulators: ALU, REQUANTIZE and RESCALE with their constants in prm."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.arithmetic import rescale
from tilewright.isa.functions import AluOp, Combine, Rounding
from tilewright.isa.spec import Memory, Opcode
from tilewright.jit.emit.writer import InstructionWriter
from tilewright.jit.errors import PlaceError
from tilewright.jit.kernels.base import uniform_prm

Constant = tuple[int, int, int, int] | bytes  #: an entry of prm (bias, multiplier, offset, shift), or a table
AHEAD = 4  #: constants that are loaded ahead with an instruction


@dataclass(frozen=True)
class Run:
    """``outer`` times ``count`` neighbouring vectors from unit ``first`` on, ``step`` vectors apart; of acc or act."""

    first: int
    count: int
    span: int  #: units of a vector
    outer: int = 1
    step: int = 0

    def part(self, begin: int, end: int) -> Run:
        """Vectors [begin, end) of each turn."""
        return replace(self, first=self.first + begin * self.span, count=end - begin, step=self.step or self.count)

    def loops(self, operand: str) -> dict[str, int]:
        """Its fields as an operand of an instruction."""
        return {operand: self.first, f"{operand}_outer": self.step * self.span, f"{operand}_inner": self.span}


def finish(work: Iterator[None]) -> None:
    """Do all of it."""
    deque(work, maxlen=0)


class VectorWriter(InstructionWriter):
    """Instructions on runs of vectors. Two operands of a function lie in different banks, or it takes twice as long."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, 0)
        self.vectors = 0  #: that ALU has issued
        self.constants: dict[Constant, None] = {}  #: in the order of their first use
        self._coming: list[Constant] = []
        self._other: Iterator[None] = iter(())  #: work for other engines, written behind some of what follows
        self._behind = self._issued = 0
        self._entries: dict[Constant, int] = {}
        self._wrap = {"wrap_base": 0, "wrap_size": config.act_units}

    def alu(self, function: AluOp, dst: Run, operand: Run | int) -> None:
        """``dst = dst function operand``."""
        fields = {"outer": dst.outer, "inner": dst.count, "function": int(function), **dst.loops("dst")}
        if isinstance(operand, int):
            self._issue(Opcode.ALU, dst, {**fields, "use_imm": 1, "imm": operand})
            return
        both = function.reads_dst and function.reads_operand
        pace = int(both and not self._banks(dst).isdisjoint(self._banks(operand)))
        self._issue(Opcode.ALU, dst, {**fields, **operand.loops("src"), "pace": pace})

    def narrow(
        self, dst: Run, src: Run, shift: int = 0, *, multiplier: int = 1, offset: int = 0, zero_point: int = 0,
        lo: int = -128, hi: int = 127, rounding: Rounding = Rounding.SINGLE,
    ) -> None:  # fmt: skip
        """``dst = clamp(round(src * multiplier / 2^shift) + zero_point, lo, hi)``, accumulators to int8."""
        self._issue(
            Opcode.REQUANTIZE, src,
            {
                "outer": src.outer, "inner": src.count, **dst.loops("dst"), **src.loops("src"), **self._wrap,
                "prm": self._constant((0, multiplier, offset, shift)), "rounding": int(rounding),
                "zero_point": zero_point, "lo": lo, "hi": hi,
            },
        )  # fmt: skip

    def widen(
        self, dst: Run, src: Run, slope: Fraction | int, constant: Fraction | int = 0, *,
        combine: Combine = Combine.ADD, table: bytes | None = None,
    ) -> None:  # fmt: skip
        """``dst (combine)= round(slope * src + constant)``, int8, looked up in ``table``, to accumulators."""
        entry = self._constant(_line(slope, constant, table))
        number = {} if table is None else {"lookup": 1, "table": self._constant(table)}
        self._issue(
            Opcode.RESCALE, dst,
            {
                "outer": dst.outer, "inner": dst.count, **dst.loops("dst"), **src.loops("src"), **self._wrap, **number,
                "prm": entry, "rounding": int(Rounding.SINGLE), "combine": int(combine),
            },
        )  # fmt: skip

    def prepare(self, constants: Iterable[Constant]) -> None:
        """Load these while other instructions run, some behind each: they are used in this order."""
        self._coming = [constant for constant in constants if constant not in self.constants]

    def meanwhile(self, other: Iterator[None], behind: int) -> None:
        """Write other work a piece at a time, each behind so many of the instructions that follow."""
        self._other, self._behind, self._issued = other, behind, 0

    def finish(self) -> None:
        """Write what is left of it."""
        finish(self._other)

    def load_acc(self, dst: Run, values: NDArray[np.int32]) -> None:
        """Constants (vectors, BLOCK_OUT) to accumulators."""
        data = values.astype("<i4").reshape(-1, 1, self.config.lanes).repeat(self.config.batch, axis=1)
        self._load(Memory.ACC, dst.first, len(data), data.tobytes())

    def _issue(self, opcode: Opcode, run: Run, fields: dict[str, int]) -> None:
        self.vectors += run.outer * run.count * (fields.get("pace", 0) + 1)
        self._vectors(opcode, fields)
        for constant in self._coming[:AHEAD]:
            self._loaded(constant)
        del self._coming[:AHEAD]
        self._issued += 1
        if self._behind and self._issued % self._behind == 0:
            next(self._other, None)

    def _banks(self, run: Run) -> set[int]:
        units = self.config.acc_bank_units
        last = run.first + (run.step * (run.outer - 1) + run.count) * run.span - 1
        return set(range(run.first // units, last // units + 1))

    def _constant(self, constant: Constant) -> int:
        """The number of an entry or a table that an instruction uses."""
        self.constants[constant] = None
        return self._loaded(constant)

    def _loaded(self, constant: Constant) -> int:
        if isinstance(constant, bytes):
            return self._resident_table(constant)
        if constant not in self._entries:
            number = self._entries[constant] = len(self._entries)
            if number >= self.config.prm_entries:
                raise PlaceError(
                    f"a recurrent layer of more constants than {self.config.prm_entries} entries of prm; "
                    "raise prm_entries"
                )
            self.load_prm(number, uniform_prm(*constant, self.config))
        return self._entries[constant]


@cache
def _line(slope: Fraction | int, constant: Fraction | int, table: bytes | None) -> tuple[int, int, int, int]:
    """Bias, multiplier, offset and shift of RESCALE for ``round(slope * x + constant)``, for each x of a table or of
    int8."""
    scale = Fraction(slope)
    bias, shift = round(Fraction(constant) * (1 << 20) / scale), 20 + scale.denominator.bit_length() - 1
    values = sorted(set(np.frombuffer(table, np.int8).tolist())) if table is not None else list(range(-128, 128))
    got = rescale(values, bias, scale.numerator, shift, 0, Rounding.SINGLE)
    if got.tolist() != [int((scale * x + constant + Fraction(1, 2)) // 1) for x in values]:
        raise AssertionError(f"round({slope} * x + {constant}) is not exact by RESCALE")
    return bias, scale.numerator, 0, shift
