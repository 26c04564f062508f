"""PyTorch modules and ``.pt2`` files; what needs PyTorch is skipped without it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.checking import reference_outputs
from tilewright.cli.app import main
from tilewright.errors import TilewrightError
from tilewright.jit.source import pytorch

MISSING = [name for name in ("torch", "torchao", "onnxscript") if find_spec(name) is None]
if not MISSING:
    import torch

    from tilewright.from_torch import FewExamples, module_to_onnx
TORCH = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}: pip install 'tilewright[torch]'")


def examples(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(0, 1, (count, 3, 8, 8)).astype(np.float32)


def network() -> Any:
    """Convolutions with and without normalisation, a residual addition, pooling, a classifier."""
    torch.manual_seed(0)
    nn = torch.nn

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
            self.depthwise, self.point = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Conv2d(8, 8, 1)
            self.last = nn.Linear(8 * 16, 5)

        def forward(self, x: Any) -> Any:
            x = torch.relu(self.norm(self.first(x)))
            x = torch.relu(x + self.point(torch.relu(self.depthwise(x))))
            return self.last(nn.functional.max_pool2d(x, 2).flatten(1))

    return Network()


def places(exe: tw.Executable) -> set[str]:
    return {o["place"] for o in exe.artifact.options["operators"] if o["macs"]}


@TORCH
def test_a_float_module(tmp_path: Path) -> None:
    """Quantised with its examples, near the float module, exact as ONNX Runtime; the module is left as it was."""
    module, x = network(), examples(32)
    assert module.training
    exe = tw.compile(module, x, "tiny", cache=False)
    assert module.training
    assert exe.name == "Network"
    assert places(exe) == {"accelerator"}
    assert all(o["exact"] == "proven" for o in exe.artifact.options["operators"] if o["macs"])
    y, _ = exe.run(x)
    (tmp_path / "same.onnx").write_bytes(module_to_onnx(module, torch.as_tensor(x)))
    np.testing.assert_array_equal(y, reference_outputs(tmp_path / "same.onnx", [x])[0])
    real = module.eval()(torch.as_tensor(x)).detach().numpy()
    assert 10 * np.log10((real**2).sum() / ((real - y) ** 2).sum()) > 25


@TORCH
def test_a_module_that_pt2e_has_quantised_and_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """int8 activations, as its own quantiser chooses them; the same network as module, program and .pt2 file."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

    x, first = examples(16), (torch.as_tensor(examples(1)),)
    quantiser = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(torch.export.export(network().eval(), first).module(), quantiser)
    for image in torch.as_tensor(x).split(1):
        prepared(image)
    converted = convert_pt2e(prepared)
    program = torch.export.export(converted, first)
    path = tmp_path / "network.pt2"
    torch.export.save(program, str(path))
    made = [
        tw.compile(converted, x, config="tiny", cache=False),
        tw.compile(program, config="tiny", cache=False),
        tw.compile(path, "tiny", cache=False),
    ]
    results = [exe.run(x)[0] for exe in made]
    for y in results:
        np.testing.assert_array_equal(y, reference_outputs(path, [x])[0])
    step = [n.args[1] for n in program.graph.nodes if "quantize_per_tensor" in str(n.target)][-1]
    own = np.concatenate([converted(image).detach().numpy() for image in torch.as_tensor(x).split(1)])
    assert np.abs(results[0] - own).max() <= 2.001 * step
    np.save(tmp_path / "x.npy", x)
    arguments = ["run", str(path), "--config", "tiny", "--no-cache", "--input", str(tmp_path / "x.npy"), "--check"]
    assert main(arguments) == 0
    assert "all 80 elements of 16 outputs equal the reference" in capsys.readouterr().out


@TORCH
def test_several_inputs(tmp_path: Path) -> None:
    class Sum(torch.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return a + b

    a, b = examples(8), examples(8, seed=1)
    y, _ = tw.compile(Sum(), (a, b), "tiny", cache=False).run([a, b])
    assert np.abs(y - (a + b)).max() < 0.1


@TORCH
def test_one_example_is_few() -> None:
    with pytest.warns(FewExamples, match="Network: quantised with the ranges of a single input"):
        module_to_onnx(network(), examples(1))


@TORCH
def test_what_cannot_be_exported_or_is_float(tmp_path: Path) -> None:
    class Sized(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if x.sum() > 0 else x

    def refused(*arguments: Any) -> str:
        with pytest.raises(TilewrightError) as caught:
            tw.compile(*arguments, cache=False)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert refused(Sized(), examples(2)).startswith("Sized: PyTorch cannot export it: ")
    assert "Network: needs example inputs" in refused(network())
    assert "hold [1, 2] inputs" in refused(network(), (examples(1), examples(2)))
    torch.export.save(torch.export.export(network().eval(), (torch.as_tensor(examples(1)),)), str(tmp_path / "f.pt2"))
    assert "not quantised" in refused(tmp_path / "f.pt2")
    (tmp_path / "bad.pt2").write_bytes(b"PK\x03\x04 no program")
    assert "bad.pt2: not a program that torch.export.save wrote" in refused(tmp_path / "bad.pt2")


def test_arguments() -> None:
    """Neither file nor module; what is given twice."""
    with pytest.raises(TilewrightError, match="int: neither a path nor a torch.nn.Module"):
        tw.compile(5, "tiny")
    with pytest.raises(TypeError, match="config after the model, each once"):
        tw.compile("model.onnx", "tiny", config="tiny")


def test_without_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.pt2").write_bytes(b"PK")
    monkeypatch.setattr(pytorch, "find_spec", lambda name: None)
    assert main(["run", str(tmp_path / "m.pt2")]) == 2
    said = capsys.readouterr().err
    assert "m.pt2: PyTorch models need torch, torchao, onnxscript: pip install 'tilewright[torch]'" in said
