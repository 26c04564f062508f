"""Proofs by k-induction of what joins two memory ports: for all inputs, forever, on any DRAM behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from tests.hw.formal.configs import bus_config
from tests.hw.formal.pair import pair_proof
from tests.hw.formal.prover import MARKS
from tilewright.config import Config

pytestmark = MARKS


def paired(version: int, bits: int, burst: int) -> Config:
    return bus_config(version, bits, burst).replace(axi_ports=2)


@pytest.mark.parametrize("version, bits, burst", [(3, 64, 16), (3, 32, 1), (4, 128, 64), (4, 64, 2)])
def test_the_pair_keeps_the_rules(version: int, bits: int, burst: int, tmp_path: Path) -> None:
    assert pair_proof(paired(version, bits, burst)).check(tmp_path) == "PASS"


@pytest.mark.parametrize(
    "change",
    [
        (".eq(valid & ~done)", ".eq(valid)"),  # shown again to a port that has taken it
        (
            '[both.eq(has[0] & has[1]), self.bus[f"{channel}ready"]',
            '[both.eq(has[0] | has[1]), self.bus[f"{channel}ready"]',
        ),
        ("done.eq(valid & now & ~both)", "done.eq(now & ~both)"),
        ("done.eq(valid & now & ~both)", "done.eq(valid & now)"),
        ('has[1]), self.bus[f"{channel}valid"]', 'has[0]), self.bus[f"{channel}valid"]'),
        (".eq(~waiting)", ".eq(1)"),  # taken from a port of which something waits
        ("waiting.eq(now & ~(both", "waiting.eq(~(both"),
        ('(both & self.bus[f"{channel}ready"])', "both"),  # dropped though the core did not take it
        ("with m.If(~waiting):", "with m.If(waiting):"),
        ("Mux(waiting, signal, port", "Mux(~waiting, signal, port"),
        ("Const(number, 1), beats[place:]", "Const(0, 1), beats[place:]"),
        ("beats[:place], Const(number, 1)", "Const(number, 1), beats[:place]"),
        ('read[0]["resp"] | read[1]["resp"]', 'read[0]["resp"]'),
        ('response[0]["resp"] | response[1]["resp"]', 'response[1]["resp"]'),
        ('bus["wdata"].word_select(k, word)', 'bus["wdata"].word_select(0, word)'),
    ],
)
def test_the_proof_notices(change: tuple[str, str], tmp_path: Path) -> None:
    assert pair_proof(paired(3, 64, 4), change).check(tmp_path, depth=5, mode="bmc") == "FAIL"


def test_the_proof_rests_on_its_assumption(tmp_path: Path) -> None:
    assert pair_proof(paired(3, 64, 4), steady=False).check(tmp_path, depth=5, mode="bmc") == "FAIL"
