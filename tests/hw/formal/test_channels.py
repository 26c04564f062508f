"""Proofs by k-induction of the read channel and the write channel, for AXI3 and AXI4.

They hold for all inputs, forever. Every proof is also shown to fail, with its assumptions dropped or with a line of
the design broken.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from tests.hw.formal.channels import read_channel_proof, write_channel_proof
from tests.hw.formal.configs import SMALL, bus_config
from tests.hw.formal.prover import MARKS

pytestmark = [*MARKS, pytest.mark.usefixtures("open_ram")]


@pytest.mark.parametrize("version, bits, burst, outstanding", [(3, 32, 16, 1), (3, 64, 16, 4), (4, 128, 256, 2)])
def test_the_read_channel_keeps_the_rules(
    version: int, bits: int, burst: int, outstanding: int, tmp_path: Path
) -> None:
    assert read_channel_proof(bus_config(version, bits, burst, outstanding)).check(tmp_path) == "PASS"


@pytest.mark.parametrize(
    "change, legal",
    [
        (None, False),
        (("choice.eq(Mux(held, held_choice, ~self.request[0]))", "choice.eq(~self.request[0])"), True),
        (("held | ((self.request[0] | self.request[1])", "((self.request[0] | self.request[1])"), True),
        ((" & ~full)", ")"), True),
        (("full.eq(taken & (flying == c.outstanding - 1))", "full.eq(taken & (flying == c.outstanding))"), True),
        (("ended.eq(self.rvalid & self.rlast)", "ended.eq(self.rvalid)"), True),
        (("owners.write_data.eq(choice)", "owners.write_data.eq(~choice)"), True),
    ],
)
def test_the_read_proof_notices(change: tuple[str, str] | None, legal: bool, tmp_path: Path) -> None:
    assert read_channel_proof(SMALL, change, legal).check(tmp_path, depth=6, mode="bmc") == "FAIL"


@pytest.mark.parametrize(
    "version, bits, burst, outstanding",
    [(3, 32, 1, 1), (3, 32, 16, 2), (3, 64, 16, 4), (3, 128, 16, 2), (4, 64, 16, 8), (4, 64, 256, 2), (4, 512, 64, 2)],
)
def test_the_write_channel_keeps_the_rules(
    version: int, bits: int, burst: int, outstanding: int, tmp_path: Path
) -> None:
    assert write_channel_proof(bus_config(version, bits, burst, outstanding)).check(tmp_path) == "PASS"


@pytest.mark.parametrize(
    "change",
    [
        ("awvalid.eq(address_due | opening)", "awvalid.eq(present)"),  # the address is shown again
        ("address_due.eq(present & ~address_done)", "address_due.eq(present & ~burst_done)"),
        ("address_due.eq(present & ~address_done)", "address_due.eq(0)"),
        ("Mux(data_done, ~next_full & follows, present |", "Mux(burst_done, ~next_full & follows, present |"),
        ("present | (~next_full & another)", "(~next_full & another)"),
        ("~next_full & follows, present", "0, present"),
        ("last.eq(sent + 1 == self.length)", "last.eq(sent == self.length)"),
        ("Mux(begun, last, self.single)", "last"),  # of the burst before
        ("Mux(begun, last, self.single)", "Mux(begun, last, 0)"),
        ("Mux(begun, last, self.single)", "Mux(begun, 0, self.single)"),
        ("may_send & self.beat_valid", "present & self.beat_valid"),  # beats of the next burst
        ("may_send & self.beat_valid", "may_send"),
        ("next_may_open.eq(~next_full & ", "next_may_open.eq("),
        ("follows, ~present & another", "1, ~present & another"),
        ("follows, ~present & another", "follows, another"),
        ("follows.eq((address_sent | self.awready) & ", "follows.eq("),
        ("opening & (flying == c.outstanding - 1), full)", "opening & (flying == c.outstanding), full)"),
        ("opening & (flying == c.outstanding - 1), full)", "flying == c.outstanding - 1, full)"),
        ("self.beat_valid & ~self.halt)", "self.beat_valid)"),
        ("(opened | ~self.halt)", "1"),
        ("(address_sent | self.awready) & data_done", "data_done"),  # a burst without an address
        ("flying.eq(flying + Mux(opening, 1, -1))", "flying.eq(flying + 1)"),
        ("self.retire.eq(self.bvalid & responses.head[0])", "self.retire.eq(responses.head[0])"),
        ("self.retire.eq(self.bvalid & responses.head[0])", "self.retire.eq(self.bvalid)"),
        ("responses.write.eq(opening)", "responses.write.eq(burst_done)"),
        ("self.quiet.eq(~opened & (flying == 0))", "self.quiet.eq(~opened)"),
    ],
)
def test_the_write_proof_notices(change: tuple[str, str], tmp_path: Path) -> None:
    assert write_channel_proof(SMALL, change).check(tmp_path, depth=9, mode="bmc") == "FAIL"


@pytest.mark.parametrize("steady, answered", [(False, True), (True, False)])
def test_the_write_proof_rests_on_its_assumptions(steady: bool, answered: bool, tmp_path: Path) -> None:
    proof = write_channel_proof(SMALL, steady=steady, answered=answered)
    assert proof.check(tmp_path, depth=6, mode="bmc") == "FAIL"
