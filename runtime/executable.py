"""Executable: a compiled network that takes arrays and gives arrays back."""

from __future__ import annotations

import dataclasses
import hashlib
import html
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.arrays import save_array
from tilewright.errors import TilewrightError
from tilewright.files import check_directory_writable, make_directory, write_atomic
from tilewright.progress import Advance
from tilewright.runtime.artifact import Artifact, accelerator_layers
from tilewright.runtime.device import Allocation, Counters, Device, open_device
from tilewright.runtime.flow import check_flow, check_form
from tilewright.runtime.host_steps import Environment, check_host, run_host_step
from tilewright.runtime.intermediates import intermediate_index
from tilewright.runtime.report import Report, Timings, build_report
from tilewright.runtime.steps import LaunchStep, PackStep, TensorSpec, UnpackStep, form_of

Array = NDArray[Any]
Inputs = Array | Sequence[Array] | Mapping[str, Array]

LAUNCH_INFERENCES = 64  #: most inferences of one launch
LAUNCH_BYTES = 64 << 20  #: most bytes that the segments of one launch take


class InputError(TilewrightError):
    """An input array has another shape, dtype or content than the model takes; names what it should be."""


@dataclass
class _Run:
    """What one call of :meth:`Executable.run` holds while it works."""

    device: Device
    allocations: dict[int, Allocation]
    counters: dict[int, Counters] = field(default_factory=dict)
    timings: Timings = field(default_factory=Timings)


