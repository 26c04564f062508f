"""Instructions of a program in order: tokens, micro-op residency, constants, and fields within their widths.

What an instruction touches is worked out here from its own fields, so that tokens are right whoever chose them.
Loops longer than a field holds, and micro-op sequences longer than their memory, become several instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.arithmetic import Rounding
from tilewright.isa.codec import Instruction, encode_uops, pack_integers
from tilewright.isa.program import Program, Segment, whole_pages
from tilewright.isa.spec import (
    ALU_UOP_COUNT_BITS,
    LOOP_BITS,
    TABLE_ENTRIES,
    TABLE_ENTRY_VALUES,
    TABLES,
    UOP_FIELDS,
    AluOp,
    Engine,
    Memory,
    Opcode,
    uop_depth,
    uop_width,
)
from tilewright.isa.tokens.hazards import HazardTracker
from tilewright.isa.uops import Block
from tilewright.jit.emit.uops import Resident, UopCache
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Requant
from tilewright.jit.kernels.base import Uop
from tilewright.jit.kernels.weight_bits import require_fit
from tilewright.jit.plan.ranges import split_evenly

CONSTANTS, INPUT, OUTPUT, SCRATCH = 0, 1, 2, 3  #: segment numbers
WEIGHTS_OF_LOAD = 64  #: blocks of weights of one LOAD: long enough for the bus, short enough to start early
_MAX_LOOP = 1 << LOOP_BITS
_OPERANDS = ("dst", "src", "wgt", "prm")


def pack_weights(weights: NDArray[np.int8], bits: int, name: str) -> bytes:
    """Weight blocks as wgt holds them: row-major, little-endian, ``bits`` each."""
    if bits == 8:
        return weights.tobytes()
    require_fit(weights, bits, name, parts=1)
    return pack_integers(weights, bits)


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
        self._tables: Resident[bytes] = Resident(TABLES, lambda table: 1, "tables")
        self._ramped = 0  #: micro-ops of ALU that are there
        self._push_only = UOP_FIELDS[Engine.GEMM][0].bounds(config)[1]
        self._blocks: dict[tuple[bool, tuple[Uop, ...]], Block] = {}
        self._ramps: dict[int, Block] = {}
        self._layer, self._name = 0, ""

    def begin(self, layer: int, name: str) -> None:
        """What follows belongs to this layer; errors name ``name``."""
        self._layer, self._name = layer, name

    def program(self, segments: Sequence[Segment], meta: dict[str, Any]) -> Program:
        """The finished program; ``segments`` follow the constants."""
        code, layers = self._tracker.finish()
        constants = Segment("constants", "constant", whole_pages(max(len(self._constants), 1)))
        constants = Segment(constants.name, constants.kind, constants.size, bytes(self._constants))
        meta = {**meta, "instruction_layer": layers, "uops": self.uop_count}
        return Program(self.config, code, (constants, *segments), meta)

    # -- constants -------------------------------------------------------------------------------------

    def load_weights(self, base: int, weights: NDArray[np.int8]) -> None:
        """Load blocks (entries, BLOCK_OUT, BLOCK_IN) to wgt."""
        data = pack_weights(weights, self.config.weight_bits, self._name)
        size = self.config.wgt_entry_bytes
        for start in range(0, len(weights), WEIGHTS_OF_LOAD):
            count = min(WEIGHTS_OF_LOAD, len(weights) - start)
            self._load(Memory.WGT, base + start, count, data[start * size : (start + count) * size])

    def load_blocks(self, fields: Mapping[str, int], dram: NDArray[np.int64] | None) -> None:
        """LOAD of blocks of weights that are no constants; ``dram``: what it reads there, None for inputs."""
        self._add(Opcode.LOAD, {"memory": int(Memory.WGT), "wrap_size": 1, **fields}, dram=dram)

    def load_prm(self, base: int, prm: NDArray[np.int32]) -> None:
        """Load entries (entries, BLOCK_OUT, 4) to prm."""
        self._load(Memory.PRM, base, len(prm), prm.astype("<i4").tobytes())

    def resident(self, uops: tuple[Uop, ...]) -> int:
        """First micro-op of a sequence, loaded if it is not there."""
        begin = self._uops.find(uops)
        if begin is None:
            begin = self._uops.place(uops, self._name)
            rows = [
                {"dst": self._push_only if d < 0 else d, "src": s, "wgt": w, "accumulate": a} for d, s, w, a in uops
            ]
            rows += [{}] * (self._uops.padded(len(uops)) - len(uops))
            self._load(Memory.UOP_GEMM, begin, len(rows), encode_uops(rows, Engine.GEMM, self.config))
            self.uop_count += len(uops)
        return begin

    def _resident_table(self, table: bytes) -> int:
        """The number of a table, loaded if it is not there."""
        number = self._tables.find(table)
        if number is None:
            number = self._tables.place(table, self._name)
            entries = np.zeros((TABLE_ENTRIES, self.config.beat_bytes), np.uint8)
            entries[:, :TABLE_ENTRY_VALUES] = np.frombuffer(table, np.uint8).reshape(TABLE_ENTRIES, -1)
            self._load(Memory.TABLE, number * TABLE_ENTRIES, TABLE_ENTRIES, entries.tobytes())
        return number

    def pieces(self, uops: Sequence[Uop]) -> list[Sequence[Uop]]:
        """A dense sequence cut into parts that the micro-op memory holds beside one another."""
        if len(uops) <= self._uops.depth:
            return [uops]
        return [uops[a:b] for a, b in split_evenly(len(uops), self._uops.depth // 2)]

    # -- tiles -----------------------------------------------------------------------------------------

    def load_tile(self, fields: Mapping[str, int], dram: NDArray[np.int64] | None) -> None:
        """LOAD to act; ``dram``: what it reads there, None for inputs, which nobody writes."""
        self._add(Opcode.LOAD, {"memory": int(Memory.ACT), **fields}, dram=dram)

    def fill_tile(self, value: int, fields: Mapping[str, int]) -> None:
        """FILL of act with a constant."""
        self._add(Opcode.FILL, {"memory": int(Memory.ACT), "value": value, **fields})

    def store_tile(self, fields: Mapping[str, int], dram: NDArray[np.int64] | None) -> None:
        """STORE from act; ``dram``: what it writes there, None where nobody reads it."""
        self._add(Opcode.STORE, fields, dram=dram)

    # -- tasks -----------------------------------------------------------------------------------------

    def gemm(self, uops: Sequence[Uop], **fields: int) -> None:
        """GEMM over these micro-ops."""
        window = bool(fields.get("window", 0))
        for part in self.pieces(uops) if not window else [uops]:
            sequence = tuple(part)
            begin = self.resident(sequence)
            if (window, sequence) not in self._blocks:
                table = np.array(sequence, np.int64)
                table[table[:, 0] < 0, 0] = self._push_only
                self._blocks[window, sequence] = Block(table, Engine.GEMM, self.config, window)
            for piece in _loops({"uop_begin": begin, "uop_count": len(part), **fields}):
                self._add(Opcode.GEMM, piece, self._blocks[window, sequence])

    def requantize(self, requant: Requant, **fields: int) -> None:
        """REQUANTIZE with ``requant``'s rounding, zero point and clamp."""
        self._vectors(
            Opcode.REQUANTIZE,
            {
                **fields, "zero_point": requant.zero_point, "lo": requant.lo, "hi": requant.hi,
                "rounding": int(requant.rounding),
            }
        )  # fmt: skip

    def constant(self, value: int, **fields: int) -> None:
        """REQUANTIZE that writes one value everywhere."""
        self._vectors(
            Opcode.REQUANTIZE,
            {**fields, "zero_point": value, "lo": value, "hi": value, "rounding": int(Rounding.CONSTANT)}
        )  # fmt: skip

    def rescale(self, vectors: int = 1, table: bytes | None = None, **fields: int) -> None:
        """RESCALE of ``vectors`` neighbouring vectors in each turn of the loops, looked up in ``table`` or not."""
        if table is not None:
            fields |= {"lookup": 1, "table": self._resident_table(table)}
        span = self.config.out_units
        for first, stop in split_evenly(vectors, min(1 << ALU_UOP_COUNT_BITS, uop_depth(self.config, Engine.ALU))):
            moved = {**fields, "src": fields["src"] + first * span, "dst": fields["dst"] + first * span}
            self._vectors(Opcode.RESCALE, moved, stop - first)

    def multiply(self, **fields: int) -> None:
        """ALU that multiplies accumulators with others of the same bank."""
        self._vectors(Opcode.ALU, {**fields, "function": int(AluOp.MUL), "pace": 1})

    def scale(self, factor: int, **fields: int) -> None:
        """ALU that multiplies accumulators with a number."""
        self._vectors(Opcode.ALU, {**fields, "function": int(AluOp.MUL), "use_imm": 1, "imm": factor})

    def add(self, **fields: int) -> None:
        """ALU that adds others of the same bank to accumulators."""
        self._vectors(Opcode.ALU, {**fields, "function": int(AluOp.ADD), "pace": 1})

    def prepare_vectors(self) -> None:
        """Load the micro-op that ALU's instructions share, if it is not there."""
        self._ramp(1)

    # -- pieces ----------------------------------------------------------------------------------------

    def _add(
        self, opcode: Opcode, fields: Mapping[str, int], uops: Block | None = None,
        dram: NDArray[np.int64] | None = None,
    ) -> None:  # fmt: skip
        self._tracker.add(Instruction(opcode, dict(fields)), uops, self._layer, dram)

    def _vectors(self, opcode: Opcode, fields: Mapping[str, int], count: int = 1) -> None:
        block = self._ramp(count)
        for piece in _loops({**fields, "uop_count": count}):
            self._add(opcode, piece, block)

    def _ramp(self, count: int) -> Block:
        """The first of the micro-ops that all ALU instructions share: from index 0 on, a vector apart."""
        span = self.config.out_units
        if count > self._ramped:
            beat = max(1, self.config.beat_bytes * 8 // uop_width(self.config, Engine.ALU))
            first, stop = self._ramped, -(-count // beat) * beat
            self._ramped = stop
            self.uop_count += stop - first
            rows = [{"dst": k * span, "src": k * span} for k in range(first, stop)]
            self._load(Memory.UOP_ALU, first, stop - first, encode_uops(rows, Engine.ALU, self.config))
        if count not in self._ramps:
            moves = np.array([f.name in ("dst", "src") for f in UOP_FIELDS[Engine.ALU]])
            self._ramps[count] = Block(np.arange(count)[:, None] * span * moves, Engine.ALU, self.config)
        return self._ramps[count]

    def _load(self, memory: Memory, base: int, count: int, data: bytes) -> None:
        beat = self.config.beat_bytes
        if data not in self._blobs:
            self._blobs[data] = len(self._constants)
            self._constants += data + bytes(-len(data) % beat)
        fields = {
            "memory": int(memory), "sram": base, "sram_col": 1, "cols": count, "wrap_size": 1,
            "segment": CONSTANTS, "offset": self._blobs[data] // beat,
        }  # fmt: skip
        self._add(Opcode.LOAD, fields)


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
