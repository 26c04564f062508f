"""Proofs by k-induction of the bursts of LOAD, STORE and FETCH, for AXI3 and AXI4.

They hold for all inputs, forever. Every proof is also shown to fail, with its assumptions dropped or with a line of
the design broken.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from tests.hw.formal.bursts import fetch_proof, tile_proof
from tests.hw.formal.configs import BUSES, SMALL, bus_config
from tests.hw.formal.prover import MARKS

pytestmark = MARKS


@pytest.mark.parametrize("version, bits, burst", BUSES)
def test_the_bursts_of_a_tile_cover_it_exactly(version: int, bits: int, burst: int, tmp_path: Path) -> None:
    assert tile_proof(bus_config(version, bits, burst)).check(tmp_path) == "PASS"


@pytest.mark.parametrize(
    "change",
    [
        ("Mux(reach[cut:] == 0, row_size, ~place)", "Mux(reach[cut:] == 0, row_size, -1)"),  # crosses
        ("fits.eq(reach[cut:] == 0)", "fits.eq(reach[cut:] <= 1)"),
        ("fits.eq(behind == 1)", "fits.eq(behind == 0)"),  # the last burst of a row never ends
        ("reach.eq(place + row_size)", "reach.eq(row_size)"),
        ("Mux(behind == 1, tail, -1)", "-1"),
        ("place.eq(place + stride)", "place.eq(place)"),
        ("row_start + stride)", "self.address + stride)"),
        ("self.final.eq(fits & last_row)", "self.final.eq(last_row)"),
        ("last_row.eq(rows_left == 1)", "last_row.eq(rows_left == 0)"),
        ("rows_left.eq(rows_left - 1), ", ""),
        ("(behind == 1) & (tail == 0)", "behind == 1"),
        ("(row_size == 0) | place.all()", "row_size == 0"),
        ("self.active.eq(~self.outside)", "self.active.eq(1)"),
    ],
)
def test_the_tile_proof_notices(change: tuple[str, str], tmp_path: Path) -> None:
    assert tile_proof(bus_config(3, 64, 4), change).check(tmp_path, depth=6, mode="bmc") == "FAIL"


def test_a_burst_longer_than_the_version_allows_is_noticed(tmp_path: Path) -> None:
    config = bus_config(4, 64, 32)
    object.__setattr__(config, "axi_version", 3)  # past the check of Config
    assert tile_proof(config).check(tmp_path, depth=3, mode="bmc") == "FAIL"


@pytest.mark.parametrize("version, bits, burst", BUSES)
def test_the_bursts_of_a_program_cover_it_exactly(version: int, bits: int, burst: int, tmp_path: Path) -> None:
    assert fetch_proof(bus_config(version, bits, burst)).check(tmp_path) == "PASS"


@pytest.mark.parametrize(
    "change, page_aligned",
    [
        (("length.eq(Mux(more, longest, tail))", "length.eq(longest)"), True),
        (("self.request_address.eq(self.request_address + longest)", "self.request_address.eq(longest)"), True),
        (("left.eq(Mux(more, left - longest, 0))", "left.eq(Mux(more, left - 1, 0))"), True),
        ((" & ~spare[-1]", ""), True),
        (("many.eq(many & (full_left != 3))", "many.eq(many & (full_left != 2))"), True),
        (("after_next.eq(Mux(many, longest, Mux(several, tail, 0)))", "after_next.eq(longest)"), True),
        (("after_first = Mux(two, longest, Mux(one, beats[:shift], 0))", "after_first = Mux(1, longest, 0)"), True),
        (("Mux(self.dispatched, both, less)", "less"), True),
        (("gained.eq(whole - after_next)", "gained.eq(whole - after)"), True),
        (("~(~spare + after)", "~(~spare + length)"), True),
        (("found.eq(Cat(three, two, one, beats.any()))", "found.eq(Cat(three, two, two, beats.any()))"), True),
        (("beats[shift + 2 :].any() | beats[shift : shift + 2].all()", "two"), True),
        (("room.eq(Mux(one, ", "room.eq(Mux(two, "), True),
        (("one_more.eq(phase + rest >= per_beat)", "one_more.eq(1)"), True),
        (None, False),
    ],
)
def test_the_fetch_proof_notices(change: tuple[str, str] | None, page_aligned: bool, tmp_path: Path) -> None:
    assert fetch_proof(SMALL, change, page_aligned).check(tmp_path, depth=14, mode="bmc") == "FAIL"


@pytest.mark.parametrize(
    "change",
    [("Cat(one_more, gained)", "Cat(Const(0, 1), gained)"), ("Mux(one_more, whole + 1, whole)", "whole")],
)
def test_the_fetch_proof_notices_instructions_that_share_a_beat(change: tuple[str, str], tmp_path: Path) -> None:
    shared = bus_config(3, 128, 4).replace(fetch_beats=16)
    assert fetch_proof(shared, change).check(tmp_path, depth=14, mode="bmc") == "FAIL"
