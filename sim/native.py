"""The Numba decorator of this package; see :mod:`tilewright.isa.compiled`."""

from __future__ import annotations

from pathlib import Path

from tilewright.isa.compiled import compiler, package_folder

CACHE_FOLDER = package_folder("kernels", Path(__file__).parent)

compiled = compiler(CACHE_FOLDER, nogil=True)  # several threads may each simulate something
