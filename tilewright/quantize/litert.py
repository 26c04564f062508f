"""Float .tflite files quantised by LiteRT's quantiser, ai-edge-quantizer."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.files import read_bytes
from tilewright.jit.source.tflite.file import File
from tilewright.progress import Progress
from tilewright.quantize.base import Answer, Array, Layer, Quantiser, QuantizeError, Tensors, samples, stored
from tilewright.runtime import interpreters
from tilewright.runtime.litert.schema import read_model, schema, written
from tilewright.runtime.steps import TensorSpec

_SIGNATURE = "main"
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
        self._content = read_bytes(path)
        file = File(path, quantised=False)
        self._real = _interpreter(path, self._content)
        self.inputs = [
            TensorSpec(d["name"], tuple(int(n) for n in d["shape"]), np.dtype(d["dtype"]).name, 1.0, 0)
            for d in self._real.get_input_details()
        ]
        constant = {t.index for t in file.tensors if t.data is not None}
        names = [t.name for t in file.tensors]
        self.layers = [
            Layer(
                f"op{op.index:03d}_{op.kind}", op.kind,
                tuple(names[i] for i in op.inputs if i >= 0 and i not in constant), names[op.outputs[0]],
            )
            for op in file.operators
            if op.outputs
        ]  # fmt: skip

    def quantise(self, data: Sequence[Array], progress: Progress) -> bytes:
        from ai_edge_quantizer import quantizer

        examples = [{f"x{i}": x for i, x in enumerate(one)} for one in samples(data, data[0].shape[0])]
        ranges: Any = None
        try:
            with _quiet():
                tool = quantizer.Quantizer(_signed(self._content))
                tool.load_quantization_recipe(_recipe(self.bits))
            for begin in range(0, len(examples), _CHUNK):
                progress("calibrating", begin, len(examples))
                with _quiet():
                    ranges = tool.calibrate({_SIGNATURE: examples[begin : begin + _CHUNK]}, ranges)
            progress("calibrating", len(examples), len(examples))
            with _quiet():
                return bytes(tool.quantize(ranges).quantized_model)
        except Exception as error:  # the quantiser raises whatever NumPy, LiteRT and its own rules do
            raise QuantizeError(
                f"{self.path}: ai-edge-quantizer cannot quantise it: {interpreters.first_line(error)}"
            ) from error

    def tensors(self, quantised: bytes | None) -> Tensors:
        interpreter = self._real if quantised is None else _interpreter(self.path, quantised)

        def run(x: Sequence[Array]) -> Mapping[str, Array]:
            _invoke(interpreter, x)
            found = {}
            for detail in interpreter.get_tensor_details():
                try:
                    found[detail["name"]] = _dequantised(detail, interpreter.get_tensor(detail["index"]))
                except ValueError:  # temporaries of kernels have no data to give
                    continue
            return {name: value for name, value in found.items() if value.dtype == np.float32}

        return run

    def answer(self, quantised: bytes | None) -> Answer:
        interpreter = self._real if quantised is None else _interpreter(self.path, quantised)
        first = interpreter.get_output_details()[0]

        def run(x: Sequence[Array]) -> Array:
            _invoke(interpreter, x)
            return _dequantised(first, interpreter.get_tensor(first["index"]))

        return run


def _recipe(bits: int) -> Any:
    """Everything of 8 bits, but for the weights of layers that have some: ``bits``, a scale for each channel."""
    from ai_edge_quantizer import algorithm_manager, qtyping, recipe_manager

    kinds = qtyping.TFLOperationName
    made = recipe_manager.RecipeManager()
    made.add_static_config(".*", kinds.ALL_SUPPORTED, activation_num_bits=8, weight_num_bits=8)
    if bits == 8:
        return made.get_quantization_recipe()
    config = qtyping.OpQuantizationConfig(
        activation_tensor_config=qtyping.TensorQuantizationConfig(8, symmetric=False),
        weight_tensor_config=qtyping.TensorQuantizationConfig(bits, granularity=qtyping.QuantGranularity.CHANNELWISE),
        compute_precision=qtyping.ComputePrecision.INTEGER,
        skip_checks=True,  # which know of no narrow weights of depthwise layers; LiteRT's kernel takes them
    )
    for kind in (kinds.CONV_2D, kinds.DEPTHWISE_CONV_2D, kinds.FULLY_CONNECTED):
        made.add_quantization_config(".*", kind, config, algorithm_manager.AlgorithmName.OCTAV)
    return made.get_quantization_recipe()


def _interpreter(path: Path, content: bytes) -> Any:
    """LiteRT's reference kernels, with every tensor kept."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreters.require_sound(content, str(path))
    try:
        made = Interpreter(
            model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1,
            experimental_preserve_all_tensors=True,
        )  # fmt: skip
        made.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        raise QuantizeError(f"{path}: LiteRT cannot run it: {interpreters.first_line(error)}") from error
    return made


def _invoke(interpreter: Any, x: Sequence[Array]) -> None:
    for detail, value in zip(interpreter.get_input_details(), x, strict=True):
        scale, zero_point = detail["quantization"]
        given = stored(value, scale, zero_point, np.dtype(detail["dtype"]).name) if scale else value
        interpreter.set_tensor(detail["index"], given.reshape(detail["shape"]))
    interpreter.invoke()


def _dequantised(detail: Any, value: Array) -> Array:
    scale, zero_point = detail["quantization"]
    return np.asarray((value.astype(np.float32) - zero_point) * np.float32(scale)) if scale else value


def _signed(content: bytes) -> bytes:
    """The model with one signature, by which the quantiser runs it, whatever signatures it has.

    Files of old converters have their operators' codes in the field of old alone, where the quantiser does not look.
    """
    model = read_model(content)
    for code in model.operatorCodes:
        code.builtinCode = max(code.builtinCode, code.deprecatedBuiltinCode)
    main = model.subgraphs[0]
    signature = schema().SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = _SIGNATURE, 0
    signature.inputs = [_named(f"x{k}", index) for k, index in enumerate(main.inputs)]
    signature.outputs = [_named(f"y{k}", index) for k, index in enumerate(main.outputs)]
    model.signatureDefs = [signature]
    return written(model)


def _named(name: str, index: int) -> Any:
    entry = schema().TensorMapT()
    entry.name, entry.tensorIndex = name, int(index)
    return entry


@contextlib.contextmanager
def _quiet() -> Any:
    """Without the quantiser's own bar and summary, and LiteRT's advice about memory."""
    sink = io.StringIO()
    with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
