"""What of a Relax module the accelerator takes with ONNX Runtime's integers: what it takes of the same model as a file.

Stretches of ``main`` are written as ONNX (:mod:`tilewright.jit.relax.raised`) and read like files. Operators that the
reader leaves to the file's interpreter are TVM's; the stretches between them are written again, until each is the
accelerator's as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewright.config import Config
from tilewright.jit.defects import why_not
from tilewright.jit.errors import ModelError, NeedsHost, PlaceError
from tilewright.jit.graph import Graph, Interpreted
from tilewright.jit.importer import lower_source
from tilewright.jit.relax import compat, compat_passes
from tilewright.jit.relax.compat import Expr, Var
from tilewright.jit.relax.line import Line, Stretch
from tilewright.jit.relax.model import Model
from tilewright.jit.relax.operators import ROWS
from tilewright.jit.relax.raised import biases, raised
from tilewright.jit.relax.region import refusal
from tilewright.jit.sides import accelerator_graphs, subgraph
from tilewright.jit.source.onnx.prepared import computed_types
from tilewright.jit.source.onnx.source import OnnxSource

_QUIET = ("quantize", "dequantize")
_NOTHING = "no operator of the accelerator beside it"


class Claims:
    """The stretches of a function, and for each operator that TVM keeps the reason."""

    def __init__(self, function: Expr, config: Config | None, attributes: Mapping[str, str]) -> None:
        """``attributes``: of the functions that the stretches of the accelerator become."""
        self.line, self._config, self._attributes = Line.of(function), config, attributes
        self._functions: dict[tuple[Var, ...], Expr] = {}
        self.left: dict[Var, str] = {}
        for var in self.line.solid:
            try:
                written(self.line, self.line.stretch([var]), {})
            except Exception as error:  # noqa: BLE001 - why_not() raises or reports all but refusals
                self.left[var] = why_not(error, str(var.name))
        judged: dict[tuple[Var, ...], dict[Var, str]] = {}
        again = True
        while again:
            self.stretches = self.line.stretches(self.left)
            again = False
            for stretch in self.stretches:
                key = tuple(stretch.members)
                if stretch.accelerated and key not in judged:
                    judged[key] = self._given_back(stretch)
                    self.left |= judged[key]
                    again |= bool(judged[key])

    def reasons(self) -> Counter[str]:
        """``operator: reason``, with how many there are; without those that quantise the result of another."""
        names = {var: compat.op_name(self.line.bound[var]).removeprefix("relax.") for var in self.left}
        telling = {reason for var, reason in self.left.items() if names[var] not in _QUIET}
        return Counter(
            f"{names[var] or 'call'}: {reason}"
            for var, reason in self.left.items()
            if names[var] not in _QUIET or reason not in telling
        )

    def function(self, stretch: Stretch) -> Expr:
        """A stretch of the accelerator as a function of its own."""
        return self._functions[tuple(stretch.members)]

    def _given_back(self, stretch: Stretch) -> dict[Var, str]:
        """The operators of a stretch that the accelerator does not take, and why."""
        bound = [binding for binding in self.line.bindings if binding.var in stretch.all]
        function, new = compat_passes.function_of(
            stretch.inputs, bound, stretch.outputs, self._attributes, self.line.handed_over(stretch)
        )
        self._functions[tuple(stretch.members)] = function
        everything = dict.fromkeys(stretch.members)
        try:
            origin, graph = read(function, "main")
            foreign = {i: op.reason for op in graph.ops if isinstance(op, Interpreted) for i in op.covers}
            found = foreign or self._refused(graph)
        except PlaceError as error:
            return dict.fromkeys(everything, str(error))
        except ModelError as error:
            return self._not_run(stretch.members) or dict.fromkeys(everything, str(error))
        if found is None:
            return dict.fromkeys(everything, _NOTHING)
        reasons = {var: reason for i, reason in found.items() for var in origin[i]}
        back = {var: reasons[new[var]] for var in everything if new[var] in reasons}
        return back or dict.fromkeys(everything, next(iter(found.values()), "")) if found else {}

    def _not_run(self, members: list[Var]) -> dict[Var, str]:
        """The operators of a refused stretch that ONNX Runtime does not run alone either."""
        found: dict[Var, str] = {}
        for var in members:
            stretch = self.line.stretch([var])
            model, content = written(self.line, stretch, {})
            try:
                computed_types(Path("main"), content, [model.names[t] for t in stretch.outputs])
            except ModelError as error:
                found[var] = str(error)
        return found

    def _refused(self, graph: Graph) -> dict[int, str] | None:
        """By position in the written model, what the memories of the Config cannot hold; None for a graph of which
        nothing is the accelerator's."""
        try:
            parts = accelerator_graphs(graph, self._config)
        except NeedsHost as error:
            return error.operators
        if self._config is None or not parts:
            return {} if parts else None
        found: dict[int, str] = {}
        for part in parts:
            for op in part.ops:
                reason = refusal(subgraph(part, [op], False), self._config)
                if reason is not None:
                    found |= dict.fromkeys(op.covers, reason)
        return found


def written(line: Line, stretch: Stretch, sums: dict[Var, tuple[Var, Expr]]) -> tuple[Model, Any]:
    """A stretch as an ONNX model."""
    inside = stretch.all
    model = Model(ROWS, {var: value for var, value in line.bound.items() if var in inside})
    model.added = {var: pair for var, pair in sums.items() if var in inside and pair[0] in inside}
    return model, raised(stretch.inputs, model, stretch.outputs, stretch.members)


def read(function: Expr, name: str) -> tuple[list[set[Var]], Graph]:
    """The graph of a function, written as ONNX; of each operator of that, the variables that it computes."""
    line = Line.of(function)
    (whole,) = line.stretches(())
    stretch = replace(whole, inputs=line.inputs, outputs=line.results)
    model, content = written(line, stretch, biases(line.bound, line.users))
    return model.origin, lower_source(OnnxSource(Path(name), content=content.SerializeToString()), {}).graph
