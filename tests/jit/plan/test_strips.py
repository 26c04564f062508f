"""Strips against a window that is pushed pixel by pixel."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.execute import assert_exact
from tilewright.config import PRESETS
from tilewright.jit.lower.lowering import lower
from tilewright.jit.plan import strips
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.planner import Plan, Planner

STEPS = 8
SHAPES = [(3, 3), (5, 5), (2, 2), (1, 5), (7, 1), (3, 1), (4, 6)]  #: kernels
Pixel = tuple[int, int]  #: column, row


def pushes(kernel: int, columns: int, stride: int, rows: int, mode: int) -> list[Pixel]:
    """What one pass pushes in ``STEPS`` steps; of two rows the first."""
    height, slots = strips.column_rows(rows, kernel, stride), strips.step_slots(kernel, columns, stride, rows, mode)
    each = 1 + strips.is_twin(mode)
    step = [(column, row) for column in range(columns) for row in range(0, height, each)]
    step += step[-1:] * (slots - len(step))
    if mode == strips.TWINS_APART:  # in an order of its own
        found = [strips.pushed(slot, kernel, columns, stride, rows, mode) for slot in range(slots)]
        assert set(found) == set(step)
        step = found
    return [(number * columns + column, row) for number in range(STEPS) for column, row in step]


@pytest.mark.parametrize("mode", range(5))
@pytest.mark.parametrize("block_in", [8, 16, 32])
def test_every_tap_is_the_pixel_that_its_row_reads(mode: int, block_in: int) -> None:
    tried = 0
    for (height, width), stride, rows in product(SHAPES, (1, 2), range(1, strips.MOST_ROWS + 1)):
        columns = min(stride, width)
        apart = (height, width, stride) == (3, 3, 2)
        passes = strips.passes_of(height, width, columns, stride, rows, block_in, mode)
        if not passes or (strips.in_pairs(rows, mode) and rows % 2) or (mode == strips.TWINS_APART and not apart):
            continue
        kernel = -(-height // passes)
        sequence = pushes(kernel, columns, stride, rows, mode)
        slots = len(sequence) // STEPS
        emits = sorted({strips.emit_slot(row, kernel, columns, stride, rows, mode) for row in range(rows)})
        assert len(emits) == (rows // 2 if strips.in_pairs(rows, mode) else rows)
        assert emits[0] >= 0
        assert emits[-1] < slots
        if mode != strips.PLAIN and not strips.paced(kernel, columns, rows, mode):
            assert all(b - a >= 2 for a, b in pairwise([*emits, emits[0] + slots]))
        for row, ky, kx in product(range(rows), range(kernel), range(width)):
            slot = strips.emit_slot(row, kernel, columns, stride, rows, mode)
            back, at = width - 1 - kx, row * stride + ky
            tap = strips.tap(slot, back, at, kernel, columns, stride, rows, block_in, mode)
            assert 0 <= tap < block_in
            now = (STEPS - 1) * slots + slot
            newest = STEPS * columns - 1
            second = 0  # of two rows, whose halves of the window move alike
            if strips.is_twin(mode):
                second, tap = divmod(tap, block_in // 2)
            column, first = sequence[now - tap]
            assert (column, first + second) == (newest - back, at)
            tried += 1
    assert (
        tried == 18 * (block_in >= 16) if mode == strips.TWINS_APART else tried > (100 if mode < strips.TWINS else 10)
    )


@pytest.mark.parametrize("height,stride,mode", [(25, 1, strips.TWINS), (7, 2, strips.TWINS_APART), (1, 1, None)])
@pytest.mark.parametrize("block", [16, 32])
def test_rows_lie_in_twos_where_that_takes_fewer_cycles(
    height: int, stride: int, mode: int | None, block: int
) -> None:  # fmt: skip
    """A tensor that nobody else reads, of an odd number of rows too."""
    b = GraphBuilder(height + stride, (height * stride, 9, 20))
    x = b.depthwise(
        b.conv("x", 40, (1, 1), padding=(0, 0, 0, 0)), strides=(stride, stride), padding=(2 - stride, 1, 1, 1)
    )
    graph, config = b.graph(x), PRESETS["pynq-z2"].replace(name="odd", block_in=block)
    lowered = lower(graph, config)
    plan = Planner(lowered.tables, config).whole()
    assert isinstance(plan, Plan)
    lowered.bind(plan)
    (buffer,) = (lowered.buffers[name] for name in lowered.nodes[1].inputs)
    twins = mode is not None and block == config.block_out
    assert buffer.step == 1 + twins
    assert buffer.capacity % buffer.step == buffer.rows % buffer.step == 0
    assert not twins or plan.nodes[1, t.N_MODE] == mode
    assert_exact(graph, config)


def test_the_cycles_of_a_3x3_kernel() -> None:
    """Three pushes an output row by row; 1.5 in strips of four, whose pairs take what packed emits leave."""
    for mode, rows, cycles in [(strips.PLAIN, 4, 6), (strips.PACKED, 2, 5), (strips.PAIRED, 4, 6)]:
        assert strips.strip_rows(48, 3, 3, 1, 1, strips.MOST_ROWS, 16, mode) == rows
        assert strips.strip_cost(3, 3, 1, 1, rows, 16, mode)[0] == cycles
    assert strips.strip_cost(3, 3, 1, 1, 1, 16, strips.PACKED)[0] == 3


def test_the_cycles_of_rows_in_twos() -> None:
    """One an output; at stride 2 seven pushes for two, instead of ten."""
    for stride, cycles, alone in [(1, 2, 4), (2, 7, 10)]:
        mode = strips.twin_mode(3, 3, stride, stride, 16)
        assert strips.strip_cost(3, 3, stride, stride, 2, 16, mode)[0] == cycles
        assert strips.strip_cost(3, 3, stride, stride, 2, 16, strips.PAIRED)[0] == alone
    assert strips.twin_mode(5, 5, 1, 1, 16) < 0


def test_the_fewest_pushes_are_no_more_than_those_of_a_strip() -> None:
    for height, kernel, stride, mode in product((1, 5, 14, 25), (1, 3, 5), (1, 2), range(3)):
        columns = min(stride, 3)
        least = strips.least_pushes(height, kernel, 3, columns, stride, strips.MOST_ROWS, 16, mode)
        rows = strips.strip_rows(height, kernel, 3, columns, stride, strips.MOST_ROWS, 16, mode)
        taken = strips.strips_cycles(height, kernel, 3, columns, stride, rows, 16, mode)
        step = strips.strip_cost(kernel, 3, columns, stride, rows, 16, mode)[0]
        assert 0 < least * columns <= taken <= -(-height // rows) * step


@pytest.mark.parametrize(
    "height,stride,rows,last", [(25, 1, 4, 1), (14, 1, 4, 2), (7, 1, 4, 0), (7, 2, 2, 1), (3, 1, 4, 0)]
)
@pytest.mark.parametrize("channels", [20, 64])
def test_a_shorter_last_strip_has_weights_of_its_own(
    height: int, stride: int, rows: int, last: int, channels: int
) -> None:
    """It pushes what its own rows read, in a program that computes every element. Of two readers: rows lie alone."""
    b = GraphBuilder(height + channels, (height * stride, 9, channels))
    y, z = (b.depthwise("x", strides=(stride, stride), padding=(int(stride == 1), 1, 1, 1)) for _ in range(2))
    graph = b.graph(b.add(y, z))
    config = PRESETS["pynq-z2"]
    lowered = lower(graph, config)
    plan = Planner(lowered.tables, config).whole()
    assert isinstance(plan, Plan)
    lowered.bind(plan)
    node, numbers = lowered.nodes[0], plan.nodes[0].tolist()
    assert (numbers[t.N_ROWS], numbers[t.N_LAST]) == (rows, last)
    first, final = (
        sum(node.gemm_cycles(task) for task in node.tasks if task.row == row) for row in (0, node.tasks[-1].row)
    )
    assert first - final == numbers[t.N_LESS] * numbers[t.N_VECTORS]
    assert (final < first) == (last > 0)
    assert_exact(graph, config)
