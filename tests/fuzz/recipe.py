"""Networks as plain data: what was drawn, from which the file is built again.

A recipe is a list of steps. Each calls one method of :class:`TfliteNet` or :class:`OnnxNet` on the results of earlier
steps; its weights come from a generator of its own, so that changing one step leaves the others as they were.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.onnx_net import OnnxNet
from tests.fuzz.tensors import BuildError, Tensor
from tests.fuzz.tflite_net import TfliteNet

FRONTENDS = {"tflite": TfliteNet, "onnx": OnnxNet}
_STATE = ("tensors", "operators", "inputs", "nodes", "constants", "graph_inputs")


@dataclass(frozen=True)
class Step:
    """One call: ``kind`` names the method, ``inputs`` the results it takes (``"3"``, or ``"3.1"`` of several)."""

    number: int
    kind: str
    inputs: tuple[str, ...] = ()
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """A network: front end, seed of the weights, options of the builder, steps, and the results that are outputs.

    ``stored`` (ONNX) says which outputs are given as integers.
    """

    frontend: str
    seed: int
    options: dict[str, Any]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    stored: tuple[bool, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values; :meth:`from_dict` gives an equal recipe back."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Recipe:
        """The recipe of a mapping."""
        steps = (Step(s["number"], s["kind"], tuple(s["inputs"]), s["args"]) for s in values["steps"])
        return cls(
            values["frontend"], values["seed"], values["options"], tuple(steps), tuple(values["outputs"]),
            tuple(values["stored"]),
        )  # fmt: skip

    @classmethod
    def load(cls, path: str | Path) -> Recipe:
        """The recipe of a JSON file that a campaign or the shrinker wrote."""
        values = json.loads(Path(path).read_text())
        return cls.from_dict(values.get("recipe", values))

    def kinds(self) -> Counter[str]:
        """How often each kind of step occurs, inputs and constants left out."""
        return Counter(s.kind for s in self.steps if s.kind not in ("input", "constant_tensor"))

    def without_unused(self) -> Recipe:
        """The recipe without the steps that no output needs; inputs stay if they are read."""
        needed = {source(ref) for ref in self.outputs}
        kept = []
        for step in reversed(self.steps):
            if step.number in needed:
                kept.append(step)
                needed |= {source(ref) for ref in step.inputs}
        return dataclasses.replace(self, steps=tuple(reversed(kept)))

    def __str__(self) -> str:
        options = ", ".join(f"{k}={v!r}" for k, v in self.options.items())
        lines = [f"{self.frontend} ({options})"]
        for step in self.steps:
            args = ", ".join([*(f"%{ref}" for ref in step.inputs), *(f"{k}={v!r}" for k, v in step.args.items())])
            lines.append(f"  %{step.number} = {step.kind}({args})")
        return "\n".join([*lines, f"  return {', '.join('%' + ref for ref in self.outputs)}"])


def source(ref: str) -> int:
    """The number of the step whose result ``ref`` is."""
    return int(ref.partition(".")[0])


class Assembly:
    """A network while it is built from steps."""

    def __init__(self, frontend: str, seed: int, options: dict[str, Any]) -> None:
        self.seed = seed
        self.net: Any = FRONTENDS[frontend](seed, **options)
        self.results: dict[str, Tensor] = {}

    def apply(self, step: Step) -> list[str]:
        """Do one step; returns the names of its results. Raises BuildError and leaves the network as it was."""
        mark = [(getattr(self.net, name), len(getattr(self.net, name))) for name in _STATE if hasattr(self.net, name)]
        macs = self.net.macs
        self.net.rng = np.random.default_rng([self.seed, step.number])
        try:
            tensors = [self.results[ref] for ref in step.inputs]
            made = getattr(self.net, step.kind)(*tensors, **step.args)
        except (BuildError, IndexError, ValueError, TypeError, KeyError, ZeroDivisionError, OverflowError) as error:
            for items, length in mark:
                del items[length:]
            self.net.macs = macs
            raise BuildError(f"step {step.number}, {step.kind}: {error}") from error
        results = made if isinstance(made, list) else [made]
        names = [f"{step.number}.{k}" for k in range(len(results))] if len(results) > 1 else [str(step.number)]
        self.results |= dict(zip(names, results, strict=True))
        return names


def build(recipe: Recipe, path: str | Path) -> Assembly:
    """Write the file of a recipe. Raises BuildError where its steps do not fit together."""
    assembly = Assembly(recipe.frontend, recipe.seed, recipe.options)
    for step in recipe.steps:
        assembly.apply(step)
    missing = [ref for ref in recipe.outputs if ref not in assembly.results]
    if missing:
        raise BuildError(f"output {missing[0]}: no step gives it")
    outputs = [assembly.results[ref] for ref in recipe.outputs]
    if recipe.frontend == "onnx":
        assembly.net.save(path, outputs, stored=recipe.stored or False)
    else:
        assembly.net.save(path, outputs)
    return assembly
