"""How each layer of a network is cut on a Config: chunks of constants, parts of a row, groups of rows.

A layer's work is cut evenly, so a row of numbers says how: ``VECTORS`` in ``PIECES`` chunks of constants, each chunk in
parts of at most ``ROOM`` vectors, and what a vector costs. Rows pass one by one where all chunks may stay loaded
together (half of wgt and of prm). Else chunk by chunk over ``GROUPS`` groups of rows, constants loaded anew for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.jit.plan import tables as t
from tilewright.jit.plan.native import compiled
from tilewright.jit.plan.network import NetworkTables
from tilewright.jit.plan.refusal import Refusal
from tilewright.jit.plan.strips import last_rows, passes_of, strip_cost, strip_form
from tilewright.jit.plan.tables import Table

FITS, NO_ACC_ROW, NO_WEIGHTS, NO_PRM, NO_WINDOW, NO_ACC_PIXEL = range(6)

#: weight entries of one chunk of a layer that has a single row: short enough that GEMM starts early
STREAM_ENTRIES = 32
#: share of act up to which input and output of a layer are held whole, so that its constants are loaded once
WHOLE_SHARE = 0.96
#: a last strip of fewer rows gets weights of its own if each cycle that they save costs at most so many beats
LAST_WORTH = 4
#: share of act up to which the rows of a strip are held, input and output together
STRIP_SHARE = 0.5


@compiled
def pieces_of(count: int, limit: int) -> int:
    """Ranges that ``split_evenly`` makes of so many, at most ``limit`` in each."""
    return -(-count // max(1, limit))


@compiled
def cut_layers(layers: Any, c: Any, nodes: Any) -> int:
    """Fills ``nodes``; returns the first layer of which not even one row fits (``t.N_CODE``), -1 if there is none."""
    first = -1
    for number in range(len(layers)):
        layer, node = layers[number], nodes[number]
        kind = layer[t.L_KIND]
        node[:] = 0
        node[t.N_HEIGHT] = layer[t.L_HEIGHT]
        node[t.N_GEMM] = kind != t.ELEMENTWISE
        node[t.N_INSTRUCTIONS], node[t.N_ROWS], node[t.N_OPEN] = 1, 1, 1
        if kind == t.ELEMENTWISE:
            code, needed, there = _elementwise(layer, c, node)
        elif kind == t.GLOBAL:
            code, needed, there = _global(layer, c, node)
        elif kind == t.WINDOW:
            code, needed, there = _window(layer, c, node)
        else:
            code, needed, there = _conv(layer, c, node)
        node[t.N_CODE], node[t.N_NEEDED], node[t.N_THERE] = code, needed, there
        if code != FITS and first < 0:
            first = number
    return first


@compiled
def _group_rows(node: Any, weights: int, row_units: int, whole_units: int, c: Any) -> None:
    """``row_units`` of act per output row, input and output together, say how many rows a group can have;
    ``whole_units`` whether one group will do."""
    vectors, height = node[t.N_VECTORS], node[t.N_HEIGHT]
    resident = vectors * weights <= c[t.C_WGT] // 2 and vectors <= c[t.C_PRM] // 2
    if resident or height == 1 or node[t.N_PIECES] == 1:
        return
    node[t.N_GROUPS] = 1
    if whole_units > c[t.C_ACT] * WHOLE_SHARE:
        node[t.N_GROUPS] = pieces_of(height, max(1, c[t.C_ACT] // 2 // row_units))
    node[t.N_OPEN] = -(-height // node[t.N_GROUPS])


@compiled
def _conv(layer: Any, c: Any, node: Any) -> tuple[int, int, int]:
    units, in_units, width, height = layer[t.L_UNITS], layer[t.L_IN_UNITS], layer[t.L_WIDTH], layer[t.L_HEIGHT]
    vectors = layer[t.L_VECTORS]
    most, each = layer[t.L_MOST], -(-layer[t.L_BLOCKS] // vectors)
    across, down = layer[t.L_PARTS], layer[t.L_COUNTS]  # phases of columns and of rows
    planes = 1 + layer[t.L_TERMS]  # of each sum
    room = c[t.C_ACC_BANK] // (width * c[t.C_OUT_UNITS])
    if room < 1:
        return NO_ACC_ROW, width * c[t.C_OUT_UNITS], c[t.C_ACC_BANK]
    if most > c[t.C_WGT]:
        return NO_WEIGHTS, most, c[t.C_WGT]
    limit = STREAM_ENTRIES if height == 1 else c[t.C_WGT] // 4
    node[t.N_VECTORS], node[t.N_ROOM] = vectors, room
    node[t.N_PIECES] = pieces_of(vectors, max(1, min(limit // most, c[t.C_PRM] // (4 * down * planes), vectors)))
    if down * planes > c[t.C_PRM]:
        return NO_PRM, down * planes, c[t.C_PRM]
    rows = -(-height * layer[t.L_STRIDE_Y] // down) + layer[t.L_KH] - 1
    framed = width + (2 if layer[t.L_KW] > 1 else 0)  # the next layer is likely to want padding too
    whole = rows * (layer[t.L_IN_WIDTH] + layer[t.L_FRAME]) * in_units + height * framed * units * planes
    read = -(-layer[t.L_IN_WIDTH] * in_units * layer[t.L_STRIDE_Y] // down)
    _group_rows(node, each, read + width * units * planes, whole, c)
    node[t.N_WGT_EACH], node[t.N_PRM_EACH] = each, down * planes
    node[t.N_UOPS], node[t.N_INSTRUCTIONS] = across * most * c[t.C_UOP_BYTES], 2 * (across + planes - 1) - 1
    node[t.N_GEMM_EACH], node[t.N_OUT_EACH] = -(-width * each // down), width * planes
    node[t.N_TERMS_EACH] = width * (planes - 1)
    return FITS, 0, 0


@compiled
def tallest_strip(units: int, width: int, kw: int, stride_y: int, stride_x: int, c: Any) -> int:
    """Rows that a strip of ``width`` output columns may have: those of act's share, and of a bank of acc; 0 if one of a
    single vector exceeds the bank."""
    steps = width + -(-max(0, kw - stride_x) // stride_x)
    held = int(c[t.C_ACT] * STRIP_SHARE) // (units * (width + stride_y * stride_x * width))
    most = c[t.C_ACC_BANK] // (steps * c[t.C_OUT_UNITS])
    return min(most, max(1, min(held, c[t.C_STRIP])))


@compiled
def _window(layer: Any, c: Any, node: Any) -> tuple[int, int, int]:
    kh, kw, stride, width = layer[t.L_KH], layer[t.L_KW], layer[t.L_STRIDE_X], layer[t.L_WIDTH]
    units, counts = layer[t.L_UNITS], layer[t.L_COUNTS]
    if kw > c[t.C_BLOCK_IN]:
        return NO_WINDOW, kw, c[t.C_BLOCK_IN]
    vectors = layer[t.L_VECTORS]
    columns = min(stride, kw)
    steps = width + -(-max(0, kw - stride) // stride)
    most = tallest_strip(units, width, kw, layer[t.L_STRIDE_Y], stride, c)
    if most < 1:
        return NO_ACC_ROW, steps * c[t.C_OUT_UNITS], c[t.C_ACC_BANK]
    row_units = units * (width + layer[t.L_STRIDE_Y] * stride * width)
    most = most if layer[t.L_MOST] == 1 else 1
    shape = (kh, kw, columns, layer[t.L_STRIDE_Y])
    rows, mode = strip_form(layer[t.L_HEIGHT], *shape, most, c[t.C_BLOCK_IN], c[t.C_EMITS], layer[t.L_FRAME] == 1)
    pushes, entries, late = strip_cost(*shape, rows, c[t.C_BLOCK_IN], mode)
    passes = passes_of(*shape, rows, c[t.C_BLOCK_IN], mode)
    splits = passes * layer[t.L_PARTS]
    last, less = last_rows(layer[t.L_HEIGHT], *shape, rows, c[t.C_BLOCK_IN], mode), 0
    if last:
        alone, more, _ = strip_cost(*shape, last, c[t.C_BLOCK_IN], mode)
        less = (pushes - alone) * steps
        if less * LAST_WORTH * c[t.C_BEAT] >= more * c[t.C_WGT_BYTES]:
            entries += more
        else:
            less = 0
    entries *= layer[t.L_PARTS]
    room = c[t.C_ACC_BANK] // (rows * c[t.C_OUT_UNITS]) // steps
    if counts > c[t.C_PRM]:
        return NO_PRM, counts, c[t.C_PRM]
    limit = vectors if layer[t.L_UNIFORM] else max(1, c[t.C_PRM] // (4 * counts))
    per_vector = 0 if layer[t.L_SHARED] else c[t.C_OUT_UNITS] * entries
    if per_vector:
        limit = max(1, min(limit, c[t.C_WGT] // 2 // per_vector))
    node[t.N_VECTORS], node[t.N_ROOM], node[t.N_PIECES] = vectors, room, pieces_of(vectors, limit)
    _group_rows(node, per_vector, row_units, layer[t.L_HEIGHT] * row_units, c)
    node[t.N_MODE] = mode
    node[t.N_ROWS], node[t.N_OPEN] = rows, max(min(rows, node[t.N_HEIGHT]), node[t.N_OPEN])
    node[t.N_WGT_EACH], node[t.N_WGT_FIXED] = per_vector, entries if layer[t.L_SHARED] else 0
    if layer[t.L_UNIFORM]:
        node[t.N_PRM_FIXED] = counts
    else:
        node[t.N_PRM_EACH] = counts
    node[t.N_UOPS] = pushes * layer[t.L_PARTS] * c[t.C_UOP_BYTES]
    node[t.N_GEMM_EACH] = steps * pushes * -(-layer[t.L_BLOCKS] // vectors)
    node[t.N_GEMM_FIXED] = late * layer[t.L_PARTS]
    node[t.N_LAST], node[t.N_LESS] = last if less else 0, less * -(-layer[t.L_BLOCKS] // vectors)
    node[t.N_OUT_EACH], node[t.N_INSTRUCTIONS] = width, splits
    return FITS, 0, 0


@compiled
def _global(layer: Any, c: Any, node: Any) -> tuple[int, int, int]:
    vectors, blocks = layer[t.L_VECTORS], max(c[t.C_IN_UNITS], c[t.C_OUT_UNITS])
    units = vectors * c[t.C_OUT_UNITS]
    prm = 1 if layer[t.L_UNIFORM] else vectors
    if prm > c[t.C_PRM]:
        return NO_PRM, prm, c[t.C_PRM]
    if units > c[t.C_ACC_BANK]:
        return NO_ACC_PIXEL, units, c[t.C_ACC_BANK]
    if blocks > c[t.C_WGT]:
        return NO_WEIGHTS, blocks, c[t.C_WGT]
    kh, kw = layer[t.L_KH], layer[t.L_KW]
    node[t.N_VECTORS], node[t.N_ROOM], node[t.N_PIECES] = 1, 1, 1
    node[t.N_WGT_FIXED], node[t.N_PRM_FIXED] = blocks, prm
    node[t.N_UOPS] = kw * c[t.C_OUT_UNITS] * c[t.C_UOP_BYTES] * min(2, kh)
    node[t.N_GEMM_EACH], node[t.N_OUT_EACH], node[t.N_INSTRUCTIONS] = kh * kw * units, vectors, kh
    return FITS, 0, 0


@compiled
def _elementwise(layer: Any, c: Any, node: Any) -> tuple[int, int, int]:
    """Cut by columns instead of vectors."""
    vectors = layer[t.L_VECTORS]
    units = vectors * c[t.C_OUT_UNITS]
    prm = layer[t.L_SCALES] + (1 if layer[t.L_UNIFORM] else vectors)
    if prm > c[t.C_PRM]:
        return NO_PRM, prm, c[t.C_PRM]
    columns = (c[t.C_ACC_BANK] // units - layer[t.L_FRAME]) // layer[t.L_PARTS]
    if columns < 1:
        return NO_ACC_PIXEL, units * (layer[t.L_FRAME] + layer[t.L_PARTS]), c[t.C_ACC_BANK]
    node[t.N_VECTORS], node[t.N_ROOM], node[t.N_PIECES] = layer[t.L_WIDTH], columns, 1
    node[t.N_PRM_FIXED] = prm
    node[t.N_TERMS_EACH], node[t.N_OUT_EACH] = vectors * layer[t.L_TERMS], vectors
    node[t.N_INSTRUCTIONS] = layer[t.L_TERMS]
    return FITS, 0, 0


_WHY = {
    NO_ACC_ROW: ("acc", "a row of {width} outputs needs {needed} acc units, a bank has {there}; raise acc_bytes or "
                 "lower acc_banks"),
    NO_WEIGHTS: ("wgt", "{needed} weight blocks for one output block exceed wgt ({there}); raise wgt_bytes"),
    NO_PRM: ("prm", "{needed} prm entries exceed {there}; raise prm_entries"),
    NO_WINDOW: ("window", "kernel width {needed} exceeds the window of BLOCK_IN = {there} taps; raise block_in"),
    NO_ACC_PIXEL: ("acc", "{needed} units a pixel exceed an acc bank of {there}; raise acc_bytes or lower acc_banks"),
}  # fmt: skip


def cut(network: NetworkTables, c: Table) -> Table | Refusal:
    """The cut layers of a network on a Config (:func:`~tilewright.jit.plan.tables.config_table`)."""
    nodes = np.empty((len(network.layers), t.N_THERE + 1), np.int64)
    number = cut_layers(network.layers, c, nodes)
    if number < 0:
        return nodes
    code, needed, there = (int(v) for v in nodes[number, t.N_CODE :])
    memory, why = _WHY[code]
    width = int(network.layers[number, t.L_WIDTH])
    return Refusal(network.names[number], memory, needed, there, why.format(width=width, needed=needed, there=there))
