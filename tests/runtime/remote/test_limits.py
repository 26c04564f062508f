"""What a client that knows the token can ask for: wrong requests, and more than a server gives."""

from __future__ import annotations

import dataclasses
import socket
import threading
import time

import pytest

from tests.isa.build import INPUT
from tests.runtime.network import images, make_artifact, make_program
from tests.runtime.remote.serving import Running, eventually, greeted, raw, serving
from tilewright.isa.container import ContainerError, dump, load
from tilewright.runtime.device import DeviceError
from tilewright.runtime.executable import Executable
from tilewright.runtime.remote.frames import ConnectionLost, RemoteError
from tilewright.runtime.remote.server import Limits


def test_a_request_larger_than_allowed_ends_the_session() -> None:
    with serving(limits=Limits(request_bytes=1000)) as running:
        channel = greeted(running)
        channel.connection.sendall(raw(b'{"do":"program"}', payload=1 << 40))
        reply, _ = channel.receive()
        assert reply["error"] == "request"
        assert "1099511627776 bytes, at most" in reply["message"]
        with pytest.raises(ConnectionLost):
            channel.receive()
        with pytest.raises(RemoteError, match=r"the program has \d+ bytes, the server takes 1000 .*--max-request"):
            Executable(make_artifact(), running.client()).run(images(1))


def test_a_program_that_breaks_a_rule_is_refused_by_its_rule(running: Running) -> None:
    with pytest.raises(DeviceError, match=r"STORE on store\): extent: "):
        running.client().allocate(make_program(faulty=True), 1)
    assert running.is_well()


def test_a_truncated_request_ends_the_session(running: Running) -> None:
    channel = greeted(running)
    channel.connection.sendall(raw(b'{"do":"program"}', payload=1000) + b"x" * 10)
    channel.connection.shutdown(socket.SHUT_WR)
    assert running.saw("closed the connection")
    assert eventually(running.is_well)


@pytest.mark.parametrize(
    ("request_", "payload", "message"),
    [
        ({"do": "format"}, b"", "request 'format' is not known"),
        ({}, b"", "request None is not known"),
        ({"do": "program"}, b"junk", "not a Tilewright program"),
        ({"do": "allocate", "program": "0" * 64, "inferences": 1}, b"", "the program is not here any more"),
        ({"do": "allocate", "program": 7}, b"", "allocate: program = 7: must be text"),
        ({"do": "have"}, b"", "have: program = None: must be text"),
        ({"do": "launch", "handle": 99, "inferences": 1}, b"", "launch: handle = 99: must be an integer from 0 to"),
        ({"do": "launch", "handle": 0, "inferences": 1}, b"", "there is no allocation 0"),
        ({"do": "launch", "handle": 1, "inferences": 2}, b"", "2 inferences: segments are allocated for 1"),
        ({"do": "launch", "handle": 1, "inferences": True}, b"", "inferences = True: must be an integer"),
        ({"do": "wait", "handle": 1}, b"", "nothing has been launched"),
        ({"do": "counters", "handle": 1}, b"", "no launch has finished"),
        ({"do": "write", "handle": 1, "segment": 0, "first": 0, "rows": 3, "offset": 0}, b"1234",
         "4 bytes do not make 3 rows"),
        ({"do": "write", "handle": 1, "segment": 0, "first": 1, "rows": 1, "offset": 0}, b"12",
         "no segment 0 of inference 1"),
        ({"do": "write", "handle": 1, "segment": 77, "first": 0, "rows": 1, "offset": 0}, b"12", "segment = 77"),
        ({"do": "write", "handle": 1, "segment": INPUT, "first": 0, "rows": 1, "offset": 1 << 20}, b"12",
         "lie outside segment"),
        ({"do": "read", "handle": 1, "segment": INPUT, "first": 0, "rows": 65536, "offset": 0, "size": 4}, b"",
         "65536 x 4 bytes from inference 0 on lie outside"),
        ({"do": "read", "handle": 1, "segment": INPUT, "first": 0, "rows": 1, "offset": -4, "size": 4}, b"",
         "offset = -4"),
    ],
)  # fmt: skip
def test_wrong_requests_are_answered_and_the_session_goes_on(
    running: Running, request_: dict[str, object], payload: bytes, message: str
) -> None:
    channel = greeted(running)
    channel.send({"do": "program"}, dump(make_program()))
    digest = channel.receive()[0]["program"]
    channel.send({"do": "allocate", "program": digest, "inferences": 1})
    assert channel.receive()[0] == {"ok": True, "handle": 1}
    channel.send(request_, payload)
    reply, _ = channel.receive()
    assert reply["error"] == "device"
    assert message in reply["message"]
    channel.send({"do": "launch", "handle": 1, "inferences": 1})
    assert channel.receive()[0] == {"ok": True}
    channel.send({"do": "bye"})


