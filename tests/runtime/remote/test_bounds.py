"""What a server counts, kept to the last one: programs, bytes, rows, connections; no thread and no port."""

from __future__ import annotations

import dataclasses
import socket
import struct
import time
from typing import Any, cast

import numpy as np
import pytest

from tests.isa.build import INPUT, OUTPUT
from tests.runtime.network import TINY, images, make_program, reference
from tilewright.isa.container import dump
from tilewright.isa.program import Program, Segment
from tilewright.isa.spec import MOST_CORES
from tilewright.runtime.device_base import DeviceError
from tilewright.runtime.remote import frames
from tilewright.runtime.remote.frames import MAGIC, PREFIX, Channel, ConnectionLost, FrameError, RemoteError
from tilewright.runtime.remote.greeting import _parse
from tilewright.runtime.remote.server import _LONGEST_WAIT, _seconds
from tilewright.runtime.remote.session import KEPT_PROGRAMS, Programs, RequestError, Session, check_memory
from tilewright.runtime.remote.turns import Turns
from tilewright.runtime.sim_device import SimDevice

PROGRAM = make_program()
BYTES = sum(segment.size for segment in PROGRAM.segments)


def named(number: int) -> Program:
    """A program that differs from all others in what it says of itself."""
    return dataclasses.replace(PROGRAM, meta={**PROGRAM.meta, "layers": [
        {**layer, "name": f"{layer['name']}{number}"} for layer in PROGRAM.meta["layers"]
    ]})  # fmt: skip


class Asking:
    """Both ends of a session: requests in a row, and what was answered to each."""

    def __init__(self, requests: list[tuple[dict[str, Any], bytes]]) -> None:
        self.requests, self.answers = [*requests, ({"do": "bye"}, b"")], list[tuple[dict[str, Any], bytes]]()

    def receive(self) -> tuple[dict[str, Any], bytearray]:
        request, payload = self.requests.pop(0)
        return request, bytearray(payload)

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        if "progress" not in header:
            self.answers.append((header, bytes(payload)))


def answers(
    *requests: dict[str, Any],
    payloads: dict[int, bytes] | None = None,
    limit: int = 64 * BYTES,
    inferences: int = 3,
    program: Program = PROGRAM,
) -> list[tuple[dict[str, Any], bytes]]:
    """To requests to a session that has one allocation, number 1; ``payloads`` by the request's number."""
    programs = Programs(limit)
    digest = programs.add(dump(program))
    first = {"do": "allocate", "program": digest, "inferences": inferences}
    given = [(first, b""), *((request, (payloads or {}).get(k, b"")) for k, request in enumerate(requests))]
    asking = Asking(given)
    Session(cast(Channel, asking), SimDevice(TINY), programs, limit).serve()
    assert asking.answers[0][0] == {"ok": True, "handle": 1}
    return asking.answers[1:]


# -- programs and memory --------------------------------------------------------------------------------------


def test_the_programs_asked_for_last_are_kept() -> None:
    programs = Programs(1 << 30)
    digests = [programs.add(dump(named(k))) for k in range(KEPT_PROGRAMS)]
    assert len(set(digests)) == KEPT_PROGRAMS
    assert all(programs.get(digest) is not None for digest in digests)
    assert programs.get(digests[0]) is not None  # the one asked for last
    programs.add(dump(named(KEPT_PROGRAMS)))
    assert [programs.get(digest) is not None for digest in digests] == [True, False, *[True] * (KEPT_PROGRAMS - 2)]
    assert programs.get("0" * 64) is None


def test_segments_fill_the_memory_to_the_last_byte() -> None:
    strides = sum(segment.repeat_stride for segment in PROGRAM.segments)
    for count in (1, 2, 5):
        size = BYTES + (count - 1) * strides
        check_memory([(PROGRAM, count)], size)
        check_memory([(PROGRAM, 1), (PROGRAM, count)], BYTES + size)
        for wanted, limit in (([(PROGRAM, count)], size - 1), ([(PROGRAM, 1), (PROGRAM, count)], BYTES + size - 1)):
            with pytest.raises(
                RequestError, match=f"{limit + 1} bytes of segments asked for, the server gives {limit}"
            ):
                check_memory(wanted, limit)


