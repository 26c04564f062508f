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
        ("self.length.eq(Mux(fits, left, room) - 1)", "self.length.eq(Mux(fits, left, longest) - 1)"),  # crosses
        ("fits.eq(left <= room)", "fits.eq(left < room)"),  # the last burst of a row never ends
        ("left.eq(left - room)", "left.eq(left - longest)"),
        ("next_row.eq(row_start + stride)", "next_row.eq(self.address + stride)"),
        ("self.final.eq(fits & (rows_left == 0))", "self.final.eq(rows_left == 0)"),
        ("rows_left.eq(rows_left - 1),", ""),
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
        (("length.eq(Mux(left > c.burst_beats, c.burst_beats, left))", "length.eq(c.burst_beats)"), True),
        (("self.request_address.eq(self.request_address + length)", "self.request_address.eq(length)"), True),
        (("left.eq(left - length)", "left.eq(left - 1)"), True),
        ((" & (free >= length)", ""), True),
        (("freed.eq((phase + per_word) // per_beat)", "freed.eq((phase + per_word) // per_beat + 1)"), True),
        (None, False),
    ],
)
def test_the_fetch_proof_notices(change: tuple[str, str] | None, page_aligned: bool, tmp_path: Path) -> None:
    assert fetch_proof(SMALL, change, page_aligned).check(tmp_path, depth=14, mode="bmc") == "FAIL"
