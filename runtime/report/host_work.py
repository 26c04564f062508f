"""What an inference costs the processor of a board: the work of each step by its shapes, and instructions for it.

Instructions are those of the C runtime on a 32-bit ARM processor. ``python -m bench.bench_host --costs`` counts them
under qemu and fits :data:`COSTS`; ``python -m bench.bench_c_runtime`` says how far whole networks are off. Seconds
follow by a rate that no board has confirmed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.config import Config
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.device_base import has_shared
from tilewright.runtime.flow import check_flow
from tilewright.runtime.interpreter_step import describe
from tilewright.runtime.native import calls
from tilewright.runtime.packing import PackStep, UnpackStep
from tilewright.runtime.report.layers import ratio
from tilewright.runtime.step_base import Form, Step
from tilewright.runtime.steps import (
    ConstantStep,
    CutStep,
    HostStep,
    InterpreterStep,
    JoinStep,
    LaunchStep,
    ReshapeStep,
    SoftmaxStep,
    TransposeStep,
)

Work = Mapping[str, float]

_CHUNK = 16  #: bytes that packing copies at once

#: instructions for each unit of work
COSTS: Work = {
    "cast values": 1.95, "copied bytes": 11.8, "copied pieces": 50.7, "copied row bytes": 0.473,
    "dequantize values": 14, "launch": 2210, "moved bytes": 0.548, "moved words": 141, "pack bytes": 0.207,
    "pack chunks": 7.22, "pack offset bytes": 1.72, "pack rows": 155, "pack scattered bytes": 7.89,
    "pack short chunks": 6.24, "pack spread positions": 68.5, "pack spread units": 98.1, "pack wide chunks": 41.5,
    "quantize values": 53, "softmax rows": 578, "softmax values": 78.8, "table_softmax values": 71,
    "unpack values": 3.3, "unpack vectors": 63.7,
}  # fmt: skip


@dataclass(frozen=True)
class Processor:
    """A board's processor, and the instructions a second that it is taken to execute in such code: a guess."""

    name: str
    instructions_per_second: float


#: by the version of AXI at the memory ports, which is that of the family
PROCESSORS = {3: Processor("Cortex-A9 at 650 MHz", 0.42e9), 4: Processor("Cortex-A53 at 1.2 GHz", 0.9e9)}


def on_board(artifact: Artifact, accelerator_ms: float | None) -> dict[str, Any] | None:
    """The part ``board`` of a report, an estimate: what an inference takes with the C runtime on the board of the
    artifact's Config; None where that names no board. ``accelerator_ms``: of all programs on one core; None: unknown.

    One inference alone takes both times, one after the other. Of many the host works on the next ones while the
    accelerator works, so that the slower of both decides.
    """
    if not artifact.config.board:
        return None
    processor, reason = PROCESSORS[artifact.config.axi_version], unknown(artifact)
    instructions = None if reason else round(host_instructions(artifact))
    host_ms = None if instructions is None else 1e3 * instructions / processor.instructions_per_second
    latency = rate = None
    if host_ms is not None and accelerator_ms is not None:
        latency, rate = accelerator_ms + host_ms, ratio(1e3, max(accelerator_ms, host_ms))
    return {
        "name": artifact.config.board,
        "processor": processor.name,
        "instructions_per_second": processor.instructions_per_second,
        "host_instructions": instructions,
        "host_ms": host_ms,
        "latency_ms": latency,
        "inferences_per_second": rate,
        "unknown": reason,
    }


def unknown(artifact: Artifact) -> str:
    """Why the host's work is not known; empty where it is."""
    if not artifact.inputs:
        return "a program alone is no network that a host feeds"
    for step in artifact.steps:
        if isinstance(step, InterpreterStep):
            return f"{describe(step) or 'operators'} run in an interpreter, whose instructions are not counted"
    if any(has_shared(program) for program in artifact.programs):
        return "programs that share memory do not run in the C runtime, whose instructions are counted"
    return ""


def host_instructions(artifact: Artifact) -> float:
    """Instructions of an inference alone; there is nothing :func:`unknown`."""
    forms = check_flow(artifact)
    return sum(COSTS[unit] * count for step in artifact.steps for unit, count in work(step, forms, artifact.config))


