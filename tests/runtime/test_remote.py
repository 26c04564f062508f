"""The server and its client over loopback: equal results, and what a hostile, hasty or dying peer can do."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from tests.isa.build import INPUT
from tests.runtime.network import TINY, images, make_artifact, make_program, reference
from tilewright.isa.container import ContainerError, dump, load
from tilewright.runtime.device import Allocation, Device, DeviceError, DeviceFault, Progress, fault, open_device
from tilewright.runtime.executable import Executable
from tilewright.runtime.remote import auth
from tilewright.runtime.remote.client import RemoteDevice
from tilewright.runtime.remote.frames import MAGIC, PREFIX, Channel, ConnectionLost, RemoteError
from tilewright.runtime.remote.server import Limits, Server, tls_context
from tilewright.runtime.sim_device import SimDevice

TOKEN = "a token for tests only"


@dataclasses.dataclass
class Running:
    """A server on a free port of this machine."""

    server: Server
    device: Device
    lines: list[str]

    @property
    def url(self) -> str:
        return f"pynq://127.0.0.1:{self.server.port}"

    def client(self, **options: object) -> RemoteDevice:
        return RemoteDevice(TINY, self.url, **{"token": TOKEN, **options})  # type: ignore[arg-type]

    def saw(self, text: str) -> bool:
        """Whether the log has, or soon gets, a line with ``text``."""
        return eventually(lambda: any(text in line for line in self.lines))

    def is_well(self) -> bool:
        """Whether a new client gets right results."""
        x = images(2)
        y = Executable(make_artifact(), self.client()).run(x)[0]
        return np.array_equal(y, reference(x)[1].reshape(2, -1))


def eventually(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@contextmanager
def serving(device: Device | None = None, limits: Limits | None = None, **options: object) -> Iterator[Running]:
    lines: list[str] = []
    device = device or SimDevice(TINY)
    server = Server(device, TOKEN, port=0, limits=limits or Limits(), log=lines.append, **options)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Running(server, device, lines)
    finally:
        server.close()
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def running() -> Iterator[Running]:
    with serving() as found:
        yield found


class GatedDevice(SimDevice):
    """A simulator whose launches end when the gate is opened."""

    def __init__(self) -> None:
        super().__init__(TINY)
        self.entered, self.gate, self.released = threading.Event(), threading.Event(), 0

    def _wait(self, allocation: Allocation, inferences: int, progress: Progress | None) -> None:
        self.entered.set()
        assert self.gate.wait(30)
        super()._wait(allocation, inferences, progress)

    def _release(self, allocation: Allocation) -> None:
        self.released += 1
        super()._release(allocation)


# -- the same results ---------------------------------------------------------------------------------------


def test_a_remote_device_gives_the_same_outputs_and_report(running: Running) -> None:
    x = images(70)
    finished: list[int] = []
    here, there = Executable(make_artifact(), SimDevice(TINY)), Executable(make_artifact(), running.client())
    y_here, report_here = here.run(x)
    y_there, report_there = there.run(x, progress=finished.append)
    assert np.array_equal(y_here, y_there)
    assert sum(finished) == 70
    mine, theirs = report_here.to_dict(), report_there.to_dict()
    assert theirs["cycles"] == mine["cycles"] > 0
    assert theirs["layers"] == mine["layers"]
    assert report_there.device == f"{running.url} (sim)"


def test_the_program_travels_once(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    real = Channel.send

    def counting(self: Channel, header: dict[str, object], payload: bytes = b"") -> None:
        if header.get("do") == "program":
            sent.append(len(payload))
        real(self, header, payload)

    monkeypatch.setattr(Channel, "send", counting)
    executable = Executable(make_artifact(), running.client())
    executable.run(images(1))
    executable.run(images(1))
    assert sent == [len(dump(make_program()))]


def test_large_stacks_go_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    x = images(5)
    with serving(limits=Limits(request_bytes=len(dump(make_program())))) as running:
        device = running.client()
        monkeypatch.setattr("tilewright.runtime.remote.client._PIECE_BYTES", 20)
        monkeypatch.setattr("tilewright.runtime.remote.client._UNANSWERED", 2)
        y, _ = Executable(make_artifact(), device).run(x)
        assert np.array_equal(y, reference(x)[1].reshape(5, -1))
        device._max_request = 20  # narrower than one row: rows are cut, too
        allocation = device.allocate(make_program(), 2)
        device._max_request = 20
        rows = np.arange(64, dtype=np.uint8).reshape(2, 32)
        device.write_stack(allocation, INPUT, 0, rows)
        assert np.array_equal(device.read_stack(allocation, INPUT, 2, 0, 32), rows)
        assert np.array_equal(device.read(allocation, INPUT, 1, 3, 4), rows[1, 3:7])
        device.release(allocation)


def test_a_fault_is_told_with_its_layer_and_the_next_run_is_right() -> None:
    class Failing(SimDevice):
        fail = True

        def _wait(self, allocation: Allocation, inferences: int, progress: Progress | None) -> None:
            if self.fail:
                raise fault(self, allocation.program, "BUS_ERROR", 3, "no answer")
            super()._wait(allocation, inferences, progress)

    board = Failing(TINY)
    with serving(board) as running:
        executable = Executable(make_artifact(), running.client())
        with pytest.raises(DeviceFault) as found:
            executable.run(images(1))
        assert str(found.value) == f"{running.url}: fault BUS_ERROR at instruction 3 of layer conv: no answer"
        assert (found.value.code, found.value.instruction, found.value.layer) == ("BUS_ERROR", 3, "conv")
        board.fail = False
        assert np.array_equal(executable.run(images(1))[0], reference(images(1))[1].reshape(1, -1))


def test_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", key, "-out", certificate, "-subj", "/CN=board", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    x = images(2)
    with serving(tls=tls_context(certificate, key)) as running:
        secure = running.url.replace("pynq:", "pynqs:")
        device = RemoteDevice(TINY, secure, TOKEN, ca=certificate)
        assert np.array_equal(Executable(make_artifact(), device).run(x)[0], reference(x)[1].reshape(2, -1))
        with pytest.raises(RemoteError, match=r"no connection .*certificate verify failed"):
            RemoteDevice(TINY, secure, TOKEN)
        monkeypatch.setattr("tilewright.runtime.remote.server._GREETING_SECONDS", 0.3)
        with pytest.raises(RemoteError, match=r"before it greeted; does it use TLS\? then write pynqs://"):
            RemoteDevice(TINY, running.url, TOKEN)
    with serving() as plain, pytest.raises(RemoteError, match=r"no connection.*with TLS"):
        RemoteDevice(TINY, plain.url.replace("pynq:", "pynqs:"), TOKEN, ca=certificate)
    with pytest.raises(RemoteError, match="not usable as a TLS certificate"):
        tls_context(tmp_path / "none.pem", None)


# -- who may ------------------------------------------------------------------------------------------------


def test_a_wrong_token_is_denied(running: Running) -> None:
    with pytest.raises(RemoteError, match="the token is not the server's"):
        running.client(token="another token altogether")
    assert running.saw("denied, wrong token")
    assert running.is_well()


def test_a_missing_or_short_token_is_named(running: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(auth.TOKEN_VARIABLE, raising=False)
    with pytest.raises(auth.TokenError, match=r"needs the token .* TILEWRIGHT_TOKEN or --token-file"):
        RemoteDevice(TINY, running.url)
    monkeypatch.setenv(auth.TOKEN_VARIABLE, TOKEN)
    assert str(open_device(running.url, TINY)) == running.url
    monkeypatch.setenv(auth.TOKEN_VARIABLE, "short")
    with pytest.raises(auth.TokenError, match="at least 16 printable characters"):
        RemoteDevice(TINY, running.url)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert auth.find_token(tmp_path / "token") == TOKEN


def test_a_server_that_does_not_know_the_token_is_found_out() -> None:
    """An impostor can answer, but not prove the token."""
    listener = socket.create_server(("127.0.0.1", 0))

    def impostor() -> None:
        channel = Channel(listener.accept()[0], "client", 0)
        channel.send({"tilewright": 1, "nonce": auth.new_nonce()})
        hello, _ = channel.receive()
        channel.send({"proof": hello["proof"], "device": "sim", "config": TINY.to_dict(), "max_request": 1})

    thread = threading.Thread(target=impostor)
    thread.start()
    with pytest.raises(RemoteError, match="the server does not know the token"):
        RemoteDevice(TINY, f"pynq://127.0.0.1:{listener.getsockname()[1]}", TOKEN)
    thread.join()
    listener.close()


def test_proofs_bind_role_nonces_and_token() -> None:
    server, client = auth.new_nonce(), auth.new_nonce()
    given = auth.proof(TOKEN, "client", server, client)
    assert auth.proven(given, TOKEN, "client", server, client)
    assert not auth.proven(given, TOKEN, "server", server, client)
    assert not auth.proven(given, TOKEN, "client", client, server)
    assert not auth.proven(given, TOKEN + "x", "client", server, client)
    assert not auth.proven(given, TOKEN, "client", auth.new_nonce(), client)
    assert not auth.proven(auth.proof(TOKEN, "client", server, ""), TOKEN, "client", server, "")
    assert not auth.proven(None, TOKEN, "client", server, client)


def test_another_config_is_refused_at_once(running: Running) -> None:
    with pytest.raises(DeviceError, match=r"is of config tiny, the program of bigger \(act_bytes: 16384 != 8192\)"):
        RemoteDevice(TINY.replace(name="bigger", act_bytes=16384), running.url, TOKEN)


@pytest.mark.parametrize("url", ["pynq://", "pynq://h:99999", "ftp://host", "pynq://host/path", "pynq://[::1"])
def test_malformed_addresses_are_told(url: str) -> None:
    with pytest.raises(RemoteError, match=r"write pynq://HOST or pynq://HOST:PORT"):
        RemoteDevice(TINY, url, TOKEN)


def test_nobody_listening_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RemoteError, match=rf"cannot listen on 127.0.0.1 port {port}: address already in use"):
            Server(SimDevice(TINY), TOKEN, port=port)
    with pytest.raises(
        RemoteError, match=r"no connection to 127.0.0.1 port .*: connection refused; is tilewright serve"
    ):
        RemoteDevice(TINY, f"pynq://127.0.0.1:{port}", TOKEN)


# -- one job at a time --------------------------------------------------------------------------------------


def test_a_second_job_is_told_who_has_the_device() -> None:
    device = GatedDevice()
    with serving(device) as running:
        first, results = Executable(make_artifact(), running.client()), []
        thread = threading.Thread(target=lambda: results.append(first.run(images(1))[0]))
        thread.start()
        assert device.entered.wait(20)
        second = Executable(make_artifact(), running.client())
        with pytest.raises(RemoteError, match=r"the device is taken: 127\.0\.0\.1:\d+ has had it for \d+ s"):
            second.run(images(1))
        device.gate.set()
        thread.join()
        assert np.array_equal(results[0], reference(images(1))[1].reshape(1, -1))
        assert eventually(lambda: device.released == 1)
        assert running.is_well()


CLIENT = """
import sys
from tests.runtime.network import TINY, images, make_artifact
from tilewright.runtime.executable import Executable
from tilewright.runtime.remote.client import RemoteDevice
Executable(make_artifact(), RemoteDevice(TINY, sys.argv[1], sys.argv[2])).run(images(3))
"""


def test_a_client_killed_in_the_middle_leaves_the_device_free() -> None:
    device = GatedDevice()
    with serving(device) as running:
        client = subprocess.Popen([sys.executable, "-c", CLIENT, running.url, TOKEN], cwd=Path(__file__).parents[2])
        assert device.entered.wait(60)
        os.kill(client.pid, signal.SIGKILL)
        client.wait()
        device.gate.set()
        assert eventually(lambda: device.released == 1)
        assert running.saw("connection")
        assert running.is_well()


def test_an_interrupted_client_can_go_on(running: Running) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    x, executable = images(3), Executable(make_artifact(), running.client())
    with pytest.raises(KeyboardInterrupt):
        executable.run(x, progress=interrupt)
    assert running.saw("connection")
    assert np.array_equal(executable.run(x)[0], reference(x)[1].reshape(3, -1))


def test_a_client_that_falls_silent_loses_the_device() -> None:
    with serving(limits=Limits(idle_seconds=0.2)) as running:
        device = running.client()
        allocation = device.allocate(make_program(), 1)
        assert running.saw("nothing came for 0.2 s")
        with pytest.raises(ConnectionLost):
            device.read(allocation, INPUT, 0, 0, 4)
        with pytest.raises(RemoteError, match="the connection was lost, the segments with it; run again"):
            device.read(allocation, INPUT, 0, 0, 4)
        device.release(allocation)
        assert running.is_well()


def test_a_server_that_dies_is_told() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def dying() -> None:
        for allowed in (0, 1):
            channel = Channel(listener.accept()[0], "client", 1 << 20)
            nonce = auth.new_nonce()
            channel.send({"tilewright": 1, "nonce": nonce})
            hello, _ = channel.receive()
            proof = auth.proof(TOKEN, "server", nonce, hello["nonce"])
            channel.send({"proof": proof, "device": "sim", "config": TINY.to_dict(), "max_request": 1 << 20})
            for _ in range(allowed):
                channel.receive()
            channel.close()

    thread = threading.Thread(target=dying)
    thread.start()
    executable = Executable(make_artifact(), RemoteDevice(TINY, f"pynq://127.0.0.1:{listener.getsockname()[1]}", TOKEN))
    with pytest.raises(ConnectionLost):
        executable.run(images(1))
    thread.join()
    listener.close()


# -- hostile bytes ------------------------------------------------------------------------------------------


def greeted(running: Running) -> Channel:
    """A connection that has proven the token."""
    channel = Channel(socket.create_connection(("127.0.0.1", running.server.port), timeout=20), "server", 1 << 20)
    greeting, _ = channel.receive()
    mine = auth.new_nonce()
    proof = auth.proof(TOKEN, "client", greeting["nonce"], mine)
    channel.send({"nonce": mine, "purpose": "job", "proof": proof})
    assert "error" not in channel.receive()[0]
    return channel


def raw(text: bytes, payload: int = 0, magic: bytes = MAGIC) -> bytes:
    return PREFIX.pack(magic, len(text), payload) + text


@pytest.mark.parametrize(
    ("sent", "logged"),
    [
        (b"GET / HTTP/1.1\r\nHost: board\r\n\r\n", "speaks another protocol"),
        (PREFIX.pack(MAGIC, 1 << 31, 0), "a message of 2147483648 + 0 bytes, at most 4096 + 0 are accepted"),
        (raw(b"{}", payload=5), "at most 4096 + 0 are accepted"),
        (raw(b"{oops}"), "not valid JSON"),
        (raw(b"[" * 4000), "not valid JSON"),
        (raw(b"[1, 2]"), "not a JSON object"),
        (raw(b"{}"), "denied, wrong token"),
        (raw(json.dumps({"proof": 7, "nonce": [1]}).encode()), "denied, wrong token"),
        (b"TWR1\x00", "closed the connection"),
        (b"", "closed the connection"),
    ],
)
def test_bytes_from_strangers(running: Running, sent: bytes, logged: str) -> None:
    with socket.create_connection(("127.0.0.1", running.server.port)) as stranger:
        with suppress(OSError):  # the server may have hung up already
            stranger.sendall(sent)
            stranger.shutdown(socket.SHUT_WR)
        assert running.saw(logged)
    assert running.is_well()


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
        idle = [socket.create_connection(("127.0.0.1", running.server.port)) for _ in range(3)]
        assert running.saw("refused, 2 connections are open")
        for connection in idle:
            connection.close()
        assert eventually(running.is_well)


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
