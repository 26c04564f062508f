"""QLinearSoftmax of another opset than its model's, past which ONNX Runtime moves transposes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.jit.source.onnx_nets import F, NetBuilder
from tests.jit.source.onnx_run import compared
from tilewright.checking import reference_outputs

IMAGE = (1, 4, 6, 6)


def _network(path: Path, opset: int, own: int, convolved: bool = True) -> Path:
    """A softmax over the channels, or all axes from there, between convolutions or by itself."""
    b = NetBuilder(opset, opset=opset)
    numbers = [b.constant(F(0.05)), b.constant(np.uint8(100))]

    def convolution(x: str) -> str:
        weight = b.constant(b.rng.integers(-127, 128, (4, 4, 3, 3)).astype(np.int8))
        scaled = [b.constant(F(0.01)), b.constant(np.int8(0))]
        return b.op("QLinearConv", [x, *numbers, weight, *scaled, *numbers], pads=[1] * 4)

    x = b.input(IMAGE, "uint8")
    x = convolution(x) if convolved else x
    one = [b.constant(F(1 / 256)), b.constant(np.uint8(0))]
    x = b.op("QLinearSoftmax", [x, *numbers, *one], "com.microsoft", opset=own, axis=1)
    b.output(convolution(x) if convolved else x, IMAGE, "uint8")
    return b.save(path)


@pytest.mark.parametrize("opset,own", [(17, 12), (17, 11)])
def test_softmax_that_becomes_another_is_refused(opset: int, own: int, tmp_path: Path) -> None:
    """Its own and the lower levels of ONNX Runtime give other integers than the highest."""
    with pytest.raises(tw.TilewrightError, match="op001 QLinearSoftmax and the model are of opsets before and"):
        tw.compile(_network(tmp_path / "m.onnx", opset, own), "tiny", cache=False)


@pytest.mark.parametrize("opset,own,convolved", [(17, 13, True), (12, 12, True), (17, 12, False), (12, 13, False)])
def test_softmax_that_stays_what_it_is(opset: int, own: int, convolved: bool, tmp_path: Path) -> None:
    path = _network(tmp_path / "m.onnx", opset, own, convolved)
    compared(path)
    given = np.random.default_rng(0).integers(0, 256, (4, *IMAGE[1:])).astype(np.uint8)
    exe = tw.compile(path, "tiny", cache=False, exact="proven")
    np.testing.assert_array_equal(exe(given), reference_outputs(path, [given])[0])
