"""Whether what PyTorch's exporter wrote computes what the program does: both run on random inputs.

The exporter leaves arguments out without a word (``torch_checks`` names those that are known), and what is changed of
its model here could be wrong too. Operator by operator, as it is written, ONNX Runtime gives PyTorch's floats but for
the order of sums, and a quantised program's integers but for ties.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.runtime import interpreters

_DRAWS = 3  #: sets of inputs
_ORDER = 1e-3  #: share of a tensor's values that sums in another order may change
_TIES = 0.05  #: that ties may, where values are rounded to integers or to floats of 16 bits
_KERNELS = 0.1  #: that those may too which integer kernels add
_MOST = 2**28  #: elements of all values of a program, above which it does not run here

_Array = npt.NDArray[Any]
_Tensors = Mapping[str, Any]  #: what a program takes, by name


class NotCompared(UserWarning):
    """A PyTorch program was not compared with what was exported of it; says why."""


class OtherKernels(UserWarning):
    """ONNX Runtime's integer kernels, which stand for float ones, give other results than PyTorch does."""


def disagreement(program: Any, traced: Any, content: bytes, what: str) -> str | None:
    """How the results of an ``ExportedProgram`` differ from those of ``content``, the ONNX model made of it.

    ``traced``: the program as the exporter has traced it, the sizes of which are PyTorch's and not a file's. None where
    they do not differ; and where nothing can be said, of which NotCompared warns, naming ``what``. OtherKernels warns
    where the model is right and ONNX Runtime is not.
    """
    try:
        with warnings.catch_warnings(), interpreters.named_failures(f"{what}: not compared with PyTorch's own results"):
            warnings.simplefilter("ignore")  # what PyTorch says of its own parts
            try:
                differing = _compared(program, traced, content)
            except LookupError as error:  # of indices that no user gives
                raise ValueError(str(error)) from error
    except interpreters.InterpreterError as error:
        warnings.warn(str(error), NotCompared, stacklevel=2)
        return None
    if differing is None:
        return None
    name, share = differing
    if name is None:
        warnings.warn(
            f"{what}: results are those of ONNX Runtime's integer kernels, which compute something else than PyTorch: "
            f"on random inputs, the root mean square of the difference is {share:.2g} of that of the values; "
            "leave the layer that makes it out of what is quantised",
            OtherKernels,
            stacklevel=2,
        )
        return None
    return (
        f"what PyTorch's exporter writes computes something else than PyTorch, first seen at {name}: on random inputs, "
        f"the root mean square of the difference is {share:.2g} of that of the values; write that layer otherwise, or "
        "export to .onnx what is meant and give that file"
    )


def _compared(program: Any, traced: Any, content: bytes) -> tuple[str | None, float] | None:
    """Where results differ: the first node whose values do, or None if only integer kernels do, and by what share."""
    made = [node.meta.get("val") for node in traced.graph.nodes if node.op == "call_function"]
    values = [value for value in made if hasattr(value, "dtype")]
    if (elements := sum(value.numel() for value in values)) > _MOST:
        raise ValueError(f"its values have {elements:,} elements together, more than {_MOST:,}")
    limit = _TIES if any(_is_rounded(value.dtype) for value in values) else _ORDER
    results = [str(name) for name in program.graph_signature.user_outputs if name is not None]
    draws = [_inputs(program, seed) for seed in range(_DRAWS)]
    wanted = _of_torch(program, draws, results)

    def shares(fused: bool) -> npt.NDArray[np.float64]:
        """For each result that of a usual draw: one tie may change all of a small result."""
        found = _of_onnx(content, draws, fused=fused)
        each = [[_share(x[name], y) for name, y in zip(results, ys, strict=True)] for x, ys in zip(wanted, found)]
        return np.median(each, axis=0)

    as_written = shares(False)
    if (worst := float(as_written.max(initial=0))) > limit:
        return _first(program, content, draws[:1], limit) or (results[int(as_written.argmax())], worst)
    if limit == _TIES and (worst := float(shares(True).max(initial=0))) > _KERNELS:
        return None, worst
    return None


def _is_rounded(dtype: Any) -> bool:
    return not dtype.is_floating_point or dtype.itemsize < 4


def _inputs(program: Any, seed: int) -> dict[str, Any]:
    """What a program takes, by name: floats of a normal distribution, integers of 0 and 1."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    values = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    made = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind.name != "USER_INPUT":
            continue
        name = spec.arg.name
        if hasattr(spec.arg, "value"):  # a constant of the program, which its module takes all the same
            made[name] = spec.arg.value
            continue
        if not hasattr(values[name], "dtype"):
            raise ValueError(f"input {name} is no tensor")
        shape = [size if isinstance(size, int) else 1 for size in values[name].shape]  # what is open is a batch
        x = torch.randn(shape, generator=generator)
        made[name] = (x if values[name].dtype.is_floating_point else x > 0).to(values[name].dtype)
    return made


def _of_torch(program: Any, draws: Sequence[_Tensors], names: Collection[str]) -> list[dict[str, _Array]]:
    """Those of a program's values that ``names`` are the nodes of, for each draw."""
    import torch

    found: list[dict[str, _Array]] = []

    class Keeping(torch.fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            value = super().run_node(n)
            if n.name in names and isinstance(value, torch.Tensor):
                found[-1][n.name] = value.numpy(force=True).copy()  # the next may change it in place
            return value

    module = program.module()
    with torch.no_grad():
        for tensors in draws:
            found.append({})
            Keeping(module).run(*tensors.values(), enable_io_processing=False)
    return found


def _of_onnx(
    content: bytes, draws: Sequence[_Tensors], names: Sequence[str] = (), fused: bool = False
) -> list[list[_Array]]:
    """The results of an ONNX model for each draw, or its values called ``names``; ``fused``: by ONNX Runtime's integer
    kernels, where otherwise each operator is computed as it is written."""
    import onnx
    import onnxruntime

    if names:
        model = onnx.load_from_string(content)
        del model.graph.output[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        content = model.SerializeToString()
    options = interpreters.onnxruntime_options()
    if not fused:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = interpreters.onnxruntime_session(content, lambda relaxed: options)
    inputs, found = [value.name for value in session.get_inputs()], []
    for tensors in draws:
        given = [x.numpy() for x in tensors.values() if hasattr(x, "numpy")]
        found.append([np.asarray(y) for y in session.run(None, dict(zip(inputs, given, strict=True)))])
    return found


def _share(wanted: _Array, got: _Array) -> float:
    """The root mean square of what differs, as a share of that of what is wanted."""
    if wanted.shape != got.shape:
        return float("inf")
    exact, found = wanted.astype(np.float64).reshape(-1), got.astype(np.float64).reshape(-1)
    there = np.isfinite(exact)
    if not np.array_equal(there, np.isfinite(found)):
        return float("inf")
    error, size = np.linalg.norm(exact[there] - found[there]), np.linalg.norm(exact[there])
    return float(error / size) if error else 0.0


def _first(program: Any, content: bytes, draw: Sequence[_Tensors], limit: float) -> tuple[str, float] | None:
    """The first node of a program whose values differ by more than ``limit``, where the model has some of that name."""
    import onnx

    made = {name for node in onnx.load_from_string(content).graph.node for name in node.output if name}
    (wanted,) = _of_torch(program, draw, made)
    if not wanted:
        return None
    (got,) = _of_onnx(content, draw, list(wanted))
    for (name, exact), y in zip(wanted.items(), got, strict=True):
        same = exact.shape == y.shape and exact.dtype == y.dtype  # else something else of that name
        if same and (share := _share(exact, y)) > limit:
            return name, share
    return None
