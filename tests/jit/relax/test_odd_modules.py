"""Relax modules that no importer writes: the integers of TVM's own build, or a refusal by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.relax import op as R

from tilewright.jit.errors import ModelError
from tilewright.jit.relax.partition import partition_for_tilewright, regions
from tilewright.jit.relax.vm import tilewright_pipeline

Build = Callable[[Any, Any], Any]  #: (block builder, input) -> result
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(-128, 128, (1, 6, 6, 4)).astype(np.int8)
PLANES = np.ascontiguousarray(PIXELS.transpose(0, 3, 1, 2))
WEIGHTS = RNG.integers(-60, 60, (4, 3, 3, 4)).astype(np.int8)  #: OHWI
DENSE = RNG.integers(-60, 60, (64, 5)).astype(np.int8)


def const(value: Any, dtype: str = "float32") -> Any:
    return relax.const(np.asarray(value, dtype), dtype)


def real(
    bb: Any, x: Any, scale: Any = 0.1, zero: Any = 0, axis: int = -1, to: str = "float32", of: str = "int8"
) -> Any:
    return bb.emit(R.dequantize(x, const(scale), const(zero, of), axis, to))


def whole(bb: Any, x: Any, scale: float = 1.5) -> Any:
    return bb.emit(R.quantize(x, const(scale), const(0, "int8"), -1, "int8"))


def conv(bb: Any, x: Any, weights: Any, to: str = "float32", **options: Any) -> Any:
    return bb.emit(R.nn.conv2d(real(bb, x, to=to), weights, data_layout="NHWC", kernel_layout="OHWI", **options))


def plain_conv(bb: Any, x: Any) -> Any:
    return conv(bb, x, real(bb, const(WEIGHTS, "int8"), 0.01))


def plane_conv(bb: Any, x: Any) -> Any:
    """A convolution of NCHW, flattened: what a layer of vectors reads."""
    weights = real(bb, const(WEIGHTS.transpose(0, 3, 1, 2), "int8"), 0.01)
    return real(bb, bb.emit(R.reshape(whole(bb, bb.emit(R.nn.conv2d(real(bb, x), weights))), [1, 64])), 1.5)


def module(build: Build, x: NDArray[Any]) -> Any:
    bb = relax.BlockBuilder()
    var = relax.Var("x", relax.TensorType(x.shape, str(x.dtype)))
    with bb.function("main", [var]):
        with bb.dataflow():
            out = bb.emit_output(build(bb, var))
        bb.emit_func_output(out)
    return bb.get()


def run(mod: Any, x: NDArray[Any]) -> NDArray[Any]:
    machine = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
    return np.asarray(machine["main"](tvm.runtime.tensor(x)).numpy())


def claimed(mod: Any, x: NDArray[Any], semantics: str = "litert") -> int:
    """Regions of a module, whose results must be TVM's but for ties of the real numbers."""
    wanted, found = run(mod, x), run(tilewright_pipeline("tiny", semantics=semantics)(mod), x)
    assert np.abs(wanted.astype(np.int64) - found).max() <= 1
    assert (wanted == found).mean() > 0.9
    return len(regions(partition_for_tilewright(mod, "tiny", semantics)))


def average(counts: bool, by: str) -> Build:
    def build(bb: Any, x: Any) -> Any:
        wide = bb.emit(R.astype(x, by))
        pooled = R.nn.avg_pool2d(wide, [3, 3], [2, 2], [1, 1, 1, 1], count_include_pad=counts, layout="NHWC")
        return bb.emit(R.astype(bb.emit(pooled), "int8"))

    return build


@pytest.mark.filterwarnings("ignore::tilewright.jit.errors.FloatModule")
@pytest.mark.parametrize("counts,by", [(True, "int32"), (False, "int16"), (False, "float32")])
def test_an_integer_average_of_another_kind_than_an_importer_writes_stays(counts: bool, by: str) -> None:
    mod = module(average(counts, by), PIXELS)
    assert not regions(partition_for_tilewright(mod, "tiny"))
    assert np.array_equal(run(tilewright_pipeline("tiny")(mod), PIXELS), run(mod, PIXELS))


def test_float16_stays() -> None:
    weights = const(WEIGHTS, "int8")

    def build(bb: Any, x: Any) -> Any:
        return whole(bb, conv(bb, x, real(bb, weights, 0.01, to="float16"), to="float16"))

    def narrowed(bb: Any, x: Any) -> Any:
        return whole(bb, conv(bb, x, real(bb, weights, 0.01), out_dtype="float16"))

    for one in (build, narrowed):
        assert claimed(module(one, PIXELS), PIXELS) == 0


def test_zero_points_and_scales_of_weights_lie_along_their_axis() -> None:
    for scale, zero in (
        (0.01, np.arange(4)),
        ((np.arange(4) + 1) * 0.005, 3),
        ((np.arange(4) + 1) * 0.005, np.arange(4)),
    ):

        def build(bb: Any, x: Any, scale: Any = scale, zero: Any = zero) -> Any:
            return whole(bb, conv(bb, x, real(bb, const(WEIGHTS, "int8"), scale, zero, axis=0)))

        assert claimed(module(build, PIXELS), PIXELS) == 1


