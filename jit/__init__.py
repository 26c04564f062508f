"""The compiler: model files and Relax modules in, programs and host steps out.

For a TVM user: :func:`partition_for_tilewright`, :func:`tilewright_pipeline` and :func:`relax_pipeline`; for a file:
:func:`tilewright.compile`. Names are loaded when first used, so that importing this package does not import TVM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.jit.compiler import compile_graph
    from tilewright.jit.importer import import_model
    from tilewright.jit.relax.partition import partition_for_tilewright
    from tilewright.jit.relax.vm import relax_pipeline, tilewright_pipeline

_HOMES = {
    "compile_graph": "tilewright.jit.compiler",
    "import_model": "tilewright.jit.importer",
    "partition_for_tilewright": "tilewright.jit.relax.partition",
    "relax_pipeline": "tilewright.jit.relax.vm",
    "tilewright_pipeline": "tilewright.jit.relax.vm",
}

__all__ = ["compile_graph", "import_model", "partition_for_tilewright", "relax_pipeline", "tilewright_pipeline"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
