"""Sums of products to int16: LiteRT's rounded 32-bit multiplication, in 32-bit accumulators.

The multiplier is cut into pieces of so few bits that no product leaves 32 bits; from the lowest up each product takes
what the one below it carries. float32 scales leave a multiplier of 24 bits: two pieces up to sums of 2^19.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.isa.functions import AluOp
from tilewright.jit.errors import PlaceError
from tilewright.jit.recurrent.ops import Sums
from tilewright.jit.recurrent.vectors import Run, VectorWriter

INT32, INT16 = 1 << 31, 1 << 15


@dataclass(frozen=True)
class Pieces:
    """``low`` pieces of ``bits`` each under ``top``; what is left of the shift, and what is added before it.

    ``slope``: added once for a positive number and taken once from a negative one, with ``half`` at its middle: 0 where
    rounding once is all. ``most``: the greatest magnitude of a result.
    """

    low: tuple[int, ...]
    bits: int
    top: int
    shift: int
    half: int
    slope: int
    most: int


def bound_of(part: Sums) -> int:
    """The greatest magnitude of a sum over int8 inputs."""
    weights = part.weight.astype(int)
    high = (weights.clip(0) * 127 + weights.clip(max=0) * -128).sum(axis=1) + part.bias
    low = (weights.clip(0) * -128 + weights.clip(max=0) * 127).sum(axis=1) + part.bias
    return int(max(abs(high).max(), abs(low).max()))


def cut(part: Sums, count: int) -> Pieces | None:
    """The multiplier with ``count`` low pieces, None if sums of this part need more."""
    bound, multiplier, shift = bound_of(part), part.multiplier, part.shift
    zeros = (multiplier & -multiplier).bit_length() - 1 if multiplier else 0
    zeros = min(zeros, shift - 1, 30)
    multiplier >>= zeros
    for bits in range(1, 31) if count else (0,):
        dropped = zeros + bits * count
        if dropped > min(30, shift - 1):
            return None
        top = multiplier >> bits * count
        half = (1 << shift - 1) + ((1 << 30) if shift > 31 else 0) >> dropped
        if bound * (1 << bits) < INT32 and bound * (top + 1) + half < INT32:
            low = tuple(multiplier >> bits * k & (1 << bits) - 1 for k in range(count))
            slope = 1 << 31 - dropped if shift > 31 else 0
            most = (bound * part.multiplier >> shift) + 1
            return Pieces(low, bits, top, shift - dropped, half, slope, most)
    return None


def pieces_of(parts: Sequence[Sums]) -> list[Pieces]:
    """The multipliers of some parts, equally many pieces each, the fewest. Raises PlaceError if there are none."""
    for count in range(8):
        found = [cut(part, count) for part in parts]
        if all(found):
            return [p for p in found if p is not None]
    raise PlaceError("sums of a recurrent layer that leave 32 bits")


def scale(w: VectorWriter, sums: Sequence[Run], pieces: Sequence[Pieces], near: Run, far: Run, sign: Run) -> None:
    """Scale ``sums`` in place, one run for each of ``pieces``, instruction by instruction in step.

    From ``near`` on, in the sums' half of acc, and ``far``, in the other, lies scratch for all; ``sign`` in act.
    """
    starts = [sum(s.count * s.outer for s in sums[:k]) for k in range(len(sums))]

    def each(scratch: Run) -> list[Run]:
        return [
            Run(scratch.first + start * s.span, s.count, s.span, s.outer, s.count) for start, s in zip(starts, sums)
        ]

    count = len(pieces[0].low)
    copies = [each((far, near)[(count - k + 1) % 2]) for k in range(count)]
    for k, copy in enumerate(copies):
        for target, source in zip(copy, sums):
            w.alu(AluOp.MOV, target, source)
        for target, p in zip(copy, pieces):
            w.alu(AluOp.MUL, target, p.low[k])
        for target, below in zip(copy, copies[k - 1]) if k else ():
            w.alu(AluOp.ADD, target, below)
        for target, p in zip(copy, pieces):
            w.alu(AluOp.SHR, target, p.bits)
    for target, p in zip(sums, pieces):
        if p.top != 1:
            w.alu(AluOp.MUL, target, p.top)
    for target, below in zip(sums, copies[-1]) if copies else ():
        w.alu(AluOp.ADD, target, below)
    signs = each(sign)
    for run, target, p in zip(signs, sums, pieces):
        if p.slope:
            w.narrow(run, target, lo=-1, hi=0)
    for run, target, p in zip(signs, sums, pieces):
        together = p.half << 20 < p.slope * INT32  # as one bias of RESCALE
        if p.slope:
            w.widen(target, run, p.slope, p.half if together else 0)
        if not together:
            w.alu(AluOp.ADD, target, p.half)
    for target, p in zip(sums, pieces):
        w.alu(AluOp.SHR, target, p.shift)


def saturate(w: VectorWriter, run: Run, most: int) -> None:
    """To int16, if numbers of up to ``most`` in magnitude need it."""
    if most >= INT16:
        w.alu(AluOp.MAX, run, -INT16)
        w.alu(AluOp.MIN, run, INT16 - 1)
