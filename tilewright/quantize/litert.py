"""Float .tflite files quantised by LiteRT's quantiser, ai-edge-quantizer."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.files import read_bytes
from tilewright.jit.source.tflite.file import File
from tilewright.progress import Progress
from tilewright.quantize.base import (
    Answer,
    Array,
    Layer,
    Quantiser,
    QuantizeError,
    Tensors,
    nothing_to_quantise,
    samples,
    stored,
)
from tilewright.quantize.left_real import LOOKED_AT, left_real
from tilewright.quantize.litert_model import SIGNATURE, float_form, has_scales, signed, with_results
from tilewright.quantize.operators import Operator
from tilewright.runtime import interpreters
from tilewright.runtime.apart import Apart
from tilewright.runtime.litert.beyond import has_beyond
from tilewright.runtime.litert.foreign import way_out_of_foreign
from tilewright.runtime.litert.kernels import prepared
from tilewright.runtime.steps import TensorSpec

#: operators with a subgraph of their own, which the quantiser does not find its ranges in
_WAYS_OUT = (
    ({"IF", "WHILE"}, "convert it with loops unrolled (Keras: unroll=True)"),
    (
        {"STABLEHLO_REDUCE_WINDOW"},
        "write that layer otherwise (PyTorch: 3-D pools, LocalResponseNorm, cumsum), or ONNX",
    ),
)
_BY_RANK = ("MAXIMUM", "MINIMUM")  #: the quantiser takes a constant for them of the result's rank alone
_OF_ALL_AXES = "ai-edge-quantizer takes constants with all axes of the result only"
_AGAIN = "_quantized"  #: behind the name of a float32 result, where ai-edge-quantizer quantises it for those behind
_NARROWEST = 1e-9  #: range that the quantiser widens narrower ones to
_CHUNK = 16  #: inputs between two reports of progress


class LitertQuantiser(Quantiser):
    """A float ``.tflite`` file, to be quantised to weights of ``bits``."""

    suffix = ".tflite"

    def __init__(self, path: Path, bits: int) -> None:
        if find_spec("ai_edge_quantizer") is None:
            raise QuantizeError(
                f"{path}: quantising .tflite files needs ai-edge-quantizer: pip install 'tilewright[quantize]'"
            )
        self.path, self.bits = path, bits
        file = File(path, quantised=False)
        content = read_bytes(path)
        with self._running():
            self._content = float_form(content)
            self._real = Apart(AllTensors, self._content)
        there = {op.kind for op in file.operators}
        ways = [f"; it has {', '.join(sorted(there & some))}: {way}" for some, way in _WAYS_OUT if there & some]
        self._way_out = "".join(ways)
        self.inputs = [
            TensorSpec(d["name"], tuple(int(n) for n in d["shape"]), np.dtype(d["dtype"]).name, 1.0, 0)
            for d in self._real.about[0]
        ]
        self._outputs = [detail["name"] for detail in self._real.about[1]]
        constant = {t.index for t in file.tensors if t.data is not None}
        folded = set()
        for op in file.operators:
            if op.kind == "DENSIFY" or (op.kind == "DEQUANTIZE" and constant & {*op.inputs}):
                folded.add(op.index)
                constant.add(op.outputs[0])
        names = [t.name for t in file.tensors]
        ranks = [len(t.shape) for t in file.tensors]
        self._operators = [
            Operator(
                f"op{op.index:03d}", op.kind, tuple(names[i] for i in op.inputs if i >= 0),
                tuple(names[i] for i in op.outputs),
                _OF_ALL_AXES if op.kind in _BY_RANK and len({ranks[i] for i in (*op.inputs, *op.outputs)}) > 1 else "",
            )
            for op in file.operators
        ]  # fmt: skip
        self._constants = {t.name: t.data for t in file.tensors if t.data is not None and t.data.dtype == np.float32}
        self.layers = [
            Layer(
                f"op{op.index:03d}_{op.kind}", op.kind,
                tuple(names[i] for i in op.inputs if i >= 0 and i not in constant), names[op.outputs[0]],
            )
            for op in file.operators
            if op.outputs and op.index not in folded
        ]  # fmt: skip

    def quantise(self, data: Sequence[Array], progress: Progress) -> bytes:
        real = left_real(self._operators, self._outputs, self._constants, self.tensors(None), samples(data, LOOKED_AT))
        self.stay = real.stay
        results = [operator.makes[0] for operator in real.operators if operator.makes]
        examples = [{f"x{i}": x for i, x in enumerate(one)} for one in samples(data, data[0].shape[0])]
        try:
            tool = Apart(Calibration, signed(self._content), self.bits, results)
            for begin in range(0, len(examples), _CHUNK):
                progress("calibrating", begin, len(examples))
                tool(examples[begin : begin + _CHUNK])
            progress("calibrating", len(examples), len(examples))
            made = with_results(tool([]), len(self._outputs))
        except Exception as error:  # the quantiser raises whatever NumPy, LiteRT and its own rules do
            said = interpreters.first_line(error).rstrip(".")
            raise QuantizeError(f"{self.path}: ai-edge-quantizer cannot quantise it: {said}{self._way_out}") from error
        if not has_scales(made):
            raise nothing_to_quantise(self.path, "LiteRT", "ai-edge-quantizer", self.layers, self.stay)
        return made

    def tensors(self, quantised: bytes | None) -> Tensors:
        interpreter = self._interpreter(quantised)

        def run(x: Sequence[Array]) -> Mapping[str, Array]:
            with self._running():
                found: dict[str, Array] = interpreter((x, True))
            for name in [name for name in found if name + _AGAIN in found and quantised is not None]:
                found[name] = found[name + _AGAIN]
            return found

        return run

    def answer(self, quantised: bytes | None) -> Answer:
        interpreter = self._interpreter(quantised)

        def run(x: Sequence[Array]) -> Array:
            with self._running():
                found: Array = interpreter((x, False))
            return found

        return run

    def _interpreter(self, quantised: bytes | None) -> Apart:
        with self._running():
            return self._real if quantised is None else Apart(AllTensors, quantised)

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        """Where LiteRT loads or runs a model: what it says, or its process's end, as a QuantizeError."""
        try:
            yield
        except (ValueError, RuntimeError) as error:
            said = interpreters.first_line(error).rstrip(".")
            raise QuantizeError(f"{self.path}: LiteRT cannot run it: {said}{way_out_of_foreign(said)}") from error


