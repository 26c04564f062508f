"""One job at a time: others that wait their turn, and clients that die, stop or fall silent."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from tests.conftest import REPOSITORY
from tests.isa.build import INPUT
from tests.runtime.network import TINY, images, make_artifact, make_program, reference
from tests.runtime.remote.serving import Failing, GatedDevice, Running, eventually, greet, serving
from tilewright.errors import TilewrightError
from tilewright.runtime.executable import Executable
from tilewright.runtime.remote.frames import ConnectionLost, RemoteError
from tilewright.runtime.remote.server import Limits
from tilewright.runtime.remote.turns import Notice, TakenError, Turns


@contextmanager
def busy(running: Running, device: GatedDevice) -> Iterator[None]:
    """A first client's launch goes on until the gate is opened; its results are right."""
    first, results = Executable(make_artifact(), running.client()), []
    thread = threading.Thread(target=lambda: results.append(first.run(images(1))[0]))
    thread.start()
    try:
        assert device.entered.wait(20)
        yield
    finally:
        device.gate.set()
        thread.join()
    assert np.array_equal(results[0], reference(images(1))[1].reshape(1, -1))


def test_a_second_job_waits_its_turn() -> None:
    device = GatedDevice()
    with serving(device) as running:
        second, results = Executable(make_artifact(), running.client()), []
        thread = threading.Thread(target=lambda: results.append(second.run(images(2))[0]))
        with busy(running, device):
            thread.start()
            assert eventually(lambda: running.server.waiting == 1)
            assert not results
        thread.join()
        assert np.array_equal(results[0], reference(images(2))[1].reshape(2, -1))
        assert device.released == 2
        assert running.server.waiting == 0


def test_a_second_job_that_has_waited_long_enough_is_told_who_has_the_device() -> None:
    device = GatedDevice()
    with serving(device) as running:
        with busy(running, device):
            for patience in (0, 1.2):
                second = Executable(make_artifact(), running.client(wait=patience))
                told = r"the device is taken: 127\.0\.0\.1:\d+ has had it for \d+ s, place 1 of 1 in the queue"
                told += rf"; waited {patience:.0f} s for it"
                with pytest.raises(RemoteError, match=told):
                    second.run(images(1))
            assert running.server.waiting == 0
        assert running.is_well()


def test_a_client_that_waits_tells_its_user_its_place() -> None:
    device = GatedDevice()
    with serving(device) as running:
        with busy(running, device):
            first = greet(running, wait=60)
            assert eventually(lambda: running.server.waiting == 1)
            second, told = running.client(wait=1.5), list[str]()
            second.notice = told.append
            with pytest.raises(RemoteError, match="place 2 of 2 in the queue; waited 2 s"):
                second.allocate(make_program(), 1)
            assert any("waiting for the device: 127.0.0.1:" in t and "place 2 of 2 in the queue" in t for t in told)
            first.close()
        assert running.is_well()


