"""Random networks with one operator misread on purpose: does the comparison with the interpreter notice?

``python -m tests.campaigns.misreadings [--networks N] [--first SEED]``: in the graph of each network one field of one
operator is changed (a number by one, an element of a constant, constants and sizes turned round, operands swapped), and
the network is compiled for ``tiny`` and run on other inputs than the compiler has compared. Prints how many were
corrected, how many compute the same, what was refused, and each that gives other integers without a word. Exit code 1
if one did.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tests.fuzz.compare import first_difference
from tests.fuzz.expose import computed_in_float
from tests.fuzz.seeds import draw_network, recipe_inputs
from tilewright.agreement import Misread
from tilewright.checking import reference_outputs
from tilewright.errors import TilewrightError
from tilewright.jit import graph as g
from tilewright.jit import network
from tilewright.jit.importer import ImportedModel
from tilewright.jit.source.base import Source

FORMATS = ("tflite", "onnx")
_KEPT = {"name", "output", "source", "covers", "inputs", "results", "state", "reason", "dtype", "op", "table"}
CORRECTED, SAME, WRONG = "corrected", "computes the same", "WRONG"


def changed(value: Any, rng: random.Random) -> Any:
    """A number, a sequence, a constant or a record with something else in it; None where nothing can be."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, np.integer)) and not hasattr(value, "name"):  # no member of an enumeration
        return type(value)(value + rng.choice((-1, 1)))
    if isinstance(value, np.ndarray) and value.size and value.dtype.kind in "iu":
        other = value.copy()
        if value.ndim > 1 and rng.random() < 0.5:
            return np.ascontiguousarray(np.flip(other, rng.randrange(value.ndim)))
        limits, k = np.iinfo(value.dtype), rng.randrange(value.size)
        other.flat[k] = np.clip(int(other.flat[k]) + rng.choice((-9, 9)), limits.min, limits.max)
        return other
    if isinstance(value, tuple) and value and all(isinstance(x, int) for x in value):
        if len(set(value)) > 1 and rng.random() < 0.5:
            return value[::-1]
        k = rng.randrange(len(value))
        return (*value[:k], value[k] + 1, *value[k + 1 :])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return with_change(value, rng)
    return None


def with_change(record: Any, rng: random.Random) -> Any:
    """A record with one field changed; None where none can be."""
    names = [field.name for field in dataclasses.fields(record) if field.name not in _KEPT]
    if isinstance(record, g.Op) and len(set(record.inputs)) > 1 and rng.random() < 0.3:
        return dataclasses.replace(record, inputs=record.inputs[::-1])
    for name in rng.sample(names, len(names)):
        other = changed(getattr(record, name), rng)
        if other is not None:
            return dataclasses.replace(record, **{name: other})
    return None


@contextmanager
def misread(seed: int) -> Iterator[list[str]]:
    """Every graph that the compiler makes of a file has the same change in the same operator; yields which."""
    lower: Callable[..., ImportedModel] = network.lower_source
    said: list[str] = []
    target: list[tuple[Any, ...]] = []

    def key(ops: list[g.Op], op: g.Op) -> tuple[Any, ...]:
        alike = [other for other in ops if other.covers == op.covers and type(other) is type(op)]
        return op.covers, type(op), next(k for k, other in enumerate(alike) if other is op)

    def lowered(source: Source, refused: Mapping[int, str], kept: Set[int] = frozenset()) -> ImportedModel:
        model, rng = lower(source, refused, kept), random.Random(seed)
        ops = model.graph.ops
        if not target:
            mine = [op for op in ops if op.covers and not isinstance(op, g.Interpreted)]
            if not mine:
                return model
            target.append(key(ops, rng.choice(mine)))
        for position, op in enumerate(ops):
            if key(ops, op) == target[0]:
                rng.seed(seed)
                if (other := with_change(op, rng)) is not None:
                    ops[position] = other
                    said[:] = [f"{op.kind} {op.name}"]
        return model

    network.lower_source = lowered
    try:
        yield said
    finally:
        network.lower_source = lower


def outcome(path: Path, inputs: list[Any], seed: int) -> tuple[str, str]:
    """What became of a network with a misreading, and of which operator."""
    expected = reference_outputs(path, inputs)
    with misread(seed) as said, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            executable = tw.compile(path, "tiny", cache=False, exact="proven")
        except TilewrightError as error:
            return f"refused: {type(error).__name__}", " ".join(said)
        except Exception as error:  # noqa: BLE001 - a graph that no reading gives
            return f"no graph: {type(error).__name__}", " ".join(said)
        results = executable.run(inputs[0] if len(inputs) == 1 else inputs)[0]
    outputs = results if isinstance(results, list) else [results]
    difference = first_difference(outputs, expected, computed_in_float(path))
    if difference is not None:
        return WRONG, f"{' '.join(said)}: {difference}"
    corrected = any(issubclass(warning.category, Misread) for warning in caught)
    return (CORRECTED if corrected else SAME if said else "nothing to change"), " ".join(said)


def main() -> int:
    """Run the campaign; the exit code is described above."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--networks", type=int, default=200)
    parser.add_argument("--first", type=int, default=700_000)
    options = parser.parse_args()
    counts = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        for seed in range(options.first, options.first + options.networks):
            recipe, path, _ = draw_network(FORMATS[seed % len(FORMATS)], seed, "small", Path(folder))
            found, words = outcome(path, recipe_inputs(recipe, path), seed)
            counts[found] += 1
            if found == WRONG:
                print(f"{seed} {path.suffix}: {words}", flush=True)
            path.unlink()
    print(", ".join(f"{number} {what}" for what, number in counts.most_common()))
    return int(bool(counts[WRONG]))


if __name__ == "__main__":
    raise SystemExit(main())
