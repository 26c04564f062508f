"""The client over loopback: the same results as here, and what it says when there are none."""

from __future__ import annotations

import socket
import threading

import numpy as np
import pytest

from tests.isa.build import INPUT
from tests.runtime.network import TINY, images, make_artifact, make_program, reference
from tests.runtime.remote.serving import Failing, Running, serving
from tilewright.isa.container import dump
from tilewright.runtime.device import DeviceError, DeviceFault
from tilewright.runtime.executable import Executable
from tilewright.runtime.remote.client import RemoteDevice
from tilewright.runtime.remote.frames import Channel, ConnectionLost, RemoteError
from tilewright.runtime.remote.server import Limits, Server
from tilewright.runtime.sim_device import SimDevice


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
    board = Failing(TINY)
    with serving(board) as running:
        executable = Executable(make_artifact(), running.client(wait=0))
        with pytest.raises(DeviceFault) as found:
            executable.run(images(1))
        assert str(found.value) == f"{running.url}: fault BUS_ERROR at instruction 3 of layer conv: no answer"
        assert (found.value.code, found.value.instruction, found.value.layer) == ("BUS_ERROR", 3, "conv")
        assert sum(line.endswith(": done") for line in running.lines) == 1, "the client said goodbye"
        board.fail = False
        assert np.array_equal(executable.run(images(1))[0], reference(images(1))[1].reshape(1, -1))


@pytest.mark.parametrize("faults", [1, 3])
def test_a_fault_leaves_the_connection_and_its_segments(faults: int) -> None:
    board = Failing(TINY)
    with serving(board) as running:
        device = running.client()
        allocation = device.allocate(make_program(), 1)
        rows = np.arange(32, dtype=np.uint8).reshape(1, 32)
        device.write_stack(allocation, INPUT, 0, rows)
        for _ in range(faults):
            device.launch(allocation, 1)
            with pytest.raises(DeviceFault, match="BUS_ERROR at instruction 3"):
                device.wait(allocation)
        board.fail = False
        device.launch(allocation, 1)
        device.wait(allocation)
        assert device.counters(allocation).cycles > 0
        assert np.array_equal(device.read_stack(allocation, INPUT, 1, 0, 32), rows), "the same segments"
        device.release(allocation)
        assert sum(line.endswith(": begins") for line in running.lines) == 1, "the same connection"


def test_an_error_of_what_was_sent_ahead_leaves_the_connection(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr("tilewright.runtime.remote.client._UNANSWERED", 3)
    device = running.client()
    allocation = device.allocate(make_program(), 1)
    far = np.zeros((1, 8), np.uint8)
    for _ in range(3):
        device.write_stack(allocation, INPUT, 1 << 20, far)
    with pytest.raises(DeviceError, match="lie outside segment"):
        device.write_stack(allocation, INPUT, 0, far)
    device.write_stack(allocation, INPUT, 1 << 20, far)
    with pytest.raises(DeviceError, match="lie outside segment"):
        device.read(allocation, INPUT, 0, 0, 4)
    device.write_stack(allocation, INPUT, 0, far + 7)
    assert device.read(allocation, INPUT, 0, 0, 4).tolist() == [7] * 4
    device.release(allocation)
    assert sum(line.endswith(": begins") for line in running.lines) == 1, "the same connection"


def test_an_interruption_in_the_middle_of_a_message_ends_the_connection(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    device = running.client()
    allocation = device.allocate(make_program(), 1)
    with monkeypatch.context() as patched:
        patched.setattr(Channel, "send", interrupted)
        with pytest.raises(KeyboardInterrupt):
            device.write_stack(allocation, INPUT, 0, np.zeros((1, 8), np.uint8))
    with pytest.raises(RemoteError, match="the connection was lost, the segments with it; run again"):
        device.read(allocation, INPUT, 0, 0, 4)
    device.release(allocation)
    assert running.is_well()


def interrupted(self: Channel, header: dict[str, object], payload: bytes = b"") -> None:
    self.connection.sendall(b"TWR")
    raise KeyboardInterrupt


def test_another_config_is_refused_at_once(running: Running) -> None:
    with pytest.raises(DeviceError, match=r"is of config tiny, the program of bigger \(act_bytes: 16384 != 8192\)"):
        RemoteDevice(TINY.replace(name="bigger", act_bytes=16384), running.url)


@pytest.mark.parametrize("url", ["pynq://", "pynq://h:99999", "ftp://host", "pynq://host/path", "pynq://[::1"])
def test_malformed_addresses_are_told(url: str) -> None:
    with pytest.raises(RemoteError, match=r"write pynq://HOST or pynq://HOST:PORT"):
        RemoteDevice(TINY, url)


def test_nobody_listening_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RemoteError, match=rf"127.0.0.1 port {port}: address already in use; choose another --host"):
            Server(SimDevice(TINY), port=port)
    with pytest.raises(
        RemoteError, match=r"no connection to 127.0.0.1 port .*: connection refused; is tilewright serve"
    ):
        RemoteDevice(TINY, f"pynq://127.0.0.1:{port}")


def test_a_server_that_dies_is_told() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def dying() -> None:
        for allowed in (0, 1):
            channel = Channel(listener.accept()[0], "client", 1 << 20)
            channel.send({"tilewright": 2})
            channel.receive()
            channel.send({"device": "sim", "config": TINY.to_dict(), "max_request": 1 << 20})
            for _ in range(allowed):
                channel.receive()
            channel.close()

    thread = threading.Thread(target=dying)
    thread.start()
    executable = Executable(make_artifact(), RemoteDevice(TINY, f"pynq://127.0.0.1:{listener.getsockname()[1]}"))
    with pytest.raises(ConnectionLost):
        executable.run(images(1))
    thread.join()
    listener.close()
