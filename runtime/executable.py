"""Executable: a compiled network that takes arrays and gives arrays back."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from tilewright.arrays import save_array
from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.files import check_directory_writable, directory_for, together, write_atomic
from tilewright.kinds import function, instance, shown
from tilewright.printable import in_html
from tilewright.progress import Advance
from tilewright.ranges import flag, whole
from tilewright.runtime.artifact import Artifact, accelerator_layers, is_stateful
from tilewright.runtime.device import DEVICES, Device, DeviceError, open_device
from tilewright.runtime.device_base import has_shared
from tilewright.runtime.flights import Flight, at_once, of_most_cores, one_by_one, under_way
from tilewright.runtime.flow import check_flow
from tilewright.runtime.host_steps import Environment, check_host
from tilewright.runtime.intermediates import intermediate_index
from tilewright.runtime.one_process import refuse_copy
from tilewright.runtime.prepared import Prepared
from tilewright.runtime.records import BOUND, MOST_JOBS
from tilewright.runtime.report.report import Report, Steady, build_report, sum_timings
from tilewright.runtime.steps import LaunchStep, TensorSpec
from tilewright.runtime.stream import Kept, Stream, check_streams
from tilewright.runtime.verified import is_verified, mark_verified

Array = NDArray[Any]
Inputs = Array | Sequence[Array] | Mapping[str, Array]

LAUNCH_INFERENCES = 64  #: most inferences of one launch
LAUNCH_BYTES = 64 << 20  #: most bytes that the segments of all launches under way take
GROUPS = 4  #: launches that each place for one gets at least, where several are under way at once


class InputError(TilewrightError):
    """An input array has another shape, dtype or content than the model takes; names what it should be."""


class ExecutableError(TilewrightError):
    """Something that an executable is not for; says what is."""


class Executable:
    """A compiled network on a device.

    ``device`` is a device name or an open :class:`Device`; it must be of the artifact's Config
    (:class:`ConfigMismatch`). Steps and programs are verified unless ``verified`` says that they have been; programs
    of a file that has been verified on this machine are not verified again.
    """

    def __init__(self, artifact: Artifact, device: str | Device = "sim", *, verified: bool = False) -> None:
        wanted = "an Artifact; tilewright.compile makes one of a model, tilewright.load reads a file"
        instance("artifact", artifact, Artifact, wanted, error=InputError)
        flag("verified", verified, error=InputError)
        check_host(artifact)
        self.artifact = artifact
        self.device = opened(device, artifact.config)
        artifact.check_config(self.device.config, f"the {self.device}")
        self.cached = False  #: whether the artifact came from the compiler's cache
        if not verified:
            check_flow(artifact)
            if not is_verified(artifact):
                _verify_programs(artifact)
                mark_verified(artifact)

    @property
    def name(self) -> str:
        """The model's name."""
        return self.artifact.name

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        refuse_copy(f"executable {self.name}", "save(path) it, and tilewright.load(path) it there", ExecutableError)

    def __repr__(self) -> str:
        return f"<Executable {self.name} for {self.artifact.config.name} on {self.device.label}>"

    def _repr_html_(self) -> str:
        """For a notebook's cell: what it takes and gives, and where the operators run."""
        tensors = "".join(
            f"<tr><td>{what}</td><td>{in_html(tensor.name)}</td><td>{tensor.dtype} {list(tensor.shape)}</td></tr>"
            for what, tensors in (("input", self.inputs), ("output", self.outputs)) for tensor in tensors
        )  # fmt: skip
        layers = accelerator_layers(self.artifact)
        bound = sum(program.meta.get(BOUND, 0) for program in self.artifact.programs)
        return (
            f"<p>{in_html(repr(self)[1:-1])}: {len(layers)} layers on the accelerator, at least {bound:,} cycles; "
            f"{len(self.artifact.host_layers)} operators on the CPU</p><table>{tensors}</table>"
        )

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The tensors that :meth:`run` takes."""
        return tuple(of_batch(tensor, self.artifact.batch) for tensor in self.artifact.inputs)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The tensors that :meth:`run` gives, under the names that the model's file has for them."""
        return tuple(of_batch(tensor, self.artifact.batch) for tensor in self.artifact.named_outputs)

    def save(self, path: str | Path) -> None:
        """Write the artifact file; it appears whole or not at all."""
        self.artifact.save(path)
        mark_verified(self.artifact)

    @classmethod
    def load(cls, path: str | Path, device: str | Device = "sim") -> Executable:
        """Read an artifact file and verify its programs."""
        return cls(Artifact.load(path), device)

    def __call__(self, x: Inputs) -> Any:
        """``run`` without the report."""
        return self.run(x)[0]

    def run(
        self,
        x: Inputs,
        *,
        jobs: int | None = None,
        progress: Advance | None = None,
        keep_intermediates: str | Path | None = None,
    ) -> tuple[Any, Report]:
        """Run N inferences.

        ``x``: N inputs stacked on the first axis, in the model's own dtype (of a model of batch B: (N, B, ...), run
        image by image, each of which the report counts as an inference); for a model of several inputs a
        sequence in their order or a mapping by name. ``jobs``: so many threads of the CPU carry out operators and
        packing of some inferences while the accelerators work on others, and the report has the steady state; as it
        was compiled where left out (:attr:`jobs`). ``progress`` is called with the number of inferences newly finished.
        ``keep_intermediates`` is a directory to store every operator's output in as ``.npy`` (the
        network must have been compiled for it). States that the network keeps (of LSTMs, variables, SVDF) are reset for
        each inference; :meth:`stream` lets them go on. Threads may run one executable, or several on one device: their
        runs take turns; one inside of another, begun by the same thread (from ``progress``), is refused. Returns the
        outputs, stacked likewise (an array, or a list where the model has several outputs), and the report. Raises
        :class:`InputError`, :class:`DeviceFault`, :class:`NestedRunError`.
        """
        return self._run(x, self.jobs if jobs is None else jobs, progress, keep_intermediates)

    def stream(self) -> Stream:
        """Inferences that follow on each other, each of which finds the states that the last one left.

        ``with executable.stream() as stream: y, report = stream.run(x)``. Raises :class:`StreamError` for an artifact
        that an earlier version compiled without that.
        """
        check_streams(self.artifact)
        return Stream(self.artifact, self._run)

    def prepare(self, inferences: int = 1) -> Prepared:
        """A call for so many inferences at a time, again and again, in the least of the host's time: it gives the
        outputs and no report, and holds its memory on the device until it is closed.

        ``with executable.prepare() as infer: y = infer(x)``. Raises :class:`InputError` for more than one launch takes.
        """
        inferences = whole(f"{self.name}: inferences", inferences, 1, error=InputError)
        images = inferences * self.artifact.batch
        if (most := self._group_size(images, 1)) < images:
            raise InputError(
                f"{self.name}: {inferences} inferences at a time: one launch takes {most // self.artifact.batch}; "
                "prepare fewer, or use run"
            )
        return Prepared(self.artifact, self.device, inferences, partial(self._check_count, inferences))

    def _check_count(self, inferences: int, x: Inputs) -> Environment:
        checked = self._check_inputs(x)
        if (found := next(iter(checked.values())).shape[0]) != inferences:
            raise InputError(f"{self.name}: {found} inferences given, prepared for {inferences}")
        return checked

    @property
    def stateful(self) -> bool:
        """Whether it keeps states, which go on in a :meth:`stream`."""
        return is_stateful(self.artifact)

    def _run(
        self,
        x: Inputs,
        jobs: int | None = None,
        progress: Advance | None = None,
        keep_intermediates: str | Path | None = None,
        kept: Kept | None = None,
    ) -> tuple[Any, Report]:
        """As :meth:`run`, with what a stream has ``kept``."""
        batch = self.artifact.batch
        function(f"{self.name}: progress", progress, error=InputError)
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
        if jobs is not None:
            jobs = whole(f"{self.name}: jobs", jobs, 1, MOST_JOBS, of="threads of the CPU", error=InputError)
        size = 1 if kept is not None and self.artifact.states else self._group_size(count, under_way(jobs))
        groups = [
            {name: value[begin : begin + size] for name, value in environment.items()}
            for begin in range(0, count, size)
        ]
        steady = None
        with self.device.turn.taken(self.name), ExitStack() as stack:
            if kept is not None:
                kept.check_ended(self.name)
            flights = self._flights(stack, min(len(groups), under_way(jobs)), size, jobs, kept)
            if jobs is None:
                parts = one_by_one(flights[0], groups, list(wanted.values()), progress)
            else:
                parts, rate = at_once(flights, groups, list(wanted.values()), jobs, progress)
                steady = Steady(jobs, len(flights) * size, None if self.device.simulates else rate)
        results = {
            name: stack_tensor(np.concatenate([part.pop(name) for part in parts]), of_batch(tensor, batch))
            for name, tensor in wanted.items()
        }
        if keep_intermediates is not None:
            self._store_intermediates(Path(keep_intermediates), results)
        digests = {
            "inputs": digest([environment[tensor.name] for tensor in self.artifact.inputs]),
            "outputs": digest([results[tensor.name] for tensor in self.artifact.outputs]),
        }
        counters = of_most_cores(flight.counters for flight in flights)
        timings = sum_timings(flight.timings for flight in flights)
        stream = kept is not None
        report = build_report(self.artifact, self.device.label, count, counters, timings, digests, steady, stream)
        outputs = [results[tensor.name] for tensor in self.artifact.outputs]
        return (outputs[0] if len(outputs) == 1 else outputs), report

    def _check_inputs(self, x: Inputs) -> Environment:
        if isinstance(x, np.ndarray):
            given: dict[str, Array] = {self.inputs[0].name: x}
            if len(self.inputs) != 1:
                raise InputError(f"{self.name}: takes {self._input_count()}, 1 given")
        elif isinstance(x, Mapping):
            given = dict(x)
        elif isinstance(x, Sequence):
            if len(x) != len(self.inputs):
                raise InputError(f"{self.name}: takes {self._input_count()}, {len(x)} given")
            given = {tensor.name: value for tensor, value in zip(self.inputs, x)}
        else:
            raise InputError(f"{self.name}: takes a NumPy array, several in a list or by name, not {type(x).__name__}")
        if set(given) != {tensor.name for tensor in self.inputs}:
            raise InputError(f"{self.name}: takes the inputs {self._input_names()}, not {', '.join(map(str, given))}")
        environment = {tensor.name: check_tensor(given[tensor.name], tensor) for tensor in self.inputs}
        counts = {value.shape[0] for value in environment.values()}
        if len(counts) != 1:
            raise InputError(f"{self.name}: the inputs hold different numbers of inferences: {sorted(counts)}")
        return environment

    def _input_count(self) -> str:
        return f"{len(self.inputs)} input{'s' if len(self.inputs) > 1 else ''} ({self._input_names()})"

    def _input_names(self) -> str:
        return ", ".join(tensor.name for tensor in self.inputs)

    @property
    def jobs(self) -> int | None:
        """Threads of the CPU that :meth:`run` uses unasked: those that the network was placed for, compiled for
        throughput; None: one step after another."""
        options = self.artifact.options
        return int(options.get("jobs", 1)) if options.get("objective") == "throughput" else None

    def to_be_busy(self, jobs: int) -> int:
        """Inferences with which cores and ``jobs`` threads of the CPU have work for a while."""
        jobs = whole(f"{self.name}: jobs", jobs, 1, MOST_JOBS, of="threads of the CPU", error=InputError)
        return GROUPS * under_way(jobs) * self.device.config.cores

    def _group_size(self, count: int, flights: int) -> int:
        """Inferences per launch: bounded in number and in memory, 1 where segments cannot repeat. Of several launches
        under way each has work for all cores, and none so much that the others wait for it in the end."""
        size = min(count, LAUNCH_INFERENCES)
        if flights > 1:
            cores = self.device.config.cores
            size = min(size, max(1, count // (GROUPS * flights * cores)) * cores)
        for program in self.artifact.programs:
            if any(s.kind in ("input", "output", "shared") and not s.repeat_stride for s in program.segments):
                return 1
            stride = sum(s.repeat_stride for s in program.segments)
            size = min(size, max(1, LAUNCH_BYTES // flights // max(stride, 1)))
        return size

    def _flights(
        self, stack: ExitStack, count: int, inferences: int, jobs: int | None, kept: Kept | None
    ) -> list[Flight]:
        """What carries groups of so many inferences, with segments each; given back with ``stack``."""
        turn = nullcontext() if self.device.overlaps else threading.RLock()
        # threads take turns, which are none of their work: with several its processor time counts
        clock = time.perf_counter if jobs is None else time.thread_time
        flights = [Flight(self.artifact, self.device, {}, kept, clock, turn) for _ in range(count)]
        for index, program in enumerate(self.artifact.programs):
            for flight in flights:
                flight.allocations[index] = self.device.allocate(program, inferences)
                stack.callback(self.device.release, flight.allocations[index])
        for flight in flights:
            for launch in _exchanging(self.artifact):
                self.device.share([flight.allocations[number] for number in launch])
        return flights

    def _store_intermediates(self, directory: Path, results: dict[str, Array]) -> None:
        batch = self.artifact.batch
        kept = [dataclasses.replace(i, tensor=of_batch(i.tensor, batch)) for i in self.artifact.intermediates]
        files = intermediate_index(kept)
        with directory_for(directory), together():
            for entry in files:
                save_array(directory / entry["file"], results[entry["tensor"]])
            write_atomic(directory / "index.json", json.dumps(files, indent=1) + "\n")


def opened(device: object, config: Config) -> Device:
    """``device``, or the one of that name for ``config``. Raises :class:`DeviceError` for what is neither."""
    if isinstance(device, str):
        return open_device(device, config)
    if isinstance(device, Device):
        return device
    raise DeviceError(
        f"device: must be a device's name ({', '.join(DEVICES)}, pynq://HOST) or an open one, not {shown(device)}"
    )


def _verify_programs(artifact: Artifact) -> None:
    """Raise :class:`~tilewright.isa.verifier.VerifyError` for a program that breaks a rule."""
    from tilewright.isa.verifier import verify, verify_together

    together = _exchanging(artifact)
    alone = set(range(len(artifact.programs))) - {number for launch in together for number in launch}
    for number in sorted(alone):
        verify(artifact.programs[number])
    for launch in together:
        verify_together([artifact.programs[number] for number in launch])


def _exchanging(artifact: Artifact) -> list[tuple[int, ...]]:
    """The programs of each launch that share memory."""
    launches = [step.programs for step in artifact.steps if isinstance(step, LaunchStep)]
    return [launch for launch in launches if any(has_shared(artifact.programs[number]) for number in launch)]


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
    shape = element_shape(tensor)
    if 0 in shape:  # of no elements every count is right
        return values.reshape(values.shape[0], *shape)
    return values.reshape(-1, *shape)


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
    if np.ma.is_masked(x):
        raise InputError(
            f"input {tensor.name}: is masked in places, which hold no numbers; fill them (x.filled(0), say)"
        )
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        bad = np.argwhere(~np.isfinite(x))
        raise InputError(
            f"input {tensor.name}: {len(bad)} values are NaN or infinite, the first at index {tuple(bad[0].tolist())}"
        )
    return np.ascontiguousarray(x).reshape(x.shape[0], *tensor.shape)