# -- what runs in a process of its own -------------------------------------------------------------------


class AllTensors:
    """LiteRT's reference kernels, or all where some have none, asked for the dequantised tensors of an inference.

    ``about``: its details of inputs and of outputs.
    """

    def __init__(self, content: bytes) -> None:
        self._interpreter = prepared(content, fast=has_beyond(content), keep_all=True)
        self.about = self._interpreter.get_input_details(), self._interpreter.get_output_details()

    def __call__(self, question: tuple[Sequence[Array], bool]) -> dict[str, Array] | Array:
        """The inputs, and whether all tensors of float32 are wanted, by name, or the first result."""
        x, everything = question
        for detail, value in zip(self.about[0], x, strict=True):
            scale, zero_point = detail["quantization"]
            given = stored(value, scale, zero_point, np.dtype(detail["dtype"]).name) if scale else value
            self._interpreter.set_tensor(detail["index"], given.reshape(detail["shape"]))
        self._interpreter.invoke()
        if not everything:
            return self._dequantised(self.about[1][0])
        found = {}
        for detail in self._interpreter.get_tensor_details():
            with contextlib.suppress(ValueError):  # temporaries of kernels have no data to give
                found[detail["name"]] = self._dequantised(detail)
        return {name: value for name, value in found.items() if value.dtype == np.float32}

    def _dequantised(self, detail: Mapping[str, Any]) -> Array:
        value, (scale, zero_point) = self._interpreter.get_tensor(detail["index"]), detail["quantization"]
        return np.asarray((value.astype(np.float32) - zero_point) * np.float32(scale)) if scale else value


