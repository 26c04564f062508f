"""Instructions of a program in order: tokens, micro-op residency, constants, and fields within their widths.

What an instruction touches is worked out here from its own fields, so that tokens are right whoever chose them.
Loops longer than a field holds, and micro-op sequences longer than their memory, become several instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.arithmetic import Rounding
from tilewright.isa.codec import Instruction, encode, encode_uops
from tilewright.isa.program import Program, Segment, whole_pages
from tilewright.isa.spec import (
    ALU_UOP_COUNT_BITS,
    LOOP_BITS,
    UOP_FIELDS,
    Engine,
    Memory,
    Opcode,
    uop_depth,
    uop_width,
)
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Requant
from tilewright.jit.hazards import Access, HazardTracker
from tilewright.jit.kernels.base import Uop, split_evenly
from tilewright.jit.tokens import bound_tokens
from tilewright.jit.uops import UopCache

CONSTANTS, INPUT, OUTPUT, SCRATCH = 0, 1, 2, 3  #: segment numbers
WEIGHTS_OF_LOAD = 64  #: blocks of weights of one LOAD: long enough for the bus, short enough to start early
_MAX_LOOP = 1 << LOOP_BITS
_OPERANDS = ("dst", "src", "wgt", "prm")
_ONE = np.zeros(1, np.int64)


def pack_weights(weights: NDArray[np.int8], bits: int, name: str) -> bytes:
    """Weight blocks as wgt holds them: row-major, little-endian, ``bits`` each."""
    if bits == 8:
        return weights.tobytes()
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if weights.size and (weights.min() < low or weights.max() > high):
        raise PlaceError(
            f"{name}: weights from {weights.min()} to {weights.max()} do not fit weight_bits = {bits}; "
            f"use a config with weight_bits = 8"
        )
    per_byte = 8 // bits
    fields = (weights.reshape(-1, per_byte).astype(np.int64) & ((1 << bits) - 1)) << (bits * np.arange(per_byte))
    return fields.sum(axis=1).astype(np.uint8).tobytes()


class _Operands(NamedTuple):
    """What a micro-op sequence touches, each place once."""

    dst: NDArray[np.int64]
    src: NDArray[np.int64]
    wgt: NDArray[np.int64]
    accumulates: bool


def _operands(uops: Sequence[Uop], window: bool) -> _Operands:
    table = np.array(uops, np.int64)
    emits = table if not window else table[table[:, 0] >= 0]
    dst, src, wgt = np.unique(emits[:, 0]), np.unique(table[:, 1]), np.unique(emits[:, 2])
    return _Operands(dst, src, wgt, bool(emits[:, 3].any()))


class InstructionWriter:
    """Appends instructions; :meth:`begin` says for which layer.

    ``dram`` counts what accesses to tensors in DRAM are told apart by (``dram`` addresses of the caller's choice).
    """

    def __init__(self, config: Config, dram: int) -> None:
        self.config = config
        self.uop_count = 0
        self._tracker = HazardTracker(config, dram)
        self._constants = bytearray()
        self._blobs: dict[bytes, int] = {}
        self._uops = UopCache(config)
        self._ramped = 0  #: micro-ops of ALU that are there
        self._operands: dict[tuple[bool, tuple[Uop, ...]], _Operands] = {}
        self._layer, self._name = 0, ""

    def begin(self, layer: int, name: str) -> None:
        """What follows belongs to this layer; errors name ``name``."""
        self._layer, self._name = layer, name

    def program(self, segments: Sequence[Segment], meta: dict[str, Any]) -> Program:
        """The finished program; ``segments`` follow the constants."""
        instructions, layers = bound_tokens(
            self._tracker.finish(), self._tracker.layers, self.config.token_depth
        )  # fmt: skip
        constants = Segment("constants", "constant", whole_pages(max(len(self._constants), 1)))
        constants = Segment(constants.name, constants.kind, constants.size, bytes(self._constants))
        meta = {**meta, "instruction_layer": layers, "uops": self.uop_count}
        return Program(self.config, encode(instructions, self.config), (constants, *segments), meta)

    # -- constants -------------------------------------------------------------------------------------

    def load_weights(self, base: int, weights: NDArray[np.int8]) -> None:
        """Load blocks (entries, BLOCK_OUT, BLOCK_IN) to wgt."""
        data = pack_weights(weights, self.config.weight_bits, self._name)
        size = self.config.wgt_entry_bytes
        for start in range(0, len(weights), WEIGHTS_OF_LOAD):
            count = min(WEIGHTS_OF_LOAD, len(weights) - start)
            self._load(Memory.WGT, base + start, count, data[start * size : (start + count) * size])

    def load_prm(self, base: int, prm: NDArray[np.int32]) -> None:
        """Load entries (entries, BLOCK_OUT, 4) to prm."""
        self._load(Memory.PRM, base, len(prm), prm.astype("<i4").tobytes())

    def resident(self, uops: tuple[Uop, ...]) -> int:
        """First micro-op of a sequence, loaded if it is not there."""
        begin = self._uops.find(uops)
        if begin is None:
            begin = self._uops.place(uops, self._name)
            ones = UOP_FIELDS[Engine.GEMM][0].bounds(self.config)[1]
            rows = [{"dst": ones if d < 0 else d, "src": s, "wgt": w, "accumulate": a} for d, s, w, a in uops]
            rows += [{}] * (self._uops.padded(len(uops)) - len(uops))
            self._load(Memory.UOP_GEMM, begin, len(rows), encode_uops(rows, Engine.GEMM, self.config))
            self.uop_count += len(uops)
        return begin

    def pieces(self, uops: Sequence[Uop]) -> list[Sequence[Uop]]:
        """A dense sequence cut into parts that the micro-op memory holds beside one another."""
        if len(uops) <= self._uops.depth:
            return [uops]
        return [uops[a:b] for a, b in split_evenly(len(uops), self._uops.depth // 2)]

    # -- tiles -----------------------------------------------------------------------------------------

    def load_tile(self, fields: Mapping[str, int], dram: NDArray[np.int64] | None) -> None:
        """LOAD to act; ``dram``: what it reads there, None for inputs, which nobody writes."""
        accesses = [_tile_access(fields, True)]
        if dram is not None:
            accesses.append(Access("dram", dram, False))
        self._add(Opcode.LOAD, {"memory": int(Memory.ACT), **fields}, accesses)

    def fill_tile(self, value: int, fields: Mapping[str, int]) -> None:
        """FILL of act with a constant."""
        self._add(Opcode.FILL, {"memory": int(Memory.ACT), "value": value, **fields}, [_tile_access(fields, True)])

    def store_tile(self, fields: Mapping[str, int], dram: NDArray[np.int64] | None) -> None:
        """STORE from act; ``dram``: what it writes there, None where nobody reads it."""
        accesses = [_tile_access(fields, False)]
        if dram is not None:
            accesses.append(Access("dram", dram, True))
        self._add(Opcode.STORE, dict(fields), accesses)

    # -- tasks -----------------------------------------------------------------------------------------

    def gemm(self, uops: Sequence[Uop], **fields: int) -> None:
        """GEMM over these micro-ops."""
        window = bool(fields.get("window", 0))
        for part in self.pieces(uops) if not window else [uops]:
            sequence = tuple(part)
            begin = self.resident(sequence)
            if (window, sequence) not in self._operands:
                self._operands[window, sequence] = _operands(sequence, window)
            operands = self._operands[window, sequence]
            for piece in _loops({"uop_begin": begin, "uop_count": len(part), **fields}):
                self._add(Opcode.GEMM, piece, self._gemm_accesses(operands, piece))

    def requantize(self, requant: Requant, **fields: int) -> None:
        """REQUANTIZE with ``requant``'s rounding, zero point and clamp."""
        self._requantize(
            {
                **fields, "zero_point": requant.zero_point, "lo": requant.lo, "hi": requant.hi,
                "rounding": int(requant.rounding),
            }
        )  # fmt: skip

    def constant(self, value: int, **fields: int) -> None:
        """REQUANTIZE that writes one value everywhere."""
        self._requantize(
            {**fields, "zero_point": value, "lo": value, "hi": value, "rounding": int(Rounding.CONSTANT)}
        )  # fmt: skip

    def rescale(self, vectors: int = 1, **fields: int) -> None:
        """RESCALE of ``vectors`` neighbouring vectors in each turn of the loops."""
        span = self.config.out_units
        for first, stop in split_evenly(vectors, min(1 << ALU_UOP_COUNT_BITS, uop_depth(self.config, Engine.ALU))):
            self._ramp(stop - first)
            steps = np.arange(stop - first) * span
            moved = {**fields, "src": fields["src"] + first * span, "dst": fields["dst"] + first * span}
            for piece in _loops(moved):
                destination = _spread(_affine(piece, "dst", steps), span)
                accesses = [
                    Access("act", _wrapped(_spread(_affine(piece, "src", steps), span), piece), False),
                    Access("prm", _affine(piece, "prm")[:1, None], False),
                    Access("uop_alu", np.arange(stop - first)[None], False),
                    Access("acc", destination, True),
                ]
                if piece.get("combine", 0):
                    accesses.append(Access("acc", destination, False))
                self._add(Opcode.RESCALE, {**piece, "uop_count": stop - first}, accesses)

    # -- pieces ----------------------------------------------------------------------------------------

    def _add(self, opcode: Opcode, fields: Mapping[str, int], accesses: Sequence[Access]) -> None:
        self._tracker.add(Instruction(opcode, dict(fields)), accesses, self._layer)

    def _requantize(self, fields: Mapping[str, int]) -> None:
        self._ramp(1)
        span = self.config.out_units
        for piece in _loops(fields):
            accesses = [
                Access("act", _wrapped(_spread(_affine(piece, "dst"), span), piece), True),
                Access("uop_alu", np.zeros((1, 1), np.int64), False),
            ]
            if piece["rounding"] != Rounding.CONSTANT:
                accesses.append(Access("acc", _spread(_affine(piece, "src"), span), False))
                accesses.append(Access("prm", _affine(piece, "prm")[:, None], False))
            self._add(Opcode.REQUANTIZE, piece, accesses)

    def _gemm_accesses(self, operands: _Operands, fields: Mapping[str, int]) -> list[Access]:
        c = self.config
        span_out, span_in = (1, 1) if fields.get("window", 0) else (c.out_units, c.in_units)
        destination = _spread(_offsets(fields, "dst", operands.dst), span_out)
        begin = fields["uop_begin"]
        accesses = [
            Access("uop_gemm", np.arange(begin, begin + fields["uop_count"]), False),
            Access("act", _wrapped(_spread(_offsets(fields, "src", operands.src), span_in), fields), False),
            Access("wgt", _offsets(fields, "wgt", operands.wgt), False),
            Access("acc", destination, True),
        ]
        if operands.accumulates:
            accesses.append(Access("acc", destination, False))
        return accesses

    def _ramp(self, count: int) -> None:
        """ALU instructions share one sequence of micro-ops, from index 0 on, each a vector behind the one before."""
        if count <= self._ramped:
            return
        beat = max(1, self.config.beat_bytes * 8 // uop_width(self.config, Engine.ALU))
        first, stop = self._ramped, -(-count // beat) * beat
        steps = (k * self.config.out_units for k in range(first, stop))
        self._ramped = stop
        self.uop_count += stop - first
        uops = encode_uops([{"dst": step, "src": step} for step in steps], Engine.ALU, self.config)
        self._load(Memory.UOP_ALU, first, stop - first, uops)

    def _load(self, memory: Memory, base: int, count: int, data: bytes) -> None:
        beat = self.config.beat_bytes
        if data not in self._blobs:
            self._blobs[data] = len(self._constants)
            self._constants += data + bytes(-len(data) % beat)
        fields = {
            "memory": int(memory), "sram": base, "sram_col": 1, "cols": count, "wrap_size": 1,
            "segment": CONSTANTS, "offset": self._blobs[data] // beat,
        }  # fmt: skip
        names = {Memory.WGT: "wgt", Memory.PRM: "prm", Memory.UOP_GEMM: "uop_gemm", Memory.UOP_ALU: "uop_alu"}
        self._add(Opcode.LOAD, fields, [Access(names[memory], np.arange(base, base + count), True)])


def _loops(fields: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The instruction, or several whose loop counts fit their fields; steps of loops that run once are zero."""
    outer, inner = fields.get("outer", 1), fields.get("inner", 1)
    if outer <= _MAX_LOOP and inner <= _MAX_LOOP:
        parts = [((0, outer), (0, inner))]  # nearly always
    elif inner > _MAX_LOOP and fields.get("window", 0):
        raise PlaceError(f"{inner} outputs of a row exceed {_MAX_LOOP}, the most that one window instruction makes")
    else:
        parts = [*product(split_evenly(outer, _MAX_LOOP), split_evenly(inner, _MAX_LOOP))]
    for (a, b), (c, d) in parts:
        piece = {**fields, "outer": b - a, "inner": d - c}
        for name in _OPERANDS:
            if name not in fields and f"{name}_outer" not in fields and f"{name}_inner" not in fields:
                continue
            step_outer, step_inner = fields.get(f"{name}_outer", 0), fields.get(f"{name}_inner", 0)
            piece[name] = fields.get(name, 0) + a * step_outer + c * step_inner
            piece[f"{name}_outer"] = step_outer if b - a > 1 else 0
            piece[f"{name}_inner"] = step_inner if d - c > 1 else 0
        yield piece


def _offsets(fields: Mapping[str, int], name: str, uops: NDArray[np.int64]) -> NDArray[np.int64]:
    """All offsets of an operand over both loops and the micro-ops; none twice from steps of zero."""
    base, outer, inner = (fields.get(name + suffix, 0) for suffix in ("", "_outer", "_inner"))
    o = np.arange(fields.get("outer", 1) if outer else 1) * outer
    i = np.arange(fields.get("inner", 1) if inner else 1) * inner
    return (base + o[:, None, None] + i[None, :, None] + uops[None, None, :]).ravel()


def _affine(fields: Mapping[str, int], name: str, uops: NDArray[np.int64] = _ONE) -> NDArray[np.int64]:
    """Offsets of an ALU operand in issue order: (outer * inner * micro-ops,)."""
    base, outer, inner = (fields.get(name + suffix, 0) for suffix in ("", "_outer", "_inner"))
    o = np.arange(fields.get("outer", 1)) * outer
    i = np.arange(fields.get("inner", 1)) * inner
    return (base + o[:, None, None] + i[None, :, None] + uops).ravel()


def _spread(offsets: NDArray[np.int64], span: int) -> NDArray[np.int64]:
    """Each offset and the units that follow it in its vector: (n, span)."""
    return offsets[:, None] + np.arange(span)[None, :]


def _wrapped(offsets: NDArray[np.int64], fields: Mapping[str, int]) -> NDArray[np.int64]:
    base, size = fields["wrap_base"], fields["wrap_size"]
    return base + np.where(offsets >= size, offsets - size, offsets)


def _tile_access(fields: Mapping[str, int], write: bool) -> Access:
    rows = np.arange(fields.get("rows", 1)) * fields.get("sram_row", 0)
    offsets = fields["sram"] + rows[:, None] + np.arange(fields["cols"]) * fields["sram_col"]
    return Access("act", _wrapped(offsets.ravel(), fields), write)
