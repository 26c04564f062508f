"""A whole model file for a Config: what does not fit the accelerator goes back to the file's interpreter, and again."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from tilewright.config import Config
from tilewright.jit.compiler import CompiledGraph, compile_graph
from tilewright.jit.errors import ModelError, NeedsHost
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.graph import Interpreted
from tilewright.jit.importer import ImportedModel, lower_source
from tilewright.jit.plan.policy import POLICIES, Policy
from tilewright.jit.source import Source
from tilewright.jit.split.steps import Split
from tilewright.jit.stages import PartOf
from tilewright.jit.substitute import Substitutions
from tilewright.progress import Progress
from tilewright.runtime import interpreters

_WHOLE = "within the whole model alone it is sure to add in the order of its interpreter"


@dataclass
class CompiledModel:
    """A model and what it was compiled to. ``moved``: (operator, reason) of what the accelerator would take in
    principle but this Config, or the proof of the program, did not."""

    model: ImportedModel
    compiled: CompiledGraph
    moved: list[tuple[str, str]]

    def operators(self) -> list[dict[str, Any]]:
        """One entry for each operator of the file: name, kind, where it runs, why, and what is known of exactness."""
        placed: dict[int, tuple[str, str]] = {}
        layers = [layer for program in self.compiled.programs for layer in program.meta["layers"]]
        pads = {pad: f"the padding of {layer['name']}" for layer in layers for pad in layer.get("pads", ())}
        for op in self.model.graph.ops:
            place, reason = self.compiled.placement[op.name]
            reason = pads.get(op.name, reason)
            if isinstance(op, Interpreted):
                place = "interpreter"
            for index in op.covers:
                placed.setdefault(index, (place, reason))
        known = {layer.name: layer for layer in self.model.exactness}
        refused = {layer.name: layer.worst for layer in self.model.built.doubtful}
        entries = []
        for operator in self.model.source.operators:
            if operator.added:
                continue
            note = self.model.built.notes.get(operator.index, "nothing reads its result")
            place, reason = placed.get(operator.index, ("none", note))
            layer = known.get(operator.name)
            exact = "by construction" if place in ("interpreter", "none") else "proven"
            if place != "none" and layer is not None and not layer.proven:
                exact = layer.method
            if place in ("accelerator", "host") and layer is not None and not layer.proven and layer.bound:
                exact = f"{layer.exact} of {layer.channels} channels, the others within {layer.bound} LSB"
            entry = {
                "name": operator.name, "op": operator.kind, "macs": operator.macs, "place": place,
                "reason": reason, "exact": exact, "title": operator.title,
            }  # fmt: skip
            if place == "interpreter" and operator.name in refused:
                entry["in_doubt"] = refused[operator.name]
            entries.append(entry)
        return entries


def compile_source(
    source: Source,
    config: Config,
    *,
    keep_intermediates: bool = False,
    fast_host: bool = False,
    progress: Progress | None = None,
    left: Mapping[int, str] | None = None,
    part_of: PartOf | None = None,
    split: Mapping[str, Split] | None = None,
    remembered: dict[Hashable, Any] | None = None,
    kept: Set[int] = frozenset(),
    substitutions: Substitutions | None = None,
    policies: tuple[Policy, ...] = POLICIES,
) -> CompiledModel:
    """Compile every operator of a model file for a Config: any valid model gets a result.

    ``left``: operators, by position in the file, that the interpreter shall run though the accelerator would, and why;
    ``kept``: those that stay on the accelerator though they are alone between the interpreter's; ``part_of``,
    ``split``, ``remembered``, ``substitutions`` and ``policies`` as :func:`compile_graph` takes them. Raises ModelError
    for a model without inputs.
    """
    moved: dict[int, str] = dict(left or {})
    remembered = {} if remembered is None else remembered
    unproven: list[LayerExactness] = []

    def cut(operators: list[int], inputs: list[str], outputs: list[str]) -> tuple[bytes, str, bool]:
        part = source.cut(operators, inputs, outputs)
        names = [source.operators[i].name for i in operators]
        interpreters.load(source.runtime, part, f"{source.path}: {', '.join(names[:3])}", fast=fast_host)
        unproven.extend(source.unproven(part))
        return part, source.runtime, source.is_stateful(operators)

    while True:
        model = lower_source(source, moved, kept)
        if not model.graph.inputs:
            raise ModelError(f"{source.path}: takes no input: its outputs are constants, which need no accelerator")
        unproven.clear()
        try:
            compiled = compile_graph(
                model.graph, config, keep_intermediates=keep_intermediates, progress=progress, fast_host=fast_host,
                cut=cut, remembered=remembered, part_of=part_of, split=split, substitutions=substitutions,
                policies=policies,
            )  # fmt: skip
        except NeedsHost as refusal:
            new = {i: reason for i, reason in refusal.operators.items() if i not in moved}
            if not new:
                raise
            moved |= new
            continue
        whole = {op.index: _WHOLE for op in source.operators}
        if unproven and source.exact == "proven" and moved != whole:
            moved = whole
            continue
        model.exactness.extend(unproven)
        names = {op.index: op.name for op in source.operators}
        return CompiledModel(model, compiled, [(names[i], reason) for i, reason in sorted(moved.items())])
