"""Turn a schedule into a program: instructions, tokens, micro-ops and the constant segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.arithmetic import Rounding
from tilewright.isa.codec import Instruction, encode, encode_uops
from tilewright.isa.program import Program, Segment, whole_pages
from tilewright.isa.spec import UOP_FIELDS, Engine, Memory, Opcode
from tilewright.jit.actions import Action, LoadChunk, LoadRow, RunTask, StoreRow
from tilewright.jit.graph import Requant
from tilewright.jit.hazards import Access, HazardTracker, token_high_water
from tilewright.jit.kernels.base import Node, PlaceError, Uop
from tilewright.jit.layout import Buffer, twin
from tilewright.jit.uops import UopCache

CONSTANTS, INPUT, OUTPUT, SCRATCH = 0, 1, 2, 3  #: segment numbers
_MAX_LOAD_ENTRIES = 64  #: weights of one LOAD: long enough for the bus, short enough to start early


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


@dataclass(frozen=True)
class Image:
    """Where an output tensor (or a slice of one) goes in DRAM: byte offset, and units from pixel to pixel."""

    offset: int
    pixel_units: int


class Emitter:
    """Emits the actions of a schedule in order.

    ``offsets``: byte offset in DRAM of each input and spilled tensor; ``outputs``: the image of each output tensor;
    ``spills``: copies loaded from DRAM and the stored tensors they come from.
    """

    def __init__(
        self,
        config: Config,
        nodes: Sequence[Node],
        buffers: Mapping[str, Buffer],
        offsets: Mapping[str, int],
        outputs: Mapping[str, Image],
        spills: Mapping[str, str],
        scratch_bytes: int,
    ) -> None:
        self.config = config
        self._nodes, self._buffers, self._offsets, self._outputs = nodes, buffers, offsets, outputs
        self._spills = spills
        self._tracker = HazardTracker(config, scratch_bytes // config.beat_bytes)
        self._constants = bytearray()
        self._blobs: dict[bytes, int] = {}
        self._uops = UopCache(config)
        self._alu_ready = False
        self._padded: set[str] = set()
        self._bases: dict[tuple[int, int], tuple[int, int]] = {}
        self._task_node = -1
        self.uop_count = 0

    # -- actions ---------------------------------------------------------------------------------------

    def run(self, actions: Sequence[Action]) -> None:
        """Emit every action."""
        for action in actions:
            if isinstance(action, LoadChunk):
                self._load_chunk(action)
            elif isinstance(action, LoadRow):
                self._load_row(action)
            elif isinstance(action, StoreRow):
                self._store_row(action)
            else:
                self._run_task(action)

    def program(self, segments: Sequence[Segment], meta: dict[str, Any]) -> Program:
        """The finished program; ``segments`` follow the constants. Raises PlaceError if tokens overflow."""
        instructions = self._tracker.finish()
        highest = token_high_water(instructions)
        if highest > self.config.token_depth:
            raise PlaceError(f"{highest} tokens would wait in one queue, token_depth is {self.config.token_depth}")
        constants = Segment("constants", "constant", whole_pages(max(len(self._constants), 1)))
        constants = Segment(constants.name, constants.kind, constants.size, bytes(self._constants))
        meta = {**meta, "instruction_layer": self._tracker.layers, "uops": self.uop_count}
        return Program(self.config, encode(instructions, self.config), (constants, *segments), meta)

    def _load_chunk(self, action: LoadChunk) -> None:
        node = self._nodes[action.node]
        chunk = node.chunks[action.chunk]
        self._bases[action.node, action.chunk] = (action.wgt, action.prm)
        if action.chunk == 0:
            for uops in node.uop_sets([self._buffers[t] for t in node.inputs]):
                self._resident(tuple(uops), node)
        if len(chunk.prm):
            self._load(Memory.PRM, action.prm, len(chunk.prm), chunk.prm.astype("<i4").tobytes(), node.layer)
        data = pack_weights(chunk.weights, self.config.weight_bits, node.name)
        size = self.config.wgt_entry_bytes
        for start in range(0, len(chunk.weights), _MAX_LOAD_ENTRIES):
            count = min(_MAX_LOAD_ENTRIES, len(chunk.weights) - start)
            piece = data[start * size : (start + count) * size]
            self._load(Memory.WGT, action.wgt + start, count, piece, node.layer)

    def _load_row(self, action: LoadRow) -> None:
        buffer = self._buffers[action.tensor]
        source = self._spills.get(action.tensor)
        fields = {
            "memory": int(Memory.ACT), "sram": (action.row % buffer.capacity) * buffer.stride, "sram_col": 1,
            "cols": buffer.stride, **buffer.wrap, **self._row_in_dram(buffer, source or action.tensor, action.row),
            "segment": INPUT if source is None else SCRATCH,
        }  # fmt: skip
        layer = next((n.layer for n in self._nodes if action.tensor in n.inputs), 0)
        accesses = [_tile_access(fields, "act", True)]
        if source is not None:
            accesses.append(self._dram_access(fields, False))
        self._tracker.add(Instruction(Opcode.LOAD, fields), accesses, layer)

    def _store_row(self, action: StoreRow) -> None:
        """An output tensor's row as it is; a spilled tensor's with its padding, and with it the padding rows."""
        buffer = self._buffers[action.tensor]
        layer = next((n.layer for n in self._nodes if n.output == action.tensor), 0)
        if action.tensor in self._spills.values():
            top, _, bottom, _ = buffer.pad
            first = 0 if action.row == 0 else action.row + top
            last = action.row + top + (bottom if action.row == buffer.height - 1 else 0)
            for row in range(first, last + 1):
                fields = {
                    "sram": (row % buffer.capacity) * buffer.stride, "sram_col": 1, "cols": buffer.stride,
                    **buffer.wrap, **self._row_in_dram(buffer, action.tensor, row), "segment": SCRATCH,
                }  # fmt: skip
                accesses = [_tile_access(fields, "act", False), self._dram_access(fields, True)]
                self._tracker.add(Instruction(Opcode.STORE, fields), accesses, layer)
        if action.tensor in self._outputs:
            image = self._outputs[action.tensor]
            pixel = image.pixel_units * self.config.act_unit_bytes // self.config.beat_bytes
            offset = image.offset // self.config.beat_bytes + action.row * buffer.width * pixel
            fields = {
                "sram": buffer.offset(action.row),
                "sram_col": 1,
                "segment": OUTPUT,
                "offset": offset,
                **buffer.wrap,
            }
            if image.pixel_units == buffer.units:
                fields["cols"] = buffer.width * buffer.units
            else:  # a slice of the channels: pixel by pixel into the whole tensor's image
                fields |= {"rows": buffer.width, "sram_row": buffer.units, "cols": buffer.units, "stride": pixel}
            self._tracker.add(Instruction(Opcode.STORE, fields), [_tile_access(fields, "act", False)], layer)

    def _row_in_dram(self, buffer: Buffer, stored: str, row: int) -> dict[str, int]:
        beats = buffer.stride * self.config.act_unit_bytes // self.config.beat_bytes
        return {"offset": self._offsets[stored] // self.config.beat_bytes + row * beats}

    def _dram_access(self, fields: Mapping[str, int], write: bool) -> Access:
        beats = fields["cols"] * self.config.act_unit_bytes // self.config.beat_bytes
        return Access("dram", np.arange(fields["offset"], fields["offset"] + beats), write)

    def _run_task(self, action: RunTask) -> None:
        self._task_node = action.node
        node = self._nodes[action.node]
        task = node.tasks[action.task]
        for out in self.outputs(node.output):
            if out.tensor not in self._padded:
                self._padded.add(out.tensor)
                self._fill_columns(out, node.layer)
        node.emit(task, self, action.acc)
        for out in self.outputs(node.output):
            if task.row == out.height - 1 and task.completes_row:
                self._fill_rows(out, out.height, out.pad[2], node.layer)

    # -- the nodes' side (kernels.base.Emit) -------------------------------------------------------------

    def buffer(self, tensor: str) -> Buffer:
        """Where a tensor lies in act."""
        return self._buffers[tensor]

    def outputs(self, tensor: str) -> list[Buffer]:
        """Every buffer that holds a tensor: its own and its twin."""
        return [self._buffers[t] for t in (tensor, twin(tensor)) if t in self._buffers]

    def weight_base(self, chunk: int) -> int:
        """First wgt entry of a chunk of the node that is emitting."""
        return self._bases[self._task_node, chunk][0]

    def prm_base(self, chunk: int) -> int:
        """First prm entry of a chunk of the node that is emitting."""
        return self._bases[self._task_node, chunk][1]

    def gemm(self, uops: Sequence[Uop], **fields: int) -> None:
        """Emit a GEMM over these micro-ops."""
        node = self._nodes[self._task_node]
        begin = self._resident(tuple(uops), node)
        fields = {"uop_begin": begin, "uop_count": len(uops), **fields}
        self._tracker.add(Instruction(Opcode.GEMM, fields), self._gemm_accesses(uops, fields), node.layer)

    def requantize(self, requant: Requant, out: Buffer, **fields: int) -> None:
        """Emit a REQUANTIZE into ``out`` with ``requant``'s rounding, zero point and clamp."""
        full = {
            **fields, **out.wrap, "zero_point": requant.zero_point, "lo": requant.lo, "hi": requant.hi,
            "rounding": int(Rounding[requant.rounding.upper()]),
        }  # fmt: skip
        self._requantize(full, self._nodes[self._task_node].layer)

    def rescale(self, source: Buffer, **fields: int) -> None:
        """Emit a RESCALE out of ``source``."""
        layer = self._nodes[self._task_node].layer
        self._alu_uop(layer)
        full = {**fields, **source.wrap}
        span = self.config.out_units
        destination = _spread(_affine(full, "dst"), span)
        accesses = [
            Access("act", _wrapped(_spread(_affine(full, "src"), span), full), False),
            Access("prm", _affine(full, "prm")[:, None], False),
            Access("uop_alu", np.zeros((1, 1), np.int64), False),
            Access("acc", destination, True),
        ]
        if full.get("combine", 0):
            accesses.append(Access("acc", destination, False))
        self._tracker.add(Instruction(Opcode.RESCALE, full), accesses, layer)

    # -- pieces ------------------------------------------------------------------------------------------

    def _requantize(self, fields: dict[str, int], layer: int) -> None:
        self._alu_uop(layer)
        span = self.config.out_units
        accesses = [
            Access("act", _wrapped(_spread(_affine(fields, "dst"), span), fields), True),
            Access("uop_alu", np.zeros((1, 1), np.int64), False),
        ]
        if fields["rounding"] != Rounding.CONSTANT:
            accesses.append(Access("acc", _spread(_affine(fields, "src"), span), False))
            accesses.append(Access("prm", _affine(fields, "prm")[:, None], False))
        self._tracker.add(Instruction(Opcode.REQUANTIZE, fields), accesses, layer)

    def _constant(self, out: Buffer, dst: int, outer: int, step: int, units: int, layer: int) -> None:
        span = self.config.out_units
        value = out.pad_value
        self._requantize(
            {
                "outer": outer, "inner": units // span, "dst": dst, "dst_outer": step, "dst_inner": span, **out.wrap,
                "zero_point": value, "lo": value, "hi": value, "rounding": int(Rounding.CONSTANT),
            },
            layer,
        )  # fmt: skip

    def _fill_columns(self, out: Buffer, layer: int) -> None:
        """Padding columns of every slot and the rows above the image, written once when a ring is born."""
        _, left, _, right = out.pad
        if left:
            self._constant(out, 0, out.capacity, out.stride, left * out.units, layer)
        if right:
            column = (left + out.width) * out.units
            self._constant(out, column, out.capacity, out.stride, right * out.units, layer)
        self._fill_rows(out, -out.pad[0], out.pad[0], layer)

    def _fill_rows(self, out: Buffer, first: int, count: int, layer: int) -> None:
        for row in range(first, first + count):
            self._constant(out, out.offset(row, 0), 1, 0, out.width * out.units, layer)

    def _gemm_accesses(self, uops: Sequence[Uop], fields: Mapping[str, int]) -> list[Access]:
        c = self.config
        window = fields.get("window", 0)
        table = np.array(uops, np.int64)
        emits = table if not window else table[table[:, 0] >= 0]
        span_out, span_in = (1, 1) if window else (c.out_units, c.in_units)
        destination = _spread(_offsets(fields, "dst", emits[:, 0]), span_out)
        accesses = [
            Access("uop_gemm", np.arange(fields["uop_begin"], fields["uop_begin"] + len(uops)), False),
            Access("act", _wrapped(_spread(_offsets(fields, "src", table[:, 1]), span_in), fields), False),
            Access("wgt", _offsets(fields, "wgt", emits[:, 2]), False),
            Access("acc", destination, True),
        ]
        if emits[:, 3].any():
            accesses.append(Access("acc", destination, False))
        return accesses

    def _resident(self, uops: tuple[Uop, ...], node: Node) -> int:
        begin = self._uops.find(uops)
        if begin is None:
            begin = self._uops.place(uops, node.name)
            ones = UOP_FIELDS[Engine.GEMM][0].bounds(self.config)[1]
            rows = [{"dst": ones if d < 0 else d, "src": s, "wgt": w, "accumulate": a} for d, s, w, a in uops]
            rows += [{}] * (self._uops.padded(len(uops)) - len(uops))
            data = encode_uops(rows, Engine.GEMM, self.config)
            self._load(Memory.UOP_GEMM, begin, len(rows), data, node.layer)
            self.uop_count += len(uops)
        return begin

    def _alu_uop(self, layer: int) -> None:
        """ALU instructions share one micro-op of zeros, at index 0."""
        if not self._alu_ready:
            self._alu_ready = True
            self.uop_count += 1
            count = max(1, self.config.beat_bytes * 8 // (len(encode_uops([{}], Engine.ALU, self.config)) * 8))
            self._load(Memory.UOP_ALU, 0, count, encode_uops([{}] * count, Engine.ALU, self.config), layer)

    def _load(self, memory: Memory, base: int, count: int, data: bytes, layer: int) -> None:
        beat = self.config.beat_bytes
        if data not in self._blobs:
            self._blobs[data] = len(self._constants)
            self._constants += data + bytes(-len(data) % beat)
        fields = {
            "memory": int(memory), "sram": base, "sram_col": 1, "cols": count, "wrap_size": 1,
            "segment": CONSTANTS, "offset": self._blobs[data] // beat,
        }  # fmt: skip
        names = {Memory.WGT: "wgt", Memory.PRM: "prm", Memory.UOP_GEMM: "uop_gemm", Memory.UOP_ALU: "uop_alu"}
        access = Access(names[memory], np.arange(base, base + count), True)
        self._tracker.add(Instruction(Opcode.LOAD, fields), [access], layer)


def _offsets(fields: Mapping[str, int], name: str, uops: NDArray[np.int64]) -> NDArray[np.int64]:
    """All offsets of an operand over both loops and the micro-ops, without repeats from steps of zero."""
    base, outer, inner = (fields.get(name + suffix, 0) for suffix in ("", "_outer", "_inner"))
    o = np.arange(fields.get("outer", 1) if outer else 1) * outer
    i = np.arange(fields.get("inner", 1) if inner else 1) * inner
    return np.unique(base + o[:, None, None] + i[None, :, None] + np.unique(uops)[None, None, :])


def _affine(fields: Mapping[str, int], name: str) -> NDArray[np.int64]:
    """Offsets of an ALU operand in issue order: (outer * inner,)."""
    base, outer, inner = (fields.get(name + suffix, 0) for suffix in ("", "_outer", "_inner"))
    o = np.arange(fields.get("outer", 1)) * outer
    i = np.arange(fields.get("inner", 1)) * inner
    return (base + o[:, None] + i[None, :]).ravel()


def _spread(offsets: NDArray[np.int64], span: int) -> NDArray[np.int64]:
    """Each offset and the units that follow it in its vector: (n, span)."""
    return offsets[:, None] + np.arange(span)[None, :]


def _wrapped(offsets: NDArray[np.int64], fields: Mapping[str, int]) -> NDArray[np.int64]:
    base, size = fields["wrap_base"], fields["wrap_size"]
    return base + np.where(offsets >= size, offsets - size, offsets)


def _tile_access(fields: Mapping[str, int], memory: str, write: bool) -> Access:
    rows = np.arange(fields.get("rows", 1)) * fields.get("sram_row", 0)
    offsets = fields["sram"] + rows[:, None] + np.arange(fields["cols"]) * fields["sram_col"]
    return Access(memory, _wrapped(offsets.ravel(), fields), write)
