"""One network on one Config: compile, run, and compare with the reference interpreter."""

from __future__ import annotations

import time
import traceback
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.compare import first_difference
from tests.fuzz.expose import computed_in_float
from tests.fuzz.tensors import Array, Tensor, limits
from tilewright.checking import reference_outputs
from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.runtime.executable import Executable
from tilewright.runtime.records import Exact

EXACT = "exact"
WITHIN = "exact-within-stated-bound"  #: ONNX: differences where the compiler says that there may be some, and no larger
WRONG = "wrong"
REFUSED = "refused"  #: Tilewright raised one of its own errors, the reference ran
TRACEBACK = "traceback"  #: any other exception, or the end of the process
REFERENCE_REFUSED = "reference-refused"
OUTCOMES = (EXACT, WITHIN, WRONG, REFUSED, TRACEBACK, REFERENCE_REFUSED)
FAILURES = (WRONG, REFUSED, TRACEBACK)


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    ``where``: the place of a traceback, innermost call last; of wrong integers, the operators where they begin.
    """

    kind: str
    message: str = ""
    where: str = ""
    macs: int = 0  #: multiply-accumulates on the accelerator
    host_operators: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether the case counts as a defect."""
        return self.kind in FAILURES

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def case_inputs(tensors: list[Tensor], seed: int = 0) -> list[Array]:
    """Inputs for each input tensor of a network, stacked: noise over the full range, extremes, and a smooth one."""
    rng = np.random.default_rng([seed, 77])
    stacks = []
    for x in tensors:
        shape = x.shape[1:] if x.shape[:1] == (1,) else x.shape
        low, high = (-128, 127) if x.dtype == "float32" else limits(x.dtype)
        noise = rng.integers(low, high + 1, (2, *shape))
        ends = np.where(rng.random((1, *shape)) < 0.5, low, high)
        flat = np.full((1, *shape), rng.choice([low, high]))
        wave = np.sin(np.linspace(0, 9, max(1, int(np.prod(shape))))).reshape((1, *shape))
        smooth = np.rint((low + high) / 2 + wave * (high - low) / 2.2 + rng.normal(0, 3, (1, *shape)))
        values = np.clip(np.concatenate([noise, ends, flat, smooth]), low, high)
        if x.dtype == "float32":
            values = values * np.float32(0.031) + rng.normal(0, 0.01, values.shape)
        stacks.append(values.astype(x.dtype))
    return stacks


def check_case(
    path: str | Path, config: Config | str, inputs: list[Array], compiled: Executable | None = None
) -> Outcome:
    """Compile and run a model file on ``inputs`` (stacks in the model's order), and compare all outputs.

    ``compiled``: what the file became for ``config``, where the caller has that already.
    """
    import tilewright

    start = time.perf_counter()

    def outcome(kind: str, message: str = "", where: str = "", **found: Any) -> Outcome:
        return Outcome(kind, message, where, seconds=round(time.perf_counter() - start, 3), **found)

    path = Path(path)
    try:
        expected = reference_outputs(path, inputs)
    except (TilewrightError, RuntimeError, ValueError) as error:
        return outcome(REFERENCE_REFUSED, _one_line(error))
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's errors share no base class below Exception
        return outcome(REFERENCE_REFUSED, f"{type(error).__name__}: {_one_line(error)}")
    try:
        executable = compiled or tilewright.compile(path, config, cache=False, compare=False)
        given: Any = inputs[0] if len(executable.inputs) == 1 else inputs
        results, report = executable.run(given)
    except TilewrightError as error:
        return outcome(REFUSED, f"{type(error).__name__}: {_one_line(error)}".replace(str(path), "model"))
    except Exception as error:  # noqa: BLE001 - this is what is looked for; it is reported as a defect
        return outcome(TRACEBACK, f"{type(error).__name__}: {_one_line(error)}", _place(error))
    outputs = results if isinstance(results, list) else [results]
    found: dict[str, Any] = {
        # of the file's operators: what a layer becomes may multiply more, zeros or ones
        "macs": sum(op["macs"] for op in executable.artifact.options["operators"] if op["place"] == "accelerator"),
        "host_operators": [layer["name"] for layer in report.layers if layer["place"] != "accelerator"],
    }
    difference = first_difference(outputs, expected, computed_in_float(path))
    if difference is None:
        return outcome(EXACT, **found)
    from tests.fuzz.bounds import judge

    judgement = judge(path, config, inputs, partial(_compiled, config))
    if judgement.within and path.suffix == ".onnx":
        return outcome(WITHIN, difference, **found)
    return outcome(WRONG, f"{difference}; {judgement.message}", judgement.operators, **found)


def _compiled(config: Config | str, path: Path, exact: Exact) -> Executable:
    import tilewright

    return tilewright.compile(path, config, cache=False, compare=False, exact=exact)


def _one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines)[:400] if lines else type(error).__name__


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "tilewright" in f.filename or "/jit/" in f.filename] or frames
    return " > ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in own[-3:])
