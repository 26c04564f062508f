"""The ports of a kernel, from its Verilog as Vitis HLS has written it. Standard library only, as the join."""

from __future__ import annotations

import ast
import itertools
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_OPERATORS: Mapping[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
}  # fmt: skip


class JoinError(Exception):
    """A kernel's ports are not what the shapes ask for; the message names kernel and port."""


@dataclass(frozen=True)
class Signal:
    """A port of a kernel."""

    name: str
    output: bool
    width: int


@dataclass
class Kernel:
    """A kernel's ports; ``left``: those that nothing has been connected to yet."""

    name: str
    ports: dict[str, Signal]
    wires: dict[str, str] = field(default_factory=dict)

    def find(self, port: str) -> Signal:
        """A port by name. Raises :class:`JoinError` if there is none."""
        if port not in self.ports:
            raise JoinError(f"kernel {self.name}: has no port {port}")
        return self.ports[port]

    def connect(self, port: str, wire: str, width: int, output: bool) -> None:
        """Name the wire of a port. Raises :class:`JoinError` if the port is not of that kind."""
        found = self.find(port)
        if (found.width, found.output) != (width, output):
            way = "an output" if output else "an input"
            raise JoinError(f"kernel {self.name}: port {port} has {found.width} bits, {width} and {way} are expected")
        self.wires[port] = wire


def parse_ports(text: str, module: str) -> dict[str, Signal]:
    """The ports of a module in Verilog as Vitis HLS writes it: names in the header, declarations below."""
    start = re.search(rf"^module\s+{re.escape(module)}\b", text, re.MULTILINE)
    if start is None:
        raise JoinError(f"module {module}: is not in its file")
    body = text[start.end() : text.index("endmodule", start.end())]
    names: dict[str, int] = {}
    for name, value in re.findall(r"^\s*parameter\s+(\w+)\s*=\s*([^;]+);", body, re.MULTILINE):
        try:
            names[name] = _integer(value, names)
        except (JoinError, SyntaxError):
            continue  # states of a machine and the like, in based literals: no width depends on them
    ports = {}
    for way, _, high, low, name in re.findall(
        r"^\s*(input|output)\s+(?:reg\s+|wire\s+)?(\[\s*([^:\]]+):\s*([^\]]+)\])?\s*(\w+)\s*;", body, re.MULTILINE
    ):
        width = _integer(high, names) - _integer(low, names) + 1 if high else 1
        ports[name] = Signal(name, way == "output", width)
    if not ports:
        raise JoinError(f"module {module}: no ports found")
    return ports


def _integer(text: str, names: Mapping[str, int]) -> int:
    """The value of a constant expression of integers, names, + - * / and brackets."""

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.Name) and node.id in names:
            return names[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return int(_OPERATORS[type(node.op)](value(node.left), value(node.right)))
        raise JoinError(f"{text.strip()}: not a constant expression that is understood")

    return value(ast.parse(text.strip(), mode="eval").body)


def memory_ports(kernel: Kernel, argument: str, dims: Sequence[int]) -> dict[tuple[int, ...], tuple[str, list[str]]]:
    """The RAM ports of an array argument: index of bank and slice -> (prefix of the names, sides ``"0"``, ``"1"``).

    A dimension of size 1 may be left out of the names.
    """
    pattern = re.compile(rf"({re.escape(argument)}((?:_\d+)*))_address([01])")
    groups: dict[tuple[int, ...], tuple[str, list[str]]] = {}
    for name in kernel.ports:
        if match := pattern.fullmatch(name):
            index = tuple(map(int, match.group(2).split("_")[1:]))
            groups.setdefault(index, (match.group(1), []))[1].append(match.group(3))
    expected = list(itertools.product(*(range(n) for n in dims)))
    short = {tuple(i for i, n in zip(index, dims) if n > 1): index for index in expected}
    full = {index: places for index, places in groups.items() if index in set(expected)}
    if len(full) == len(expected) == len(groups):
        return full
    if set(groups) == set(short):
        return {short[index]: places for index, places in groups.items()}
    raise JoinError(
        f"kernel {kernel.name}: array {argument} has {len(groups)} memory ports, {len(expected)} are expected "
        f"({' x '.join(map(str, dims)) or 'one'}); was it partitioned as its pragmas ask?"
    )