@pytest.mark.parametrize(
    "shape,scale,litert,onnxruntime",
    [
        ((4,), 0.001, 1, 1),
        ((1, 1, 4), 0.001, 1, 1),
        ((1, 4, 1, 1), 0.001, 0, 0),
        ((4, 1), 0.001, 0, 0),
        ((4,), 0.003, 0, 1),
    ],
)
def test_a_bias_is_one_of_channels_in_the_products_scale(
    shape: tuple[int, ...], scale: float, litert: int, onnxruntime: int
) -> None:
    values = np.random.default_rng(1).integers(-20000, 20000, shape)

    def build(bb: Any, x: Any) -> Any:
        return whole(bb, bb.emit(R.add(plain_conv(bb, x), real(bb, const(values, "int32"), scale, of="int32"))))

    assert claimed(module(build, PIXELS), PIXELS, "litert") == litert
    assert claimed(module(build, PIXELS), PIXELS, "onnxruntime") == onnxruntime


@pytest.mark.parametrize("bounds", [(5.0, -5.0), (float("nan"), 3.0)])
def test_a_clamp_to_nothing_stays(bounds: tuple[float, float]) -> None:
    mod = module(lambda bb, x: whole(bb, bb.emit(R.clip(real(bb, x), *bounds)), 0.1), PIXELS)
    assert claimed(mod, PIXELS) == 0


@pytest.mark.filterwarnings("ignore::tilewright.jit.errors.FloatModule")
def test_integers_beyond_their_type_are_tvms_to_judge() -> None:
    mod = module(lambda bb, x: bb.emit(R.clip(x, 5, -5)), PIXELS)
    assert claimed(mod, PIXELS) == 0
    pads = [0, 0, 1, 1, 1, 1, 0, 0]
    for odd in (
        lambda bb, x: bb.emit(R.clip(x, float("-inf"), 7)),
        lambda bb, x: bb.emit(R.nn.pad(x, pads, "constant", 200)),
        lambda bb, x: bb.emit(R.nn.pad(x, pads, "constant", float("nan"))),
    ):
        assert not regions(partition_for_tilewright(module(odd, PIXELS), "tiny"))


@pytest.mark.parametrize(
    "weights",
    [
        lambda bb: real(bb, const(DENSE, "int8"), (np.arange(64) + 1) * 0.001, np.zeros(64), axis=0),
        lambda bb: bb.emit(R.permute_dims(real(bb, const(DENSE.T, "int8"), 0.01, np.arange(64) - 32, axis=1))),
        lambda bb: bb.emit(R.reshape(real(bb, const(DENSE.T, "int8"), 0.01), [64, 5])),
        lambda bb: real(bb, const(DENSE[None], "int8"), 0.01),
    ],
)
def test_what_reads_a_flattened_tensor_keeps_its_scales(weights: Callable[[Any], Any]) -> None:
    """Its rows follow the pixels of NCHW."""
    mod = module(lambda bb, x: whole(bb, bb.emit(R.matmul(plane_conv(bb, x), weights(bb))), 30.0), PLANES)
    assert claimed(mod, PLANES, "onnxruntime") == 1


def test_functions_beside_main_and_those_that_it_calls() -> None:
    bb = relax.BlockBuilder()
    functions: dict[str, Any] = {}
    for name in ("called", "other", "main"):
        x = relax.Var("x", relax.TensorType(PIXELS.shape, "int8"))
        with bb.function(name, [x], private=name == "called"):
            with bb.dataflow():
                y = whole(bb, plain_conv(bb, x))
                if name == "main":
                    y = bb.emit(relax.Call(functions["called"], [whole(bb, bb.emit(R.nn.relu(real(bb, x))), 0.1)]))
                out = bb.emit_output(y)
            functions[name] = bb.emit_func_output(out)
    mod = bb.get()
    assert claimed(mod, PIXELS) == 1
    assert "other" in {gv.name_hint for gv in partition_for_tilewright(mod, "tiny").get_global_vars()}


def test_modules_that_cannot_be_partitioned_are_named() -> None:
    n = tvm.tirx.Var("n", "int64")
    bb = relax.BlockBuilder()
    x = relax.Var("pixels", relax.TensorType((n, 6, 6, 4), "int8"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(whole(bb, plain_conv(bb, x)))
        bb.emit_func_output(out)
    symbolic = bb.get()
    with pytest.raises(ModelError, match=r'pixels has the open dimension n; .*BindSymbolicVars\(\{"n": 1\}\)'):
        partition_for_tilewright(symbolic, "tiny")
    assert len(regions(partition_for_tilewright(relax.transform.BindSymbolicVars({"n": 2})(symbolic), "tiny"))) == 1
    with pytest.raises(ModelError, match="a Relax module .* is needed, got 3"):
        partition_for_tilewright(3)
    headless = tvm.IRModule({tvm.ir.GlobalVar("net"): symbolic["main"].without_attr("global_symbol")})
    with pytest.raises(ModelError, match="no function main; its functions: net"):
        partition_for_tilewright(headless, "tiny")


def test_a_branch_is_named() -> None:
    condition, x = relax.Var("c", relax.TensorType((), "bool")), relax.Var("x", relax.TensorType((4,), "int8"))
    bb = relax.BlockBuilder()
    with bb.function("main", [condition, x]):
        chosen = bb.emit(relax.If(condition, relax.SeqExpr([], x), relax.SeqExpr([], x)), "chosen")
        bb.emit_func_output(chosen)
    with pytest.raises(ModelError, match=r"chosen depends on a condition \(relax.If\)"):
        partition_for_tilewright(bb.get(), "tiny")
