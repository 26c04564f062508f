"""The AXI3 and AXI4 rules that the accelerator's master must keep, cycle by cycle; plain Python, no simulator."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

from tilewright.config import Config
from tilewright.isa.spec import bits_for

__all__ = ["PAGE", "Address", "AxiRules", "Beat", "Cycle"]

PAGE = 4096  #: no burst may cross a multiple of this


@dataclass(frozen=True)
class Address:
    """What AR or AW shows: byte address, beats less one, log2 of the bytes of a beat, burst kind (1: INCR), ID."""

    address: int
    length: int
    size: int
    burst: int
    ident: int = 0


@dataclass(frozen=True)
class Beat:
    """What W shows; ``ident``: WID, which AXI4 has no more."""

    data: int
    strobe: int
    last: int
    ident: int = 0


@dataclass(frozen=True)
class Cycle:
    """One clock cycle of the port: payloads (None where valid is low) of what the master drives, and handshakes."""

    ar: Address | None = None
    aw: Address | None = None
    w: Beat | None = None
    ar_ready: bool = False
    aw_ready: bool = False
    w_ready: bool = False
    r_taken: bool = False
    r_last: bool = False
    b_taken: bool = False
    r_refused: bool = False
    b_refused: bool = False


class AxiRules:
    """Feed it every cycle; ``broken`` holds what was wrong, in words, in the order seen.

    ``held``: cycles in which a channel's valid waited for ready. ``lengths``: beats of the bursts by channel.
    ``most_reads``, ``most_writes``: the most bursts in flight.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.broken: list[str] = []
        self.held: Counter[str] = Counter()
        self.lengths: dict[str, Counter[int]] = {"ar": Counter(), "aw": Counter()}
        self.page_ends: Counter[str] = Counter()  #: bursts that end at a page's last byte
        self.most_reads = self.most_writes = 0
        self._waiting: dict[str, Address | Beat | None] = {"ar": None, "aw": None, "w": None}
        self.reset()

    def reset(self) -> None:
        """The port was reset: what waited or was in flight is forgotten."""
        self._waiting = dict.fromkeys(self._waiting)
        self.reads = self.writes = 0  #: bursts in flight
        self._expected: deque[tuple[int, int]] = deque()  # beats and ID of write bursts whose data has not ended
        self._sent: deque[tuple[int, int]] = deque()  # the same of data bursts whose address has not come
        self._beats = 0

    def cycle(self, now: Cycle) -> None:
        """Check one cycle against what came before."""
        for name, shown, ready in (
            ("ar", now.ar, now.ar_ready),
            ("aw", now.aw, now.aw_ready),
            ("w", now.w, now.w_ready),
        ):
            before = self._waiting[name]
            if before is not None and shown != before:
                self._wrong(f"{name}: {'valid fell' if shown is None else 'the payload changed'} before ready")
            self._waiting[name] = None if ready else shown
            self.held[name] += shown is not None and not ready
        self.held["r"] += now.r_refused
        self.held["b"] += now.b_refused
        if now.b_taken:
            self.writes -= 1
        if now.r_taken and now.r_last:
            self.reads -= 1
        if now.ar is not None and now.ar_ready:
            self._address("ar", now.ar)
            self.reads += 1
        if now.aw is not None and now.aw_ready:
            self._address("aw", now.aw)
            self.writes += 1
            self._expected.append((now.aw.length + 1, now.aw.ident))
        if now.w is not None and now.w_ready:
            self._data(now.w)
        self._join()
        self.most_reads, self.most_writes = max(self.most_reads, self.reads), max(self.most_writes, self.writes)
        for name, flying in (("read", self.reads), ("write", self.writes)):
            if flying > self.config.outstanding:
                self._wrong(f"{flying} {name} bursts in flight; the limit is {self.config.outstanding}")
            if flying < 0:
                self._wrong(f"a {name} response that no burst asked for")

    def _wrong(self, text: str) -> None:
        self.broken.append(text)

    def _address(self, name: str, a: Address) -> None:
        beat = self.config.beat_bytes
        size = (a.length + 1) * beat
        self.lengths[name][a.length + 1] += 1
        self.page_ends[name] += (a.address + size) % PAGE == 0
        if a.length + 1 > self.config.burst_beats:
            self._wrong(f"{name}: a burst of {a.length + 1} beats; the longest is {self.config.burst_beats}")
        if a.size != bits_for(beat) or a.burst != 1:
            self._wrong(f"{name}: size {a.size}, burst kind {a.burst} instead of whole beats, INCR")
        if a.address % beat:
            self._wrong(f"{name}: address {a.address:#x} is no multiple of {beat}")
        if a.address // PAGE != (a.address + size - 1) // PAGE:
            self._wrong(f"{name}: {a.length + 1} beats from {a.address:#x} cross a {PAGE}-byte boundary")

    def _data(self, beat: Beat) -> None:
        self._beats += 1
        if beat.last:
            self._sent.append((self._beats, beat.ident))
            self._beats = 0
        elif self._beats >= self.config.burst_beats:
            self._wrong(f"w: {self._beats} beats without last")

    def _join(self) -> None:
        while self._expected and self._sent:
            expected, sent = self._expected.popleft(), self._sent.popleft()
            if expected[0] != sent[0]:
                self._wrong(f"w: last after {sent[0]} beats of a burst of {expected[0]}")
            if self.config.axi_version == 3 and expected[1] != sent[1]:
                self._wrong(f"w: ID {sent[1]} for data of a burst of ID {expected[1]}")
