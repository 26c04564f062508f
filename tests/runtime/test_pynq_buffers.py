"""Memory that processor and accelerator share, without either: a cache that keeps what nobody flushed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.runtime.network import TINY
from tilewright.isa.program import PAGE, Program, Segment, whole_pages
from tilewright.isa.registers import DRAM_ADDRESS_BITS
from tilewright.runtime.device_base import DeviceError
from tilewright.runtime.pynq.buffers import POOL_BUFFERS, POOL_WASTE, BufferPool, Group, place_segments

TOP = 1 << DRAM_ADDRESS_BITS


class Cached:
    """A PynqBuffer: ``seen`` is the processor's view of ``memory``; nothing passes between them unasked."""

    def __init__(self, size: int, address: int) -> None:
        self.memory, self.seen = np.full(size, 77, np.uint8), np.full(size, 77, np.uint8)
        self.nbytes, self.device_address, self.freed, self.calls = size, address, False, list[str]()

    def view(self, _: type) -> Any:
        return self.seen

    def flush(self) -> None:
        self.calls.append("flush")
        self.memory[:] = self.seen

    def invalidate(self) -> None:
        self.calls.append("invalidate")
        self.seen[:] = self.memory

    def freebuffer(self) -> None:
        assert not self.freed
        self.freed = True


class Memory:
    """Where a pool's buffers come from, one page apart; ``left``: so many, then it is full."""

    def __init__(self, left: int = 1000) -> None:
        self.left, self.next, self.made = left, PAGE, list[Cached]()

    def allocate(self, size: int) -> Any:
        if not self.left:
            raise RuntimeError("full")
        self.left -= 1
        self.made.append(Cached(size, self.next))
        self.next += whole_pages(size) + PAGE
        return self.made[-1]


# -- cache discipline of a group ------------------------------------------------------------------------------


def test_what_the_device_wrote_is_read_once_and_not_undone() -> None:
    buffer = Cached(8, 0)
    group = Group(buffer, by_device=True)
    group.clear()
    group.before_launch()
    assert buffer.memory.tolist() == [0] * 8
    buffer.memory[:4] = 5  # by the device
    group.before_write()
    group.bytes[4] = 9
    group.before_read()  # nothing new: another invalidation would lose the 9
    assert group.bytes.tolist() == [5, 5, 5, 5, 9, 0, 0, 0]
    group.before_launch()
    assert buffer.memory.tolist() == [5, 5, 5, 5, 9, 0, 0, 0]
    assert buffer.calls == ["flush", "invalidate", "flush"]
    group.before_launch()  # nothing was written since
    assert buffer.calls == ["flush", "invalidate", "flush"]


def test_what_is_cleared_is_not_read_back() -> None:
    buffer = Cached(4, 0)
    group = Group(buffer, by_device=True)
    group.before_launch()
    buffer.memory[:] = 5
    group.clear()
    group.before_read()
    assert group.bytes.tolist() == [0] * 4
    assert buffer.calls == []
    group.before_launch()
    assert buffer.memory.tolist() == [0] * 4


def test_what_the_device_only_reads_is_never_invalidated() -> None:
    buffer = Cached(4, 0)
    group = Group(buffer, by_device=False)
    for _ in range(2):
        group.before_write()
        group.bytes[:] = 3
        group.before_launch()
        group.before_read()
    assert buffer.calls == ["flush", "flush"]


# -- the pool -------------------------------------------------------------------------------------------------


def test_the_smallest_that_fits_is_reused_if_it_is_not_too_large() -> None:
    memory = Memory()
    pool = BufferPool(memory.allocate)
    sizes = [PAGE * n for n in (POOL_WASTE + 1, 3, POOL_WASTE, 2)]
    large, middle, most, small = (pool.take(size) for size in sizes)
    for buffer in (large, middle, most, small):
        pool.give(buffer)
    assert pool.take(PAGE + 1) is small
    assert pool.take(2 * PAGE) is middle
    assert pool.take(1) is most
    assert pool.take(PAGE) is not large
    assert [buffer.nbytes for buffer in memory.made[4:]] == [PAGE]
    assert pool.take(2 * PAGE) is large


