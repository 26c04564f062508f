"""Networks and Configs as integer tables, the form in which compiled loops take them. Columns are named here once.

A network's tables are read off its lowered nodes (:mod:`tilewright.jit.plan.network`): extents in units and vectors,
free of constants and of the sizes of memories.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.spec import Engine, instruction_width, uop_width
from tilewright.jit.plan.native import compiled
from tilewright.jit.plan.strips import MOST_ROWS, emit_mode

Table = NDArray[np.int64]
CONV, WINDOW, GLOBAL, ELEMENTWISE = range(4)

# a layer (a lowered node): its extents, the tensor it writes, and its edges in the table of edges. Blocks of weights
# that are computed, zeros left out: the most of a vector, and of all; in window mode the distance of kernel rows, and
# units times parts, and as its frame whether the rows that it reads may lie in twos. A transposed convolution has its
# phases of columns as parts, which share its width and are units of it, and those of rows as counts. Sums that leave
# acc in several planes have those beside the first as terms. Vectors are those with a channel, units all of a pixel
(L_KIND, L_HEIGHT, L_WIDTH, L_UNITS, L_KH, L_KW, L_IN_UNITS, L_IN_WIDTH, L_FRAME, L_STRIDE_Y, L_STRIDE_X, L_PARTS,
 L_TERMS, L_SCALES, L_UNIFORM, L_SHARED, L_COUNTS, L_MOST, L_BLOCKS, L_VECTORS, L_OUTPUT, L_EDGE,
 L_EDGES) = range(23)  # fmt: skip
# an edge: a layer's reading of a tensor; output row r reads ``span`` rows from ``r * stride + offset`` on, of which
# every n-th is one of the tensor's (:func:`first_read`, :func:`last_read`)
E_LAYER, E_TENSOR, E_STRIDE, E_OFFSET, E_SPAN, E_TOP, E_LEFT, E_BOTTOM, E_RIGHT, E_EVERY = range(10)
# a tensor; its makers stand together in the list of makers
T_HEIGHT, T_WIDTH, T_UNITS, T_OUTPUT, T_MAKE, T_MAKES = range(6)
# a layer as it is cut on a Config (:mod:`tilewright.jit.plan.cut`). prm and wgt entries of a chunk of n vectors:
# *_EACH n + *_FIXED; cycles of a task, ``N_ROWS`` output rows, likewise for the array, of one row for ALU; ``N_LAST``
# rows of a last strip that has weights of its own, or 0, which take ``N_LESS`` cycles of the array less for each
# vector; ``N_MODE``: how rows are emitted in window mode (:mod:`tilewright.jit.plan.strips`)
(N_HEIGHT, N_GEMM, N_VECTORS, N_PIECES, N_ROOM, N_GROUPS, N_WGT_EACH, N_WGT_FIXED, N_PRM_EACH, N_PRM_FIXED, N_UOPS,
 N_GEMM_EACH, N_GEMM_FIXED, N_TERMS_EACH, N_OUT_EACH, N_INSTRUCTIONS, N_ROWS, N_LAST, N_LESS, N_OPEN, N_MODE,
 N_CODE, N_NEEDED, N_THERE) = range(24)  # fmt: skip
# a Config
(C_IN_UNITS, C_OUT_UNITS, C_BLOCK_IN, C_ACT, C_ACT_BYTES, C_WGT, C_WGT_BYTES, C_PRM, C_PRM_BYTES, C_ACC_BANK,
 C_ACC_BANKS, C_BEAT, C_BURST, C_LATENCY, C_OUTSTANDING, C_EMITS,
 C_UOP_BYTES, C_INSTRUCTION, C_STRIP, C_ROW, C_ACT_BANK) = range(21)  # fmt: skip

LONGEST = 16  #: layers of one group


@compiled
def first_read(edge: Any, row: int) -> int:
    """The first row that output row ``row`` reads by an edge."""
    return -(-(row * edge[E_STRIDE] + edge[E_OFFSET]) // edge[E_EVERY])


@compiled
def last_read(edge: Any, row: int) -> int:
    """The last row that output row ``row`` reads by an edge."""
    return (row * edge[E_STRIDE] + edge[E_OFFSET] + edge[E_SPAN] - 1) // edge[E_EVERY]


def config_table(config: Config, strip: int = MOST_ROWS) -> Table:
    """What planning needs of a Config; strips have at most ``strip`` rows."""
    return np.array(
        (config.in_units, config.out_units, config.block_in, config.act_units, config.act_unit_bytes,
         config.wgt_entries, config.wgt_entry_bytes, config.prm_entries, config.prm_entry_bytes, config.acc_bank_units,
         config.acc_banks, config.beat_bytes, config.burst_beats, config.dram_latency, config.outstanding,
         emit_mode(config), uop_width(config, Engine.GEMM) // 8, instruction_width(config) // 8, strip,
         config.act_row_units, config.act_bank_units),
        np.int64,
    )  # fmt: skip