class Calibration:
    """ai-edge-quantizer on a model with the signature :data:`SIGNATURE`: inputs by name to calibrate with.

    Asked with none, it gives the quantised model. ``bits`` and ``real``: see :func:`_recipe`.
    """

    def __init__(self, content: bytes, bits: int, real: Sequence[str]) -> None:
        from ai_edge_quantizer import calibrator, quantizer
        from ai_edge_quantizer.utils import qsv_utils

        self._recipe = _recipe(bits, real)
        with _quiet():
            self._tool = quantizer.Quantizer(content)
            self._tool.load_quantization_recipe(self._recipe.get_quantization_recipe())
            # its own goes by averages of each input's range, beyond which results of few elements mostly are
            self._ranges = calibrator.Calibrator(content, qsv_update_func=qsv_utils.min_max_update)

    def __call__(self, examples: Sequence[Mapping[str, Array]]) -> bytes:
        with _quiet():
            if examples:
                self._ranges.calibrate({SIGNATURE: examples}, self._recipe)
                return b""
            return bytes(self._tool.quantize(_with_some_range(self._ranges.get_model_qsvs())).quantized_model)


def _with_some_range(ranges: Mapping[str, Any]) -> dict[str, Any]:
    """Ranges of tensors, by name; those that are narrower than the quantiser can tell reach to 1.

    It gives what is always zero (behind a Relu, say) a scale for which LiteRT's kernels have no integers.
    """
    found = {}
    for name, known in ranges.items():
        ends = {end: np.asarray(known[end]) for end in ("min", "max") if end in known}
        dead = len(ends) == 2 and all(np.abs(value).max(initial=0) < _NARROWEST for value in ends.values())
        found[name] = {**known, "max": np.ones_like(ends["max"])} if dead else known
    return found


def _recipe(bits: int, real: Sequence[str]) -> Any:
    """Everything of 8 bits, but for the weights of layers that have some: ``bits``, a scale for each channel.

    ``real``: results of operators that stay in float32. LiteRT's reference kernel for SUM of integers gives nothing of
    use, and its BATCH_MATMUL knows one scale for a constant.
    """
    from ai_edge_quantizer import algorithm_manager, qtyping, recipe_manager

    kinds = qtyping.TFLOperationName
    made = recipe_manager.RecipeManager()
    made.add_static_config(".*", kinds.ALL_SUPPORTED, activation_num_bits=8, weight_num_bits=8)
    whole = qtyping.OpQuantizationConfig(
        activation_tensor_config=qtyping.TensorQuantizationConfig(8, symmetric=False),
        weight_tensor_config=qtyping.TensorQuantizationConfig(8, granularity=qtyping.QuantGranularity.TENSORWISE),
        compute_precision=qtyping.ComputePrecision.INTEGER,
    )
    made.add_quantization_config(".*", kinds.BATCH_MATMUL, whole)
    unquantised = algorithm_manager.AlgorithmName.NO_QUANTIZE
    made.add_quantization_config(".*", kinds.SUM, algorithm_key=unquantised)
    for name in real:
        made.add_quantization_config(rf"(^|;){re.escape(name)}(;|$)", kinds.ALL_SUPPORTED, algorithm_key=unquantised)
    if bits == 8:
        return made
    config = qtyping.OpQuantizationConfig(
        activation_tensor_config=qtyping.TensorQuantizationConfig(8, symmetric=False),
        weight_tensor_config=qtyping.TensorQuantizationConfig(bits, granularity=qtyping.QuantGranularity.CHANNELWISE),
        compute_precision=qtyping.ComputePrecision.INTEGER,
        skip_checks=True,  # which know of no narrow weights of depthwise layers; LiteRT's kernel takes them
    )
    for kind in (kinds.CONV_2D, kinds.DEPTHWISE_CONV_2D, kinds.FULLY_CONNECTED):
        made.add_quantization_config(".*", kind, config, algorithm_manager.AlgorithmName.OCTAV)
    return made


@contextlib.contextmanager
def _quiet() -> Any:
    """Without the quantiser's own bar and summary, and LiteRT's advice about memory."""
    sink = io.StringIO()
    with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
