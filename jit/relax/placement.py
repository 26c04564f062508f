"""What the pipeline has done with a Relax module: the regions on the accelerator, and what TVM keeps."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.jit.graph import Graph, HostOp
from tilewright.jit.relax import compat

REASONS_ATTRIBUTE = "tilewright.reasons"  #: on main: why TVM keeps operators, as JSON


@dataclass(frozen=True)
class Placement:
    """``regions``: the operators of each on the accelerator, by kind; ``left``: Relax operators that TVM keeps.

    ``reasons``: with the integers of ONNX Runtime, ``operator: why`` of those that TVM keeps for a reason of their own.
    """

    config: str
    device: str
    regions: Mapping[str, Mapping[str, int]]
    left: Mapping[str, int]
    reasons: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        count = f"{len(self.regions)} region{'s' * (len(self.regions) != 1)}"
        lines = [f"{count} for {self.config} on {self.device}"]
        lines += [f"  {name}: {_listed(kinds)}" for name, kinds in self.regions.items()]
        why = [f"    {count} {reason}" for reason, count in self.reasons.items()]
        return "\n".join([*lines, f"  TVM keeps: {_listed(self.left)}", *why])


def placement(mod: Any, graphs: Mapping[str, Graph], config: str, device: str) -> Placement:
    """Of a partitioned module with the graphs of its regions."""
    kinds = {name: Counter(op.kind for op in graph.ops if not isinstance(op, HostOp)) for name, graph in graphs.items()}
    names = (compat.op_name(binding.value) for binding in compat.bindings(mod["main"]))
    left = Counter(name.removeprefix("relax.") for name in names if name)
    reasons = json.loads(compat.attribute(mod["main"], REASONS_ATTRIBUTE) or "{}")
    return Placement(config, device, kinds, left, reasons)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(name if n == 1 else f"{n} {name}" for name, n in counts.items()) or "nothing"
