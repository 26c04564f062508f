"""What PyTorch's exporter writes without a word though it is something else: kept as it is, or refused."""

from __future__ import annotations

import io
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.checking import reference_outputs
from tilewright.errors import TilewrightError
from tilewright.jit.source import pytorch
from tilewright.jit.source.pytorch import file_to_onnx, program_to_onnx, read_program
from tilewright.jit.source.torch_checks import unrepeatable
from tilewright.jit.source.torch_padding import state_padding

MISSING = [name for name in ("torch", "torchao", "onnxscript") if find_spec(name) is None]
if MISSING:
    pytest.skip(f"needs {', '.join(MISSING)}: pip install 'tilewright[torch]'", allow_module_level=True)
else:
    import torch
    from torch import nn


def images(count: int, seed: int = 0, size: float = 1) -> Any:
    return torch.as_tensor(np.random.default_rng(seed).normal(0, size, (count, 3, 8, 8)).astype(np.float32))


def exported(module: Any) -> Any:
    return torch.export.export(module, (images(1),))


class Noise(nn.Module):
    def __init__(self, share: float) -> None:
        super().__init__()
        self.layer, self.drop = nn.Conv2d(3, 4, 1), nn.Dropout(share)

    def forward(self, x: Any) -> Any:
        return self.drop(self.layer(x))


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)

    def forward(self, x: Any) -> Any:
        return self.norm(self.layer(x))


class Random(nn.Module):
    def forward(self, x: Any) -> Any:
        return x + torch.rand_like(x)


class Divided(nn.Module):
    def forward(self, x: Any) -> Any:
        return nn.functional.avg_pool2d(x, 2, divisor_override=3)


