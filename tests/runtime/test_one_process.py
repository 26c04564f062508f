"""Executables, devices and streams are of one process; what is no device and no number is refused by name."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.runtime.network import TINY, images, make_artifact, reference
from tilewright.errors import TilewrightError
from tilewright.runtime.device import DeviceError
from tilewright.runtime.executable import Executable, InputError
from tilewright.runtime.sim_device import SimDevice


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("what", ["executable", "device", "stream"])
def test_what_is_of_one_process_is_not_copied(copied: Callable[[Any], Any], what: str) -> None:
    executable = Executable(make_artifact())
    object_ = {"executable": executable, "device": executable.device, "stream": executable.stream()}[what]
    with pytest.raises(TilewrightError, match="cannot be copied or pickled; (save|open|begin)"):
        copied(object_)


@pytest.mark.parametrize("device", [5, None, SimDevice, TINY])
def test_what_is_no_device(device: Any) -> None:
    with pytest.raises(DeviceError, match=r"^device: must be a device's name \(sim, .*not "):
        Executable(make_artifact(), device)


def test_masked_elements_are_no_numbers() -> None:
    executable, x = Executable(make_artifact()), images(2)
    whole = np.ma.masked_array(x, mask=False)
    assert np.array_equal(executable(whole), reference(x)[1].reshape(2, 32))
    whole[1, ..., 0] = np.ma.masked
    with pytest.raises(InputError, match="masked in places.*x.filled"):
        executable(whole)
