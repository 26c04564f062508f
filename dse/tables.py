"""A network on one Config as plain tables: what the time model walks over.

The same extents, chunks and limits as the compiler's lowering rules (``tilewright.jit.kernels``), without constants.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.config import Config
from tilewright.dse.shapes import Layer, NetworkShape
from tilewright.isa.spec import Engine, uop_width
from tilewright.jit.kernels.base import PlaceError, split_evenly
from tilewright.jit.kernels.conv import STREAM_ENTRIES
from tilewright.jit.layout import units_for


@dataclass
class BufferRow:
    """A tensor in act: rows (padding counted), its ring, and how LOAD and STORE touch it."""

    name: str
    height: int
    top: int
    bottom: int
    row_units: int
    loaded: bool = False
    stored: bool = False
    source: int = -1  #: for a copy of a spilled tensor: the buffer stored in DRAM
    least: int = 1
    capacity: int = 0

    @property
    def rows(self) -> int:
        """Rows of the tensor, padding included."""
        return self.top + self.height + self.bottom


@dataclass
class NodeRow:
    """A layer as tasks: ``parts`` of a row, row by row or (``groups`` > 0) chunk by chunk over groups of rows."""

    layer: Layer
    gemm: bool
    chunks: list[tuple[int, int, int]]  #: wgt entries, prm entries, micro-op bytes
    parts: list[tuple[int, int, int, int]]  #: chunk, GEMM cycles, RESCALE cycles, REQUANTIZE cycles
    gemm_instructions: int
    groups: int = 0
    edges: list[tuple[int, int, int, int]] = field(default_factory=list)  #: buffer, stride, offset, span
    output: int = -1
    twin: int = -1


def lower_layer(layer: Layer, config: Config) -> NodeRow:
    """Tasks of one layer. Raises :class:`PlaceError`, as the compiler does, if a memory cannot hold its least piece."""
    if layer.kind == "elementwise":
        return _elementwise(layer, config)
    if layer.kind == "global":
        return _global(layer, config)
    if layer.kind == "window" and (layer.column_dilation > 1 or layer.kernel[1] > config.block_in):
        if layer.shared:
            raise PlaceError(
                f"{layer.name}: kernel width {layer.kernel[1]} exceeds the window of BLOCK_IN = {config.block_in} taps"
            )
        return _conv(layer, config)
    return _window(layer, config) if layer.kind == "window" else _conv(layer, config)


def packs_patches(layer: Layer, config: Config) -> bool:
    """Whether the host packs this layer's input as patches."""
    kh, kw = layer.kernel
    if layer.kind != "conv" or not layer.from_input or kh * kw == 1:
        return False
    return -(-kh * kw * layer.in_channels // config.block_in) < kh * kw * -(-layer.in_channels // config.block_in)


def _acc_room(layer: Layer, vector_units: int, config: Config) -> int:
    room = config.acc_bank_units // vector_units
    if room < 1:
        raise PlaceError(
            f"{layer.name}: a row of {layer.width} outputs needs {vector_units} acc units, a bank has "
            f"{config.acc_bank_units}; raise acc_bytes or lower acc_banks"
        )
    return room


def _cut(
    layer: Layer, vectors: int, chunk_limit: int, room: int, vector_weights: int, row_units: int, c: Config
) -> tuple[list[tuple[int, int]], list[tuple[int, int]], int]:
    """Vectors of each chunk, (chunk, vectors) of each part, and groups of rows (0: row by row)."""
    ranges = split_evenly(vectors, chunk_limit)
    parts = [(k, b - a) for k, (lo, hi) in enumerate(ranges) for a, b in split_evenly(hi - lo, room)]
    resident = vectors * vector_weights <= c.wgt_entries // 2 and vectors <= c.prm_entries // 2
    if resident or layer.height == 1 or len(ranges) == 1:
        return ranges, parts, 0
    return ranges, parts, len(split_evenly(layer.height, max(1, c.act_units // 2 // row_units)))


def _conv(layer: Layer, c: Config) -> NodeRow:
    out_units = units_for(layer.channels, c)
    vectors = out_units // c.out_units
    kh, kw = layer.kernel
    if packs_patches(layer, c):
        in_units = units_for(kh * kw * layer.in_channels, c)
        per_vector, in_width, stride = in_units // c.in_units, layer.width, 1
    else:
        in_units = units_for(layer.in_channels, c)
        per_vector, in_width, stride = kh * kw * in_units // c.in_units, layer.in_width, layer.strides[0]
    room = _acc_room(layer, layer.width * c.out_units, c)
    if per_vector > c.wgt_entries:
        raise PlaceError(
            f"{layer.name}: {per_vector} weight blocks for one output block exceed wgt ({c.wgt_entries}); "
            f"raise wgt_bytes"
        )
    limit = STREAM_ENTRIES if layer.height == 1 else c.wgt_entries // 2
    limit = max(1, min(limit // per_vector, c.prm_entries // 4, vectors))
    row_units = in_width * in_units * stride + layer.width * out_units
    ranges, parts, groups = _cut(layer, vectors, limit, room, per_vector, row_units, c)
    uops = per_vector * uop_width(c, Engine.GEMM) // 8
    chunks = [((b - a) * per_vector, b - a, 0 if k else uops) for k, (a, b) in enumerate(ranges)]
    work = [(k, n * layer.width * per_vector, 0, n * layer.width) for k, n in parts]
    return NodeRow(layer, True, chunks, work, 1, groups)


def _window(layer: Layer, c: Config) -> NodeRow:
    kh, kw = layer.kernel
    out_units = units_for(layer.channels, c)
    vectors = out_units // c.out_units
    splits = [hi - lo for lo, hi in split_evenly(kh, c.block_in // kw)]
    columns = min(layer.strides[1], kw)
    steps = layer.width + -(-max(0, kw - layer.strides[1]) // layer.strides[1])
    room = _acc_room(layer, steps * c.out_units, c)
    if layer.counts > c.prm_entries:
        raise PlaceError(
            f"{layer.name}: {layer.counts} prm entries for counts of valid elements exceed {c.prm_entries}"
        )
    limit = vectors if layer.uniform else max(1, c.prm_entries // (4 * layer.counts))
    per_vector = 0 if layer.shared else c.out_units * len(splits)
    if per_vector:
        limit = max(1, min(limit, c.wgt_entries // 2 // per_vector))
    row_units = out_units * (layer.width + layer.strides[0] * layer.strides[1] * layer.width)
    ranges, parts, groups = _cut(layer, vectors, limit, room, per_vector, row_units, c)
    paced = [c.dsp_packing and rows * columns < 2 for rows in splits]
    pushes = sum(rows * columns * (1 + slow) for rows, slow in zip(splits, paced, strict=True))
    late = sum(c.dsp_packing and not slow for slow in paced)
    uops = sum(splits) * columns * uop_width(c, Engine.GEMM) // 8
    chunks = [
        (len(splits) if layer.shared else (b - a) * per_vector, (1 if layer.uniform else b - a) * layer.counts,
         0 if k else uops)
        for k, (a, b) in enumerate(ranges)
    ]  # fmt: skip
    work = [(k, steps * n * c.out_units * pushes + late, 0, n * layer.width) for k, n in parts]
    return NodeRow(layer, True, chunks, work, len(splits), groups)


def _global(layer: Layer, c: Config) -> NodeRow:
    out_units = units_for(layer.channels, c)
    vectors = out_units // c.out_units
    height, width = layer.kernel
    if vectors > c.prm_entries and not layer.uniform:
        raise PlaceError(f"{layer.name}: {vectors} prm entries exceed {c.prm_entries}")
    uops = width * c.out_units * uop_width(c, Engine.GEMM) // 8 * min(2, height)
    chunk = (max(c.in_units, c.out_units), 1 if layer.uniform else vectors, uops)
    return NodeRow(layer, True, [chunk], [(0, height * width * out_units, 0, vectors)], height)


def _elementwise(layer: Layer, c: Config) -> NodeRow:
    units = units_for(layer.channels, c)
    vectors = units // c.out_units
    prm = layer.scales + (1 if layer.uniform else vectors)
    if prm > c.prm_entries:
        raise PlaceError(f"{layer.name}: {prm} prm entries exceed {c.prm_entries}")
    columns = c.acc_bank_units // units
    if columns < 1:
        raise PlaceError(f"{layer.name}: {units} units a pixel exceed an acc bank of {c.acc_bank_units}")
    widths = [b - a for a, b in split_evenly(layer.width, columns)]
    work = [(0, 0, n * vectors * layer.terms, n * vectors) for n in widths]
    return NodeRow(layer, False, [(0, prm, 0)], work, 0)


def build(
    shape: NetworkShape, config: Config, spilled: frozenset[str] = frozenset()
) -> tuple[list[NodeRow], list[BufferRow]]:
    """All layers and the buffers between them; tensors in ``spilled`` go through DRAM."""
    nodes = [lower_layer(layer, config) for layer in shape.layers]
    buffers: list[BufferRow] = []
    numbers: dict[str, int] = {}
    made = {layer.output: k for k, layer in enumerate(shape.layers)}
    readers: dict[str, list[bool]] = {}
    pads: dict[str, tuple[int, ...]] = {}
    for node in nodes:
        for s in node.layer.sources:
            readers.setdefault(s.tensor, []).append(node.gemm)
            old = pads.get(s.tensor, (0, 0, 0, 0))
            if not packs_patches(node.layer, config):
                pads[s.tensor] = tuple(max(a, b) for a, b in zip(old, s.pad, strict=True))

    def buffer(name: str, tensor: str, **extra: object) -> int:
        if name not in numbers:
            height, width, channels = shape.tensors[tensor]
            top, left, bottom, right = pads.get(tensor, (0, 0, 0, 0))
            numbers[name] = len(buffers)
            row_units = (left + width + right) * units_for(channels, config)
            buffers.append(BufferRow(name, height, top, bottom, row_units, **extra))  # type: ignore[arg-type]
        return numbers[name]

    for number, node in enumerate(nodes):
        layer = node.layer
        for k, s in enumerate(layer.sources):
            edge = (s.stride, s.offset, s.span)
            if s.tensor not in made:
                if packs_patches(layer, config):
                    kh, kw = layer.kernel
                    units = units_for(kh * kw * layer.in_channels, config) * layer.width
                    index = len(buffers)
                    buffers.append(BufferRow(f"{s.tensor}.{layer.name}", layer.height, 0, 0, units, loaded=True))
                    edge = (1, 0, 1)
                else:
                    index = buffer(s.tensor, s.tensor, loaded=True)
            elif s.tensor in spilled:
                home = numbers[s.tensor]
                index = buffer(f"{s.tensor}@{layer.name}", s.tensor, loaded=True, source=home)
            else:
                index = numbers[s.tensor]
                if not node.gemm and len(set(readers[s.tensor])) == 2:
                    index = numbers[s.tensor + ".alu"]
            node.edges.append((index, *edge))
            rows_per_group = -(-layer.height // node.groups) if node.groups else 1
            held = (rows_per_group - 1) * edge[0] + edge[2]
            if s.tensor not in spilled:
                held = max(held, shape.lags.get((number, k), 1))
            buffers[index].least = max(buffers[index].least, held + buffers[index].bottom)
        stored = layer.output in shape.outputs or layer.output in spilled
        node.output = buffer(layer.output, layer.output, stored=stored)
        if len(set(readers.get(layer.output, []))) == 2 and layer.output not in spilled:
            node.twin = buffer(layer.output + ".alu", layer.output)
        for index in (node.output, node.twin):
            if index >= 0 and node.groups:
                buffers[index].least = max(buffers[index].least, -(-layer.height // node.groups))
    for row in buffers:
        row.least = min(row.rows, row.least)
    return nodes, buffers
