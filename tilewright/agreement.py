"""Whether a compiled model computes what its file's interpreter computes, seen on a few inputs while it is compiled.

Programs are proven to compute the graph, for every input; that the graph is what the file means is only as sure as the
reading of the file. So whatever is compiled runs on the simulator beside the interpreter of the whole file. What was
read otherwise than the interpreter reads it shows on a few inputs; such operators are left to the interpreter, and are
named.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright.checking import compare, outputs_of
from tilewright.errors import TilewrightError
from tilewright.progress import Progress
from tilewright.runtime import interpreters
from tilewright.runtime.artifact import Artifact, unproven
from tilewright.runtime.executable import Executable, of_batch
from tilewright.runtime.interpreters import InterpreterError
from tilewright.runtime.random_inputs import sample_inputs
from tilewright.runtime.records import Exact, Measured
from tilewright.runtime.report.measured import measured
from tilewright.runtime.steps import InterpreterStep

if TYPE_CHECKING:
    from tilewright.jit.source import Source

Array = NDArray[Any]
#: (operators left to the interpreter and why, how sure the others' integers are) -> what becomes of the file
Made = Callable[[Mapping[int, str], Exact], Artifact]

MOST_WORK = 8_000_000_000  #: multiply-accumulates of an inference, where one takes more than the samples may
_ELEMENT = 40  #: of these what an element of a tensor may take
UNSTEADY = "gives other values each time"  #: of an interpreter, which is why it is not compared with
_SEED = 20  #: of the inputs, which are the same for every compilation of a file
_MOST = 4  #: operators that are looked for one by one
EDGES = ("QuantizeLinear", "DequantizeLinear")  #: nodes that a layer of .onnx is not named by
#: of the largest value, for outputs that no dequantisation gives: the order of additions is free
FLOAT_TOLERANCE = 2e-6


class Misread(UserWarning):
    """Operators of a file were not read as its interpreter reads them; they are left to it, so that results are exact.

    That is a defect of Tilewright's: please report it, with the file.
    """


class Disagreement(TilewrightError):
    """A model gives other values than its interpreter, whatever is left to that."""


@dataclass(frozen=True)
class Compared:
    """How an artifact compares with its oracle: ``words``, empty where it gives the same; ``ran``: whether it gave
    anything at all; and what was measured of each output."""

    words: str
    ran: bool = True
    outputs: tuple[Measured, ...] = ()


@dataclass(frozen=True)
class Oracle:
    """What the file's interpreter gives for ``inputs``, both in the order of the model's tensors, stacked."""

    package: str
    inputs: list[Array]
    outputs: list[Array]

    def difference(self, artifact: Artifact) -> str:
        """How the artifact differs, in words; empty where it gives the same."""
        return self.compared(artifact).words

    def refusal(self, artifact: Artifact) -> str:
        """Why the artifact gives nothing at all for these inputs, in words; empty where it gives something."""
        found = self.compared(artifact)
        return "" if found.ran else found.words

    def compared(self, artifact: Artifact) -> Compared:
        """The artifact run on the simulator."""
        exact = (replace(s, fast=False) if isinstance(s, InterpreterStep) else s for s in artifact.steps)
        executable = Executable(replace(artifact, steps=tuple(exact)), "sim", verified=True)
        try:
            y, _ = executable.run(self.inputs)
        except TilewrightError as error:  # of inputs that the interpreter takes
            return Compared(str(error), ran=False)
        mine = y if isinstance(y, list) else [y]
        scales = [tensor.scale for tensor in executable.outputs]
        try:
            found = compare(mine, self.outputs, scales)
        except TilewrightError as error:  # in a shape or type that the interpreter does not give
            return Compared(str(error))
        outputs = tuple(measured(mine, self.outputs, artifact.named_outputs))
        # what no dequantisation gives is a float sum, which parts of a file may add in another order than its whole
        sums = [scale == 1.0 for scale in scales]
        equal = not any(unequal_elements(*each).any() for each in zip(mine, self.outputs, sums, strict=True))
        return Compared("" if equal else str(found), outputs=outputs)


def oracle_of(source: Source, artifact: Artifact, elements: int) -> Oracle | str:
    """What an artifact of this file, whose tensors have so many elements, is compared with; or why it cannot be."""
    package = interpreters.PACKAGES[source.runtime][1]
    work = sum(operator.macs for operator in source.operators) + _ELEMENT * elements * artifact.batch
    if work > MOST_WORK:
        return f"an inference takes long in {package}'s reference kernels"
    tensors = tuple(of_batch(tensor, artifact.batch) for tensor in artifact.inputs)
    inputs = sample_inputs(tensors, _SEED, work)
    try:
        return Oracle(package, inputs, outputs_of(source, inputs))
    except InterpreterError as error:
        return str(error)


def agreed(first: Artifact, source: Source, elements: int, made: Made, progress: Progress) -> Artifact:
    """The artifact ``first`` if it agrees with the file's interpreter, else one that does, with what was measured.

    ``elements``: of all tensors of an image. Where ``close`` results are asked for, layers that are not proven may
    differ; otherwise those that do are left to the interpreter. What differs though it is proven, or by more than is
    stated of it, was misread: that is left to the interpreter with :class:`Misread`. Raises :class:`Disagreement` if
    that does not help.
    """
    progress("comparing with the interpreter", 0, 0)
    oracle = oracle_of(source, first, elements)
    if isinstance(oracle, str):
        return _noted(first, uncompared=oracle)
    inputs = "an input" if len(oracle.inputs[0]) == 1 else f"{len(oracle.inputs[0])} inputs"
    agrees = f"equal to {oracle.package} on {inputs}"
    found = oracle.compared(first)
    if not found.words:
        return _noted(first, compared=agrees)
    if not all(map(_same, oracle.outputs, outputs_of(source, oracle.inputs))):
        return _noted(first, uncompared=f"{oracle.package} {UNSTEADY}")
    exact = source.exact
    if unproven(first) and found.ran:
        if exact == "close":
            return _noted(first, compared=f"compared with {oracle.package} on {inputs}", measured=[*found.outputs])
        exact = "proven"
        settled = _without_differing(source, oracle, made, agrees)
        if settled is not None:
            return settled

    operators = leads(source)

    def differs(chosen: Collection[int]) -> bool:
        progress("looking for the operator that differs", 0, 0)
        return bool(oracle.difference(made({operators[k]: "looked for" for k in chosen}, exact)))

    wrong = culprits(len(operators), differs)
    if wrong is None:
        alone = made(dict.fromkeys(operators, "looked for"), exact)
        if oracle.refusal(first) and (refusal := oracle.refusal(alone)):  # values decide shapes; it is said when run
            return _noted(first, uncompared=refusal)
        raise Disagreement(
            f"{source.path}: {found.words} of {oracle.package}, even with all operators left to it; please report this "
            "defect with the file"
        )
    left = [operators[k] for k in sorted(wrong)]
    reason = f"computed otherwise than by {oracle.package} ({found.words}); please report this defect with the file"
    named = _warn(source, left, reason)
    artifact = made(dict.fromkeys(left, reason), source.exact)
    if exact != source.exact and oracle.difference(artifact):
        artifact = made(dict.fromkeys(left, reason), exact)
    return _noted(artifact, compared=f"{agrees}, which computes {named}")


def _without_differing(source: Source, oracle: Oracle, made: Made, agrees: str) -> Artifact | None:
    """An artifact that agrees, with layers that are not proven left to the interpreter: those that were measured to
    differ, or else all. None where neither helps."""
    layers = source.differing(oracle.inputs)
    left = {layer.position: f"measured to differ from {oracle.package} by {layer.largest} LSB" for layer in layers}
    more = [layer.position for layer in layers if layer.largest > layer.bound]
    if more:
        reason = f"computed otherwise than by {oracle.package}; please report this defect with the file"
        _warn(source, more, reason)
        left |= dict.fromkeys(more, reason)
    if left and not oracle.difference(artifact := made(left, source.exact)):
        return _noted(artifact, compared=f"{agrees}, which computes {len(left)} layers that differed")
    if not oracle.difference(artifact := made({}, "proven")):
        return _noted(artifact, compared=f"{agrees}, which computes all layers that are not proven")
    return None


def _warn(source: Source, left: Sequence[int], reason: str) -> str:
    """Name the operators at these positions, and warn that they were misread."""
    names = [source.operators[k].name for k in left]
    named = ", ".join([*names[:3], *(["..."] if names[3:] else [])]) or "its parts, as they were placed"
    package = interpreters.PACKAGES[source.runtime][1]
    warnings.warn(f"{source.path}: {named}: {reason}; left to {package}", Misread, stacklevel=5)
    return named


def leads(source: Source) -> list[int]:
    """By position what can be left to the interpreter, in the file's order: of operators that go there together one."""
    from tilewright.jit.importer import lower_source

    def weight(k: int) -> tuple[int, bool]:
        return source.operators[k].macs, source.operators[k].kind not in EDGES

    together = {op.covers for op in lower_source(source, {}).graph.ops if op.covers}
    alone = {op.index for op in source.operators} - {k for covers in together for k in covers}
    return sorted({*alone, *(max(sorted(covers), key=weight) for covers in together)})


