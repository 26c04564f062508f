"""The edges of a whole model: transposes and float quantisation between the user's tensors and the graph's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit import compat
from tilewright.jit.compat import Expr, Var
from tilewright.runtime import host


@dataclass(frozen=True)
class EdgeSpec:
    """One input or output of the model as its user sees it, and the graph tensor behind it.

    The graph's tensor is the user's, quantised where ``dtype`` is float32 (``scale``, ``zero_point`` as the file has
    them), with the axes taken in the order ``permutation`` (NCHW files: (0, 2, 3, 1); identity otherwise).
    """

    name: str
    tensor: str
    shape: tuple[int, ...]
    dtype: str
    scale: float
    zero_point: int
    permutation: tuple[int, ...]

    def pack(self, value: NDArray[Any]) -> NDArray[Any]:
        """The user's tensor as the graph's input."""
        value = np.asarray(value)
        if value.shape != self.shape or value.dtype != self.dtype:
            raise ValueError(f"input {self.name!r} is {value.dtype}{value.shape}, expected {self.dtype}{self.shape}")
        if self.dtype == "float32":
            value = host.quantize(value, self.scale, self.zero_point)
        return np.ascontiguousarray(value.transpose(self.permutation))

    def unpack(self, value: NDArray[Any]) -> NDArray[Any]:
        """The graph's output as the user's tensor."""
        inverse = np.argsort(self.permutation)
        value = np.ascontiguousarray(np.asarray(value).transpose(inverse))
        return host.dequantize(value, self.scale, self.zero_point) if self.dtype == "float32" else value


@dataclass(frozen=True)
class Edge:
    """``outer`` is the user's variable, ``inner`` the integer tensor next to the composites."""

    outer: Var
    inner: Var
    permutation: tuple[int, ...]


@dataclass
class Edges:
    """What :func:`peel` found; ``skip`` holds the variables whose bindings belong to the edges."""

    inputs: list[Edge] = field(default_factory=list)
    outputs: list[Edge] = field(default_factory=list)
    skip: set[Var] = field(default_factory=set)


_AT_INPUT = ("relax.permute_dims", "relax.quantize")
_AT_OUTPUT = ("relax.permute_dims", "relax.dequantize")


def peel(main: Expr) -> Edges:
    """Follows transposes and quantisation inwards from the parameters, and outwards to the results."""
    bindings = compat.bindings(main)
    bound = {b.var: b.value for b in bindings}
    users: dict[Var, list[Var]] = {}
    for binding in bindings:
        for arg in _operands(binding.value):
            users.setdefault(arg, []).append(binding.var)
    edges = Edges()
    for param in main.params:
        var, axes = param, tuple(range(len(compat.shape(param))))
        while len(users.get(var, ())) == 1 and compat.op_name(bound[users[var][0]]) in _AT_INPUT:
            var = users[var][0]
            edges.skip.add(var)
            if compat.op_name(bound[var]) == "relax.permute_dims":
                axes = _then(axes, compat.permutation(bound[var]))
        edges.inputs.append(Edge(param, var, axes))
    for out in results(main):
        var, axes = out, tuple(range(len(compat.shape(out))))
        while True:
            value = bound.get(var)
            if compat.is_var(value):
                edges.skip.add(var)
                var = value
            elif compat.op_name(value) in _AT_OUTPUT and len(users.get(compat.arguments(value)[0], ())) == 1:
                edges.skip.add(var)
                if compat.op_name(value) == "relax.permute_dims":
                    axes = _then(axes, tuple(np.argsort(compat.permutation(value))))
                var = compat.arguments(value)[0]
            else:
                break
        edges.outputs.append(Edge(out, var, axes))
    return edges


def results(function: Expr) -> list[Var]:
    """The variables a function returns, its result tuple taken apart."""
    value = compat.result(function)
    bound = {b.var: b.value for b in compat.bindings(function)}
    while compat.is_var(value) and (compat.is_tuple(bound.get(value)) or compat.is_var(bound.get(value))):
        value = bound[value]
    return compat.fields(value) if compat.is_tuple(value) else [value]


def _operands(value: Expr) -> list[Var]:
    if compat.is_tuple(value):
        return [f for f in compat.fields(value) if compat.is_var(f)]
    if compat.is_call(value):
        out: list[Var] = []
        for arg in compat.arguments(value):
            out += _operands(arg) if compat.is_tuple(arg) else [arg] if compat.is_var(arg) else []
        return out
    return [value] if compat.is_var(value) else []


def _then(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that transposes by ``first``, then by ``second``."""
    return tuple(int(first[axis]) for axis in second)
