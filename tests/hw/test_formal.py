"""Proofs by k-induction: queue, token counters, read channel, bursts. They hold for all inputs, forever.

Every proof is also shown to fail once its assumptions are dropped, so that none holds for want of states to reach.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from amaranth.hdl import Array, Assert, Assume, Cat, Mux, Signal

from tests.hw.formal import OpenRam, Proof, Recorder, open_ram
from tilewright.config import PRESETS
from tilewright.hw.rtl import bursts, read_channel, tokens
from tilewright.hw.rtl.queue import Queue
from tilewright.isa.spec import Engine, others

__all__ = ["open_ram"]

pytestmark = [
    pytest.mark.slow,
    # modules are elaborated by hand here, which Amaranth does not notice
    pytest.mark.filterwarnings("ignore:.*created but never used"),
]

WIDTH = 2
SMALL = PRESETS["tiny"].replace(burst_beats=4, outstanding=2, fetch_beats=16, token_depth=3, queue_depth=2)


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
def test_a_queue_keeps_order_and_count(depth: int, tmp_path: Path, open_ram: type[OpenRam]) -> None:
    assert queue_proof(depth).check(tmp_path) == "PASS"


def test_the_queue_proof_notices_an_overflow(tmp_path: Path, open_ram: type[OpenRam]) -> None:
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


def read_channel_proof(monkeypatch: pytest.MonkeyPatch, legal: bool = True) -> Proof:
    """AXI4's rules for AR: once valid, an address stays until it is accepted; never too many bursts in flight."""
    proof, recorder = Proof(), Recorder()
    m = proof.module
    channel = read_channel.ReadChannel(SMALL)
    monkeypatch.setattr(read_channel, "Signal", recorder)
    m.submodules.channel = channel.elaborate(None)
    flying, held, held_choice = recorder.made[:3]
    assert len(flying) == 2
    arready, rvalid, rlast = (proof.free(1, name) for name in ("arready", "rvalid", "rlast"))
    m.d.comb += [channel.arready.eq(arready), channel.rvalid.eq(rvalid), channel.rlast.eq(rlast)]
    was_held, was_address, was_length = Signal(), Signal.like(channel.araddr), Signal.like(channel.arlen)
    m.d.sync += [
        was_held.eq(channel.arvalid & ~arready), was_address.eq(channel.araddr), was_length.eq(channel.arlen),
    ]  # fmt: skip
    for k in range(2):
        request = proof.free(1, f"request{k}")
        address = proof.free(len(channel.address[k]), f"address{k}")
        length = proof.free(len(channel.length[k]), f"length{k}")
        before = Signal(name=f"before{k}")
        old_address = Signal.like(address, name=f"old_address{k}")
        old_length = Signal.like(length, name=f"old_length{k}")
        m.d.comb += [channel.request[k].eq(request), channel.address[k].eq(address), channel.length[k].eq(length)]
        m.d.sync += [before.eq(request & ~channel.granted[k]), old_address.eq(address), old_length.eq(length)]
        chosen = was_held & (held_choice == k)
        if legal:  # a requester does not change what it asks for until it is granted, even if it no longer asks
            m.d.comb += Assume(~(before | chosen) | ((address == old_address) & (length == old_length)))
    if legal:
        m.d.comb += Assume(~rvalid | (flying != 0))  # data comes for what was asked for
    with m.If(was_held):
        m.d.comb += [
            Assert(channel.arvalid),
            Assert(channel.araddr == was_address),
            Assert(channel.arlen == was_length),
        ]
    m.d.comb += [
        Assert(held == was_held),
        Assert(flying <= SMALL.outstanding),
        Assert(~held | (flying < SMALL.outstanding)),
        Assert(~(channel.granted[0] & channel.granted[1])),
        Assert((channel.granted[0] | channel.granted[1]) == (channel.arvalid & arready)),
    ]
    return proof


def test_the_read_channel_keeps_the_handshake_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_ram: type[OpenRam]
) -> None:
    assert read_channel_proof(monkeypatch).check(tmp_path) == "PASS"


def test_the_handshake_proof_notices_a_fickle_requester(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_ram: type[OpenRam]
) -> None:
    assert read_channel_proof(monkeypatch, legal=False).check(tmp_path, depth=4) == "FAIL"


@pytest.mark.parametrize("longest", [1, 4, 16])
def test_no_burst_crosses_a_boundary(longest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bursts end before a multiple of the longest one, which divides 4 KiB, and stay as they are until taken."""
    proof = Proof()
    m = proof.module
    config = SMALL.replace(burst_beats=longest, fetch_beats=64)
    requester = bursts.BurstRequester(config, row_bits=4, beat_bits=6, stride_bits=8)
    recorder = Recorder()
    monkeypatch.setattr(bursts, "Signal", recorder)
    m.submodules.requester = requester.elaborate(None)
    setup, step = proof.free(1, "setup"), proof.free(1, "step")
    m.d.comb += [requester.setup.eq(setup), requester.step.eq(step)]
    for name in ("first", "stride", "rows", "beats"):
        port = getattr(requester, name)
        m.d.comb += port.eq(proof.free(len(port), f"free_{name}"))
    m.d.comb += [
        Assume(~step | requester.active), Assume(~setup | ~requester.active), Assume(requester.beats != 0),
    ]  # fmt: skip
    waiting, address, length = Signal(), Signal.like(requester.address), Signal.like(requester.length)
    m.d.sync += [
        waiting.eq(requester.active & ~step), address.eq(requester.address), length.eq(requester.length),
    ]  # fmt: skip
    with m.If(requester.active):
        m.d.comb += [
            Assert((requester.address & (longest - 1)) + requester.length < longest),
            Assert((recorder.named["left"] != 0) & (recorder.named["row_size"] != 0)),
        ]
    with m.If(waiting):
        m.d.comb += [
            Assert(requester.active), Assert(requester.address == address), Assert(requester.length == length),
        ]  # fmt: skip
    assert proof.check(tmp_path) == "PASS"
