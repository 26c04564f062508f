"""Wide tensors cut into slices of channels, so that what streams together fits on the chip.

An inverted residual expands to many channels, filters each by itself and projects back. Row by row it needs
the constants of all three layers at once and several rows of the widest tensor. Cut by channels, it needs them
for one slice at a time: expand and filter slice after slice, each slice's constants pass through once, and
the projection reads all slices of the filtered tensor (in act, or from DRAM). Array cycles stay the same.

Finer slices leave a layer in window mode the room for taller strips, which push less. What that costs, more tensors
through DRAM among it, is for an estimate to weigh (:mod:`tilewright.jit.cost.slices`).

The rewrite works on the graph: every slice is a tensor of its own, operators on single channels are repeated
per slice, a convolution that reads a sliced tensor has one input per slice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.config import Config
from tilewright.jit import graph as g
from tilewright.jit.graph import Graph, Op
from tilewright.jit.ir.base import Sliced
from tilewright.jit.plan.cut import tallest_strip
from tilewright.jit.plan.layout import units_for, vectors_for
from tilewright.jit.plan.ranges import split_evenly
from tilewright.jit.plan.strips import has_twins, strip_form, strips_cycles
from tilewright.jit.plan.tables import C_ACT, C_BLOCK_IN, C_EMITS, Table, config_table

#: share of each memory that one slice (constants: its layers together; act: its rows) may take
_CONSTANT_SHARE = 0.5
_ACT_SHARE = 0.5
#: share of act that rows may take where nothing needs slicing
_STREAM_SHARE = 0.75
#: slices more than must be that are weighed, and as much of act as any strip can use
_MORE, _PLENTY = 3, 1 << 40


def slice_graph(graph: Graph, config: Config, counts: Mapping[str, int] | None = None) -> Sliced:
    """Cut every tensor that cannot stream whole; the graph unchanged if all can.

    ``counts``: how many slices there are at least, as :func:`finer_slices` names them.
    """
    cuts: dict[str, list[tuple[int, int]]] = {}
    for tensors in _classes(graph):
        ranges = _ranges(graph, tensors, config)
        least = (counts or {}).get(tensors[0], 0)
        if least > len(ranges):
            ranges = _even(graph.tensors[tensors[0]].shape[-1], least, config)
        if len(ranges) > 1:
            cuts |= dict.fromkeys(tensors, ranges)
    return _rewrite(graph, cuts)


def finer_slices(graph: Graph, config: Config) -> dict[str, list[int]]:
    """Numbers of slices worth a look, by the first of the tensors that are cut alike: somewhat more than must be, where
    a layer in window mode would push less with more of act for its strips."""
    c, roomy, found = config_table(config), config_table(config), dict[str, list[int]]()
    roomy[C_ACT] = _PLENTY
    for tensors in _classes(graph):
        layers = [op for t in tensors if isinstance(op := graph.producer(t), g.DepthwiseConv2D) and op.dilation[0] == 1]
        if not layers or not _worth_cutting(graph, tensors, config):
            continue
        channels, blocks = _extent(graph, tensors[0], config)
        first = len(_ranges(graph, tensors, config))
        units = -(-blocks // first) * config.widest_block // config.lanes
        twins = has_twins(config)
        if any(_pushes(graph, op, units, c, twins) > _pushes(graph, op, units, roomy, twins) for op in layers):
            counts = {len(_even(channels, n, config)) for n in range(first + 1, min(first + _MORE, blocks) + 1)}
            found[tensors[0]] = sorted(counts - {first})
    return found


def _pushes(graph: Graph, op: g.DepthwiseConv2D, units: int, c: Table, twins: bool) -> int:
    """Pushes for all rows, a unit and a column, where ``units`` units of a pixel are held."""
    (height, width), (kh, kw), (stride_y, stride_x) = (
        graph.tensors[op.output].shape[1:3],
        op.weight.shape[:2],
        op.strides,
    )
    shape = kh, kw, min(stride_x, kw), stride_y
    most = tallest_strip(units, width, kw, stride_y, stride_x, c)
    rows, mode = strip_form(height, *shape, most, c[C_BLOCK_IN], c[C_EMITS], twins)
    return int(strips_cycles(height, *shape, rows, c[C_BLOCK_IN], mode))


# -- which tensors, how wide -----------------------------------------------------------------------------


def _classes(graph: Graph) -> list[list[str]]:
    """Tensors that must be cut alike, in graph order: those that per-channel operators connect."""
    classes: dict[str, list[str]] = {}
    for op in graph.ops:
        merged = [op.output]
        if op.per_channel:
            for tensor in op.inputs:
                if classes.get(tensor) is not merged:
                    merged = [*classes.get(tensor, [tensor]), *merged]
                    for member in merged:
                        classes[member] = merged
        for member in merged:
            classes[member] = merged
    unique = list({id(c): c for c in classes.values()}.values())
    makers = {t: op for op in graph.ops for t in op.outputs}
    readers: dict[str, list[Op]] = {}
    for op in graph.ops:
        for tensor in op.inputs:
            readers.setdefault(tensor, []).append(op)
    return [list(dict.fromkeys(c)) for c in unique if _can_cut(c, makers, readers)]


def _can_cut(tensors: list[str], makers: Mapping[str, Op], readers: Mapping[str, list[Op]]) -> bool:
    """Whether dense convolutions make these tensors, and only convolutions or the tensors' own operators read them."""
    around = (op for t in tensors for op in (makers.get(t), *readers.get(t, [])))
    return all(op is not None and (_is_plain(op) or op.per_channel) for op in around)


