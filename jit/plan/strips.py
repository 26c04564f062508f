"""Strips: output rows that one window instruction computes together, so that they share the rows that they read.

A step pushes the columns that one more output of each row needs, every column from its top row to its bottom row. A
strip of H rows pushes (H - 1) x stride + kernel rows a column instead of H x kernel rows, and emits H times: each
output's taps lie somewhere in the window, and the weights lie there too. What a window of BLOCK_IN taps has no room
for goes in several passes over kernel rows that add up.

Where the rows are no whole number of strips, the last one pushes less, and has weights of its own where that is worth
the bus' time.

On plain multipliers an emit takes a cycle. On packed ones it takes two; with ``pair``, for which neighbouring rows are
emitted together, these give two rows. Slots are pushes, counted within a step.

Where the input's rows lie in twos, a push (``twin``) takes a pixel of each of two rows, and strips have two rows. With
a stride of 1 they are a pair. With a stride of 2 a 3x3 kernel's five rows of two columns come in six pushes; each half
of the window is too short for that and for two emits at a distance, unless one of them comes again (``_AGAIN``).
"""

from __future__ import annotations

from tilewright.config import Config
from tilewright.jit.plan.native import compiled

MOST_ROWS = 8  #: of a strip
#: how rows are emitted; pairs lie side by side in acc, where a vector is one unit; of twins those of one row do not
PLAIN, PACKED, PAIRED, TWINS, TWINS_APART = range(5)
#: of a step of twins apart: the column of each slot, and the first of its two rows; and where its rows are emitted
_AGAIN = ((0, 0), (0, 2), (1, 2), (1, 0), (0, 4), (1, 4), (1, 2))
_AGAIN_EMITS = (3, 5)


def emit_mode(config: Config) -> int:
    """How a Config's strips are emitted."""
    return (PAIRED if config.out_units == 1 else PACKED) if config.dsp_packing else PLAIN


def has_twins(config: Config) -> bool:
    """Whether layers may push two rows at once: rows in twos have vectors of one unit, and a read of act brings two."""
    return config.act_row_units == 2 and config.in_units == config.out_units == 1


@compiled
def twin_mode(kernel: int, width: int, columns: int, stride: int, block_in: int) -> int:
    """How strips of two rows are emitted where pushes take two rows; -1 if the window has no room for them."""
    mode = TWINS_APART if (kernel, width, columns, stride) == (3, 3, 2, 2) else TWINS
    return mode if passes_of(kernel, width, columns, stride, 2, block_in, mode) else -1


@compiled
def is_twin(mode: int) -> bool:
    """Whether a push takes two rows."""
    return mode >= TWINS


@compiled
def in_pairs(rows: int, mode: int) -> bool:
    """Whether a strip of so many rows is emitted in pairs."""
    return mode in (PAIRED, TWINS) and rows > 1


@compiled
def column_rows(rows: int, kernel: int, stride: int) -> int:
    """Rows of a column: what ``rows`` output rows read of it with ``kernel`` kernel rows."""
    return (rows - 1) * stride + kernel


@compiled
def _column_pushes(kernel: int, stride: int, rows: int, mode: int) -> int:
    height = column_rows(rows, kernel, stride)
    return (height + 1) // 2 if is_twin(mode) else height


@compiled
def pushed(slot: int, kernel: int, columns: int, stride: int, rows: int, mode: int) -> tuple[int, int]:
    """What a slot pushes: the column, and the row or the first of two; slots that are left push the last one again."""
    if mode == TWINS_APART:
        return _AGAIN[slot]
    pushes = _column_pushes(kernel, stride, rows, mode)
    slot = min(slot, columns * pushes - 1)
    return slot // pushes, slot % pushes * (2 if is_twin(mode) else 1)


