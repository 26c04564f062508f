"""Networks and Configs as integer tables, the form in which the compiled loops of the latency model take them.

Columns are named here once. Rows of a network's tables depend on the network alone and are made once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.dse.shapes import Layer, NetworkShape
from tilewright.isa.spec import Engine, instruction_width, uop_width

Table = NDArray[np.int64]
_Function = TypeVar("_Function", bound=Callable[..., Any])

CONV, WINDOW, GLOBAL, ELEMENTWISE = range(4)
KINDS = {"conv": CONV, "window": WINDOW, "global": GLOBAL, "elementwise": ELEMENTWISE}

# a layer: its extents, and its edges in the table of edges
(L_KIND, L_HEIGHT, L_WIDTH, L_CHANNELS, L_KH, L_KW, L_IN_CHANNELS, L_IN_WIDTH, L_STRIDE_Y, L_STRIDE_X, L_DILATION_X,
 L_TERMS, L_SCALES, L_UNIFORM, L_SHARED, L_COUNTS, L_FROM_INPUT, L_OUTPUT, L_EDGE, L_EDGES) = range(20)  # fmt: skip
# an edge: a layer's reading of a tensor
E_LAYER, E_TENSOR, E_STRIDE, E_OFFSET, E_SPAN, E_TOP, E_LEFT, E_BOTTOM, E_RIGHT = range(9)
T_HEIGHT, T_WIDTH, T_CHANNELS, T_MADE, T_OUTPUT = range(5)
# a Config
(C_BLOCK_IN, C_BLOCK_OUT, C_LANES, C_IN_UNITS, C_OUT_UNITS, C_ACT, C_ACT_BYTES, C_WGT, C_WGT_BYTES, C_PRM, C_PRM_BYTES,
 C_ACC_BANK, C_ACC_BANKS, C_BEAT, C_BURST, C_LATENCY, C_OUTSTANDING, C_PACKING, C_UOP_BYTES,
 C_INSTRUCTION) = range(20)  # fmt: skip

LONGEST = 16  #: layers of one group of the compiler's plan (``jit/groups.py``)


def compiled(function: _Function) -> _Function:
    """Compiled by Numba at its first call, and kept on disk; a division by zero does not raise."""
    return njit(cache=True, error_model="numpy")(function)


@dataclass(frozen=True)
class NetworkArrays:
    """The tables of a network; ``lags[e, d]``: rows held for edge e of a join if d layers before it stream with it."""

    layers: Table
    edges: Table
    tensors: Table
    names: tuple[str, ...]  #: of the tensors
    lags: Table


def network_arrays(shape: NetworkShape) -> NetworkArrays:
    """The tables of a network, made at its first use."""
    cached = shape.__dict__.get("_arrays")
    if cached is None:
        cached = _make(shape)
        object.__setattr__(shape, "_arrays", cached)
    assert isinstance(cached, NetworkArrays)
    return cached


def config_array(config: Config) -> Table:
    """What the model needs of a Config."""
    return np.array(
        (config.block_in, config.block_out, config.lanes, config.in_units, config.out_units, config.act_units,
         config.act_unit_bytes, config.wgt_entries, config.wgt_entry_bytes, config.prm_entries, config.prm_entry_bytes,
         config.acc_bank_units, config.acc_banks, config.beat_bytes, config.burst_beats, config.dram_latency,
         config.outstanding, config.dsp_packing, uop_width(config, Engine.GEMM) // 8, instruction_width(config) // 8),
        np.int64,
    )  # fmt: skip


def table(rows: list[Any], columns: int) -> Table:
    """Rows as a table, also where there are none."""
    return np.array(rows, np.int64).reshape(-1, columns)


def _make(shape: NetworkShape) -> NetworkArrays:
    made = {layer.output for layer in shape.layers}
    used = dict.fromkeys(t for layer in shape.layers for t in (*(s.tensor for s in layer.sources), layer.output))
    number = {name: k for k, name in enumerate(used)}
    layers: list[tuple[int, ...]] = []
    edges: list[tuple[int, ...]] = []
    for index, layer in enumerate(shape.layers):
        layers.append((*_extents(layer), number[layer.output], len(edges), len(layer.sources)))
        edges += [(index, number[s.tensor], s.stride, s.offset, s.span, *s.pad) for s in layer.sources]
    tensors = [(*shape.tensors[t], t in made, t in shape.outputs) for t in used]
    return NetworkArrays(table(layers, 20), table(edges, 9), table(tensors, 5), tuple(used), _lags(shape))


def _extents(layer: Layer) -> tuple[int, ...]:
    return (
        KINDS[layer.kind], layer.height, layer.width, layer.channels, *layer.kernel, layer.in_channels, layer.in_width,
        *layer.strides, layer.column_dilation, layer.terms, layer.scales, layer.uniform, layer.shared, layer.counts,
        layer.from_input,
    )  # fmt: skip


def _lags(shape: NetworkShape) -> Table:
    """Per edge and first layer of a group: what ``jit.rings.lag_rows`` says; the last column: no group."""
    rows = []
    for index, layer in enumerate(shape.layers):
        for source in layer.sources:
            if len(layer.sources) < 2:
                rows.append([1] * (LONGEST + 2))
                continue
            firsts = [*(max(0, index - d) for d in range(LONGEST + 1)), 0]
            rows.append([lag_rows(shape, index, source.tensor, source.stride, source.offset, f) for f in firsts])
    return table(rows, LONGEST + 2)


def lag_rows(shape: NetworkShape, join: int, tensor: str, stride: int, offset: int, first: int) -> int:
    """Rows between what a middle row of layer ``join`` reads of ``tensor`` and what its other inputs need.

    Only what the layers from ``first`` on make counts: the rest is there as a whole.
    """
    layer = shape.layers[join]
    middle = layer.height // 2
    highest: dict[str, int] = {}
    wanted = [(layer, middle)]
    for producer in [None, *reversed(shape.layers[first:join])]:
        if producer is not None:
            if producer.output not in highest:
                continue
            wanted = [(producer, min(highest[producer.output], producer.height - 1))]
        for reader, row in wanted:
            for s in reader.sources:
                highest[s.tensor] = max(highest.get(s.tensor, -1), row * s.stride + s.offset + s.span - 1)
    reach = min(highest[tensor], shape.tensors[tensor][0] - 1)
    return reach - (middle * stride + offset) + 2
