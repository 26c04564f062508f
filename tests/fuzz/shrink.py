"""Making a failing network small: steps and outputs go, numbers get smaller, as long as it fails in the same way."""

from __future__ import annotations

import dataclasses
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.cases import Outcome
from tests.fuzz.recipe import Assembly, Recipe, Step, build, source
from tests.fuzz.seeds import check_recipe
from tests.fuzz.tensors import BuildError, Tensor
from tilewright.config import PRESETS, Config

#: what an argument is without anything special about it
_PLAIN: dict[str, Any] = {
    "activation": "none", "padding": "valid", "per_channel": False, "bias": None, "gain": 1.0, "zero_point": 0,
    "dilation": 1, "stride": 1, "form": "qdq", "weight_dtype": "int8", "weight_zero_point": 0, "keep_dims": False,
    "ceil_mode": False, "pair": True,
}  # fmt: skip
_DIGITS = re.compile(r"\d[\d.,x]*")

Check = Callable[[Recipe, Config], Outcome]


@dataclass(frozen=True)
class Shrunk:
    """A smaller network that fails in the same way, and on which Config."""

    recipe: Recipe
    config: Config
    outcome: Outcome
    tried: int
    seconds: float


def failure_class(outcome: Outcome) -> str:
    """What two outcomes have in common if they are of one defect: kind and message without its numbers and names."""
    if outcome.kind == "wrong":
        what = "integers" if "elements differ" in outcome.message else "shape or type"
        claim = ", stated to be exact" if ", 0 is stated" in outcome.message else ""
        return f"wrong {what}: {outcome.where or 'unknown'}{claim}"
    text = _DIGITS.sub("#", outcome.message.partition(" (")[0])
    text = re.sub(r"\[[#, ]*\]|\([#, ]*\)|'[^']*'|op#_\w+|\w+\d*/\w+", "*", text)
    place = _DIGITS.sub("#", outcome.where.rpartition(" > ")[2])
    return f"{outcome.kind}: {text[:120]} {place}".strip()


def shrink(
    recipe: Recipe, config: Config, outcome: Outcome, seconds: float = 60.0, check: Check | None = None
) -> Shrunk:
    """Shrink a failing recipe greedily until no step helps or the time is over."""
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        return _Shrinker(outcome, check or (lambda r, c: check_recipe(r, c, folder)), seconds).run(recipe, config)


class _Shrinker:
    def __init__(self, outcome: Outcome, check: Check, seconds: float) -> None:
        self.wanted, self.check, self.outcome = failure_class(outcome), check, outcome
        self.start = time.monotonic()
        self.limit = seconds
        self.tried = 0
        self.seen: set[str] = set()

    def run(self, recipe: Recipe, config: Config) -> Shrunk:
        changed = True
        if config != PRESETS["pynq-z2"] and self.fails(recipe, PRESETS["pynq-z2"]):
            config = PRESETS["pynq-z2"]
        while changed and not self.over:
            changed = False
            for moves in (_fewer_outputs, _cut_heads, _bypass, _smaller_arguments):
                while not self.over:
                    found = next((r for r in moves(recipe) if not self.over and self.fails(r, config)), None)
                    if found is None:
                        break
                    recipe, changed = found, True
        return Shrunk(recipe, config, self.outcome, self.tried, round(time.monotonic() - self.start, 1))

    @property
    def over(self) -> bool:
        return time.monotonic() - self.start > self.limit

    def fails(self, recipe: Recipe, config: Config) -> bool:
        """Whether a candidate fails in the wanted way; one that was tried before does not."""
        key = json.dumps(recipe.to_dict(), sort_keys=True) + config.fingerprint
        if key in self.seen or not recipe.steps:
            return False
        self.seen.add(key)
        try:
            outcome = self.check(recipe, config)
        except BuildError:
            return False
        self.tried += 1
        if not outcome.failed or failure_class(outcome) != self.wanted:
            return False
        self.outcome = outcome
        return True


def _assembled(recipe: Recipe) -> dict[str, Tensor]:
    assembly = Assembly(recipe.frontend, recipe.seed, recipe.options)
    for step in recipe.steps:
        assembly.apply(step)
    return assembly.results


def _with_outputs(recipe: Recipe, outputs: list[str], stored: list[bool]) -> Recipe:
    flags = tuple(stored) if recipe.stored else ()
    return dataclasses.replace(recipe, outputs=tuple(outputs), stored=flags).without_unused()


def _fewer_outputs(recipe: Recipe) -> Iterator[Recipe]:
    """One output alone: an old one, or any other result; from the first on, since those need fewest steps."""
    kinds = {step.number: step.kind for step in recipe.steps}
    results = [ref for ref in _assembled(recipe) if kinds[source(ref)] not in ("input", "constant_tensor")]
    if len(recipe.outputs) > 1:
        flags = dict(zip(recipe.outputs, recipe.stored or [False] * len(recipe.outputs), strict=True))
        for ref in recipe.outputs:
            yield _with_outputs(recipe, [ref], [flags[ref]])
        for ref in recipe.outputs:
            rest = [r for r in recipe.outputs if r != ref]
            yield _with_outputs(recipe, rest, [flags[r] for r in rest])
        return
    for ref in results:
        if ref != recipe.outputs[0]:
            yield _with_outputs(recipe, [ref], [True])
    if recipe.stored == (False,):
        yield dataclasses.replace(recipe, stored=(True,))