def work(step: Step, forms: Mapping[str, Form | None], config: Config) -> Iterable[tuple[str, float]]:
    """Units of work of a step, and how many an inference takes; ``forms``: of all tensors by name."""
    if isinstance(step, PackStep):
        yield from _pack(step, _known(forms, step.tensor))
        yield from moved(step.size, config)
    elif isinstance(step, UnpackStep):
        yield "unpack vectors", step.shape[1] * step.shape[2] * -(-step.shape[3] // step.lanes)
        if step.permutation is not None or step.dtype not in ("int8", "uint8"):
            yield "unpack values", step.result.elements
        yield from moved(step.size, config)
    elif isinstance(step, LaunchStep):
        yield "launch", len(step.programs)
    elif isinstance(step, JoinStep):
        for name in step.inputs:
            yield from _copied(_known(forms, name), True)
    elif isinstance(step, TransposeStep | CutStep):
        whole_rows = isinstance(step, CutStep) or step.permutation[-1:] == (len(step.permutation) - 1,)
        yield from _copied(step.result(_known(forms, step.input)), whole_rows)
    elif isinstance(step, HostStep) and not isinstance(step, ReshapeStep | ConstantStep):
        form = _known(forms, step.input)
        yield f"{step.kind} values", form.elements
        if isinstance(step, SoftmaxStep):
            yield "softmax rows", form.elements // form.shape[-1]


def moved(size: int, config: Config) -> Iterable[tuple[str, float]]:
    """To the order of bytes in DRAM, or back: whole blocks, and the words of one that is not whole."""
    if config.axi_ports > 1:
        block = config.burst_beats * config.beat_bytes
        yield "moved bytes", size // block * block
        yield "moved words", size % block * 8 // config.axi_bits


def _copied(form: Form, whole_rows: bool) -> Iterable[tuple[str, float]]:
    """A copy in another order: of rows that stay together, or of values."""
    item = np.dtype(form.dtype).itemsize
    if whole_rows or item > 1:
        yield "copied pieces", form.elements // (form.shape[-1] if whole_rows and form.shape else 1)
    if whole_rows or item == 1:
        yield "copied row bytes" if whole_rows else "copied bytes", form.elements * item


def _pack(step: PackStep, form: Form) -> Iterable[tuple[str, float]]:
    """In two passes: the image with its padding, then the window of each position."""
    top, left, bottom, right = step.padding
    height, width, channels = step.shape[1] + top + bottom, step.shape[2] + left + right, step.shape[3]
    strides = calls.strides(step.shape, form.shape, step.permutation)
    near = strides is not None and strides[2] in (0, 1) and strides[1] in (0, channels)
    yield "pack rows", height
    yield f"pack {'' if near else 'scattered '}bytes", height * width * channels
    if step.value_offset and (form.dtype, step.value_offset) != ("uint8", -128):
        yield "pack offset bytes", height * width * channels
    patches, spread = step.layout == "patches", step.batch > 1 or (step.layout == "blocks" and step.block < step.units)
    if not patches and not spread and channels == step.units * step.lanes:
        return
    lines, run = 1, channels
    if patches:
        lines, run = step.kernel[0], step.kernel[1] * channels
        if step.dilation[1] > 1 and step.kernel[1] > 1:
            lines, run = lines * step.kernel[1], channels
    positions, chunks = math.prod(step.positions), lines * -(-run // _CHUNK)
    if spread:
        yield "pack spread positions", positions
        yield "pack spread units", positions * step.units
    elif lines > step.kernel[0] or run > 2 * _CHUNK or step.units * step.lanes - lines * run > _CHUNK:
        yield "pack wide chunks", positions * chunks
    elif chunks in (1, 3):
        yield "pack short chunks", positions * chunks
    else:
        yield "pack chunks", positions * chunks


def _known(forms: Mapping[str, Form | None], name: str) -> Form:
    form = forms[name]
    assert form is not None, "an interpreter's: it has no instructions"
    return form
