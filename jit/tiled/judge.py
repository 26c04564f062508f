"""What one cut of a layer costs, on its shape alone: memories first, then bus and array cycles by a coarse count.

Compiled: a layer has thousands of cuts. What a layer is comes as a row of numbers (:class:`Layer` names the columns)
and the table of which blocks its vectors read; what the machine is as the row of :func:`machine`.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.spec import LOOP_BITS, instruction_width
from tilewright.jit.tiled.native import compiled

#: cycles that a step costs beside its work: tokens, and the latency that nothing hides
_STEP = 12
_MOST_LOOPS = 1 << LOOP_BITS
_KINDS = 3
GEMM, WINDOW, ALU = range(_KINDS)  #: sums of whole blocks; window mode; ALU passes alone


class Layer(IntEnum):
    """Columns of a layer's row. For window mode the kernel's width is what an output needs with all before it."""

    KIND = 0
    HEIGHT = 1  #: of the output, as are ``WIDTH`` and ``VECTORS``
    WIDTH = 2
    VECTORS = 3
    OUT_UNITS = 4  #: units of a pixel of the output tensor
    KERNEL_Y = 5
    KERNEL_X = 6
    STRIDE_Y = 7
    STRIDE_X = 8
    DILATION_Y = 9
    DILATION_X = 10
    LEAD = 11  #: accumulators in front of each row of a tile, which are no pixels'
    MOST_ROWS = 12  #: kernel rows that one window holds
    STEP = 13  #: columns pushed per output
    SHARED = 14  #: whether all taps, or all units of a window, have the same weights
    FLAT = 15  #: whether pixels of a tile may be counted through its rows
    TERMS = 16  #: of an ALU layer, else 1
    ARRAY = 17  #: cycles of GEMM over the whole layer; counted here for window mode
    PRM_FIXED = 18  #: prm entries, whatever the cut
    PRM_EACH = 19  #: prm entries for each vector of a chunk
    PASSES = 20  #: passes of ALU over each output vector
    OPERANDS = 21  #: tensors that followers read beside
    SUMS = 22  #: accumulators of each output
    WHOLE = 23  #: whether the kernel cannot be cut
    BESIDE = 24  #: whether each block has weights alike for all vectors, beside their own


class LayerShape(NamedTuple):
    """What a layer is: its row; ``blocks`` (inputs, vectors, 3): first, behind the last, how many of the input's blocks
    a vector reads; ``units`` of a pixel of each input. All int64."""

    row: NDArray[np.int64]
    blocks: NDArray[np.int64]
    units: NDArray[np.int64]


class Machine(IntEnum):
    """Columns of a machine's row."""

    IN_UNITS = 0
    OUT_UNITS = 1
    ACT = 2
    ACT_BANK = 3
    ACC_BANK = 4
    PRM = 5
    WGT = 6
    WGT_ENTRY = 7  #: bytes
    UNIT = 8  #: bytes
    BEAT = 9  #: bytes
    LATENCY = 10
    OUTSTANDING = 11
    INSTRUCTION = 12  #: bytes
    PACKED = 13
    BURST = 14  #: beats


_L, _M = Layer, Machine


@lru_cache(maxsize=256)
def machine(config: Config, banks: tuple[int, int] | None = None) -> NDArray[np.int64]:
    """The numbers of a Config that decide, with these banks of act alone."""
    first, end = banks or (0, config.act_banks)
    row = np.zeros(len(Machine), np.int64)
    row[:] = (
        config.in_units, config.out_units, (end - first) * config.act_bank_units, config.act_bank_units,
        config.acc_bank_units, config.prm_entries, config.wgt_entries, config.wgt_entry_bytes, config.act_unit_bytes,
        config.beat_bytes, config.dram_latency, config.outstanding, instruction_width(config) // 8, config.dsp_packing,
        config.burst_beats,
    )  # fmt: skip
    return row