class Projected(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.layer = nn.LSTM(64, 6, batch_first=True, **options)

    def forward(self, x: Any) -> Any:
        return self.layer(x.flatten(2))[0]


class State(nn.Module):
    """``how``: the last result goes on in place, by assignment, through a view of it, or nothing reads it."""

    memory: Any

    def __init__(self, how: str) -> None:
        super().__init__()
        self.layer, self.how = nn.Conv2d(3, 4, 1), how
        self.register_buffer("memory", torch.zeros(1, 4, 8, 8))

    def forward(self, x: Any) -> Any:
        y = self.layer(x)
        if self.how == "place":
            self.memory.mul_(0.5).add_(y)
        elif self.how == "assigned":
            self.memory = self.memory * 0.5 + y
        elif self.how == "view":
            self.memory[:, :2] = y[:, :2]
        else:
            self.memory.copy_(y)
            return y
        return y + self.memory


@pytest.mark.parametrize(
    "module,said",
    [
        (Noise(0.5).train(), r"dropout \(dropout\) is in training mode; export module.eval()"),
        (Normed().train(), r"batch_norm \(batch_norm\) is in training mode"),
        (Random(), r"rand_like \(rand_like\) gives random numbers; make them an input"),
        (Divided(), r"avg_pool2d \(avg_pool2d\) divides by 3, which PyTorch's exporter leaves out; pool without"),
        (Projected(proj_size=4, bias=False), r"lstm has projections \(proj_size\), which ONNX's LSTM does not; put a"),
        (Projected(proj_size=4, num_layers=2, bidirectional=True), "lstm has projections"),
        (State("place"), "buffer memory goes from one inference to the next, .*; make it an input and an output"),
        (State("assigned"), "buffer memory goes"),
        (State("view"), "buffer memory goes"),
    ],
)
def test_programs_that_give_other_results_than_their_file(module: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    torch.export.save(exported(module), str(path))
    with pytest.raises(TilewrightError, match=f"^{path}: {said}"):
        tw.compile(path, "tiny", cache=False)


def test_dynamic_quantisation_is_named(tmp_path: Path) -> None:
    """PyTorch's exporter has no form for it, and says so in colours."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

    example = (torch.zeros(1, 8),)
    quantiser = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_dynamic=True))
    prepared = prepare_pt2e(torch.export.export(nn.Linear(8, 4), example).module(), quantiser)
    prepared(*example)
    program = torch.export.export(convert_pt2e(prepared), example)
    with pytest.raises(TilewrightError, match="ExportedProgram: .*dynamic quantisation.*; quantise with is_dynamic="):
        tw.compile(program, config="tiny", cache=False)


def test_programs_that_do_not() -> None:
    """No noise, or none that is on; running statistics; a buffer that no result is made from; attention, LSTMs."""
    recurrent = nn.LSTM(8, 4)
    recurrent.train()
    modules = [
        Noise(0.5).eval(), Noise(0.0).train(), Normed().eval(), State("unread"), nn.RReLU().eval(),
        Projected(num_layers=2, bidirectional=True), Projected(bias=False), nn.MultiheadAttention(8, 2).eval(),
    ]  # fmt: skip
    for module in modules[:-1]:
        assert unrepeatable(exported(module)) is None
    token = torch.zeros(3, 1, 8)
    assert unrepeatable(torch.export.export(modules[-1], (token, token, token))) is None
    assert unrepeatable(torch.export.export(recurrent, (token,))) is None


@pytest.mark.parametrize("reduced", [False, True])
def test_activations_of_less_than_their_type(reduced: bool, tmp_path: Path) -> None:
    """uint8 of 0 to 127 (``reduce_range``), which the exporter leaves out; inputs go beyond the range."""
    import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)).eval()
    config = x86.get_default_x86_inductor_quantization_config(reduce_range=reduced)
    prepared = prepare_pt2e(exported(module).module(), x86.X86InductorQuantizer().set_global(config))
    for image in images(8).split(1):
        prepared(image)
    program = torch.export.export(convert_pt2e(prepared), (images(1),))
    path, x = tmp_path / "net.pt2", images(6, seed=1, size=4)
    torch.export.save(program, str(path))
    own = np.concatenate([program.module()(image).detach().numpy() for image in x.split(1)])
    exe = tw.compile(path, "tiny", cache=False)
    y = exe.run(x.numpy())[0]
    np.testing.assert_array_equal(y, reference_outputs(path, [x.numpy()])[0])
    assert ((own - y) ** 2).sum() < 1e-4 * (own**2).sum()


@pytest.mark.parametrize(
    "layer,shape",
    [
        (nn.Conv2d(3, 4, (5, 3), padding="same", dilation=(1, 2)), (3, 8, 8)),
        (nn.Conv2d(3, 6, (4, 2), padding="same", groups=3, bias=False), (3, 8, 8)),
        (nn.Conv2d(3, 4, 3, padding="valid", stride=2), (3, 8, 8)),
        (nn.Conv1d(3, 4, 4, padding="same", dilation=3), (3, 16)),
        (nn.Conv3d(2, 4, (2, 3, 1), padding="same"), (2, 4, 5, 6)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_convolutions_whose_padding_is_a_word(layer: Any, shape: tuple[int, ...]) -> None:
    """PT2E's quantisers pass them by; with numbers they compute the same."""
    x = torch.as_tensor(np.random.default_rng(0).normal(0, 1, (1, *shape)).astype(np.float32))
    module = torch.export.export(layer.eval(), (x,)).module()
    assert state_padding(module)
    assert not state_padding(module)
    torch.testing.assert_close(module(x), layer(x))


def test_a_module_of_convolutions_whose_padding_is_a_word() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 8, 3, padding="same"), nn.ReLU(), nn.Conv2d(8, 4, 4, padding="same")).eval()
    x = images(8)
    exe = tw.compile(module, x, "tiny", cache=False)
    assert {o["place"] for o in exe.artifact.options["operators"] if o["macs"]} == {"accelerator"}
    real, y = module(x).detach().numpy(), exe.run(x.numpy())[0]
    assert ((real - y) ** 2).sum() < 0.01 * (real**2).sum()