class Executable:
    """A compiled network on a device.

    ``device`` is a device name or an open :class:`Device`; it must be of the artifact's Config
    (:class:`ConfigMismatch`). Steps and programs are verified unless ``verified`` says that they have been.
    """

    def __init__(self, artifact: Artifact, device: str | Device = "sim", *, verified: bool = False) -> None:
        check_host(artifact)
        self.artifact = artifact
        self.device = open_device(device, artifact.config) if isinstance(device, str) else device
        artifact.check_config(self.device.config, f"the {self.device}")
        self.cached = False  #: whether the artifact came from the compiler's cache
        if not verified:
            from tilewright.isa.verifier import verify

            check_flow(artifact)
            for program in artifact.programs:
                verify(program)

    @property
    def name(self) -> str:
        """The model's name."""
        return self.artifact.name

    def __repr__(self) -> str:
        return f"<Executable {self.name} for {self.artifact.config.name} on {self.device.label}>"

    def _repr_html_(self) -> str:
        """For a notebook's cell: what it takes and gives, and where the operators run."""
        tensors = "".join(
            f"<tr><td>{what}</td><td>{html.escape(tensor.name)}</td><td>{tensor.dtype} {list(tensor.shape)}</td></tr>"
            for what, tensors in (("input", self.inputs), ("output", self.outputs)) for tensor in tensors
        )  # fmt: skip
        layers = accelerator_layers(self.artifact)
        bound = sum(program.meta.get("floor_cycles", 0) for program in self.artifact.programs)
        return (
            f"<p>{html.escape(repr(self)[1:-1])}: {len(layers)} layers on the accelerator, at least {bound:,} cycles; "
            f"{len(self.artifact.host_layers)} operators on the CPU</p><table>{tensors}</table>"
        )

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The tensors that :meth:`run` takes."""
        return tuple(of_batch(tensor, self.artifact.batch) for tensor in self.artifact.inputs)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The tensors that :meth:`run` gives."""
        return tuple(of_batch(tensor, self.artifact.batch) for tensor in self.artifact.outputs)

    def save(self, path: str | Path) -> None:
        """Write the artifact file; it appears whole or not at all."""
        self.artifact.save(path)

    @classmethod
    def load(cls, path: str | Path, device: str | Device = "sim") -> Executable:
        """Read an artifact file and verify its programs."""
        return cls(Artifact.load(path), device)

    def __call__(self, x: Inputs) -> Any:
        """``run`` without the report."""
        return self.run(x)[0]

    def run(
        self, x: Inputs, *, progress: Advance | None = None, keep_intermediates: str | Path | None = None
    ) -> tuple[Any, Report]:
        """Run N inferences.

        ``x``: N inputs stacked on the first axis, in the model's own dtype (of a model of batch B: (N, B, ...), run
        image by image, each of which the report counts as an inference); for a model of several inputs a
        sequence in their order or a mapping by name. ``progress`` is called with the number of inferences newly
        finished. ``keep_intermediates`` is a directory to store every operator's output in as ``.npy`` (the
        network must have been compiled for it). Returns the outputs, stacked likewise (an array, or a list where
        the model has several outputs), and the report. Raises :class:`InputError`, :class:`DeviceFault`.
        """
        batch = self.artifact.batch
        environment = {
            name: value.reshape(-1, 1, *value.shape[2:]) if batch > 1 else value
            for name, value in self._check_inputs(x).items()
        }
        count = next(iter(environment.values())).shape[0]
        wanted = {tensor.name: tensor for tensor in self.artifact.outputs}
        if keep_intermediates is not None:
            if not self.artifact.intermediates:
                raise InputError(
                    f"{self.name}: compiled without intermediates; compile the model with keep_intermediates"
                )
            check_directory_writable(keep_intermediates)
            wanted |= {i.tensor.name: i.tensor for i in self.artifact.intermediates}
        parts: dict[str, list[Array]] = {name: [] for name in wanted}
        chunk = self._launch_size(count)
        with ExitStack() as stack:
            run = _Run(self.device, self._allocate(stack, min(chunk, count)))
            for begin in range(0, count, chunk):
                piece = {name: value[begin : begin + chunk] for name, value in environment.items()}
                self._run_steps(run, piece, progress)
                for name, collected in parts.items():
                    check_form(self.name, wanted[name], form_of(piece[name]))
                    collected.append(piece[name])
        results = {
            name: stack_tensor(np.concatenate(parts[name]), of_batch(tensor, batch)) for name, tensor in wanted.items()
        }
        if keep_intermediates is not None:
            self._store_intermediates(Path(keep_intermediates), results)
        digests = {
            "inputs": digest([environment[tensor.name] for tensor in self.artifact.inputs]),
            "outputs": digest([results[tensor.name] for tensor in self.artifact.outputs]),
        }
        report = build_report(self.artifact, self.device.label, count, run.counters, run.timings, digests)
        outputs = [results[tensor.name] for tensor in self.outputs]
        return (outputs[0] if len(outputs) == 1 else outputs), report

    def _check_inputs(self, x: Inputs) -> Environment:
        if isinstance(x, np.ndarray):
            given: dict[str, Array] = {self.inputs[0].name: x}
            if len(self.inputs) != 1:
                raise InputError(f"{self.name}: takes {len(self.inputs)} inputs ({self._input_names()}), 1 given")
        elif isinstance(x, Mapping):
            given = dict(x)
        else:
            if len(x) != len(self.inputs):
                raise InputError(
                    f"{self.name}: takes {len(self.inputs)} inputs ({self._input_names()}), {len(x)} given"
                )
            given = {tensor.name: value for tensor, value in zip(self.inputs, x)}
        if set(given) != {tensor.name for tensor in self.inputs}:
            raise InputError(f"{self.name}: takes the inputs {self._input_names()}, not {', '.join(given)}")
        environment = {tensor.name: check_tensor(given[tensor.name], tensor) for tensor in self.inputs}
        counts = {value.shape[0] for value in environment.values()}
        if len(counts) != 1:
            raise InputError(f"{self.name}: the inputs hold different numbers of inferences: {sorted(counts)}")
        return environment

    def _input_names(self) -> str:
        return ", ".join(tensor.name for tensor in self.inputs)

    def _launch_size(self, count: int) -> int:
        """Inferences per launch: bounded in number and in memory, 1 where segments cannot repeat."""
        size = min(count, LAUNCH_INFERENCES)
        for program in self.artifact.programs:
            if any(s.kind in ("input", "output") and not s.repeat_stride for s in program.segments):
                return 1
            stride = sum(s.repeat_stride for s in program.segments)
            size = min(size, max(1, LAUNCH_BYTES // max(stride, 1)))
        return size

    def _allocate(self, stack: ExitStack, inferences: int) -> dict[int, Allocation]:
        allocations = {}
        for index, program in enumerate(self.artifact.programs):
            allocations[index] = self.device.allocate(program, inferences)
            stack.callback(self.device.release, allocations[index])
        return allocations

    def _run_steps(self, run: _Run, environment: Environment, progress: Advance | None) -> None:
        """Run all steps on the inferences of one launch."""
        count = next(iter(environment.values())).shape[0]
        last_launch = max((i for i, s in enumerate(self.artifact.steps) if isinstance(s, LaunchStep)), default=-1)
        for index, step in enumerate(self.artifact.steps):
            start = time.perf_counter()
            if isinstance(step, PackStep):
                step.check(form_of(environment[step.tensor]))
                data = step.apply(environment[step.tensor])
                run.device.write_stack(run.allocations[step.program], step.segment, step.offset, data)
                run.timings.pack_s += time.perf_counter() - start
            elif isinstance(step, LaunchStep):
                together = [run.allocations[program] for program in step.programs]
                run.device.run_together(together, count, progress if index == last_launch else None)
                run.counters |= {p: run.device.counters(run.allocations[p]) for p in step.programs}
                run.timings.launch_s += time.perf_counter() - start
            elif isinstance(step, UnpackStep):
                allocation = run.allocations[step.program]
                rows = run.device.read_stack(allocation, step.segment, count, step.offset, step.size)
                environment[step.tensor] = step.apply(rows)
                run.timings.unpack_s += time.perf_counter() - start
            else:
                run_host_step(step, environment, self.artifact.blobs)
                run.timings.host_s += time.perf_counter() - start
        if last_launch < 0 and progress is not None:
            progress(count)

    def _store_intermediates(self, directory: Path, results: dict[str, Array]) -> None:
        batch = self.artifact.batch
        kept = [dataclasses.replace(i, tensor=of_batch(i.tensor, batch)) for i in self.artifact.intermediates]
        files = intermediate_index(kept)
        make_directory(directory)
        for entry in files:
            save_array(directory / entry["file"], results[entry["tensor"]])
        write_atomic(directory / "index.json", json.dumps(files, indent=1) + "\n")


def digest(arrays: Sequence[Array]) -> str:
    """SHA-256 over types, shapes and bytes of arrays: equal for equal tensors in equal order."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.dtype.str} {array.shape};".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def load(path: str | Path, device: str | Device = "sim") -> Executable:
    """Read an artifact file: :meth:`Executable.load`."""
    return Executable.load(path, device)


def element_shape(tensor: TensorSpec) -> tuple[int, ...]:
    """The shape of one inference's tensor in a stack: without the leading batch of 1."""
    return tensor.shape[1:] if tensor.shape[:1] == (1,) else tensor.shape


def of_batch(tensor: TensorSpec, batch: int) -> TensorSpec:
    """The tensor of ``batch`` images, where the given one is that of one."""
    return tensor if batch == 1 else dataclasses.replace(tensor, shape=(batch, *tensor.shape[1:]))


def stack_tensor(values: Array, tensor: TensorSpec) -> Array:
    """(N, *shape) as the user sees it, of N inferences or their images: the batch of 1 dropped."""
    return values.reshape(-1, *element_shape(tensor))


def check_tensor(x: Array, tensor: TensorSpec) -> Array:
    """``x`` as (N, *tensor.shape). Raises :class:`InputError` on another dtype or shape, on none, and on NaN."""
    if not isinstance(x, np.ndarray):
        raise InputError(f"input {tensor.name}: must be a NumPy array, not {type(x).__name__}")
    shape = element_shape(tensor)
    wanted = f"(N, {', '.join(map(str, shape))})" if shape else "(N,)"
    if x.shape[1:] != shape or x.ndim != len(shape) + 1:
        raise InputError(f"input {tensor.name}: shape {x.shape}, the model takes {wanted}, N inputs stacked")
    if x.dtype != np.dtype(tensor.dtype):
        raise InputError(f"input {tensor.name}: dtype {x.dtype}, the model takes {tensor.dtype}")
    if x.shape[0] == 0:
        raise InputError(f"input {tensor.name}: holds no inputs; the first axis must be at least 1")
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        bad = np.argwhere(~np.isfinite(x))
        raise InputError(
            f"input {tensor.name}: {len(bad)} values are NaN or infinite, the first at index {tuple(bad[0].tolist())}"
        )
    return np.ascontiguousarray(x).reshape(x.shape[0], *tensor.shape)