def test_so_many_free_buffers_are_kept() -> None:
    memory = Memory()
    pool = BufferPool(memory.allocate)
    taken = [pool.take(PAGE) for _ in range(POOL_BUFFERS + 1)]
    for buffer in taken:
        pool.give(buffer)
    assert [buffer.freed for buffer in taken] == [False] * POOL_BUFFERS + [True]
    pool.drain()
    assert all(buffer.freed for buffer in taken)


@pytest.mark.parametrize(
    ("address", "taken"),
    [
        (0, True),
        (PAGE, True),
        (1, False),
        (PAGE // 2, False),
        (TOP - PAGE, True),
        (TOP, False),
        (TOP - PAGE + 1, False),
    ],
)
def test_a_buffer_lies_where_the_accelerator_reaches_all_of_it(address: int, taken: bool) -> None:
    buffer = Cached(PAGE, address)
    pool = BufferPool(lambda size: buffer)
    if taken:
        assert pool.take(PAGE) is buffer
    else:
        with pytest.raises(DeviceError, match=rf"lies at address {address:#x}; .* multiples of {PAGE} below {TOP:#x}"):
            pool.take(PAGE)
    assert buffer.freed is not taken


# -- the segments of a program --------------------------------------------------------------------------------


def made_of(*segments: Segment) -> Program:
    return Program(TINY, bytes(range(64)), segments)


SEGMENTS = (
    Segment("w", "constant", 100, b"weights"),
    Segment("x", "input", 100, None, PAGE),
    Segment("k", "constant", 64, b"each", PAGE),
    Segment("s", "scratch", PAGE + 1),
    Segment("y", "output", 100, None, PAGE),
    Segment("t", "scratch", 64),
    Segment("z", "shared", 64),
)


@pytest.mark.parametrize("cores", [1, 3])
def test_segments_of_every_core_and_inference_lie_apart(cores: int) -> None:
    memory, inferences = Memory(), 3
    program = made_of(*SEGMENTS)
    made = place_segments(program, inferences, BufferPool(memory.allocate), cores)
    assert [group.by_device for group in made.groups] == [False, False, True, True, True]
    assert bytes(made.groups[0].bytes[:64]) == program.instructions
    ranges = [(made.code, made.code + 64)]
    for number, segment in enumerate(SEGMENTS):
        own = segment.kind != "constant" and not segment.repeat_stride
        size = segment.size + (inferences - 1) * segment.repeat_stride
        places = [made.address(number, core) for core in range(cores)]
        assert len(set(places)) == (cores if own else 1)
        ranges += [(place, place + size) for place in sorted(set(places))]
        assert made.memory(number).size == size
        assert made.address(number) % PAGE == 0
    for (_, end), (begin, _) in itertools.pairwise(sorted(ranges)):
        assert end <= begin
    ends = [(buffer.device_address, buffer.device_address + buffer.nbytes) for buffer in memory.made]
    assert all(any(low <= begin and end <= high for low, high in ends) for begin, end in ranges)
    # a buffer has no page more than its segments need
    pages = sum(-(-(end - begin) // PAGE) for begin, end in ranges)
    assert sum(buffer.nbytes for buffer in memory.made) == PAGE * pages
    assert bytes(made.memory(0)[:8]) == b"weights\0"
    for k in range(inferences):
        assert bytes(made.memory(2)[k * PAGE : k * PAGE + 6]) == b"each\0\0"


def test_clearing_leaves_the_program_and_its_constants() -> None:
    made = place_segments(made_of(*SEGMENTS), 1, BufferPool(Memory().allocate))
    for number in range(len(SEGMENTS)):
        if SEGMENTS[number].kind != "constant":
            assert not made.memory(number).any()
            made.memory(number)[:] = 9
    made.clear()
    assert [bool(made.memory(number).any()) for number in range(len(SEGMENTS))] == [
        segment.kind == "constant" for segment in SEGMENTS
    ]


def test_memory_that_ends_in_the_middle_is_given_back() -> None:
    memory = Memory(left=3)
    pool = BufferPool(memory.allocate)
    with pytest.raises(DeviceError, match="no contiguous memory"):
        place_segments(made_of(*SEGMENTS), 1, pool)
    memory.left = 2
    made = place_segments(made_of(*SEGMENTS), 1, pool)
    assert [group.buffer for group in made.groups] == memory.made
    made.give_back(pool)
    assert not any(group.buffer.freed for group in made.groups)
