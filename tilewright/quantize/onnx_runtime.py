"""Float ONNX quantised by ONNX Runtime's quantiser.

Activations become uint8 and weights int8 with a scale for each channel: for these ONNX Runtime has integer
convolutions, which the accelerator equals for all inputs, while between int8 tensors it adds in float32.
"""

from __future__ import annotations

import itertools
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.jit.source.onnx import validate
from tilewright.jit.source.onnx.means import pool_means
from tilewright.jit.source.onnx.pools import settle_pools
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
)
from tilewright.quantize.biases import own_biases
from tilewright.quantize.clamps import own_clamps
from tilewright.quantize.faint_softmaxes import FaintSoftmaxes
from tilewright.quantize.four_bits import other_constants, widened
from tilewright.quantize.gemms import plain_gemms
from tilewright.quantize.known_forms import known_forms
from tilewright.quantize.left_real import LOOKED_AT, left_real
from tilewright.quantize.loss import Powers
from tilewright.quantize.one_scale import one_scale
from tilewright.quantize.onnx_operators import constants_of, operators_of
from tilewright.quantize.opsets import OPSETS, with_channel_scales
from tilewright.quantize.short_scales import shorten
from tilewright.quantize.unrolled import unroll
from tilewright.runtime import interpreters
from tilewright.runtime.steps import TensorSpec

_OLDEST_IR = 8  #: version of the file format: what the quantiser adds is not sound in those where constants are inputs
_ROUNDED = 50.0  #: dB that float32 keeps at the least where the same is computed in another order
_NOTHING = 1e-5  #: a difference between two results that is none
_OTHERWISE = 6.0  #: dB that integer kernels may lose against float ones by ties
_AUDIBLE = 40.0  #: dB above which nobody minds
_WARNING, _FATAL = 2, 4  #: ONNX Runtime's levels of what it logs: the first is what it starts with
#: of the quantiser's names for what a tensor's readers read
_READ = "{}_DequantizeLinear_Output"


def read_float(path: Path) -> Any:
    """The protobuf of a float ``.onnx`` file. Raises TilewrightError."""
    return _usable(path, validate.read(path))


def parse_float(path: Path, content: bytes) -> Any:
    """The protobuf of a float model that was made from ``path``. Raises QuantizeError."""
    import onnx

    return _usable(path, onnx.load_from_string(content))


def _usable(path: Path, model: Any) -> Any:
    if validate.is_quantised(model):
        raise QuantizeError(f"{path}: is quantised already; compile it as it is")
    validate.fix_batch(model)
    validate.refuse_shapes(path, model)
    model.ir_version = min(max(model.ir_version, _OLDEST_IR), validate.NEWEST_IR)
    return model