def test_a_program_whose_segments_alone_are_too_much_is_not_kept() -> None:
    Programs(BYTES).add(dump(PROGRAM))
    programs = Programs(BYTES - 1)
    with pytest.raises(RequestError, match=f"{BYTES} bytes of segments"):
        programs.add(dump(PROGRAM))


# -- requests -------------------------------------------------------------------------------------------------


def test_rows_go_to_the_inferences_that_were_asked_for() -> None:
    x = images(3).reshape(3, -1).view(np.uint8)
    place = {"handle": 1, "segment": INPUT, "offset": 4}
    (written, _), *read = answers(
        {"do": "write", "first": 1, "rows": 2, **place},
        *({"do": "read", "first": k, "rows": 1, "size": 32, **place} for k in range(3)),
        {"do": "read", "first": 1, "rows": 2, "size": 32, **place},
        payloads={0: x[:2].tobytes()},
    )
    assert written == {"ok": True}
    assert [data for _, data in read] == [bytes(32), x[0].tobytes(), x[1].tobytes(), x[:2].tobytes()]


def test_what_is_read_lies_within_inferences_and_memory() -> None:
    place = {"do": "read", "handle": 1, "segment": INPUT, "offset": 0}
    found = answers(
        {**place, "first": 0, "rows": 3, "size": 8}, {**place, "first": 2, "rows": 1, "size": 8},
        {**place, "first": 1, "rows": 3, "size": 8}, {**place, "first": 3, "rows": 1, "size": 8},
        {**place, "first": 0, "rows": 0, "size": 8},
    )  # fmt: skip
    assert [(reply.get("ok"), len(data)) for reply, data in found] == [(True, 24), (True, 8), *[(None, 0)] * 3]
    assert [reply.get("message", "")[:21] for reply, _ in found[2:4]] == [
        "3 x 8 bytes from infe",
        "1 x 8 bytes from infe",
    ]


def test_more_bytes_than_the_memory_has_are_not_read() -> None:
    """Each row fits; all of them are asked for at once, of what all inferences share."""
    size = 1 << 16
    program = dataclasses.replace(PROGRAM, segments=(*PROGRAM.segments, Segment("big", "scratch", size)))
    limit = BYTES + size + 15 * sum(segment.repeat_stride for segment in PROGRAM.segments)
    most = limit // size
    assert 1 < most < 16
    place = {"do": "read", "handle": 1, "segment": len(PROGRAM.segments), "offset": 0, "first": 0, "size": size}
    (fits, data), (beyond, none) = answers(
        {**place, "rows": most}, {**place, "rows": most + 1}, limit=limit, inferences=16, program=program
    )
    assert (fits, len(data)) == ({"ok": True}, most * size)
    assert (beyond["message"], none) == (
        f"{most + 1} x {size} bytes from inference 0 on lie outside what is allocated",
        b"",
    )


def test_several_are_as_many_as_cores_can_be() -> None:
    found = answers(
        {"do": "together", "handles": [1] * (MOST_CORES + 1), "inferences": 1},
        {"do": "together", "handles": [1] * MOST_CORES, "inferences": 1},
        {"do": "together", "handles": [], "inferences": 1},
    )
    wrong = f"together: handles: must be a list of 1 to {MOST_CORES} allocations"
    assert [reply["message"] for reply, _ in found] == [wrong, "together: handles: an allocation is there twice", wrong]


def test_a_run_over_requests_gives_what_the_network_gives() -> None:
    x = images(2)
    place = {"handle": 1, "offset": 0, "first": 0, "rows": 2}
    _, _, _, (_, data), (counted, events), _, (gone, _) = answers(
        {"do": "write", "segment": INPUT, **place}, {"do": "launch", "handle": 1, "inferences": 2},
        {"do": "wait", "handle": 1}, {"do": "read", "segment": OUTPUT, "size": 32, **place},
        {"do": "counters", "handle": 1}, {"do": "release", "handle": 1}, {"do": "release", "handle": 1},
        payloads={0: x.tobytes()},
    )  # fmt: skip
    assert data == reference(x)[1].tobytes()
    assert len(events) == 3 * 8 * PROGRAM.instruction_count
    assert counted["cycles"] > 0
    assert gone["message"] == "there is no allocation 1"


