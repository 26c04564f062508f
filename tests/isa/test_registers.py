"""The register map is sound: whole words, none twice, in its window; a driver finds each core's registers in it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.isa.strategies import any_config
from tilewright.config import PRESETS, Config
from tilewright.isa.registers import (
    ADDRESS_BITS,
    CORE_STRIDE,
    DRAM_ADDRESS_BITS,
    SHARED,
    Register,
    counter_registers,
    offsets,
    register_map,
    segment_registers,
    window_bits,
)
from tilewright.isa.spec import MOST_CORES, Engine

TINY = PRESETS["tiny"]


def check_words(registers: tuple[Register, ...]) -> None:
    assert len({r.name for r in registers}) == len({r.offset for r in registers}) == len(registers) > 0
    for register in registers:
        assert register.offset % 4 == 0, register
        assert 1 <= register.bits <= 32, register
        assert register.access in ("rw", "ro", "wo")


@given(any_config())
@settings(max_examples=40, deadline=None)
def test_registers_are_words_of_their_own_within_the_window_of_a_core(config: Config) -> None:
    registers = register_map(config)
    check_words(registers)
    assert [r.offset for r in registers] == sorted(r.offset for r in registers)
    assert registers[-1].offset < CORE_STRIDE == 1 << ADDRESS_BITS


def test_what_cores_share_lies_behind_all_of_them() -> None:
    check_words(SHARED)
    assert min(r.offset for r in SHARED) == MOST_CORES * CORE_STRIDE
    assert all(r.bits >= MOST_CORES for r in SHARED if r.doc.startswith("bit c"))
    assert next(r.bits for r in SHARED if r.name == "CORES") == MOST_CORES.bit_length()


@pytest.mark.parametrize("cores", [1, 2, MOST_CORES])
def test_a_driver_finds_every_register_of_every_core(cores: int) -> None:
    config, registers = TINY.replace(cores=cores), register_map(TINY)
    own, shared = {r.name for r in registers}, {r.name for r in SHARED}
    found = [offsets(config, core) for core in range(cores)]
    for core, at in enumerate(found):
        assert at.keys() == (own if cores == 1 else own | shared), "what is shared is there with several cores only"
        assert {name: at[name] - core * CORE_STRIDE for name in own} == {r.name: r.offset for r in registers}
        assert {name: at[name] for name in shared & at.keys()} == {r.name: r.offset for r in SHARED if cores > 1}
    used = max(max(at.values()) for at in found)
    assert used < 1 << window_bits(config)
    assert window_bits(config) == ADDRESS_BITS if cores == 1 else used >= 1 << window_bits(config) - 1


def test_an_address_of_dram_is_two_registers_one_behind_the_other() -> None:
    registers = {r.name: r for r in register_map(TINY)}
    pairs = [name.removesuffix("_LOW") for name in registers if name.endswith("_LOW")]
    assert len(pairs) == 3 + TINY.segments
    for name in pairs:
        low, high = registers[f"{name}_LOW"], registers[f"{name}_HIGH"]
        assert (high.offset - low.offset, low.bits) == (4, 32), name
        wanted = 64 if name in ("FINGERPRINT", "CYCLES") else DRAM_ADDRESS_BITS
        assert low.bits + high.bits == wanted, name


def test_places_are_pinned() -> None:
    """By hand: drivers that are installed know them, so a change is deliberate."""
    words = ("BASE_LOW", "BASE_HIGH", "LIMIT", "STRIDE")
    for index in (0, 7):
        expected = [(f"SEGMENT{index}_{word}", 0x200 + 0x20 * index + 4 * k) for k, word in enumerate(words)]
        assert [(r.name, r.offset) for r in segment_registers(index)] == expected
    counters = [
        f"GEMM_{name}"
        for name in (
            "INSTRUCTIONS",
            "BUSY",
            "EMPTY",
            "WAIT_LOAD",
            "WAIT_ALU",
            "WAIT_STORE",
            "DRAIN",
            "BUS",
            "OUTSTANDING",
        )
    ]
    expected = [(name, 0x140 + 4 * k) for k, name in enumerate(counters)]
    assert [(r.name, r.offset) for r in counter_registers(Engine.GEMM)] == expected
    assert [r.doc for r in counter_registers(Engine.GEMM)] == ["instructions issued"] + ["cycles"] * 8
    assert [(r.name, r.offset) for r in SHARED] == [("CORES", 0x8000), ("INTERRUPTS", 0x8004), ("DOORBELLS", 0x8008)]
    assert [window_bits(TINY.replace(cores=cores)) for cores in (1, 2, 8)] == [12, 16, 16]