class OnnxQuantiser(Quantiser):
    """A float ONNX model, to be quantised to weights of ``bits``; ``model`` is its protobuf, of fixed shapes."""

    suffix = ".onnx"

    def __init__(self, path: Path, model: Any, bits: int) -> None:
        self.path, self.bits = path, bits
        self._source = model.SerializeToString()
        self.model = self._prepared(with_channel_scales(path, model, bits))
        graph = self.model.graph
        _name_all(graph.node)
        constants = {t.name for t in graph.initializer}
        self.inputs = [_spec(v) for v in graph.input if v.name not in constants]
        made = {t for node in graph.node for t in node.output} | {t.name for t in self.inputs}
        self.layers = [
            Layer(node.name or node.output[0], node.op_type, tuple(t for t in node.input if t in made), node.output[0])
            for node in graph.node
            if node.op_type != "Constant"
        ]

    def quantise(self, data: Sequence[Array], progress: Progress) -> bytes:
        import onnx
        from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

        if not any(node.domain in ("", "ai.onnx") for node in self.model.graph.node):
            raise self._nothing()
        few = samples(data, LOOKED_AT)
        source_of = self._results(self._source)
        wanted = [source_of(x) for x in few]
        self._require_the_same(few, wanted)
        faint = FaintSoftmaxes(self.model, self.tensors(None))
        outputs = [value.name for value in self.model.graph.output]
        real = left_real(operators_of(self.model), outputs, constants_of(self.model), faint.tensors, few)
        self.stay = [*self.stay, *real.stay]
        with _quiet(), tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "prepared.onnx", Path(folder) / "quantised.onnx"
            own_biases(self.model)
            onnx.save(self.model, str(source))
            others = other_constants(self.model) if self.bits == 4 else set()
            exceptions = {name: [{"quant_type": QuantType.QInt8}] for name in others} | one_scale(self.model)
            exceptions |= self._common_ranges([*self._alike, *([name] for name in faint.names())], data, progress)
            made = {name for node in self.model.graph.node for name in node.output}
            exceptions |= {name: [{"rmin": np.float32(-1), "rmax": np.float32(1)}] for name in real.wild & made}
            try:
                quantize_static(
                    source, target, _Reader(self.inputs, data, progress), quant_format=QuantFormat.QDQ,
                    per_channel=True, activation_type=QuantType.QUInt8,
                    weight_type=QuantType.QInt8 if self.bits == 8 else QuantType.QInt4,
                    nodes_to_exclude=[operator.name for operator in real.operators],
                    extra_options={"TensorQuantOverrides": exceptions},
                )  # fmt: skip
            except Exception as error:  # the quantiser raises whatever protobuf, NumPy and ONNX Runtime do
                raise QuantizeError(
                    f"{self.path}: ONNX Runtime cannot quantise it: {interpreters.first_line(error)}"
                ) from error
            model = onnx.load_from_string(widened(target.read_bytes()))
        if not validate.is_quantised(model):
            raise self._nothing()
        shorten(model)
        content: bytes = model.SerializeToString()
        self.stay = [*self.stay, *self._other_kernels(content, few, wanted)]
        return content

    def _other_kernels(
        self, content: bytes, inputs: Sequence[Sequence[Array]], wanted: Sequence[Sequence[Array]]
    ) -> list[str]:
        """A sentence for each output that ONNX Runtime's integer kernels compute otherwise than the model says: they
        take the place of float kernels between what dequantises and what quantises. ``wanted``: of the float file."""
        plain, fused = Powers(), Powers()
        stepwise, at_once = self._results(content, optimise=False), self._results(content, "its quantised form")
        for x, results in zip(inputs, wanted, strict=True):
            for value, exact, *got in zip(self.model.graph.output, results, stepwise(x), at_once(x), strict=True):
                if exact.dtype == np.float32:
                    for powers, found in zip((plain, fused), got, strict=True):
                        powers.add(value.name, exact, found)
        names = [name for name in plain.known_names() if fused.decibels(name) < plain.decibels(name) - _OTHERWISE]
        return [
            f"output {name!r} is at {fused.decibels(name):.1f} dB by ONNX Runtime's integer kernels, where its float "
            f"kernels between the same scales give {plain.decibels(name):.1f} dB: one of them computes something else"
            for name in names
            if fused.decibels(name) < _AUDIBLE
        ]

    def _require_the_same(self, inputs: Sequence[Sequence[Array]], wanted: Sequence[Sequence[Array]]) -> None:
        """Raises QuantizeError if the prepared float model computes something else than the file, ``wanted``."""
        prepared = self._results(self.model.SerializeToString())
        powers = Powers()
        for x, results in zip(inputs, wanted, strict=True):
            for value, exact, got in zip(self.model.graph.output, results, prepared(x), strict=True):
                if exact.dtype == np.float32 and not np.allclose(exact, got, rtol=0, atol=_NOTHING, equal_nan=True):
                    powers.add(value.name, exact, got)
        for name in powers.known_names():
            if powers.decibels(name) < _ROUNDED:
                raise QuantizeError(
                    f"{self.path}: prepared for quantising, its output {name!r} is another one, with noise at "
                    f"{powers.decibels(name):.1f} dB; export it again with opset {OPSETS[self.bits][1]}"
                )

    def _common_ranges(
        self, groups: Sequence[Sequence[str]], data: Sequence[Array], progress: Progress
    ) -> dict[str, list[dict[str, Any]]]:
        """For the quantiser's ``TensorQuantOverrides``: tensors that are alike have the range of all of them."""
        if not groups:
            return {}
        run, count = self.tensors(None), data[0].shape[0]
        zero = np.zeros((), np.float32)
        lows: dict[str, Array] = {}
        highs: dict[str, Array] = {}
        for k in range(count):
            progress("ranges of layers", k, count)
            for name, value in run([x[k] for x in data]).items():
                lows[name] = np.minimum(lows.get(name, zero), value.min())
                highs[name] = np.maximum(highs.get(name, zero), value.max())
        progress("ranges of layers", count, count)
        found: dict[str, list[dict[str, Any]]] = {}
        for group in groups:
            known = [name for name in group if name in lows]  # of those that preparing the model left
            range_ = {"rmin": min(lows[n] for n in known), "rmax": max(highs[n] for n in known)} if known else {}
            found |= {name: [range_] for name in known}
        return found

    def _nothing(self) -> QuantizeError:
        return nothing_to_quantise(self.path, "ONNX Runtime", "ONNX Runtime's quantiser", self.layers, self.stay)

    def tensors(self, quantised: bytes | None) -> Tensors:
        import onnx

        model = onnx.ModelProto()
        model.ParseFromString(quantised or self.model.SerializeToString())
        known = {t.name for t in self.inputs} | {t for node in self.model.graph.node for t in node.output if t}
        made = {t for node in model.graph.node for t in node.output if t}
        wanted = {name: _READ.format(name) if _READ.format(name) in made else name for name in known}
        shown = {name: source for name, source in wanted.items() if source in made}
        del model.graph.output[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(set(shown.values())))
        session = self._session(model.SerializeToString(), optimise=False)
        order = [value.name for value in session.get_outputs()]

        def run(x: Sequence[Array]) -> Mapping[str, Array]:
            got = dict(zip(order, self._run(session, x), strict=True))
            plain = {t.name: value for t, value in zip(self.inputs, x) if t.name not in shown}
            found = plain | {name: got[source] for name, source in shown.items()}
            return {name: value for name, value in found.items() if getattr(value, "dtype", None) == np.float32}

        return run

    def answer(self, quantised: bytes | None) -> Answer:
        results = self._results(quantised or self.model.SerializeToString())
        return lambda x: results(x)[0]

    def _results(
        self, content: bytes, what: str = "it", *, optimise: bool = True
    ) -> Callable[[Sequence[Array]], list[Array]]:
        """All results of a model as its interpreter computes them, or node by node."""
        session = self._session(content, optimise=optimise)
        return lambda x: self._run(session, x, what)

    def _run(self, session: Any, x: Sequence[Array], what: str = "it") -> list[Array]:
        """Raises QuantizeError for what ONNX Runtime loads, and refuses when it meets the data."""
        try:
            found = session.run(None, {t.name: value for t, value in zip(self.inputs, x, strict=True)})
        except Exception as error:  # ONNX Runtime's errors have no common public base
            raise self._cannot_run(error, what) from error
        return [np.asarray(y) for y in found]

    def _cannot_run(self, error: Exception, what: str = "it") -> QuantizeError:
        return QuantizeError(f"{self.path}: ONNX Runtime cannot run {what}: {interpreters.first_line(error)}")

    def _session(self, content: bytes, *, optimise: bool) -> Any:
        import onnxruntime

        def options(relaxed: bool) -> Any:
            made = interpreters.onnxruntime_options(relaxed)
            if not optimise:
                made.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            return made

        try:
            return interpreters.onnxruntime_session(content, options)
        except Exception as error:  # as in _run
            raise self._cannot_run(error) from error

    def _prepared(self, model: Any) -> Any:
        """With recurrent layers written out and sums apart from products, else as ONNX Runtime prepares it."""
        import onnx

        pool_means(model)
        settle_pools(model)
        validate.ask_onnx_runtime(self.path, model)  # the quantiser's tools go on without, and print a traceback
        model = self._preprocessed(model)
        self._alike, self.stay = unroll(model)
        if self._alike:
            model = self._preprocessed(model)
        changed = [rewrite(model) for rewrite in (plain_gemms, own_clamps, known_forms)]
        return onnx.shape_inference.infer_shapes(model) if any(changed) else model

    def _preprocessed(self, model: Any) -> Any:
        """With batch normalisations folded into convolutions and all shapes written down, as the quantiser needs it."""
        import onnx
        from onnxruntime.quantization.shape_inference import quant_pre_process

        with _quiet(), tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "float.onnx", Path(folder) / "prepared.onnx"
            try:
                onnx.save(model, str(source))
                quant_pre_process(source, target, skip_symbolic_shape=True)
                prepared = onnx.load(str(target))
            except Exception as error:  # as in quantise
                raise self._cannot_run(error) from error
        _rename_added(model.graph, prepared.graph)
        return prepared