@compiled
def ceil_div(a: int, b: int) -> int:
    """``a / b``, rounded up."""
    return -(-a // b)


@compiled
def most_blocks(row: Any, blocks: Any) -> int:
    """Most neighbouring blocks of one input that a layer reads."""
    if row[_L.KIND] != GEMM:
        return 1
    most = 1
    for source in range(blocks.shape[0]):
        first, end = _span(blocks, source, 0, row[_L.VECTORS])
        most = max(most, end - first)
    return most


@compiled
def _span(blocks: Any, source: int, lo: int, hi: int) -> Any:
    """First block and the one behind the last that vectors [lo, hi) read of an input; equal if none."""
    first, end = 1 << 40, 0
    for vector in range(lo, hi):
        if blocks[source, vector, 2]:
            first, end = min(first, blocks[source, vector, 0]), max(end, blocks[source, vector, 1])
    return (first, end) if end else (0, 0)


@compiled
def judge_alone(row: Any, blocks: Any, units: Any, m: Any, cut: Any) -> Any:
    """What :func:`judge` returns, of a cut whose chunks are not known yet."""
    chunks = np.zeros(5, np.int64)
    chunk_sizes(row, blocks, units, m, cut[2], cut[3], chunks)
    return judge(row, m, cut, chunks)


@compiled
def chunk_sizes(row: Any, blocks: Any, units: Any, m: Any, vectors: int, limit: int, chunks: Any) -> None:
    """(most units of a patch's pixel, most weight blocks of a tap, parts of a chunk, all blocks, whole pixels)."""
    count = row[_L.VECTORS]
    ranges = ceil_div(count, vectors)
    chunks[:] = 0
    if row[_L.KIND] != GEMM:
        held = 0
        if row[_L.KIND] == WINDOW:
            held = 1 if row[_L.SHARED] else ceil_div(count, ranges) * m[_M.OUT_UNITS]
            chunks[3] = ranges if row[_L.SHARED] else count * m[_M.OUT_UNITS]
        chunks[0], chunks[1], chunks[2] = vectors * m[_M.OUT_UNITS], held, blocks.shape[0]
        chunks[4] = chunks[0] == units.max()
        return
    chunks[4] = 1
    for number in range(ranges):
        lo, hi = count * number // ranges, count * (number + 1) // ranges
        pieces = held = 0
        for source in range(blocks.shape[0]):
            first, end = _span(blocks, source, lo, hi)
            if first == end:
                continue
            cuts = ceil_div(end - first, limit)
            size = ceil_div(end - first, cuts)
            pieces += cuts
            chunks[0] = max(chunks[0], size * m[_M.IN_UNITS])
            if size * m[_M.IN_UNITS] != units[source]:
                chunks[4] = 0
            entries = row[_L.BESIDE] * size
            for vector in range(lo, hi):
                held += blocks[source, vector, 2]
                entries += min(blocks[source, vector, 2], size)
            chunks[1] = max(chunks[1], entries)
        chunks[2] = max(chunks[2], pieces)
        chunks[3] += held


@compiled
def _layout(patch: int, out: int, operands: int, m: Any) -> Any:
    """Where results and operands begin, units of a result's slot, and how many there is room for of each.

    Two of each are wanted, so that one is moved while the other is worked on; and no bank with two readers or two
    writers: followers read results and operands while STORE reads results and LOAD writes operands. First comes what
    costs least. With no room at all the first number is -1.
    """
    act, bank, align = m[_M.ACT], m[_M.ACT_BANK], max(m[_M.IN_UNITS], m[_M.OUT_UNITS])
    for choice in range(16):
        patches, packed = 2 - choice // 8, choice % 8 >= 4
        outs, others = 2 - choice % 4 // 2, 2 - choice % 2
        if not operands and (others == 1 or not packed):
            continue  # results alone may share banks: ALU writes them, STORE reads them
        slot = out if packed else ceil_div(out, bank) * bank
        beside = others * operands * out
        middle = act - (beside if packed else ceil_div(beside, bank) * bank)
        split = middle - outs * slot
        if split // bank * bank >= patches * patch:
            return split // bank * bank, middle, slot, patches, outs, others, packed
        if packed and split // align * align >= patches * patch:
            return split // align * align, middle, slot, patches, outs, others, packed
    return -1, 0, 0, 0, 0, 0, True


@compiled
def _row_cycles(row: Any, m: Any, columns: int, kernel_rows: int) -> int:
    """Cycles of GEMM in window mode for a row of a tile, one unit, all kernel rows in pieces of ``kernel_rows``."""
    count = row[_L.KERNEL_Y]
    parts = ceil_div(count, max(1, kernel_rows))
    pushes = 0
    for part in range(parts):
        rows = count * (part + 1) // parts - count * part // parts
        paced = m[_M.PACKED] and rows * row[_L.STEP] < 2
        pushes += rows * row[_L.STEP] * (2 if paced else 1)
    return (columns + row[_L.LEAD]) * pushes


@compiled
def _pace(m: Any) -> float:
    """Cycles of the bus for a beat of a long transfer: more than one where bursts cannot cover their latency."""
    return max(1.0, (m[_M.LATENCY] + m[_M.BURST]) / (m[_M.OUTSTANDING] * m[_M.BURST]))


@compiled
def weights_of_step(row: Any, m: Any, cut: Any, entries: int) -> int:
    """Entries of wgt that a step of a cut multiplies by; ``entries``: the most blocks of a tap."""
    if row[_L.KIND] == GEMM and row[_L.SHARED]:
        return min(entries, max(m[_M.IN_UNITS], m[_M.OUT_UNITS]))
    return entries * (1 if row[_L.KIND] == WINDOW else cut[4] * cut[5])


@compiled
def edges(row: Any, blocks: Any, units: Any, m: Any, cut: Any, gemm: float) -> tuple[float, float]:
    """What no other work covers of a cut, of whose cycles ``gemm`` are GEMM's, alone in a program.

    First the cycles that GEMM waits for the weights of its first tile, 0 where :func:`judge` has counted them: it works
    with what has come, and from then on weights are there, or come beside the work of other tiles. Second the cycles of
    GEMM behind the last that the bus brings.
    """
    chunks = np.zeros(5, np.int64)
    chunk_sizes(row, blocks, units, m, cut[2], cut[3], chunks)
    step = weights_of_step(row, m, cut, chunks[1])
    passes = ceil_div(row[_L.VECTORS], cut[2])
    weights, pieces, work = step * chunks[2], cut[2] * chunks[2], gemm / passes
    if cut[6] and passes * weights <= m[_M.WGT]:  # all chunks go over the first tile before the next one comes
        weights, pieces, work = passes * weights, passes * pieces, gemm
    tiles = ceil_div(row[_L.HEIGHT], cut[0]) * ceil_div(row[_L.WIDTH], cut[1])
    load = weights * m[_M.WGT_ENTRY] / m[_M.BEAT] * _pace(m)
    late = max(load / pieces, load - work / tiles * (pieces - 1) / pieces) if 2 * step <= m[_M.WGT] else 0.0
    behind = gemm / (
        tiles * passes
    )  # the last patch comes last, but for the weights of a chunk that goes over all tiles
    if tiles == 1:
        behind = work / pieces
    elif passes > 1 and not cut[6]:
        behind = work
    return late, behind


@compiled
def judge(row: Any, m: Any, cut: Any, chunks: Any) -> Any:
    """Cycles of a cut (-1 if it does not fit), where act is split, a slot's units, cycles of GEMM, ALU and bus."""
    cut_rows, cut_columns, cut_vectors, kernel_rows, kernel_columns = cut[0], cut[1], cut[2], cut[4], cut[5]
    tiles_first = cut[6] != 0
    units, entries, parts, total, whole = chunks[0], chunks[1], chunks[2], chunks[3], chunks[4] != 0
    kind, height, width, vectors = row[_L.KIND], row[_L.HEIGHT], row[_L.WIDTH], row[_L.VECTORS]
    result = cut_vectors * m[_M.OUT_UNITS]
    columns_of_acc, sums = cut_columns + row[_L.LEAD], result * row[_L.SUMS]
    if kind == WINDOW:
        kernel_rows = min(kernel_rows, row[_L.MOST_ROWS])
        if columns_of_acc > _MOST_LOOPS:
            return -1.0, 0, 0, 0, 0, 0, 0.0
    if row[_L.WHOLE] and (kernel_rows < row[_L.KERNEL_Y] or kernel_columns < row[_L.KERNEL_X]):
        return -1.0, 0, 0, 0, 0, 0, 0.0
    kernel_parts = ceil_div(row[_L.KERNEL_Y], kernel_rows) * ceil_div(row[_L.KERNEL_X], kernel_columns)
    parts *= kernel_parts
    flat = row[_L.FLAT] != 0
    # acc: a row of the tile, or where pieces add up all of it
    if (1 if flat and parts == 1 else columns_of_acc) * sums > m[_M.ACC_BANK]:
        return -1.0, 0, 0, 0, 0, 0, 0.0
    if parts > 1 and cut_rows * columns_of_acc * sums > m[_M.ACC_BANK]:
        return -1.0, 0, 0, 0, 0, 0, 0.0
    if row[_L.PRM_FIXED] + row[_L.PRM_EACH] * cut_vectors > m[_M.PRM]:
        return -1.0, 0, 0, 0, 0, 0, 0.0
    shared = kind == GEMM and row[_L.SHARED] != 0
    align = max(m[_M.IN_UNITS], m[_M.OUT_UNITS])
    taps = 1 if shared or kind == WINDOW else kernel_rows * kernel_columns
    weights = weights_of_step(row, m, cut, entries)
    if weights > m[_M.WGT]:
        return -1.0, 0, 0, 0, 0, 0, 0.0
    rows = (cut_rows - 1) * (row[_L.STRIDE_Y] if kernel_rows > 1 else 1) + (kernel_rows - 1) * row[_L.DILATION_Y] + 1
    columns = (cut_columns - 1) * (row[_L.STRIDE_X] if kernel_columns > 1 else 1)
    columns += (kernel_columns - 1) * row[_L.DILATION_X] + 1
    patch = ceil_div(rows * columns * units, align) * align
    out = ceil_div(cut_rows * cut_columns * result, align) * align
    operands = row[_L.OPERANDS]
    split, middle, slot, patches, outs, others, packed = _layout(patch, out, operands, m)
    if split < 0:
        return -1.0, 0, 0, 0, 0, 0, 0.0

    tiles = ceil_div(height, cut_rows) * ceil_div(width, cut_columns)
    passes_of_chunks = ceil_div(vectors, cut_vectors)
    passes = tiles * passes_of_chunks
    beats = m[_M.UNIT] // m[_M.BEAT]
    per_channel = kind != GEMM or passes_of_chunks == 1
    held = parts if tiles_first else tiles * parts
    again = per_channel or held * patch > split
    loaded = passes * parts if again else tiles * parts
    burst, pace = m[_M.LATENCY] / m[_M.OUTSTANDING], _pace(m)
    line = max(columns * units * beats * pace, burst) if whole else columns * max(units * beats * pace, burst)
    moved = float(loaded * rows * line)
    everything = total * taps * (1 if shared else kernel_parts)
    times = 1
    if everything > m[_M.WGT] and passes_of_chunks * parts > 1 and (tiles_first or parts > 1):
        times = tiles
    streamed = times * everything * m[_M.WGT_ENTRY] / m[_M.BEAT] * pace
    full = result == row[_L.OUT_UNITS]
    written = float(height * width * vectors * m[_M.OUT_UNITS] * beats) * pace
    if not full:
        written = height * width * passes_of_chunks * max(result * beats * pace, burst)
    lines = 1.0
    if kind == WINDOW:
        lines = min(cut_rows, result) * (1 + 1 / parts)
    elif kind == GEMM and not flat:
        lines = min(cut_rows, cut_vectors)
    moves = (1 if whole else rows) + (1 + operands) * (1 if full else cut_rows) / parts
    issued = passes * parts * (lines * row[_L.TERMS] / parts + moves + 2)
    bus = moved + streamed + operands * written + issued * m[_M.INSTRUCTION] / m[_M.BEAT]
    gemm, alu = row[_L.ARRAY], height * width * vectors * row[_L.PASSES]
    if kind == WINDOW:
        across = ceil_div(width, cut_columns)
        line_cycles = 0
        for part in range(across):
            line_cycles += _row_cycles(row, m, width * (part + 1) // across - width * part // across, kernel_rows)
        gemm = height * vectors * m[_M.OUT_UNITS] * line_cycles

    # each engine with what it must wait for in between
    array, passed = float(gemm), float(alu + passes * _STEP)
    worker = passed if kind == ALU else array
    if patches == 1:
        worker += moved + loaded * m[_M.LATENCY]
    if split % m[_M.ACT_BANK] > 0:
        worker += written
    chunk, beats_of_entry = weights * parts, m[_M.WGT_ENTRY] / m[_M.BEAT] * pace
    if everything > m[_M.WGT] and tiles > 1 and not tiles_first and chunk <= m[_M.WGT]:
        # a chunk's weights stay for all its tiles: those of the next come beside them, or while its last tile works
        late = (2 * chunk - m[_M.WGT]) * beats_of_entry - gemm / passes
        worker += passes_of_chunks * max(0.0, late)
    elif everything > m[_M.WGT] and 2 * weights > m[_M.WGT]:
        worker += streamed + passes * parts * m[_M.LATENCY]
    passed, array = (worker, array) if kind == ALU else (passed, worker)
    if outs == 1 or (operands and packed):
        passed += written + passes * m[_M.LATENCY]
    if operands and (others == 1 or packed):
        passed += operands * written + passes * m[_M.LATENCY]
    work = max(max(bus, written), max(array, passed))
    # the first tile is loaded before anything else, its weights too if they leave none room; the last one is stored
    ends = moved / loaded + (alu + written) / passes
    if 2 * weights > m[_M.WGT]:
        ends += weights * beats_of_entry
    return work + passes * parts * _STEP + ends, split, middle, slot, gemm, alu, bus
