"""The order of bytes in DRAM against the sentence that defines it, byte by byte."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.config import PRESETS, Config
from tilewright.isa.dram_order import PLAIN, DramOrder
from tilewright.isa.program import PAGE

PAIRS = [
    PRESETS["pynq-z2"].replace(axi_ports=2),
    PRESETS["zcu104"].replace(axi_ports=2, burst_beats=2),
    PRESETS["pynq-z2"].replace(axi_ports=2, axi_bits=32, burst_beats=1),
]


def place(config: Config, byte: int) -> int:
    """Where byte number ``byte`` of a segment lies, of two ports."""
    word = config.axi_bits // 8
    block, within = divmod(byte, 2 * word * config.burst_beats)
    beat, within = divmod(within, 2 * word)
    port, within = divmod(within, word)
    return ((block * 2 + port) * config.burst_beats + beat) * word + within


@pytest.mark.parametrize("config", PAIRS, ids=lambda c: f"{c.axi_bits}-{c.burst_beats}")
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_every_byte_is_where_its_port_reads_it(config: Config, data: st.DataObject) -> None:
    order = DramOrder(config)
    assert order.block == 2 * config.axi_bits // 8 * config.burst_beats
    assert PAGE % order.block == 0
    size = order.whole(data.draw(st.integers(1, 3 * order.block)))
    memory = np.random.default_rng(data.draw(st.integers(0, 9))).integers(0, 256, size).astype(np.uint8)
    logical = memory[[place(config, k) for k in range(size)]]
    begin = data.draw(st.integers(0, size - 1))
    count = data.draw(st.integers(0, size - begin))
    assert order.read(memory, begin, count).tolist() == logical[begin : begin + count].tolist()
    new = np.random.default_rng(1).integers(0, 256, count).astype(np.uint8)
    order.write(memory, begin, new)
    logical[begin : begin + count] = new
    assert memory[[place(config, k) for k in range(size)]].tolist() == logical.tolist()
    assert order.arranged(logical).tolist() == memory.tolist()


def test_bytes_read_are_a_copy() -> None:
    for order in (PLAIN, *map(DramOrder, PAIRS)):
        memory = np.zeros(4 * order.block, np.uint8)
        order.read(memory, 0, memory.size)[:] = 1
        assert not memory.any()


def test_of_one_port_nothing_moves() -> None:
    data = np.arange(13, dtype=np.uint8)
    assert PLAIN.whole(13) == 13
    assert PLAIN.arranged(data).tolist() == data.tolist()
    assert PLAIN.read(data, 3, 4).tolist() == [3, 4, 5, 6]
    PLAIN.write(data, 11, np.array([70, 80], np.uint8))
    assert data.tolist() == [*range(11), 70, 80]
