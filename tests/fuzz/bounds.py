"""Where outputs begin to differ from the reference, and whether that is within what the compiler states.

A statement (:class:`LayerExactness`) is about one layer given its inputs, but a difference in one layer moves
everything behind it. So the network is compiled once more with every quantised tensor as an output: then each tensor
is compared with the reference where all that it depends on directly is equal.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.fuzz.compare import Array
from tests.fuzz.expose import computed_in_float, expose
from tilewright.agreement import EDGES, unequal_elements
from tilewright.checking import reference_outputs
from tilewright.config import Config, load_config
from tilewright.runtime.executable import Executable
from tilewright.runtime.records import Exact

Compiled = Callable[[Path, Exact], Executable]  #: (model file, how sure its integers are) -> it


@dataclass(frozen=True)
class Judgement:
    """Whether the differences are all within the statements; if not, where the first that is not begins."""

    within: bool
    operators: str = ""
    message: str = ""


def stated_bounds(path: Path, config: Config | str) -> dict[int, int]:
    """Largest difference by number of operator, where the compiler makes a statement (0: proven equal)."""
    from tilewright.jit.network import compile_source
    from tilewright.jit.plan.policy import POLICIES
    from tilewright.jit.source import open_source

    any_schedule = POLICIES[:1]  # all give the same integers
    model = compile_source(open_source(path), load_config(config), policies=any_schedule).model
    numbers = {operator.name: operator.index for operator in model.source.operators}
    return {numbers[s.name]: 0 if s.proven else s.bound for s in model.exactness if s.name in numbers}


def judge(path: Path, config: Config | str, inputs: list[Array], compiled: Compiled) -> Judgement:
    """Find the first tensor that differs from equal inputs by more than is stated, of a file that is ``compiled``."""
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        target = Path(folder) / path.name
        exposed = expose(path, target)
        loose = computed_in_float(target)
        try:
            bounds = stated_bounds(target, config)
            expected = reference_outputs(target, inputs)
            outputs = _outputs(compiled(target, "default"), inputs)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported beside the wrong integers
            if _only_unproven(path, config, inputs, compiled):
                return Judgement(True)
            reason = " ".join(str(error).replace(str(target), "model").split())[:200]
            return Judgement(False, "unknown", f"with all tensors as outputs: {type(error).__name__}: {reason}")
    equal = {
        e.name: y.shape == r.shape and not unequal_elements(y, r, approximate).any()
        for e, y, r, approximate in zip(exposed, outputs, expected, loose, strict=True)
    }
    if all(equal.values()):
        if _only_unproven(path, config, inputs, compiled):
            return Judgement(True)
        return Judgement(False, "between operators", "all is equal with all tensors as outputs")
    for entry, y, reference in zip(exposed, outputs, expected, strict=True):
        if equal[entry.name] or not all(equal.get(source, True) for source in entry.sources):
            continue
        kinds = [entry.operators[n] for n in sorted(entry.operators)]
        operators = "+".join(sorted({k for k in kinds if k not in EDGES} or set(kinds)))
        if y.shape != reference.shape:
            return Judgement(False, operators, f"shape {y.shape}, the reference gives {reference.shape}")
        distance = np.abs(y.astype(np.float64) - reference.astype(np.float64)).max()
        stated = [bounds[n] for n in entry.operators if n in bounds]
        if not stated or distance > max(stated):
            claim = f"{max(stated)} is stated" if stated else "nothing is stated"
            share = f"{np.mean(y != reference):.2g} of the elements by at most {distance:g}, {claim}"
            return Judgement(False, operators, f"from equal inputs differ {share}")
    return Judgement(True)


def _outputs(executable: Executable, inputs: list[Array]) -> list[Array]:
    results = executable.run(inputs)[0]
    return results if isinstance(results, list) else [results]


def _only_unproven(path: Path, config: Config | str, inputs: list[Array], compiled: Compiled) -> bool:
    """Whether layers of which no equality is stated are all that differs: the rest is exact without them.

    Further outputs change what ONNX Runtime joins, so that they may not show where a difference begins.
    """
    if not any(stated_bounds(path, config).values()):
        return False
    pairs = zip(
        _outputs(compiled(path, "proven"), inputs),
        reference_outputs(path, inputs),
        computed_in_float(path),
        strict=True,
    )
    return not any(unequal_elements(y, reference, loose).any() for y, reference, loose in pairs)