@compiled
def emit_slot(row: int, kernel: int, columns: int, stride: int, rows: int, mode: int) -> int:
    """The slot in which a row of a strip is emitted: when what it reads is pushed, or when the multipliers are free."""
    if mode == TWINS_APART:
        return _AGAIN_EMITS[row]
    if mode == TWINS:
        return columns * _column_pushes(kernel, stride, rows, mode) - 1
    ready = (columns - 1) * column_rows(rows, kernel, stride) + kernel - 1
    if in_pairs(rows, mode):
        return ready + (row // 2 * 2 + 1) * stride
    return ready + row * max(stride, 1 + (mode != PLAIN))


@compiled
def step_slots(kernel: int, columns: int, stride: int, rows: int, mode: int) -> int:
    """Slots of a step: its pushes, and some more where emits would come too close."""
    if mode == TWINS_APART:
        return len(_AGAIN)
    first = emit_slot(0, kernel, columns, stride, rows, mode)
    last = emit_slot(rows - 1, kernel, columns, stride, rows, mode)
    slots = max(columns * _column_pushes(kernel, stride, rows, mode), last + 1)
    return slots if rows == 1 else max(slots, last - first + 1 + (mode != PLAIN))


@compiled
def paced(kernel: int, columns: int, rows: int, mode: int) -> bool:
    """Whether every slot takes two cycles, because each one emits."""
    return mode != PLAIN and rows == 1 and kernel * columns == 1


@compiled
def tap(
    slot: int, back: int, row: int, kernel: int, columns: int, stride: int, rows: int, block_in: int, mode: int
) -> int:  # fmt: skip
    """Where in the window a pixel lies when ``slot`` emits: ``back`` columns before the newest, row ``row`` of it; not
    below ``block_in`` if it has left."""
    step, column = (columns - 1 - back) // columns, (columns - 1 - back) % columns
    if is_twin(mode):  # its latest push; the two rows of a push lie in the two halves
        slots = step_slots(kernel, columns, stride, rows, mode)
        for t in range(block_in // 2):
            then, place = (slot - t) // slots, (slot - t) % slots
            if then == step and pushed(place, kernel, columns, stride, rows, mode) == (column, row - row % 2):
                return t + row % 2 * (block_in // 2)
        return block_in
    at = step * step_slots(kernel, columns, stride, rows, mode) + row
    return slot - at - column * column_rows(rows, kernel, stride)


@compiled
def _fits(kernel: int, width: int, columns: int, stride: int, rows: int, block_in: int, mode: int) -> bool:
    for row in range(rows):
        slot = emit_slot(row, kernel, columns, stride, rows, mode)
        if tap(slot, width - 1, row * stride, kernel, columns, stride, rows, block_in, mode) >= block_in:
            return False
        for ky in range(kernel if is_twin(mode) else 0):
            for back in range(width):
                if tap(slot, back, row * stride + ky, kernel, columns, stride, rows, block_in, mode) >= block_in:
                    return False
    return True


@compiled
def passes_of(kernel: int, width: int, columns: int, stride: int, rows: int, block_in: int, mode: int) -> int:
    """Passes over the kernel's rows; 0 if a strip of so many rows has no room in the window."""
    if is_twin(mode):  # of later passes the first row might be the second of two
        alike = rows == 2 and stride == (2 if mode == TWINS_APART else 1)
        return int(alike and _fits(kernel, width, columns, stride, rows, block_in, mode))
    for passes in range(1, kernel + 1):
        if _fits(-(-kernel // passes), width, columns, stride, rows, block_in, mode):
            return passes
    return 0


@compiled
def strip_cost(
    kernel: int, width: int, columns: int, stride: int, rows: int, block_in: int, mode: int
) -> tuple[int, int, int]:  # fmt: skip
    """(cycles of a step, weight entries of a unit, passes whose last emit takes a cycle more); zeros without room."""
    passes = passes_of(kernel, width, columns, stride, rows, block_in, mode)
    cycles = entries = late = 0
    for k in range(passes):
        part = kernel * (k + 1) // passes - kernel * k // passes
        slow = paced(part, columns, rows, mode)
        cycles += step_slots(part, columns, stride, rows, mode) * (1 + slow)
        late += mode != PLAIN and not slow
        entries += entries_of(stride, rows, mode)
    return cycles, entries, late


@compiled
def entry_of(row: int, stride: int, rows: int, mode: int) -> int:
    """Which of a pass's weight entries a row of a strip takes: rows whose taps lie alike share one, or two in pairs."""
    alike = max(stride, 1 + (mode != PLAIN)) == stride and mode != TWINS_APART
    return 0 if alike or in_pairs(rows, mode) else row


@compiled
def entries_of(stride: int, rows: int, mode: int) -> int:
    """Weight entries of a unit for one pass."""
    return 2 if in_pairs(rows, mode) else entry_of(rows - 1, stride, rows, mode) + 1


@compiled
def strip_rows(
    height: int, kernel: int, width: int, columns: int, stride: int, most: int, block_in: int, mode: int
) -> int:  # fmt: skip
    """The rows of a strip, at most ``most``, that take the fewest cycles for ``height`` rows; the fewest such rows."""
    best, least = 1, 0
    for rows in range(1, max(1, min(most, MOST_ROWS)) + 1):
        if rows > height + height % 2 or (in_pairs(rows, mode) and rows % 2):
            continue
        cycles = strips_cycles(height, kernel, width, columns, stride, rows, block_in, mode)
        if cycles and (rows == 1 or cycles < least):
            best, least = rows, cycles
    return best


@compiled
def strip_form(
    height: int, kernel: int, width: int, columns: int, stride: int, most: int, block_in: int, mode: int, twins: bool
) -> tuple[int, int]:  # fmt: skip
    """The rows of a strip and how they are emitted, that take the fewest cycles; ``twins``: rows may lie in twos."""
    rows = strip_rows(height, kernel, width, columns, stride, most, block_in, mode)
    other = twin_mode(kernel, width, columns, stride, block_in) if twins and most > 1 and height > 1 else -1
    if other < 0:
        return rows, mode
    alone = strips_cycles(height, kernel, width, columns, stride, rows, block_in, mode)
    if strips_cycles(height, kernel, width, columns, stride, 2, block_in, other) > alone:
        return rows, mode
    return 2, other


@compiled
def last_rows(
    height: int, kernel: int, width: int, columns: int, stride: int, rows: int, block_in: int, mode: int
) -> int:  # fmt: skip
    """Rows of the last of several strips if it is shorter than the others and may have weights of its own, or 0."""
    last = height % rows
    if height < rows or last == 0 or (in_pairs(last, mode) and last % 2):
        return 0
    passes = passes_of(kernel, width, columns, stride, rows, block_in, mode)
    return last if passes_of(kernel, width, columns, stride, last, block_in, mode) == passes else 0


@compiled
def strips_cycles(
    height: int, kernel: int, width: int, columns: int, stride: int, rows: int, block_in: int, mode: int
) -> int:  # fmt: skip
    """Cycles of a step of all strips together, the last one with weights of its own; 0 without room."""
    step = strip_cost(kernel, width, columns, stride, rows, block_in, mode)[0]
    last = last_rows(height, kernel, width, columns, stride, rows, block_in, mode)
    if last == 0:
        return -(-height // rows) * step
    return height // rows * step + strip_cost(kernel, width, columns, stride, last, block_in, mode)[0]


@compiled
def least_pushes(
    height: int, kernel: int, width: int, columns: int, stride: int, most: int, block_in: int, mode: int
) -> int:  # fmt: skip
    """The fewest pushes of one column for all rows together, in strips of at most ``most`` rows."""
    least = height * kernel
    for rows in range(2, min(most, height, MOST_ROWS) + 1):
        passes = passes_of(kernel, width, columns, stride, rows, block_in, mode)
        if passes:
            strips = -(-height // rows)
            least = min(least, (height - strips) * stride * passes + strips * kernel)
    return least


@compiled
def emit_cycles(mode: int) -> int:
    """Cycles of the multipliers for one result at best."""
    return 2 if mode == PACKED else 1