def test_an_illegal_program_is_not_run(running: Running) -> None:
    program = make_program()
    illegal = dataclasses.replace(program, instructions=program.instructions[: len(program.instructions) // 2])
    device = running.client()
    with pytest.raises(DeviceError, match=running.url):
        device.allocate(illegal, 1)
    assert running.is_well()


def test_memory_is_bounded() -> None:
    program = make_program()
    with serving(limits=Limits(memory_bytes=100_000)) as running:
        device = running.client()
        with pytest.raises(
            DeviceError, match=r"\d+ bytes of segments asked for, the server gives 100000 .*--max-memory"
        ):
            device.allocate(program, 5000)
        assert running.is_well()


def test_memory_is_that_of_all_segments_of_all_allocations() -> None:
    """No segment is too large by itself, nor is one allocation; together they are, to the byte."""
    program = make_program()
    whole = sum(segment.size for segment in program.segments)
    assert max(segment.size for segment in program.segments) < whole - 1
    for limit, fit in ((whole - 1, 0), (whole, 1), (2 * whole - 1, 1), (2 * whole, 2)):
        with serving(limits=Limits(memory_bytes=limit)) as running:
            device = running.client()
            held = [device.allocate(program, 1) for _ in range(fit)]
            with pytest.raises(DeviceError, match=f"{(fit + 1) * whole} bytes of segments asked for, .* gives {limit}"):
                device.allocate(program, 1)
            for allocation in held:
                device.release(allocation)
            if fit:
                device.release(device.allocate(program, 1))


def test_a_container_that_unpacks_to_more_than_allowed_is_refused() -> None:
    program = make_program()
    first = program.segments[0]
    bomb = dataclasses.replace(first, size=1 << 24, data=bytes(1 << 24))
    container = dump(dataclasses.replace(program, segments=(bomb, *program.segments[1:])))
    assert len(container) < 1 << 17
    assert load(container).segments[0].size == 1 << 24
    with pytest.raises(ContainerError, match="larger when decoded than the bytes accepted here"):
        load(container, most_bytes=1 << 20)


def test_connections_are_bounded() -> None:
    with serving(limits=Limits(connections=2)) as running:
        idle = [socket.create_connection(("127.0.0.1", running.server.port)) for _ in range(2)]
        with pytest.raises(RemoteError, match="2 connections are open; waited 0 s"):
            running.client(wait=0)
        with pytest.raises(RemoteError, match="2 connections are open; waited 1 s"):
            running.client(wait=0.6)
        assert running.saw("refused, 2 connections are open")
        leaving = [threading.Timer(0.5, connection.close) for connection in idle]
        for timer in leaving:
            timer.start()
        assert running.is_well(), "a client waits until there is room"
        for timer in leaving:
            timer.join()


def test_strangers_that_drip_do_not_keep_their_place() -> None:
    with serving(limits=Limits(connections=4, greeting_seconds=2)) as running:
        begin = time.monotonic()
        drips = [socket.create_connection(("127.0.0.1", running.server.port), 5) for _ in range(4)]
        hello = iter(raw(b" " * 4000))  # a message that would be complete in minutes
        while drips:
            byte = bytes([next(hello)])
            drips = [drip for drip in drips if alive(drip, byte)]
            time.sleep(0.1)
            assert time.monotonic() - begin < 6, "a byte now and then does not extend the time"
        assert running.saw("no whole message came in 2 s")
        assert running.is_well()


def alive(drip: socket.socket, byte: bytes) -> bool:
    """Whether a byte more can be sent."""
    try:
        drip.sendall(byte)
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    "announced", [raw(b'{"do":"program"}', payload=1 << 20), raw(b" " * 4000)[:100]], ids=["payload", "text"]
)
def test_dripping_bytes_do_not_hold_the_device_past_its_idle_time(announced: bytes) -> None:
    with serving(limits=Limits(idle_seconds=1)) as running:
        channel = greeted(running)
        begin = time.monotonic()
        channel.connection.sendall(announced)
        while alive(channel.connection, b"x") and time.monotonic() < begin + 20:
            time.sleep(0.05)
        assert time.monotonic() - begin < 5
        assert running.saw("no whole message came in 1 s")
        assert running.is_well()


def test_a_slow_but_steady_message_is_received() -> None:
    """Longer than the idle time, for its bytes come fast enough."""
    container = dump(make_program())
    with serving(limits=Limits(idle_seconds=1)) as running, pytest.MonkeyPatch.context() as patched:
        patched.setattr("tilewright.runtime.remote.frames.SLOWEST", len(container) / 4)
        channel = greeted(running)
        message = raw(b'{"do":"program"}', payload=len(container)) + container
        for begin in range(0, len(message), len(message) // 10):
            channel.connection.sendall(message[begin : begin + len(message) // 10])
            time.sleep(0.15)
        assert "program" in channel.receive()[0]


def test_a_client_that_does_not_read_loses_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.runtime.remote.frames.SLOWEST", 1 << 40)
    with serving(limits=Limits(idle_seconds=1)) as running:
        channel = greeted(running)
        channel.send({"do": "program"}, dump(make_program()))
        digest = channel.receive()[0]["program"]
        channel.send({"do": "allocate", "program": digest, "inferences": 64})
        read = {"do": "read", "handle": channel.receive()[0]["handle"], "segment": INPUT, "first": 0, "rows": 64,
                "offset": 0, "size": make_program().segments[INPUT].size}  # fmt: skip
        for _ in range(100):  # of which the answers fill what lies between the two
            channel.send(read)
        assert running.saw("the connection is lost")
        assert running.is_well()


def test_a_defect_of_the_server_is_logged_and_survived(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("made up")

    device = running.client()
    with monkeypatch.context() as patched:
        patched.setattr(running.device, "launch", broken)
        with pytest.raises(RemoteError, match="internal error: ZeroDivisionError; the server's log says more"):
            Executable(make_artifact(), device).run(images(1))
    assert running.saw("made up")
    assert running.is_well()


def test_a_client_that_goes_leaves_its_place() -> None:
    with serving(limits=Limits(connections=1)) as running:
        for _ in range(3):
            assert running.is_well()
