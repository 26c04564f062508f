"""Proofs by k-induction: queue and token counters. They hold for all inputs, forever.

Every proof is also shown to fail once its assumptions are dropped, so that none holds for want of states to reach.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from amaranth.hdl import Array, Assert, Assume, Cat, Mux, Signal

from tests.hw.formal.configs import SMALL
from tests.hw.formal.opened import OpenRam, Recorder
from tests.hw.formal.prover import MARKS, Proof
from tilewright.hw.rtl import tokens
from tilewright.hw.rtl.queue import Queue
from tilewright.isa.spec import Engine, others

pytestmark = MARKS

WIDTH = 2


def queue_proof(depth: int, legal: bool = True) -> Proof:
    """A queue beside a shift register that does the same: equal count and head, the ring equal to the rest."""
    proof = Proof()
    m = proof.module
    queue = Queue(WIDTH, depth)
    m.submodules.queue = queue.elaborate(None)
    ring = OpenRam.made[-1]
    write, pop = (proof.free(1, name) for name in ("write", "pop"))
    data = proof.free(WIDTH, "data")
    m.d.comb += [queue.write.eq(write), queue.write_data.eq(data), queue.pop.eq(pop)]
    if legal:
        m.d.comb += Assume(~(write & queue.full))

    model = [Signal(WIDTH, name=f"model_{k}") for k in range(depth + 1)]
    count, kept = Signal(range(depth + 2)), Signal(range(depth + 2))
    taken = Signal()
    m.d.comb += [taken.eq(pop & (count != 0)), kept.eq(count - taken)]
    for k in range(depth):
        m.d.sync += model[k].eq(Mux(write & (kept == k), data, Mux(taken, model[k + 1], model[k])))
    m.d.sync += count.eq(kept + write)

    position = Array([k % depth for k in range(2 * depth)])
    m.d.comb += [
        Assert(queue.count == count),
        Assert(count <= depth),
        Assert(queue.valid == (count != 0)),
        Assert(queue.full == (count == depth)),
        Assert(queue.stored == (count > 1)),
        Assert(ring.read_address < depth),
        Assert(ring.write_address == position[ring.read_address + Mux(count == 0, 0, count - 1)]),
    ]
    with m.If(count != 0):
        m.d.comb += Assert(queue.head == model[0])
    for k in range(1, depth):
        with m.If(count > k):
            m.d.comb += Assert(Array(ring.cells)[position[ring.read_address + k - 1]] == model[k])
    return proof


@pytest.mark.parametrize("depth", [2, 3, 4, 8])
@pytest.mark.usefixtures("open_ram")
def test_a_queue_keeps_order_and_count(depth: int, tmp_path: Path) -> None:
    assert queue_proof(depth).check(tmp_path) == "PASS"


@pytest.mark.usefixtures("open_ram")
def test_the_queue_proof_notices_an_overflow(tmp_path: Path) -> None:
    assert queue_proof(3, legal=False).check(tmp_path, depth=6) == "FAIL"


def token_proof(monkeypatch: pytest.MonkeyPatch, legal: bool = True) -> Proof:
    """Every counter holds pushes less pops, within bounds, and says rightly whether a token is there."""
    proof, recorder = Proof(), Recorder()
    m = proof.module
    monkeypatch.setattr(tokens, "Signal", recorder)
    design = tokens.Tokens(SMALL)
    m.submodules.tokens = design.elaborate(None)
    for engine in Engine:
        push, pop = (proof.free(3, f"{kind}_{engine.name.lower()}") for kind in ("pushes", "pops"))
        m.d.comb += [design.push[engine].eq(push), design.pop[engine].eq(pop)]
    held = []
    for source in Engine:
        for sink in others(source):
            name = f"{source.name.lower()}_to_{sink.name.lower()}"
            count, balance = recorder.named[name], Signal(8, name=f"balance_{name}")
            pushed = design.push[source][others(source).index(sink)]
            bit = others(sink).index(source)
            popped = design.pop[sink][bit]
            m.d.sync += balance.eq(balance + pushed - popped)
            if legal:  # an engine pops what is present; verifier and queue depth bound what is held
                m.d.comb += [Assume(~popped | design.present[sink][bit]), Assume(balance + pushed <= design.most)]
            m.d.comb += [
                Assert(count == balance),
                Assert(balance <= design.most),
                Assert(design.present[sink][bit] == (balance != 0)),
            ]
            held.append(balance != 0)
    m.d.comb += Assert(design.empty == ~Cat(*held).any())
    return proof


def test_token_counters_conserve_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert token_proof(monkeypatch).check(tmp_path) == "PASS"


def test_the_token_proof_notices_a_pop_without_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert token_proof(monkeypatch, legal=False).check(tmp_path, depth=3) == "FAIL"