def culprits(count: int, differs: Callable[[Collection[int]], bool]) -> list[int] | None:
    """Of so many operators those that must be left to the interpreter, so that nothing ``differs``.

    Found by halving what stands ahead of them, one by one from the last; all, where that are many. None where even
    that differs.
    """
    if differs(range(count)):
        return None
    found: list[int] = []
    while differs(found):
        if len(found) == _MOST:
            return [*range(count)]
        low, high = 0, count
        while high - low > 1:
            middle = (low + high) // 2
            if differs([*range(middle), *found]):
                low = middle
            else:
                high = middle
        found.append(high - 1)
    return found


def unequal_elements(y: Array, reference: Array, loose: bool = False) -> Array:
    """Where two arrays of a shape differ; NaN equals NaN."""
    unequal: Array = y != reference
    if y.dtype.kind == "f":
        unequal &= ~(np.isnan(y) & np.isnan(reference))
    if loose and unequal.any() and y.dtype.kind == "f":
        most = np.abs(reference[np.isfinite(reference)]).max(initial=0.0)
        unequal &= ~(np.abs(y.astype(np.float64) - reference) <= FLOAT_TOLERANCE * most)
    return unequal


def _same(a: Array, b: Array) -> bool:
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def _noted(artifact: Artifact, **words: Any) -> Artifact:
    return replace(artifact, options={**artifact.options, **words})
