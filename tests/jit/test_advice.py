"""What a report advises about layers that stay on the CPU: quantising, where that is what takes them off it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.jit.onnx_models import QdqBuilder


@pytest.mark.parametrize("real", [True, False])
def test_a_layer_of_float32_is_to_be_quantised_and_no_other(real: bool, tmp_path: Path) -> None:
    net = QdqBuilder()
    x = net.input([1, 3, 8, 8])
    middle = net.quantised(net.conv(x, (4, 3, 3, 3)), 0.05, 0)
    if real:
        y = net.node("Conv", [middle, net.constant(np.ones((1, 4, 3, 3), np.float32))])
    else:
        y = net.quantised(net.node("Conv", [middle, net.input([1, 4, 3, 3])]), 0.05, 0)
    path = net.save(tmp_path / "mixed.onnx", y, [1, 1, 4, 4])
    executable = tw.compile(path)
    _, report = executable.run([np.zeros(t.shape, np.float32) for t in executable.inputs])
    (note,) = [note for note in report.notes if "MACs run on the accelerator" in note]
    assert ("tilewright quantize" in note) == real, [o for o in executable.artifact.options["operators"] if o["macs"]]