def _cut_heads(recipe: Recipe) -> Iterator[Recipe]:
    """A step becomes an input of the network; the last that can comes first."""
    tensors = _assembled(recipe)
    for position in reversed(range(len(recipe.steps))):
        step = recipe.steps[position]
        y = tensors.get(str(step.number))
        if (
            step.kind in ("input", "constant_tensor")
            or y is None
            or y.scale is None
            or str(step.number) in recipe.outputs
        ):
            continue
        args = {"shape": list(y.shape), "dtype": y.dtype, "scale": y.scale, "zero_point": y.zero_point}
        yield _replace_step(recipe, position, Step(step.number, "input", (), args)).without_unused()


def _bypass(recipe: Recipe) -> Iterator[Recipe]:
    """A step's first operand in its place."""
    for position, step in enumerate(recipe.steps):
        if not step.inputs:
            continue
        names = {str(step.number)} | {f"{step.number}.{k}" for k in range(64)}
        for operand in dict.fromkeys(step.inputs):
            steps = tuple(
                dataclasses.replace(s, inputs=tuple(operand if ref in names else ref for ref in s.inputs))
                for k, s in enumerate(recipe.steps)
                if k != position
            )
            if names & set(recipe.outputs):
                continue
            yield dataclasses.replace(recipe, steps=steps).without_unused()
        if len(step.inputs) > 2:  # a join of many
            for k in range(len(step.inputs)):
                fewer = step.inputs[:k] + step.inputs[k + 1 :]
                yield _replace_step(recipe, position, dataclasses.replace(step, inputs=fewer)).without_unused()


def _smaller_arguments(recipe: Recipe) -> Iterator[Recipe]:
    """One argument of one step smaller or plain; also all sizes of a list at once."""
    switches = [(name, False) for name in ("power_of_two", "dedicated_pairs", "relabels")]
    for name, plain in (*switches, ("weight_bits", 8), ("opset", 17)):
        if recipe.options.get(name, plain) != plain:
            yield dataclasses.replace(recipe, options={**recipe.options, name: plain})
    for position, step in enumerate(recipe.steps):
        for name, value in step.args.items():
            for smaller in _smaller(step.kind, name, value):
                args = {k: v for k, v in step.args.items() if k != name}
                if smaller is not None:
                    args[name] = smaller
                yield _replace_step(recipe, position, dataclasses.replace(step, args=args))


def _smaller(kind: str, name: str, value: Any) -> Iterator[Any]:
    """Smaller values of an argument; None leaves it out."""
    if name in _PLAIN and value not in (_PLAIN[name], [_PLAIN[name]] * 2):
        yield _PLAIN[name]
        if name in ("gain", "zero_point") and kind not in ("input", "constant_tensor"):
            yield None
    if isinstance(value, bool) or name in ("axis", "axes", "permutation", "scale", "zero_point", "dtype"):
        return
    if isinstance(value, int) and value > 1:
        yield from dict.fromkeys([1, 2, value // 2, value - 1])
    elif isinstance(value, list) and value and all(isinstance(v, int) for v in value):
        for k, v in enumerate(value):
            if v > 1:
                for smaller in dict.fromkeys([1, v // 2, v - 1]):
                    yield [*value[:k], smaller, *value[k + 1 :]]
            elif v == 1 and name in ("pads", "begin"):
                yield [*value[:k], 0, *value[k + 1 :]]
    elif isinstance(value, list) and value and all(isinstance(v, list) for v in value):
        for k, row in enumerate(value):
            if any(row):
                yield [*value[:k], [0] * len(row), *value[k + 1 :]]


def _replace_step(recipe: Recipe, position: int, step: Step) -> Recipe:
    steps = (*recipe.steps[:position], step, *recipe.steps[position + 1 :])
    return dataclasses.replace(recipe, steps=steps)


def write_shrunk(shrunk: Shrunk, folder: str | Path, name: str) -> Path:
    """Write the minimal model, and beside it a JSON file with recipe, Config and outcome; returns the latter."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / f"{name}.{shrunk.recipe.frontend}"
    build(shrunk.recipe, model)
    values = {
        "class": failure_class(shrunk.outcome),
        "outcome": shrunk.outcome.to_dict(),
        "network": str(shrunk.recipe).splitlines(),
        "config": shrunk.config.to_dict(),
        "tried": shrunk.tried,
        "seconds": shrunk.seconds,
        "recipe": shrunk.recipe.to_dict(),
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(values, indent=1) + "\n")
    return path