def test_two_clients_that_fault_in_turn_a_thousand_times() -> None:
    """Neither ever meets anything but its own fault: not the other's, no device that is taken, no lost connection."""
    board, met, rounds = Failing(TINY), Counter[str](), 500
    with serving(board) as running:

        def client() -> None:
            executable = Executable(make_artifact(), running.client())
            for _ in range(rounds):
                try:
                    executable.run(images(1))
                    met["no fault"] += 1
                except TilewrightError as error:
                    met[str(error)] += 1

        threads = [threading.Thread(target=client) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert met == {f"{running.url}: fault BUS_ERROR at instruction 3 of layer conv: no answer": 2 * rounds}
        assert sum(line.endswith(": done") for line in running.lines) == 2 * rounds, "each said goodbye"
        board.fail = False
        assert running.is_well()


def test_a_server_that_lets_clients_wait_for_ever_is_left(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: Turns, peer: str, seconds: float, notice: Notice) -> None:
        while True:
            notice("nobody")
            time.sleep(0.05)

    device = running.client(wait=0)
    monkeypatch.setattr(Turns, "take", never)
    monkeypatch.setattr("tilewright.runtime.remote.greeting._CONNECT_SECONDS", 0.5)
    with pytest.raises(RemoteError, match="the device is taken: nobody; waited 0 s"):
        device.allocate(make_program(), 1)


def test_clients_that_wait_and_go_are_forgotten() -> None:
    device = GatedDevice()
    with serving(device) as running:
        with busy(running, device):
            waiting = greet(running, wait=60)
            assert eventually(lambda: running.server.waiting == 1)
            told = waiting.receive()[0]["waiting"]
            assert re.fullmatch(r"127\.0\.0\.1:\d+ has had it for \d+ s, place 1 of 1 in the queue", told)
            waiting.close()
            assert eventually(lambda: running.server.waiting == 0)
        assert running.is_well()


def test_clients_that_wait_for_a_server_that_is_closed_are_told() -> None:
    device = GatedDevice()
    with serving(device) as running, busy(running, device):
        waiting = greet(running, wait=60)
        assert eventually(lambda: running.server.waiting == 1)
        running.server.close()
        while "waiting" in (reply := waiting.receive()[0]):
            assert reply["waiting"]
        assert reply == {"error": "closed", "message": "the server was closed"}


@pytest.mark.parametrize("wait", [None, "60", True, -1, [60]])
def test_a_client_that_does_not_say_how_long_it_waits_is_told_at_once(wait: object) -> None:
    device = GatedDevice()
    with serving(device) as running, busy(running, device):
        assert greet(running, wait=wait).receive()[0]["error"] == "busy"


def test_a_greeting_that_is_no_json_ends_the_connection() -> None:
    """NaN, which Python writes and JSON has not."""
    device = GatedDevice()
    with (
        serving(device) as running,
        busy(running, device),
        pytest.raises(ConnectionLost, match="closed the connection"),
    ):
        greet(running, wait=float("nan")).receive()


def test_turns_come_in_order() -> None:
    turns, order = Turns(), []
    turns.take("first", 0, lambda taken: None)

    def wait(name: str) -> None:
        turns.take(name, 60, lambda taken: None)
        order.append(name)
        turns.give_back()

    names = [f"client {number}" for number in range(8)]
    threads = []
    for number, name in enumerate(names):
        threads.append(threading.Thread(target=wait, args=(name,)))
        threads[-1].start()
        assert eventually(lambda expected=number + 1: turns.waiting == expected)  # type: ignore[misc]
    with pytest.raises(TakenError, match=r"first has had it for 0 s, place 9 of 9 in the queue; waited 0 s"):
        turns.take("hasty", 0, lambda taken: None)
    turns.give_back()
    for thread in threads:
        thread.join()
    assert order == names
    turns.take("last", 0, lambda taken: None)


CLIENT = """
import sys
from tests.runtime.network import TINY, images, make_artifact
from tilewright.errors import TilewrightError
from tilewright.runtime.executable import Executable
from tilewright.runtime.remote.client import RemoteDevice
Executable(make_artifact(), RemoteDevice(TINY, sys.argv[1])).run(images(3))
"""


def test_a_client_killed_in_the_middle_leaves_the_device_free() -> None:
    device = GatedDevice()
    with serving(device) as running:
        client = subprocess.Popen([sys.executable, "-c", CLIENT, running.url], cwd=REPOSITORY)
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
    with serving(limits=Limits(idle_seconds=1)) as running:
        device = running.client()
        allocation = device.allocate(make_program(), 1)
        assert running.saw("no whole message came in 1 s")
        with pytest.raises(ConnectionLost):
            device.read(allocation, INPUT, 0, 0, 4)
        with pytest.raises(RemoteError, match="the connection was lost, the segments with it; run again"):
            device.read(allocation, INPUT, 0, 0, 4)
        device.release(allocation)
        assert running.is_well()
