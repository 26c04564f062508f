"""The compiler's lowering rules without constants: how each layer of a network is cut on one Config.

The same extents, chunks and limits as ``tilewright.jit.kernels``. A layer's work is cut evenly, so a row of numbers
says how: ``VECTORS`` in ``PIECES`` chunks of constants, each chunk in parts of at most ``ROOM`` vectors, and what a
vector costs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dse import arrays as a
from tilewright.dse.arrays import NetworkArrays, Table, compiled
from tilewright.dse.shapes import NetworkShape
from tilewright.jit.kernels.base import WHOLE_SHARE, PlaceError
from tilewright.jit.kernels.conv import STREAM_ENTRIES

# columns of a node: a layer as it is cut. prm and wgt entries of a chunk of n vectors: *_EACH n + *_FIXED
(N_HEIGHT, N_GEMM, N_VECTORS, N_PIECES, N_ROOM, N_GROUPS, N_WGT_EACH, N_WGT_FIXED, N_PRM_EACH, N_PRM_FIXED, N_UOPS,
 N_GEMM_EACH, N_GEMM_FIXED, N_TERMS_EACH, N_OUT_EACH, N_INSTRUCTIONS, N_PATCHES, N_OPEN) = range(18)  # fmt: skip

FITS, NO_ACC_ROW, NO_WEIGHTS, NO_PRM, NO_WINDOW, NO_ACC_PIXEL = range(6)


@compiled
def pieces_of(count: int, limit: int) -> int:
    """Ranges that ``jit.kernels.base.split_evenly`` makes."""
    return -(-count // max(1, limit))


@compiled
def units_per_pixel(channels: int, c: Any) -> int:
    """``jit.layout.units_for``."""
    block = max(c[a.C_BLOCK_IN], c[a.C_BLOCK_OUT])
    return -(-channels // block) * block // c[a.C_LANES]


@compiled
def lower_network(layers: Any, edges: Any, c: Any, nodes: Any) -> tuple[int, int, int, int]:
    """Fills ``nodes``; returns (``FITS`` or why not, layer, needed, there is)."""
    for number in range(len(layers)):
        layer, node = layers[number], nodes[number]
        kind = layer[a.L_KIND]
        node[:] = 0
        node[N_HEIGHT] = layer[a.L_HEIGHT]
        node[N_GEMM] = kind != a.ELEMENTWISE
        node[N_INSTRUCTIONS], node[N_OPEN] = 1, 1
        if kind == a.WINDOW and (layer[a.L_DILATION_X] > 1 or layer[a.L_KW] > c[a.C_BLOCK_IN]):
            if layer[a.L_SHARED]:
                return NO_WINDOW, number, layer[a.L_KW], c[a.C_BLOCK_IN]
            kind = a.CONV
        if kind == a.ELEMENTWISE:
            code, needed, there = _elementwise(layer, c, node)
        elif kind == a.GLOBAL:
            code, needed, there = _global(layer, c, node)
        elif kind == a.WINDOW:
            code, needed, there = _window(layer, c, node)
        else:
            code, needed, there = _conv(layer, edges[layer[a.L_EDGE]], c, node)
        if code != FITS:
            return code, number, needed, there
    return FITS, 0, 0, 0


@compiled
def _cut(node: Any, weights: int, row_units: int, whole_units: int, c: Any) -> None:
    """Groups of rows, as ``jit.kernels.base.partition``: 0 where constants stay while rows pass."""
    vectors, height = node[N_VECTORS], node[N_HEIGHT]
    resident = vectors * weights <= c[a.C_WGT] // 2 and vectors <= c[a.C_PRM] // 2
    if resident or height == 1 or node[N_PIECES] == 1:
        return
    node[N_GROUPS] = 1
    if whole_units > c[a.C_ACT] * WHOLE_SHARE:
        node[N_GROUPS] = pieces_of(height, max(1, c[a.C_ACT] // 2 // row_units))
    node[N_OPEN] = -(-height // node[N_GROUPS])


@compiled
def _conv(layer: Any, edge: Any, c: Any, node: Any) -> tuple[int, int, int]:
    units = units_per_pixel(layer[a.L_CHANNELS], c)
    vectors = units // c[a.C_OUT_UNITS]
    kh, kw, width = layer[a.L_KH], layer[a.L_KW], layer[a.L_WIDTH]
    packed = -(-kh * kw * layer[a.L_IN_CHANNELS] // c[a.C_BLOCK_IN])
    taps = kh * kw
    rows, in_width, stride = layer[a.L_HEIGHT] * layer[a.L_STRIDE_Y] + kh - 1, layer[a.L_IN_WIDTH], layer[a.L_STRIDE_Y]
    frame = edge[a.E_LEFT] + edge[a.E_RIGHT]
    if (
        layer[a.L_FROM_INPUT] and layer[a.L_KIND] == a.CONV and taps > 1
        and packed < taps * -(-layer[a.L_IN_CHANNELS] // c[a.C_BLOCK_IN])
    ):  # fmt: skip
        node[N_PATCHES] = 1
        in_units = units_per_pixel(taps * layer[a.L_IN_CHANNELS], c)
        per_vector, in_width, stride, rows, frame, kw = in_units // c[a.C_IN_UNITS], width, 1, layer[a.L_HEIGHT], 0, 1
    else:
        in_units = units_per_pixel(layer[a.L_IN_CHANNELS], c)
        per_vector = taps * in_units // c[a.C_IN_UNITS]
    room = c[a.C_ACC_BANK] // (width * c[a.C_OUT_UNITS])
    if room < 1:
        return NO_ACC_ROW, width * c[a.C_OUT_UNITS], c[a.C_ACC_BANK]
    if per_vector > c[a.C_WGT]:
        return NO_WEIGHTS, per_vector, c[a.C_WGT]
    limit = STREAM_ENTRIES if layer[a.L_HEIGHT] == 1 else c[a.C_WGT] // 2
    node[N_VECTORS], node[N_ROOM] = vectors, room
    node[N_PIECES] = pieces_of(vectors, max(1, min(limit // per_vector, c[a.C_PRM] // 4, vectors)))
    whole = rows * (in_width + frame) * in_units + layer[a.L_HEIGHT] * (width + (2 if kw > 1 else 0)) * units
    _cut(node, per_vector, in_width * in_units * stride + width * units, whole, c)
    node[N_WGT_EACH], node[N_PRM_EACH] = per_vector, 1
    node[N_UOPS] = per_vector * c[a.C_UOP_BYTES]
    node[N_GEMM_EACH], node[N_OUT_EACH] = width * per_vector, width
    return FITS, 0, 0


@compiled
def _window(layer: Any, c: Any, node: Any) -> tuple[int, int, int]:
    kh, kw, stride, width = layer[a.L_KH], layer[a.L_KW], layer[a.L_STRIDE_X], layer[a.L_WIDTH]
    units = units_per_pixel(layer[a.L_CHANNELS], c)
    vectors = units // c[a.C_OUT_UNITS]
    splits = pieces_of(kh, c[a.C_BLOCK_IN] // kw)
    columns = min(stride, kw)
    steps = width + -(-max(0, kw - stride) // stride)
    room = c[a.C_ACC_BANK] // (steps * c[a.C_OUT_UNITS])
    if room < 1:
        return NO_ACC_ROW, steps * c[a.C_OUT_UNITS], c[a.C_ACC_BANK]
    if layer[a.L_COUNTS] > c[a.C_PRM]:
        return NO_PRM, layer[a.L_COUNTS], c[a.C_PRM]
    limit = vectors if layer[a.L_UNIFORM] else max(1, c[a.C_PRM] // (4 * layer[a.L_COUNTS]))
    per_vector = 0 if layer[a.L_SHARED] else c[a.C_OUT_UNITS] * splits
    if per_vector:
        limit = max(1, min(limit, c[a.C_WGT] // 2 // per_vector))
    node[N_VECTORS], node[N_ROOM], node[N_PIECES] = vectors, room, pieces_of(vectors, limit)
    row_units = units * (width + layer[a.L_STRIDE_Y] * stride * width)
    _cut(node, per_vector, row_units, layer[a.L_HEIGHT] * row_units, c)
    pushes = late = 0
    for k in range(splits):
        rows = kh * (k + 1) // splits - kh * k // splits
        paced = c[a.C_PACKING] and rows * columns < 2
        pushes += rows * columns * (2 if paced else 1)
        late += c[a.C_PACKING] and not paced
    node[N_WGT_EACH], node[N_WGT_FIXED] = per_vector, splits if layer[a.L_SHARED] else 0
    if layer[a.L_UNIFORM]:
        node[N_PRM_FIXED] = layer[a.L_COUNTS]
    else:
        node[N_PRM_EACH] = layer[a.L_COUNTS]
    node[N_UOPS] = kh * columns * c[a.C_UOP_BYTES]
    node[N_GEMM_EACH], node[N_GEMM_FIXED] = steps * c[a.C_OUT_UNITS] * pushes, late
    node[N_OUT_EACH], node[N_INSTRUCTIONS] = width, splits
    return FITS, 0, 0


@compiled
def _global(layer: Any, c: Any, node: Any) -> tuple[int, int, int]:
    units = units_per_pixel(layer[a.L_CHANNELS], c)
    vectors = units // c[a.C_OUT_UNITS]
    prm = 1 if layer[a.L_UNIFORM] else vectors
    if prm > c[a.C_PRM]:
        return NO_PRM, prm, c[a.C_PRM]
    kh, kw = layer[a.L_KH], layer[a.L_KW]
    node[N_VECTORS], node[N_ROOM], node[N_PIECES] = 1, 1, 1
    node[N_WGT_FIXED], node[N_PRM_FIXED] = max(c[a.C_IN_UNITS], c[a.C_OUT_UNITS]), prm
    node[N_UOPS] = kw * c[a.C_OUT_UNITS] * c[a.C_UOP_BYTES] * min(2, kh)
    node[N_GEMM_EACH], node[N_OUT_EACH], node[N_INSTRUCTIONS] = kh * kw * units, vectors, kh
    return FITS, 0, 0


@compiled
def _elementwise(layer: Any, c: Any, node: Any) -> tuple[int, int, int]:
    """Cut by columns instead of vectors."""
    units = units_per_pixel(layer[a.L_CHANNELS], c)
    vectors = units // c[a.C_OUT_UNITS]
    prm = layer[a.L_SCALES] + (1 if layer[a.L_UNIFORM] else vectors)
    if prm > c[a.C_PRM]:
        return NO_PRM, prm, c[a.C_PRM]
    columns = c[a.C_ACC_BANK] // units
    if columns < 1:
        return NO_ACC_PIXEL, units, c[a.C_ACC_BANK]
    node[N_VECTORS], node[N_ROOM], node[N_PIECES] = layer[a.L_WIDTH], columns, 1
    node[N_PRM_FIXED] = prm
    node[N_TERMS_EACH], node[N_OUT_EACH] = vectors * layer[a.L_TERMS], vectors
    node[N_INSTRUCTIONS] = layer[a.L_TERMS]
    return FITS, 0, 0


_WHY = {
    NO_ACC_ROW: "a row of {width} outputs needs {needed} acc units, a bank has {there}; raise acc_bytes or lower "
    "acc_banks",
    NO_WEIGHTS: "{needed} weight blocks for one output block exceed wgt ({there}); raise wgt_bytes",
    NO_PRM: "{needed} prm entries exceed {there}; raise prm_entries",
    NO_WINDOW: "kernel width {needed} exceeds the window of BLOCK_IN = {there} taps; raise block_in",
    NO_ACC_PIXEL: "{needed} units a pixel exceed an acc bank of {there}; raise acc_bytes or lower acc_banks",
}


def lowered(shape: NetworkShape, network: NetworkArrays, c: Table) -> Table:
    """The nodes of a network on a Config (:func:`config_array`).

    Raises :class:`PlaceError`, as the compiler does, if a memory cannot hold a layer's least piece.
    """
    nodes = np.empty((len(network.layers), 18), np.int64)
    code, number, needed, there = lower_network(network.layers, network.edges, c, nodes)
    if code != FITS:
        layer = shape.layers[number]
        raise PlaceError(f"{layer.name}: {_WHY[code].format(width=layer.width, needed=needed, there=there)}")
    return nodes
