"""Compiler options as parameters of a space: what ``jit.compile_graph`` offers, by name.

Points hold them under ``compiler.NAME``. They change no hardware, so they are no part of a Config.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.config import Config
from tilewright.jit.compiler import POLICIES, CompiledGraph, compile_graph
from tilewright.jit.graph import Graph
from tilewright.jit.plan.policy import Policy

PREFIX = "compiler."
#: the compiler tries every policy and keeps the fastest program
FASTEST = "fastest"


def policy_name(policy: Policy) -> str:
    """``wide-4``: order of the network's tasks, and rows held beyond the least (``all`` if they fit)."""
    rows = "all" if policy.slack is None else str(policy.slack)
    return f"{'deep' if policy.deep else 'wide'}-{rows}"


SCHEDULES: dict[str, tuple[Policy, ...]] = {FASTEST: POLICIES} | {policy_name(p): (p,) for p in POLICIES}

#: option -> its legal values; networks that are larger than the chip follow a plan whatever ``schedule`` says
LEGAL: dict[str, list[Any]] = {
    PREFIX + "schedule": list(SCHEDULES), PREFIX + "keep_intermediates": [False, True],
    PREFIX + "substitutions": [False, True],
}  # fmt: skip


@dataclass(frozen=True)
class CompilerOptions:
    """How the networks of a point are compiled."""

    schedule: str = FASTEST  #: a name of :data:`SCHEDULES`; seen by both fidelities
    keep_intermediates: bool = False  #: store every operator's output; seen by both fidelities
    #: look for those that pay, at each point, if the others have their defaults; seen by both fidelities
    substitutions: bool = False

    @classmethod
    def of(cls, point: Mapping[str, Any]) -> CompilerOptions:
        """The options among a point's parameters; the others keep their defaults."""
        return cls(**{name.removeprefix(PREFIX): value for name, value in point.items() if name.startswith(PREFIX)})

    def compile(self, graph: Graph, config: Config) -> CompiledGraph:
        """``compile_graph`` with these options. Raises :class:`PlaceError`."""
        policies = SCHEDULES[self.schedule]
        wanted = None if self.substitutions else ()
        return compile_graph(
            graph, config, keep_intermediates=self.keep_intermediates, policies=policies, substitutions=wanted
        )
