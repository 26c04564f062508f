"""With ONNX Runtime's integers TVM keeps of a module what the compiler leaves to ONNX Runtime of the same file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op as R

from tests.jit.onnx_models import QdqBuilder, onnx_runtime
from tests.jit.relax.test_odd_modules import PLANES, const, module, real, whole
from tests.jit.relax.test_vm import Regions, machine, running_sum, table
from tests.jit.relax_models import load_model
from tilewright.config import PRESETS
from tilewright.jit.graph import Interpreted
from tilewright.jit.importer import import_model
from tilewright.jit.relax import vm
from tilewright.jit.relax.partition import partition_for_tilewright, regions

__all__ = ["table"]

ORT = "onnxruntime"


class Builder(QdqBuilder):
    """Takes zero points as of int8, whatever the activations are."""

    def quantised(self, tensor: str, scale: float, zero_point: int) -> str:
        return super().quantised(tensor, scale, zero_point + (128 if self.activations == np.uint8 else 0))


Net = Callable[[QdqBuilder, str], str]  #: what comes behind a convolution to (1, 8, 6, 6)


def hard_swish(b: QdqBuilder, x: str) -> str:
    """In pieces, as exporters write it: TVM's importer makes product, sum and clamp of the HardSigmoid."""
    gate = b.quantised(b.node("HardSigmoid", [x], alpha=1 / 6), 1 / 255, -128)
    return b.quantised(b.node("Mul", [x, gate]), 0.03125, -20)


def silu(b: QdqBuilder, x: str) -> str:
    return b.quantised(b.node("Mul", [x, b.quantised(b.node("Sigmoid", [x]), 1 / 256, -128)]), 0.03125, -90)


def concat(b: QdqBuilder, x: str) -> str:
    other = b.quantised(b.conv(x, (8, 8, 1, 1)), 0.1, 4)
    return b.quantised(b.node("Concat", [x, other], axis=1), 0.1, 2)


def mean(b: QdqBuilder, x: str) -> str:
    return b.quantised(b.node("ReduceMean", [x], axes=[2, 3], keepdims=1), 0.03, 5)


def split(b: QdqBuilder, x: str) -> list[str]:
    names = [b.name("part"), b.name("part")]
    b.node("Split", [x, b.constant(np.array([4, 4]))], axis=1)
    b.nodes[-1].output[:] = names
    return [b.quantised(name, 0.0625, 0) for name in names]


def parts(b: QdqBuilder, x: str) -> str:
    return b.quantised(b.node("Sub", split(b, x)), 0.1, 0)


def shares(b: QdqBuilder, x: str) -> str:
    """A softmax over the channels, as in the boxes of YOLO, for which ONNX Runtime has a kernel of integers."""
    return b.quantised(b.conv(b.quantised(b.node("Softmax", [x], axis=1), 1 / 256, -128), (1, 8, 1, 1)), 0.02, 0)


def upsampled(b: QdqBuilder, x: str) -> str:
    scales = b.constant(np.array([1, 1, 2, 2], np.float32))
    options = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return b.quantised(b.node("Resize", [x, "", scales], **options), 0.0625, 0)


def classified(b: QdqBuilder, x: str) -> str:
    pooled = b.quantised(b.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2]), 0.0625, 0)
    rows = b.quantised(b.node("Reshape", [pooled, b.constant(np.array([1, 72]))]), 0.0625, 0)
    weights, scales = b.weight((5, 72))
    return b.quantised(b.node("Gemm", [rows, weights, b.bias(rows, scales, 5)], transB=1), 0.5, 3)


def turned(b: QdqBuilder, x: str) -> str:
    return b.quantised(b.node("Transpose", [x], perm=[0, 2, 3, 1]), 0.0625, 0)


def interrupted(b: QdqBuilder, x: str) -> str:
    """A part of a tensor goes through what TVM keeps."""
    first, second = split(b, x)
    return b.quantised(b.node("Concat", [first, running_sum(b, second)], axis=1), 0.0625, 0)


#: each with the shape of its result
NETS: dict[Net, list[int]] = {
    hard_swish: [1, 8, 6, 6], silu: [1, 8, 6, 6], concat: [1, 16, 6, 6], mean: [1, 8, 1, 1], parts: [1, 4, 6, 6],
    shares: [1, 1, 6, 6], upsampled: [1, 8, 12, 12], classified: [1, 5], turned: [1, 6, 6, 8],
    interrupted: [1, 8, 6, 6],
}  # fmt: skip
QUIET = ("QuantizeLinear", "DequantizeLinear")
LEFT = (mean, interrupted)  #: have one operator that is not the accelerator's


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("activations", ["int8", "uint8"])
def test_tvm_keeps_what_the_file_leaves(table: Regions, tmp_path: Path, net: Net, activations: str) -> None:
    b = Builder(seed=3, activations=activations)
    y = net(b, b.quantised(b.conv(b.input([1, 4, 6, 6]), (8, 4, 3, 3), pads=[1, 1, 1, 1]), 0.0625, 0))
    path = b.save(tmp_path / "net.onnx", y, NETS[net])
    model = import_model(path)
    positions = [i for op in model.graph.ops if isinstance(op, Interpreted) for i in op.covers]
    left = [kind for i in positions if (kind := model.source.operators[i].kind) not in QUIET]
    placements: list[vm.Placement] = []
    mod = vm.tilewright_pipeline("pynq-z2", table.compile, ORT, report=placements.append)(load_model(path))
    kept = sum(n for kind, n in placements[0].left.items() if kind not in ("quantize", "dequantize"))
    assert kept == len(left) == (net in LEFT)
    assert len(placements[0].regions) == (2 if net is interrupted else 1)
    run = machine(relax.build(mod, "llvm"))["main"]
    for seed in range(3):
        x = np.random.default_rng(seed).normal(0, 1, (1, 4, 6, 6)).astype(np.float32)
        (wanted,) = onnx_runtime(path, {"x1": x})
        np.testing.assert_array_equal(run(tvm.runtime.tensor(x)).numpy(), wanted)


def test_what_onnx_runtime_does_not_run_stays_by_itself() -> None:
    """A reflection of more pixels than there are: the convolution ahead of it is taken all the same."""

    def build(bb: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        weights = real(bb, const(np.ones((4, 4, 1, 1)), "int8"), 0.01)
        y = real(bb, whole(bb, bb.emit(R.nn.conv2d(real(bb, x), weights)), 0.1))
        return bb.emit(R.nn.pad(y, [0, 0, 0, 0, 9, 9, 0, 0], "reflect"))

    placements: list[vm.Placement] = []
    vm.tilewright_pipeline("tiny", lambda graph, config: b"", ORT, report=placements.append)(module(build, PLANES))
    assert list(placements[0].regions.values()) == [{"Conv2D": 1}]
    assert placements[0].left == {"dequantize": 1, "nn.pad": 1}
    (reason,) = placements[0].reasons
    assert "nn.pad: main: onnxruntime cannot run it" in reason


def test_modules_of_planes_have_onnx_runtimes_integers_unless_told_otherwise(tmp_path: Path) -> None:
    b = QdqBuilder(seed=3)
    y = silu(b, b.quantised(b.conv(b.input([1, 4, 6, 6]), (8, 4, 3, 3), pads=[1, 1, 1, 1]), 0.0625, 0))
    mod = load_model(b.save(tmp_path / "net.onnx", y, [1, 8, 6, 6]))
    (function,) = regions(partition_for_tilewright(mod, PRESETS["tiny"])).values()
    assert str(function.attrs["tilewright.semantics"]) == ORT