def _is_plain(op: Op) -> bool:
    return isinstance(op, g.Conv2D) and op.groups == 1


def _extent(graph: Graph, tensor: str, config: Config) -> tuple[int, int]:
    """Channels of a tensor, and blocks of them that slices are made of."""
    channels = graph.tensors[tensor].shape[-1]
    return channels, units_for(channels, config) * config.lanes // config.widest_block


def _even(channels: int, count: int, config: Config) -> list[tuple[int, int]]:
    """At most ``count`` ranges of whole blocks, near equal."""
    block = config.widest_block
    blocks = -(-channels // block)
    return [(a * block, min(channels, b * block)) for a, b in split_evenly(blocks, -(-blocks // count))]


def _worth_cutting(graph: Graph, tensors: list[str], config: Config) -> bool:
    """Whether a class is an expansion by a single convolution, and what goes on with it."""
    if len(tensors) < 2:
        return False
    makers = [op for t in tensors if (op := graph.producer(t)) is not None]
    dense = sum(isinstance(op, g.Conv2D) for op in makers)
    return len(makers) > 1 and _extent(graph, tensors[0], config)[1] > 1 and dense <= 1


def _ranges(graph: Graph, tensors: list[str], config: Config) -> list[tuple[int, int]]:
    """Channel ranges of the slices of one class; a single range if the class can stream as it is."""
    channels, blocks = _extent(graph, tensors[0], config)
    if not _worth_cutting(graph, tensors, config):
        return [(0, channels)]
    block = config.widest_block
    makers = [op for t in tensors if (op := graph.producer(t)) is not None]
    readers = [op for op in graph.ops if any(t in op.inputs for t in tensors) and op not in makers]
    prm = len(makers) * (block // config.block_out)
    wgt = sum(_block_weights(op, config) for op in makers)
    act = sum(_ring(graph, t, 0) for t in tensors) * (block // config.lanes)
    extra = [op for op in readers if isinstance(op, g.Conv2D)]
    reader_prm = sum(vectors_for(op.weight.shape[0], config) for op in extra)
    reader_wgt = sum(_conv_blocks(op, config) for op in extra)
    if (
        prm * blocks + reader_prm <= config.prm_entries // 2
        and wgt * blocks + reader_wgt <= config.wgt_entries // 2
        and act * blocks <= config.act_units * _STREAM_SHARE
    ):
        return [(0, channels)]
    act = sum(_ring(graph, t, 1) for t in tensors) * (block // config.lanes)
    # a classifier takes slices as they come, while the bus brings its weights: small ones leave these the room
    pixels = [t for t in tensors if graph.tensors[t].shape[1:3] == (1, 1)]
    share = _CONSTANT_SHARE / 2 if any(op.inputs[0] in pixels for op in extra) else _CONSTANT_SHARE
    limit = int(
        min(
            config.prm_entries * share // prm,
            config.wgt_entries * share // wgt,
            config.act_units * _ACT_SHARE // act,
        )
    )
    return _even(channels, -(-blocks // max(1, limit)), config)


def _ring(graph: Graph, tensor: str, spare: int) -> int:
    """Pixels that a ring of the fewest rows holds, and ``spare`` rows more."""
    height, width = graph.tensors[tensor].shape[1:3]
    rows = max((op.window_rows for op in graph.consumers(tensor)), default=1)
    return min(height, rows + spare) * (width + 2)


def _block_weights(op: Op, config: Config) -> int:
    """wgt entries for one block of the operator's output channels."""
    if isinstance(op, g.Conv2D):
        vectors = units_for(op.weight.shape[0], config) * config.lanes // config.widest_block
        return -(-_conv_blocks(op, config) // vectors)
    return config.widest_block // config.lanes if isinstance(op, g.DepthwiseConv2D) else 0


def _conv_blocks(op: g.Conv2D, config: Config) -> int:
    oc, kh, kw, ic = op.weight.shape
    return kh * kw * units_for(ic, config) // config.in_units * vectors_for(oc, config)


# -- rewriting -------------------------------------------------------------------------------------------


def _rewrite(graph: Graph, cuts: dict[str, list[tuple[int, int]]]) -> Sliced:
    parts = {t: [f"{t}[{a}:{b}]" for a, b in ranges] for t, ranges in cuts.items()}
    tensors = dict(graph.tensors)
    for tensor, ranges in cuts.items():
        spec = graph.tensors[tensor]
        for name, (a, b) in zip(parts[tensor], ranges, strict=True):
            tensors[name] = replace(spec, name=name, shape=(*spec.shape[:-1], b - a))
    layers: dict[str, int] = {}
    ops: list[Op] = []
    done: set[str] = set()
    for index, op in enumerate(graph.ops):
        if op.name in done:
            continue
        run = _run(graph, index, cuts)
        done |= {member.name for member in run}
        for k in range(len(cuts.get(op.output, [(0, 0)]))):
            for offset, member in enumerate(run):
                piece = _piece(member, k, cuts, parts)
                layers[piece.name] = index + offset
                ops.append(piece)
    outputs = [part for t in graph.outputs for part in parts.get(t, [t])]
    return Sliced(Graph(graph.name, graph.inputs, outputs, tensors, ops), parts, layers)


def _run(graph: Graph, first: int, cuts: dict[str, list[tuple[int, int]]]) -> list[Op]:
    """The operators from ``first`` on that are done slice by slice together."""
    run = [graph.ops[first]]
    if run[0].output not in cuts:
        return run
    for op in graph.ops[first + 1 :]:
        if not op.per_channel or not all(t == run[-1].output for t in op.inputs):
            break
        run.append(op)
    return run


def _piece(op: Op, k: int, cuts: dict[str, list[tuple[int, int]]], parts: dict[str, list[str]]) -> Op:
    """Slice ``k`` of an operator (the operator itself, over all slices of its input, if its output is whole)."""
    if op.output not in cuts:
        return replace(op, inputs=[part for t in op.inputs for part in parts.get(t, [t])])
    a, b = cuts[op.output][k]
    name, output = f"{op.name}[{a}:{b}]", parts[op.output][k]
    if isinstance(op, g.Conv2D):
        inputs = [part for t in op.inputs for part in parts.get(t, [t])]
    else:
        inputs = [parts[t][k] for t in op.inputs]
    return replace(op.of_channels(slice(a, b)), name=name, inputs=inputs, output=output)
