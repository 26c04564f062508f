"""The Numba decorator of this package; see :mod:`tilewright.isa.compiled`.

``contract`` allows fused multiply-adds. All arithmetic here is on integers below 2^53, exact either way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import tilewright.sim
from tilewright.isa.compiled import compiler
from tilewright.isa.machine_code import MachineCode

F = TypeVar("F", bound=Callable[..., Any])

_CODE = MachineCode("proof", Path(__file__).parent, Path(str(tilewright.sim.__file__)).parent)
_kernel = partial(compiler, _CODE, fastmath={"contract"})

compiled = _kernel()
emitted = _kernel(in_python=False)  #: calls what is written as IR
interpretable = _kernel(interpretable=True)


def interpretable_in(seconds: Callable[..., float]) -> Callable[[F], F]:
    """The same, for a kernel whose arguments say in another way how long Python takes."""
    return _kernel(interpretable=seconds)
