"""TVM libraries with accelerator parts find ``tilewright.run`` once this package is imported, whatever comes first.

Importing TVM for everybody would be dear, so the function is registered when TVM's interface is there: at once if it is
loaded already, else by the very import that loads it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

INTERFACE = "tvm_ffi"  #: the package that holds the table of functions


def register_when_loaded() -> None:
    """Register ``tilewright.run`` now or when TVM's interface is imported."""
    if INTERFACE in sys.modules:
        _register()
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _register() -> None:
    from tilewright.runtime.tvm_call import register_runner

    register_runner()


class _Finder:
    """Finds the interface as everybody does, but has the function registered when it has been loaded.

    No subclass of what ``importlib.abc`` has for it: that loads many modules, for everybody.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != INTERFACE:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_register(module: ModuleType) -> None:
                load(module)
                _register()

            spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec
