"""Tilewright: a deep-learning accelerator you can change, with everything needed to run real networks on it.

>>> import tilewright as tw
>>> exe = tw.compile("model.tflite", config="pynq-z2")
>>> y, report = exe.run(x)

The names below are imported when first used, so that a board or a small tool loads only what it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.tvm_libraries import register_when_loaded

if TYPE_CHECKING:
    from tilewright.compiling import compile
    from tilewright.config import PRESETS, Config, load_config
    from tilewright.errors import TilewrightError
    from tilewright.exploring import Exploration, explore
    from tilewright.runtime.executable import Executable, load
    from tilewright.runtime.report.report import Report

__version__ = "0.1.0"

__all__ = [
    "PRESETS",
    "Config",
    "Executable",
    "Exploration",
    "Report",
    "TilewrightError",
    "__version__",
    "compile",
    "explore",
    "load",
    "load_config",
]

_HOMES = {
    "PRESETS": "tilewright.config",
    "Config": "tilewright.config",
    "Executable": "tilewright.runtime.executable",
    "Exploration": "tilewright.exploring",
    "Report": "tilewright.runtime.report.report",
    "TilewrightError": "tilewright.errors",
    "compile": "tilewright.compiling",
    "explore": "tilewright.exploring",
    "load": "tilewright.runtime.executable",
    "load_config": "tilewright.config",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))


register_when_loaded()
