"""What PyTorch computes is compared with what was exported of it, whatever the exporter makes of a layer."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tilewright.errors import TilewrightError
from tilewright.from_torch import _quantised
from tilewright.jit.source import pytorch
from tilewright.jit.source.pytorch import file_to_onnx, program_to_onnx
from tilewright.jit.source.torch_agreement import NotCompared, OtherKernels, disagreement

MISSING = [name for name in ("torch", "torchao", "onnxscript") if find_spec(name) is None]
if MISSING:
    pytest.skip(f"needs {', '.join(MISSING)}: pip install 'tilewright[torch]'", allow_module_level=True)
else:
    import torch
    from torch import nn


class Applied(nn.Module):
    """``function`` of layers and inputs."""

    def __init__(self, function: Any, *layers: nn.Module) -> None:
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(layers)

    def forward(self, *x: Any) -> Any:
        return self.function(*self.layers, *x)


def images(count: int = 1) -> Any:
    return torch.as_tensor(np.random.default_rng(0).normal(0, 1, (count, 3, 8, 8)).astype(np.float32))


def convolution() -> nn.Module:
    torch.manual_seed(0)
    return nn.Conv2d(3, 4, 3)


@pytest.mark.parametrize(
    "module,layer",
    [
        (Applied(lambda c, x: nn.functional.avg_pool2d(c(x), 2, divisor_override=3) * 2, convolution()), "avg_pool2d"),
        (Applied(lambda c, n, x: n(c(x)).relu(), convolution(), nn.BatchNorm2d(4).train()), "relu"),
        (Applied(lambda c, x: c(x) + torch.rand_like(c(x)), convolution()), "rand_like"),
    ],
)
def test_a_layer_that_the_exporter_writes_otherwise(module: Any, layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though nothing knows it by name."""
    monkeypatch.setattr(pytorch, "unrepeatable", lambda program: None)
    program = torch.export.export(module, (images(),))
    with pytest.raises(TilewrightError, match=f"^net: what PyTorch.* first seen at {layer}"):
        program_to_onnx(program, "net")


def test_other_results_of_rounded_programs() -> None:
    """Ties may fall to the other side in a quantised program; a layer of other weights is none."""
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)).eval()
    example = (images(),)
    with pytorch.quiet():
        quantised = torch.export.export(
            _quantised(torch.export.export(module, example).module(), (images(8),)), example
        )
    content = program_to_onnx(quantised, "net")
    assert disagreement(quantised, quantised, content, "net") is None
    model = onnx.load_from_string(content)
    (weights,) = (w for w in model.graph.initializer if list(w.dims) == [8, 3, 3, 3])
    other = numpy_helper.to_array(weights).copy()
    other[0] = -other[0]
    weights.CopyFrom(numpy_helper.from_array(other, weights.name))
    said = disagreement(quantised, quantised, model.SerializeToString(), "net")
    assert said is not None
    assert "first seen at dequantize_per_channel:" in said


def test_integer_kernels_that_compute_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ONNX Runtime's average pool does whose windows reach over the end and count padding; it is the reference."""
    pool = nn.AvgPool2d(3, 2, 1, ceil_mode=True)
    example = (images(),)
    with pytorch.quiet():
        program = torch.export.export(nn.Sequential(nn.Conv2d(3, 8, 1), pool, nn.Conv2d(8, 4, 1)).eval(), example)
        quantised = torch.export.export(_quantised(program.module(), (images(8),)), example)
        assert program_to_onnx(quantised, "net")
    monkeypatch.setattr(pytorch, "settle_pools", lambda model: None)
    with pytest.warns(OtherKernels, match="^net: results are those of ONNX Runtime's integer kernels, which compute"):
        assert program_to_onnx(quantised, "net")


def test_results_of_every_form() -> None:
    """Containers, integers, constants, an open batch, infinities: none is called different."""
    layer = nn.Embedding(7, 5)
    cases: list[tuple[Any, tuple[Any, ...], Any]] = [
        (Applied(lambda e, x: e(x), layer), (torch.tensor([[1, 2, 6]]),), None),
        (Applied(lambda x, y: {"a": [x["p"] + y, x["p"].argmax(1)], "b": y / 0}), ({"p": images()}, images()), None),
        (Applied(lambda x: (x * 100).to(torch.int8).float()), (images(),), None),
        (Applied(lambda x, scale, mask: (x * scale, None)), (images(), 3, None), None),
        (Applied(lambda c, x: c(x), convolution()), (images(2),), {"x": ({0: torch.export.Dim("n")},)}),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotCompared)
        for module, inputs, dynamic in cases:
            with pytorch.quiet():
                program = torch.export.export(module.eval(), inputs, dynamic_shapes=dynamic)
            assert disagreement(program, program, program_to_onnx(program, "net"), "net") is None


def test_what_is_not_compared() -> None:
    """Inputs that no user gives; a tensor of more elements than are computed here."""
    table = torch.arange(6.0)
    cases = [
        (Applied(lambda x, k: x + table[k - 9]), (images(), torch.tensor([5])), "index"),
        (Applied(lambda x: x.expand(2**10, 3, 2**10, 2**7).sum((0, 2)) + 1), (torch.ones(1, 3, 1, 1),), "elements"),
    ]
    for module, inputs, said in cases:
        with pytorch.quiet():
            program = torch.export.export(module.eval(), inputs)
        with pytest.warns(NotCompared, match=f"^net: not compared with PyTorch's own results: .*{said}"):
            assert program_to_onnx(program, "net")
    with pytest.warns(NotCompared, match="elements"):  # a file may say of its tensors what it likes
        assert disagreement(torch.export.export(convolution().eval(), (images(),)), program, b"", "net") is None


def test_a_file_is_exported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the compiler and its comparison alike, until it changes."""
    path = tmp_path / "net.pt2"
    exported: list[str] = []

    def counted(program: Any, what: str) -> bytes:
        exported.append(what)
        return program_to_onnx(program, what)

    monkeypatch.setattr(pytorch, "program_to_onnx", counted)
    sizes = []
    for width in (4, 6):
        program = torch.export.export(nn.Conv2d(3, width, 3).eval(), (images(),))
        torch.export.save(program, str(path))
        sizes += [len(file_to_onnx(path)), len(file_to_onnx(path))]
    assert exported == [str(path)] * 2
    assert sizes[0] == sizes[1] < sizes[2] == sizes[3]