class _Reader:
    """Example inputs as ONNX Runtime's calibration asks for them."""

    def __init__(self, inputs: Sequence[TensorSpec], data: Sequence[Array], progress: Progress) -> None:
        self._inputs, self._data, self._progress = inputs, data, progress
        self._next = 0

    def get_next(self) -> dict[str, Array] | None:
        count = self._data[0].shape[0]
        self._progress("calibrating", self._next, count)
        if self._next == count:
            return None
        self._next += 1
        return {t.name: np.asarray(x[self._next - 1]) for t, x in zip(self._inputs, self._data, strict=True)}

    def __iter__(self) -> Iterator[dict[str, Array]]:
        step: Callable[[], dict[str, Array] | None] = self.get_next
        return iter(step, None)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the advice of the quantiser on the root logger, most of which is followed already, of ONNX Runtime about
    the files in between, and of NumPy about values that are not finite."""
    import onnxruntime

    logger = logging.getLogger()
    before = logger.level
    logger.setLevel(logging.ERROR)
    onnxruntime.set_default_logger_severity(_FATAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    finally:
        logger.setLevel(before)
        onnxruntime.set_default_logger_severity(_WARNING)


def _rename_added(before: Any, after: Any) -> None:
    """Renames the constants that ONNX Runtime's optimiser added to a graph: when it optimises the graph again, some
    of its fusions give new constants the same names as the first time, and fail (MatMulAddFusion of version 1.31)."""
    known = {tensor.name for tensor in before.initializer} | {name for node in before.node for name in node.output}
    added = {tensor.name: f"{tensor.name}@added" for tensor in after.initializer if tensor.name not in known}
    for tensor in after.initializer:
        tensor.name = added.get(tensor.name, tensor.name)
    for node in after.node:
        node.input[:] = [added.get(name, name) for name in node.input]


def _name_all(nodes: Iterable[Any]) -> None:
    """Give every operator a name of its own: what is left out is left out by name."""
    taken: set[str] = set()
    for node in nodes:
        base = node.name or next(filter(None, node.output), node.op_type)
        node.name = next(name for k in itertools.count() if (name := f"{base}@{k}" if k else base) not in taken)
        taken.add(node.name)


def _spec(value: Any) -> TensorSpec:
    from onnx import helper

    tensor = value.type.tensor_type
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type)).name
    return TensorSpec(value.name, tuple(d.dim_value for d in tensor.shape.dim), dtype, 1.0, 0)
