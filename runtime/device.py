"""Devices: what can run a program. The implementations are imported on demand; all are a :class:`Device`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tilewright.config import Config
from tilewright.kinds import instance
from tilewright.runtime.device_base import Allocation, Counters, Device, DeviceError, DeviceFault, Events

__all__ = ["DEVICES", "Allocation", "Counters", "Device", "DeviceError", "DeviceFault", "Events", "open_device"]

#: device name -> "module:class"; the module is imported when the device is first asked for
DEVICES: dict[str, str] = {
    "sim": "tilewright.runtime.sim_device:SimDevice",
    "rtl": "tilewright.runtime.rtl_device:RtlDevice",
    "hls": "tilewright.runtime.hls_device:HlsDevice",
    "pynq": "tilewright.runtime.pynq_device:PynqDevice",
}


def check_device(name: str) -> None:
    """Raise :class:`DeviceError`, naming what exists, unless ``name`` is a device's or an address."""
    instance("device", name, str, f"one of {', '.join((*DEVICES, 'pynq://HOST'))}", error=DeviceError)
    if "://" not in name and name not in DEVICES:
        raise DeviceError(f"device {name}: no such device; available: {', '.join((*DEVICES, 'pynq://HOST'))}")


def open_device(name: str, config: Config, **options: Any) -> Device:
    """The device called ``name`` for ``config``. Raises :class:`DeviceError` naming what exists.

    A name with ``://`` is the address of another machine's device (``pynq://HOST``, ``tilewright.runtime.remote``).
    ``options`` go to the device's constructor, such as ``wave`` to the ``rtl`` device's.
    """
    check_device(name)
    instance("config", config, Config, "a Config; tilewright.load_config gives one by name", error=DeviceError)
    if "://" in name:
        from tilewright.runtime.remote.client import RemoteDevice

        return RemoteDevice(config, name, **options)
    module, _, attribute = DEVICES[name].partition(":")
    device: Device = getattr(import_module(module), attribute)(config, **options)
    return device
