"""What the compiler records beside programs and steps, for reports and messages: layers and operators."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict, get_args

from tilewright.isa.program import Program
from tilewright.schema import Count, Holds, OneOf, Range, SchemaError, conform

Objective = Literal["latency", "throughput", "energy"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)  #: what operators are placed for
Exact = Literal["proven", "default", "close"]
EXACT: tuple[Exact, ...] = get_args(Exact)  #: how sure it must be that integers are the interpreter's (docs/numbers.md)
MOST_JOBS = 256  #: threads of the CPU
BOUND = "floor_cycles"  #: under which name programs record their lower bound, and that of each layer
Place = Annotated[str, OneOf(("accelerator", "host", "interpreter", "none"))]


class Named(TypedDict):
    """What every record has."""

    name: str


class _Layer(Named, total=False):
    """An operator in a program, or on the host outside of the programs; it may hold more."""

    op: str
    place: Place
    reason: str
    tensor: str
    shape: tuple[Count, ...]
    input_shapes: tuple[tuple[Count, ...], ...]
    weight_shape: tuple[Count, ...]
    macs: Count
    useful: Count
    array_cycles: Count
    alu_cycles: Count
    read_bytes: Count
    write_bytes: Count
    floor_cycles: Count
    macs_dropped: Count
    channels_dropped: dict[str, Count]
    compared: str  #: why its program is compared with the reference on some inputs, and not proven for all


class _Placed(Named):
    """An operator of the model file: where it runs, why, and what is known of exactness."""

    op: str
    macs: Count
    place: Place
    reason: str
    exact: str


class _Operator(_Placed, total=False):
    """The same with what the file calls its result, and of what falls back because it is not proven the share of the
    sums that are in doubt."""

    title: str
    in_doubt: Annotated[float, Range(0, 1)]


class Measured(TypedDict):
    """How an output differs from the interpreter's on sample inputs.

    ``elements``: of all inputs together. ``largest``, ``mean``: absolute differences in ``unit``, LSB or nothing.
    ``snr_db``: signal to noise; None where nothing differs, or there is no signal.
    """

    output: str
    elements: Count
    differ: Count
    largest: float
    mean: float
    unit: str
    snr_db: float | None


class _Options(TypedDict, total=False):
    """How an artifact was compiled; it may hold more."""

    keep_intermediates: bool
    fast_host: bool
    exact: Annotated[str, OneOf(EXACT)]
    compare: bool
    objective: str | None
    jobs: Annotated[int, Range(1, MOST_JOBS)]
    unplaced: str
    compared: str
    uncompared: str
    measured: tuple[Annotated[dict[str, Any], Holds(Measured)], ...]
    left_out: tuple[str, ...]
    index_limits: dict[str, Count]
    operators: tuple[Annotated[dict[str, Any], Holds(_Operator)], ...]
    moved: tuple[tuple[str, str], ...]
    rejected: tuple[str, ...]
    model_suffix: Annotated[str, OneOf(("", ".tflite", ".onnx", ".pt2"))]
    model_sha256: str


Layer = Annotated[dict[str, Any], Holds(_Layer)]
CompileOptions = Annotated[dict[str, Any], Holds(_Options)]


def check_meta(program: Program, where: str) -> None:
    """Raise :class:`SchemaError` unless a program's ``layers`` and ``instruction_layer`` belong to it, and its
    ``substitutions`` are pairs of words."""
    layers: Any = program.meta.get("layers") or []
    conform(tuple[Layer, ...], layers, f"{where}: layers")
    conform(tuple[tuple[str, str], ...], program.meta.get("substitutions") or [], f"{where}: substitutions")
    owners = conform(tuple[int, ...], program.meta.get("instruction_layer") or [], f"{where}: instruction_layer")
    if owners and len(owners) != program.instruction_count:
        raise SchemaError(
            f"{where}: instruction_layer: {len(owners)} entries, {program.instruction_count} instructions"
        )
    if owners and not -1 <= min(owners) <= max(owners) < max(1, len(layers)):
        raise SchemaError(f"{where}: instruction_layer: from {min(owners)} to {max(owners)}, of {len(layers)} layers")
