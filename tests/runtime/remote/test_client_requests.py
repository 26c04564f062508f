"""What a client sends and how long it waits, with no server and no port."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.runtime.network import make_program
from tilewright.runtime.device_base import Allocation
from tilewright.runtime.remote import greeting
from tilewright.runtime.remote.client import RemoteDevice
from tilewright.runtime.remote.frames import FrameError, RemoteError
from tilewright.runtime.remote.greeting import Address, ServerFull

NOWHERE = Address("pynq://nowhere", "nowhere", 1)


class Unconnected(RemoteDevice):
    """What a client sends, with no server: ``sent`` and, of each request, what is answered."""

    def __init__(self, max_request: int, answer: bytes = b"") -> None:
        self.url, self._max_request, self._answer = "pynq://nowhere", max_request, answer
        self._channel, self._unanswered, self._live = None, 0, set()
        self.sent: list[tuple[dict[str, Any], bytes]] = []

    def _post(self, request: dict[str, Any], payload: bytes = b"") -> None:
        self.sent.append((request, payload))

    def _ask(
        self, request: dict[str, Any], payload: bytes = b"", progress: Any = None, patient: bool = False
    ) -> tuple[dict[str, Any], bytearray]:
        self.sent.append((request, payload))
        return {}, bytearray(self._answer)


@pytest.mark.parametrize(("most", "piece"), [(7, 100), (10, 100), (25, 100), (1000, 20), (1000, 1000)])
@pytest.mark.parametrize("inference", [0, 3])
def test_pieces_are_no_larger_than_allowed_and_go_where_they_belong(
    most: int, piece: int, inference: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.runtime.remote.client._PIECE_BYTES", piece)
    device, data = Unconnected(most), np.arange(50, dtype=np.uint8).reshape(5, 10)
    allocation = Allocation(make_program(), 8, 1)
    if inference:
        device.write(allocation, 2, inference, 40, data[0])
        rows = data[:1]
    else:
        device.write_stack(allocation, 2, 40, data)
        rows = data
    got = np.zeros((8, 60), np.int64) - 1
    for request, payload in device.sent:
        assert 0 < len(payload) <= min(most, piece)
        assert (request["do"], request["handle"], request["segment"]) == ("write", 1, 2)
        part = np.frombuffer(payload, np.uint8).reshape(request["rows"], -1)
        place = got[request["first"] :][: request["rows"], request["offset"] :][:, : part.shape[1]]
        assert (place == -1).all()
        place[:] = part
    wanted = np.full((8, 60), -1)
    wanted[inference : inference + len(rows), 40:50] = rows
    assert np.array_equal(got, wanted)
    whole = min(most, piece) >= 10
    assert len(device.sent) == -(-len(rows) // (min(most, piece) // 10)) if whole else len(device.sent) > len(rows)


@pytest.mark.parametrize("more", [-1, 1])
def test_an_answer_of_other_than_the_bytes_asked_for_ends_the_connection(more: int) -> None:
    allocation = Allocation(make_program(), 8, 1)
    assert Unconnected(100, bytes(12)).read_stack(allocation, 2, 3, 0, 4).shape == (3, 4)
    device = Unconnected(100, bytes(12 + more))
    device._live = {1}
    with pytest.raises(FrameError, match=f"pynq://nowhere: sent {12 + more} bytes where 12 were asked for"):
        device.read_stack(allocation, 2, 3, 0, 4)
    assert device._live == set(), "the server frees the segments"
    device.release(allocation)
    assert [request["do"] for request, _ in device.sent] == ["read"]


class Silent:
    """A connection on which nothing comes, that notes how long each answer is waited for."""

    peer = "pynq://nowhere"

    def __init__(self) -> None:
        self.connection = self
        self.waits: list[float | None] = []

    def settimeout(self, seconds: float | None) -> None:
        self.waits.append(seconds)

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        return

    def receive(self) -> tuple[dict[str, Any], bytearray]:
        return {"ok": True}, bytearray()


def test_answers_are_waited_for_a_minute_and_the_end_of_a_launch_as_long_as_it_takes() -> None:
    device, channel = Unconnected(100), Silent()
    device._channel = channel  # type: ignore[assignment]
    for patient in (False, True):
        RemoteDevice._ask(device, {"do": "any"}, patient=patient)
    assert channel.waits == [60.0, None]


def test_a_server_without_room_is_asked_again_until_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked, told = [100.0], list[float](), list[str]()

    def introduce(self: Address, purpose: str, patience: float, notice: Callable[[str], None]) -> Any:
        asked.append(patience)
        raise ServerFull("pynq://nowhere: 16 connections are open")

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(Address, "_introduce", introduce)
    monkeypatch.setattr(greeting.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(greeting.time, "sleep", sleep)
    with pytest.raises(ServerFull, match="16 connections are open; waited 1 s"):
        NOWHERE.greet("job", 1.0, told.append)
    assert now[0] == pytest.approx(101.0)
    assert asked == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.0], abs=1e-6)
    assert told == ["waiting for a connection: pynq://nowhere: 16 connections are open"] * 5


class Waiting(Silent):
    """A server that says again and again that another has the device."""

    def receive(self) -> tuple[dict[str, Any], bytearray]:
        return {"waiting": "another has had it for 5 s"}, bytearray()


def test_a_server_that_lets_clients_wait_too_long_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds after the time that the server was told."""
    now, told = [50.0], list[str]()

    def notice(what: str) -> None:
        told.append(what)
        now[0] += 1.0

    monkeypatch.setattr(greeting.time, "monotonic", lambda: now[0])
    with pytest.raises(RemoteError, match="the device is taken: another has had it for 5 s; waited 7 s"):
        NOWHERE._welcome(Waiting(), 7.0, notice)  # type: ignore[arg-type]
    assert told == ["waiting for the device: another has had it for 5 s"] * 18