@pytest.mark.parametrize("module", [nn.LSTM(8, 4), nn.GRU(8, 4), nn.Identity()], ids=lambda m: type(m).__name__)
def test_what_pt2e_does_not_quantise(module: Any) -> None:
    """The way out is one that goes: the quantiser for files takes what PT2E does not."""
    way_out = "write it with torch.export.save and quantise that .pt2 file with `tilewright quantize`$"
    x = torch.zeros(2, 3, 8)
    with pytest.raises(TilewrightError, match=f"XNNPACKQuantizer .*; {way_out}"):
        tw.compile(module, x, "tiny", cache=False)
    with pytest.raises(TilewrightError, match=f"^ExportedProgram: not quantised: .*; {way_out}"):
        tw.compile(torch.export.export(module.eval(), (x[:1],)), config="tiny", cache=False)


def test_why_a_file_cannot_be_read(tmp_path: Path) -> None:
    """PyTorch logs it, and raises that there are warnings above."""
    path, bad = tmp_path / "net.pt2", tmp_path / "bad.pt2"
    torch.export.save(exported(Normed().eval()), str(path))
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(bad, "w") as changed:
        for name in archive.namelist():
            content = archive.read(name)
            changed.writestr(name, content.replace(b'"p_layer_weight"', b'"p_nowhere"', 1))
    with pytest.raises(TilewrightError, match="bad.pt2: not a program that torch.export.save wrote: .*p_") as caught:
        read_program(bad)
    assert "We ran into" not in str(caught.value)


class Touch:
    """Pickled, it makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_example_inputs_are_not_unpickled(tmp_path: Path) -> None:
    """PyTorch unpickles those of any class: a file of a stranger would do what its writer likes."""
    path, evil, sign = tmp_path / "net.pt2", tmp_path / "evil.pt2", tmp_path / "sign"
    net = Normed().eval()
    torch.export.save(exported(net), str(path))
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(evil, "w") as changed:
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith("data/sample_inputs/model.pt"):
                torch.save((Touch(sign),), made := io.BytesIO())
                content = made.getvalue()
            changed.writestr(name, content)
    torch.load(io.BytesIO(content_of(evil, "data/sample_inputs/model.pt")), weights_only=False)
    assert sign.exists()
    sign.unlink()
    read = read_program(evil)
    assert not sign.exists()
    x = images(1)
    torch.testing.assert_close(read.module()(x), net(x))


def content_of(path: Path, end: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith(end)))


@pytest.mark.parametrize("padding,integer", [(1, False), (0, True)])
def test_average_pools_that_round_up(padding: int, integer: bool) -> None:
    """Padding counts unless told otherwise; ONNX Runtime's integer kernel divides by another number than PyTorch."""
    torch.manual_seed(0)
    pool = nn.AvgPool2d(3, 2, padding, ceil_mode=True)
    module, x = nn.Sequential(nn.Conv2d(3, 8, 1), pool, nn.Conv2d(8, 4, 1)).eval(), images(8)
    exe = tw.compile(module, x, "tiny", cache=False)
    y, real = exe.run(x.numpy())[0], module(x).detach().numpy()
    assert 10 * np.log10((real**2).sum() / ((real - y) ** 2).sum()) > 30
    (place,) = (o["place"] for o in exe.artifact.options["operators"] if o["op"] == "AveragePool")
    assert (place == "accelerator") == integer


def test_operators_that_onnx_has_not_are_named() -> None:
    class Inverse(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.inv(x)

    with pytest.raises(
        TilewrightError, match="^ExportedProgram: PyTorch cannot write it as ONNX: .*aten.linalg_inv_ex"
    ):
        tw.compile(exported(Inverse()), config="tiny", cache=False)


def test_a_file_is_exported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the compiler and its check alike, until it changes."""
    path = tmp_path / "net.pt2"
    exported: list[str] = []

    def counted(program: Any, what: str) -> bytes:
        exported.append(what)
        return program_to_onnx(program, what)

    monkeypatch.setattr(pytorch, "program_to_onnx", counted)
    sizes = []
    for width in (4, 6):
        program = torch.export.export(nn.Conv2d(3, width, 3).eval(), (images(1),))
        torch.export.save(program, str(path))
        sizes += [len(file_to_onnx(path)), len(file_to_onnx(path))]
    assert exported == [str(path)] * 2
    assert sizes[0] == sizes[1] < sizes[2] == sizes[3]
