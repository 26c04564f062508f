"""One job at a time: a hasty second one, and clients that die, stop or fall silent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from tests.conftest import REPOSITORY
from tests.isa.build import INPUT
from tests.runtime.network import images, make_artifact, make_program, reference
from tests.runtime.remote.serving import TOKEN, GatedDevice, Running, eventually, serving
from tilewright.runtime.executable import Executable
from tilewright.runtime.remote.frames import ConnectionLost, RemoteError
from tilewright.runtime.remote.server import Limits


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
        client = subprocess.Popen([sys.executable, "-c", CLIENT, running.url, TOKEN], cwd=REPOSITORY)
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