def test_segments_of_a_client_that_goes_are_released() -> None:
    released: list[object] = []

    class Releasing(SimDevice):
        def _release(self, allocation: object) -> None:
            released.append(allocation)

    class Gone(Asking):
        def receive(self) -> tuple[dict[str, Any], bytearray]:
            if len(self.requests) == 1:
                raise ConnectionLost("gone")
            return super().receive()

    programs = Programs(1 << 30)
    ask = {"do": "allocate", "program": programs.add(dump(PROGRAM)), "inferences": 1}
    with pytest.raises(ConnectionLost):
        Session(cast(Channel, Gone([(ask, b"")] * 2)), Releasing(TINY), programs, 1 << 30).serve()
    assert len(released) == 2


# -- who may come, and when -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        (0, 0.0),
        (-5, 0.0),
        (2.5, 2.5),
        (True, 0.0),
        ("7", 0.0),
        (None, 0.0),
        (1e9, _LONGEST_WAIT),
        (_LONGEST_WAIT, 86400),
    ],
)
def test_a_client_waits_as_long_as_it_says_and_a_day_at_most(asked: Any, seconds: float) -> None:
    assert _seconds(asked) == seconds


def test_who_came_second_is_told_so() -> None:
    turns = Turns()
    told: list[str] = []
    turns.take("first", 0.0, told.append)
    with pytest.raises(DeviceError, match=r"first has had it for 0 s, place 1 of 1 in the queue; waited 0 s"):
        turns.take("second", 0.0, told.append)
    assert turns.waiting == 0
    turns.give_back()
    turns.take("third", 0.0, told.append)
    assert told == []


# -- messages -------------------------------------------------------------------------------------------------


def pair(**limits: Any) -> tuple[socket.socket, Channel]:
    theirs, mine = socket.socketpair()
    return theirs, Channel(mine, "peer", **{"payload_limit": 100, **limits})


def test_messages_are_as_long_as_allowed() -> None:
    for text, payload, fits in ((20, 100, True), (21, 100, False), (20, 101, False)):
        theirs, channel = pair(header_limit=20)
        header = b'{"a":"' + b"x" * (text - 8) + b'"}'
        theirs.sendall(PREFIX.pack(MAGIC, text, payload) + header + bytes(payload))
        if fits:
            assert channel.receive() == ({"a": "x" * 12}, bytearray(100))
        else:
            with pytest.raises(FrameError, match=rf"a message of {text} \+ {payload} bytes, at most 20 \+ 100"):
                channel.receive()
        theirs.close()
        channel.close()


@pytest.mark.parametrize("sent", [b"", MAGIC, struct.pack("<4sIQ", b"HTTP", 2, 0) + b"{}"])
def test_what_is_no_message_is_named(sent: bytes) -> None:
    theirs, channel = pair()
    theirs.sendall(sent)
    theirs.close()
    with pytest.raises(RemoteError, match="closed the connection|speaks another protocol"):
        channel.receive()
    channel.close()


def test_a_message_has_time_for_its_bytes_besides(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, channel = pair(payload_limit=1 << 20, seconds=5.0)
    monkeypatch.setattr(frames, "SLOWEST", 1000)
    theirs.sendall(PREFIX.pack(MAGIC, 2, 2000) + b"{}" + bytes(2000))
    began = time.monotonic()
    channel.receive()
    assert 5.0 + 2.0 <= channel._due - began < 5.0 + 2.0 + 1.0
    channel.send({}, bytes(3000))
    assert channel.connection.gettimeout() == 5.0 + 3.0
    theirs.close()
    channel.close()


# -- addresses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["pynq://host?x=1", "pynq://me@host", "pynq://host/path", "http://host", "pynqs://host", "pynq://"]
)
def test_addresses_with_more_than_host_and_port_are_refused(url: str) -> None:
    with pytest.raises(RemoteError, match="not a device's address"):
        _parse(url)


def test_addresses_say_host_and_port() -> None:
    assert _parse("pynq://host:1") == ("host", 1)
    assert _parse("pynq://[::1]/") == ("::1", 7747)
