"""Which Relax modules can be partitioned: those whose ``main`` is one straight line over tensors of known shapes."""

from __future__ import annotations

from typing import Any

from tilewright.jit.errors import ModelError
from tilewright.jit.relax import compat
from tilewright.kinds import shown


def check_module(mod: Any) -> None:
    """Raises ModelError for any other module, and for what is none."""
    if not compat.is_module(mod):
        raise ModelError(f"a Relax module (tvm.IRModule) is needed, got {shown(mod)}")
    mains = [function for gv, function in compat.functions(mod) if str(gv.name_hint) == "main"]
    if not mains:
        names = ", ".join(sorted(str(gv.name_hint) for gv, _ in compat.functions(mod))) or "none"
        raise ModelError(f"the Relax module has no function main; its functions: {names}; name the network's main")
    bindings = compat.bindings(mains[0])
    for binding in bindings:
        if compat.is_branch(binding.value):
            raise ModelError(
                f"main: {binding.name} depends on a condition (relax.If); put the branches into functions of the "
                "module, and partition each as a module of its own"
            )
    for var in (*mains[0].params, *(binding.var for binding in bindings)):
        symbol = compat.symbol(var)
        if symbol == "?":
            raise ModelError(
                f"main: the shape of {var.name} is only known when it runs; Tilewright needs static shapes"
            )
        if symbol is not None:
            raise ModelError(
                f"main: {var.name} has the open dimension {symbol}; give it a number, for instance "
                f'relax.transform.BindSymbolicVars({{"{symbol}": 1}})(mod)'
            )
