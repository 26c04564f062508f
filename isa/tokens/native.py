"""The Numba decorator of this package; see :mod:`tilewright.isa.compiled`."""

from __future__ import annotations

from pathlib import Path

from tilewright.isa.compiled import compiler, package_folder

compiled = compiler(package_folder("token-kernels", Path(__file__).parent), nogil=True)
