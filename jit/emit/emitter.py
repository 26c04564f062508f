"""Turn a schedule into a program: what each action of the row-by-row schedule writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.program import Program, Segment
from tilewright.jit.emit.writer import INPUT, OUTPUT, SCRATCH, InstructionWriter
from tilewright.jit.graph import Requant
from tilewright.jit.kernels.base import Node, Task, Uop
from tilewright.jit.lower.blocked import Blocked
from tilewright.jit.plan.layout import Buffer, duplicate
from tilewright.jit.schedule.actions import Action, LoadChunk, LoadRow, RunTask, StoreRow


@dataclass(frozen=True)
class Image:
    """Where an output tensor (or a slice of one) goes in DRAM: byte offset, and units from pixel to pixel."""

    offset: int
    pixel_units: int


class Emitter:
    """Emits the actions of a schedule in order.

    ``offsets``: byte offset in DRAM of each input and spilled tensor; ``outputs``: the image of each output tensor;
    ``spills``: copies loaded from DRAM and the stored tensors they come from; ``blocked``: tensors that are weights.
    """

    def __init__(
        self,
        config: Config,
        nodes: Sequence[Node],
        buffers: Mapping[str, Buffer],
        offsets: Mapping[str, int],
        outputs: Mapping[str, Image],
        spills: Mapping[str, str],
        blocked: Mapping[str, Blocked],
        scratch_bytes: int,
    ) -> None:
        self.config = config
        self._nodes, self._buffers, self._offsets, self._outputs = nodes, buffers, offsets, outputs
        self._spills, self._blocked = spills, blocked
        self._writer = InstructionWriter(config, scratch_bytes // config.beat_bytes)
        self._padded: set[str] = set()
        self._bases: dict[tuple[int, int], tuple[int, int]] = {}
        self._task_node = -1
        self._late: tuple[int, NDArray[np.int32]] | None = None  #: prm entries of the first chunk, and where they go

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
        """The finished program; ``segments`` follow the constants."""
        return self._writer.program(segments, meta)

    def _load_chunk(self, action: LoadChunk) -> None:
        node = self._nodes[action.node]
        chunk = node.chunks[action.chunk]
        self._bases[action.node, action.chunk] = (action.wgt, action.prm)
        self._writer.begin(node.layer, node.name)
        if action.chunk == 0:
            for uops in node.uop_sets([self._buffers[t] for t in node.inputs]):
                for piece in self._writer.pieces(uops):
                    self._writer.resident(tuple(piece))
        self._writer.load_weights(action.wgt, chunk.weights)
        if chunk.streamed is not None:
            blocked = self._blocked[chunk.streamed.name]
            fields = blocked.loaded(chunk.streamed, self._offsets[blocked.name])
            fields |= {"sram": action.wgt + len(chunk.weights), "segment": INPUT if blocked.packed else SCRATCH}
            self._writer.load_blocks(
                fields, None if blocked.packed else self._beats(fields, self.config.wgt_entry_bytes)
            )
        if not len(chunk.prm):
            return
        first = self._task_node < 0 and self._late is None  # nothing works yet
        if first:
            self._writer.prepare_vectors()
        if first and node.uses_gemm:  # rows come before them, which the array waits for
            self._late = action.prm, chunk.prm
        else:  # behind the weights: the array works before ALU does
            self._writer.load_prm(action.prm, chunk.prm)

    def _load_row(self, action: LoadRow) -> None:
        buffer = self._buffers[action.tensor]
        source = self._spills.get(action.tensor)
        fields = {
            "sram": buffer.slot(action.row), "sram_col": buffer.step,
            "cols": buffer.stride, **buffer.wrap, **self._row_in_dram(buffer, source or action.tensor, action.row),
            "segment": INPUT if source is None else SCRATCH,
        }  # fmt: skip
        self._writer.begin(next((n.layer for n in self._nodes if action.tensor in n.inputs), 0), action.tensor)
        self._writer.load_tile(fields, None if source is None else self._beats(fields))

    def _store_row(self, action: StoreRow) -> None:
        """An output tensor's row as it is; a spilled tensor's with its padding, and with it the padding rows."""
        buffer = self._buffers[action.tensor]
        self._writer.begin(next((n.layer for n in self._nodes if n.output == action.tensor), 0), action.tensor)
        if action.tensor in self._spills.values():
            top, _, bottom, _ = buffer.pad
            first = 0 if action.row == 0 else action.row + top
            last = action.row + top + (bottom if action.row == buffer.height - 1 else 0)
            for row in range(first, last + 1):
                fields = {
                    "sram": buffer.slot(row), "sram_col": buffer.step, "cols": buffer.stride,
                    **buffer.wrap, **self._row_in_dram(buffer, action.tensor, row), "segment": SCRATCH,
                }  # fmt: skip
                self._writer.store_tile(fields, self._beats(fields))
        for blocked in self._blocked.values():
            if blocked.tensor == action.tensor and not blocked.packed:
                for fields in blocked.stored(buffer, action.row, self._offsets[blocked.name]):
                    self._writer.store_tile({**fields, "segment": SCRATCH}, self._beats(fields))
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
            self._writer.store_tile(fields, None)

    def _row_in_dram(self, buffer: Buffer, stored: str, row: int) -> dict[str, int]:
        beats = buffer.stride * self.config.act_unit_bytes // self.config.beat_bytes
        return {"offset": self._offsets[stored] // self.config.beat_bytes + row * beats}

    def _beats(self, fields: Mapping[str, int], entry_bytes: int = 0) -> NDArray[np.int64]:
        """Beats of scratch that rows of units, or of entries of so many bytes, cover."""
        beats = fields["cols"] * (entry_bytes or self.config.act_unit_bytes) // self.config.beat_bytes
        rows = np.arange(fields.get("rows", 1)) * fields.get("stride", 0)
        return np.asarray((fields["offset"] + rows[:, None] + np.arange(beats)).ravel())

    def _run_task(self, action: RunTask) -> None:
        node = self._nodes[action.node]
        task = node.tasks[action.task]
        self._writer.begin(node.layer, node.name)
        if self._task_node < 0 and self._late is not None:
            self._writer.load_prm(*self._late)
        self._task_node = action.node
        for out in self.outputs(node.output):
            if out.tensor not in self._padded:
                self._padded.add(out.tensor)
                self._fill_columns(out)
        node.emit(task, self, action.acc)
        for out in self.outputs(node.output):
            if task.completes_row:
                self._fill_empty(node, out, task)
                if task.last == out.height - 1:
                    self._fill_rows(out, out.height, out.pad[2])

    # -- the nodes' side (kernels.base.Emit) -------------------------------------------------------------

    def buffer(self, tensor: str) -> Buffer:
        """Where a tensor lies in act."""
        return self._buffers[tensor]

    def outputs(self, tensor: str) -> list[Buffer]:
        """Every buffer that holds a tensor: its own and its duplicate."""
        return [self._buffers[t] for t in (tensor, duplicate(tensor)) if t in self._buffers]

    def weight_base(self, chunk: int) -> int:
        """First wgt entry of a chunk of the node that is emitting."""
        return self._bases[self._task_node, chunk][0]

    def prm_base(self, chunk: int) -> int:
        """First prm entry of a chunk of the node that is emitting."""
        return self._bases[self._task_node, chunk][1]

    def gemm(self, uops: Sequence[Uop], **fields: int) -> None:
        """Emit a GEMM over these micro-ops."""
        self._writer.gemm(uops, **fields)

    def requantize(self, requant: Requant, out: Buffer, **fields: int) -> None:
        """Emit a REQUANTIZE into ``out`` with ``requant``'s rounding, zero point and clamp."""
        self._writer.requantize(requant, **fields, **out.wrap)

    def multiply(self, **fields: int) -> None:
        """Emit an ALU that multiplies accumulators with others of the same bank."""
        self._writer.multiply(**fields)

    def scale(self, factor: int, **fields: int) -> None:
        """Emit an ALU that multiplies accumulators with a number."""
        self._writer.scale(factor, **fields)

    def add(self, **fields: int) -> None:
        """Emit an ALU that adds others of the same bank to accumulators."""
        self._writer.add(**fields)

    def rescale(self, source: Buffer, table: bytes | None, **fields: int) -> None:
        """Emit a RESCALE out of ``source``, looked up in ``table``."""
        self._writer.rescale(table=table, **fields, **source.wrap)

    # -- padding -----------------------------------------------------------------------------------------

    def _constant(self, out: Buffer, dst: int, outer: int, step: int, units: int, apart: int = 1) -> None:
        """Fill ``outer`` times ``units`` units, ``apart`` from one to the next."""
        span = self.config.out_units
        self._writer.constant(
            out.pad_value, outer=outer, inner=units // span, dst=dst, dst_outer=step, dst_inner=span * apart, **out.wrap
        )

    def _fill_columns(self, out: Buffer) -> None:
        """Padding columns of every slot and the rows above the image, written once when a ring is born."""
        _, left, _, right = out.pad
        slots, stride = out.capacity // out.step, out.stride * out.step  # columns of rows that lie side by side are one
        if left:
            self._constant(out, 0, slots, stride, left * out.pixel)
        if right:
            self._constant(out, (left + out.width) * out.pixel, slots, stride, right * out.pixel)
        self._fill_rows(out, -out.pad[0], out.pad[0])

    def _fill_empty(self, node: Node, out: Buffer, task: Task) -> None:
        """Units without a channel of rows that are the first in their slots; later ones find them there."""
        for first, count in node.empty_units:
            for row in range(task.row, min(task.last + 1, out.capacity - out.pad[0])):
                self._constant(out, out.offset(row, 0, first), out.width, out.pixel, count, out.step)

    def _fill_rows(self, out: Buffer, first: int, count: int) -> None:
        for row in range(first, first + count):
            self._constant(out, out.offset(row, 0), 1, 0, out.width * out.units, out.step)
