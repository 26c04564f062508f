"""Partitioned modules in one Relax VM: regions through ``tilewright.run``, the rest on the CPU by TVM."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

import tilewright as tw
from tests.conftest import REPOSITORY, ModelCase
from tests.fuzz import TfliteNet
from tests.jit.onnx_models import QdqBuilder, onnx_runtime
from tests.jit.relax_models import load_model
from tests.quantize.float_models import float_onnx
from tilewright import runtime
from tilewright.checking import reference_outputs
from tilewright.config import PRESETS
from tilewright.jit.errors import FloatModule
from tilewright.jit.graph import Graph
from tilewright.jit.reference import evaluate
from tilewright.jit.relax import vm
from tilewright.jit.relax.partition import partition_for_tilewright, region_to_graph, regions
from tilewright.runtime.device import DeviceError
from tilewright.runtime.sim_device import SimDevice

ORT = "onnxruntime"


class Regions:
    """Stands for compiler and runtime: an artifact is the index of a graph that the reference evaluates."""

    def __init__(self) -> None:
        self.graphs: list[Graph] = []

    def compile(self, graph: Graph, config: Any) -> bytes:
        self.graphs.append(graph)
        return b"region %d" % (len(self.graphs) - 1)

    def run(self, artifact: bytes, inputs: list[NDArray[Any]]) -> list[NDArray[Any]]:
        graph = self.graphs[int(artifact.split()[1])]
        results = evaluate(graph, dict(zip(graph.inputs, inputs, strict=True)))
        return [results[name] for name in graph.outputs]


@pytest.fixture
def table() -> Iterator[Regions]:
    made = Regions()
    vm.register_runner(made.run)
    yield made
    vm.register_runner()


def machine(executable: Any) -> Any:
    return relax.VirtualMachine(executable, tvm.cpu())


def running_sum(b: QdqBuilder, x: str) -> str:
    """A sum over the channels so far, which TVM keeps."""
    return b.quantised(b.node("CumSum", [x, b.constant(np.int64(1))]), 0.06, 0)


def mixed_model(path: Path) -> Path:
    """conv -> running sum -> conv."""
    b = QdqBuilder(seed=11)
    x = b.input([1, 4, 8, 8])
    y = b.quantised(b.conv(x, (6, 4, 3, 3), pads=[1, 1, 1, 1]), 0.06, 0)
    return b.save(path, b.quantised(b.conv(running_sum(b, y), (3, 6, 1, 1)), 0.1, 7), [1, 3, 8, 8])


def test_whole_network_is_one_region(table: Regions, model_case: Callable[[str], ModelCase]) -> None:
    case = model_case("resnet8_cifar10")
    partitioned = partition_for_tilewright(load_model(case.model))
    assert len(regions(partitioned)) == 1
    compiled = vm.compile_regions(partitioned, PRESETS["pynq-z2"], table.compile)
    run = machine(relax.build(compiled, "llvm"))["main"]
    for x, y in zip(case.x[:5], case.y[:5], strict=True):
        np.testing.assert_array_equal(run(tvm.runtime.tensor(x[None])).numpy()[0], y)


def test_accelerator_and_cpu_parts_mix(table: Regions, tmp_path: Path) -> None:
    path = mixed_model(tmp_path / "mixed.onnx")
    mod = vm.tilewright_pipeline(compiler=table.compile, semantics=ORT)(load_model(path))
    assert len(table.graphs) == 2
    run = machine(relax.build(mod, "llvm"))["main"]
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = rng.normal(0, 1, (1, 4, 8, 8)).astype(np.float32)
        (wanted,) = onnx_runtime(path, {"x1": x})
        got = run(tvm.runtime.tensor(x)).numpy()
        np.testing.assert_array_equal(got, wanted)


def test_pipeline_inside_relax_build(table: Regions, tmp_path: Path) -> None:
    path = mixed_model(tmp_path / "mixed.onnx")
    executable = relax.build(
        load_model(path), "llvm", relax_pipeline=vm.relax_pipeline(compiler=table.compile, semantics=ORT)
    )
    x = np.zeros((1, 4, 8, 8), np.float32)
    (wanted,) = onnx_runtime(path, {"x1": x})
    np.testing.assert_array_equal(machine(executable)["main"](tvm.runtime.tensor(x)).numpy(), wanted)


def test_region_with_several_inputs_and_outputs(table: Regions, tmp_path: Path) -> None:
    """The CPU reads an intermediate of a region, and a second region reads both."""
    b = QdqBuilder(seed=2)
    x = b.input([1, 4, 6, 6])
    y = b.quantised(b.conv(x, (4, 4, 1, 1)), 0.05, 3)
    z = running_sum(b, y)
    w = b.quantised(b.conv(y, (4, 4, 3, 3), pads=[1, 1, 1, 1]), 0.11, -5)
    path = b.save(tmp_path / "model.onnx", b.quantised(b.node("Add", [z, w]), 0.12, 1), [1, 4, 6, 6])
    mod = vm.tilewright_pipeline(compiler=table.compile, semantics=ORT)(load_model(path))
    assert max(len(graph.inputs) for graph in table.graphs) + max(len(graph.outputs) for graph in table.graphs) >= 3
    value = np.random.default_rng(0).normal(0, 1, (1, 4, 6, 6)).astype(np.float32)
    (wanted,) = onnx_runtime(path, {"x1": value})
    got = machine(relax.build(mod, "llvm"))["main"](tvm.runtime.tensor(value)).numpy()
    np.testing.assert_array_equal(got, wanted)


_FRESH = """
import sys
import numpy as np, tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx
from tilewright.config import PRESETS
from tilewright.jit.relax import vm

def run(artifact, inputs):
    return [np.full((1, 6, 8, 8), 1, np.int8) if artifact == b"region 0" else np.full((1, 3, 8, 8), 9, np.float32)]

vm.register_runner(run)
main = relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())["main"]
print(main(tvm.runtime.tensor(np.zeros((1, 4, 8, 8), np.float32))).numpy().mean())
"""


def test_exports_and_reloads_in_a_fresh_process(table: Regions, tmp_path: Path) -> None:
    mod = vm.tilewright_pipeline(compiler=table.compile, semantics=ORT)(
        load_model(mixed_model(tmp_path / "mixed.onnx"))
    )
    library = tmp_path / "mixed.so"
    relax.build(mod, "llvm").export_library(str(library))
    done = subprocess.run(
        [sys.executable, "-c", _FRESH, str(library)], capture_output=True, text=True, cwd=REPOSITORY, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == 9


def test_region_to_graph_of_a_users_own_module(tmp_path: Path) -> None:
    """What a TVM user calls: TVM's own importer, partition, then the graph of each region."""
    model = onnx.load(str(mixed_model(tmp_path / "mixed.onnx")))
    mod = partition_for_tilewright(from_onnx(model), semantics=ORT)
    graphs = [region_to_graph(function, name) for name, function in regions(mod).items()]
    assert sorted(graph.name for graph in graphs) == ["tilewright_0", "tilewright_1"]
    assert [[op.kind for op in graph.ops if op.kind.endswith("Conv2D")] for graph in graphs] == [["Conv2D"]] * 2


_FIRST = """
import sys
import numpy as np, tilewright
assert "tvm_ffi" not in sys.modules, "tilewright loads TVM"
import tvm
from tvm import relax
"""

_LAST = """
import sys
import numpy as np, tvm
from tvm import relax
import tilewright
"""

_DIGITS = """
main = relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())["main"]
x = np.load(sys.argv[2])
np.save(sys.argv[3], np.concatenate([main(tvm.runtime.tensor(image[None])).numpy() for image in x]))
"""


@pytest.mark.parametrize("imports", [_FIRST, _LAST], ids=["tilewright first", "tilewright last"])
def test_digits_through_the_real_compiler_exported_and_run_in_a_fresh_process(imports: str, tmp_path: Path) -> None:
    """The process needs nothing of Tilewright but that it is imported, before TVM or after it."""
    model = REPOSITORY / "examples" / "digits" / "digits.onnx"
    library = tmp_path / "digits.so"
    relax.build(vm.tilewright_pipeline("tiny", semantics=ORT)(load_model(model)), "llvm").export_library(str(library))
    x = np.random.default_rng(0).integers(0, 256, (4, 1, 8, 8)).astype(np.uint8)
    np.save(tmp_path / "x.npy", x)
    names = [str(library), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    done = subprocess.run(
        [sys.executable, "-c", imports + _DIGITS, *names], capture_output=True, text=True, cwd=REPOSITORY, check=False
    )
    assert done.returncode == 0, done.stderr
    name = onnx.load(str(model)).graph.input[0].name
    wanted = np.concatenate([onnx_runtime(model, {name: image[None]})[0] for image in x])
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), wanted)


def test_device_and_reports(tmp_path: Path) -> None:
    """The library names the device it was made for; a run can choose another, and hears what each region cost."""
    mod = load_model(mixed_model(tmp_path / "mixed.onnx"))
    placements: list[vm.Placement] = []
    done = vm.tilewright_pipeline("tiny", semantics=ORT, device="hls", report=placements.append)(mod)
    (placed,) = placements
    assert (placed.config, placed.device) == ("tiny", "hls")
    assert placed.regions == {"tilewright_0": {"Conv2D": 1}, "tilewright_1": {"Conv2D": 1}}
    assert placed.left == {"dequantize": 1, "cumsum": 1}
    assert placed.reasons == {"cumsum: ONNX has no operator for it": 1}
    assert str(placed).splitlines() == [
        "2 regions for tiny on hls",
        "  tilewright_0: Conv2D",
        "  tilewright_1: Conv2D",
        "  TVM keeps: dequantize, cumsum",
        "    1 cumsum: ONNX has no operator for it",
    ]
    run = machine(relax.build(done, "llvm"))["main"]
    x = tvm.runtime.tensor(np.zeros((1, 4, 8, 8), np.float32))
    own = SimDevice(PRESETS["tiny"])
    for device in ("sim", own):
        with runtime.use_device(device), runtime.collect_reports() as reports:
            run(x)
        assert [report.device for report in reports] == ["sim", "sim"]
        assert all(report.cycles > 0 for report in reports)
    with pytest.raises(DeviceError, match="no such device; available: sim, rtl"), runtime.use_device("none"):
        pass
    other = SimDevice(PRESETS["pynq-z2"])
    with runtime.use_device(other), pytest.raises(RuntimeError, match="config"):  # an error that came through TVM
        run(x)


def test_a_library_runs_on_the_device_it_was_made_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def open_device(name: str, config: Any) -> SimDevice:
        opened.append(name)
        return SimDevice(config)

    monkeypatch.setattr("tilewright.runtime.device.open_device", open_device)
    mod = load_model(mixed_model(tmp_path / "mixed.onnx"))
    done = vm.tilewright_pipeline("tiny", semantics=ORT, device="pynq://board")(mod)
    machine(relax.build(done, "llvm"))["main"](tvm.runtime.tensor(np.zeros((1, 4, 8, 8), np.float32)))
    assert opened == ["pynq://board"]  # one device for both regions


def test_an_unknown_device_is_refused_before_anything_is_compiled() -> None:
    with pytest.raises(DeviceError, match="device fpga: no such device"):
        vm.tilewright_pipeline("tiny", device="fpga")


def test_a_batch_runs_image_by_image(tmp_path: Path) -> None:
    """Accelerator and CPU parts of a module of three images."""
    b = QdqBuilder(seed=13)
    x = b.input([3, 4, 8, 8])
    y = b.quantised(b.conv(x, (6, 4, 3, 3), pads=[1, 1, 1, 1]), 0.06, 0)
    z = b.quantised(b.conv(running_sum(b, y), (6, 6, 1, 1)), 0.1, 7)
    path = b.save(tmp_path / "batch.onnx", b.quantised(b.node("Add", [y, z]), 0.07, 1), [3, 6, 8, 8])
    value = np.random.default_rng(0).normal(0, 1, (3, 4, 8, 8)).astype(np.float32)
    (wanted,) = onnx_runtime(path, {"x1": value})
    placements: list[vm.Placement] = []
    mod = vm.tilewright_pipeline("tiny", semantics=ORT, report=placements.append)(load_model(path))
    assert [dict(kinds) for kinds in placements[0].regions.values()] == [{"Conv2D": 1}, {"Conv2D": 1, "Add": 1}]
    run = machine(relax.build(mod, "llvm"))["main"]
    with runtime.collect_reports() as reports:
        got = run(tvm.runtime.tensor(value)).numpy()
    assert [report.inferences for report in reports] == [3, 3]
    np.testing.assert_array_equal(got, wanted)


def test_a_batch_of_tflite_is_exact(tmp_path: Path) -> None:
    """A reshape and a classifier behind it, whose rows are the images."""
    net = TfliteNet(seed=5)
    y = net.conv(net.input((3, 8, 8, 6)), 8, padding="same")
    y = net.reshape(net.max_pool(net.add(y, net.depthwise(y, padding="same")), 4, 4), [3, 32])
    path = net.save(tmp_path / "batch.tflite", [net.fully_connected(y, 5)])
    mod = vm.tilewright_pipeline("tiny")(load_model(path))
    x = np.random.default_rng(0).integers(-128, 128, (3, 8, 8, 6)).astype(np.int8)
    with runtime.collect_reports() as reports:
        got = machine(relax.build(mod, "llvm"))["main"](tvm.runtime.tensor(x)).numpy()
    assert [report.inferences for report in reports] == [3]
    np.testing.assert_array_equal(got, reference_outputs(path, [x[None]])[0][0])


def test_a_float_module_is_not_passed_in_silence(tmp_path: Path) -> None:
    mod = from_onnx(onnx.load(str(float_onnx(tmp_path / "float.onnx", batch=1))))
    placements: list[vm.Placement] = []
    with pytest.warns(FloatModule, match="not quantised: all of it stays with TVM"):
        vm.tilewright_pipeline("tiny", report=placements.append)(mod)
    assert not placements[0].regions
    assert placements[0].left["nn.conv2d"] == 2


def test_an_operator_too_large_for_the_config_stays_on_the_cpu(tmp_path: Path) -> None:
    b = QdqBuilder(seed=5)
    x = b.input([1, 4, 4, 300])
    wide = b.quantised(b.conv(x, (6, 4, 3, 3), pads=[1, 1, 1, 1]), 0.06, 0)
    path = b.save(
        tmp_path / "wide.onnx", b.quantised(b.conv(wide, (3, 6, 1, 1), strides=[2, 3]), 0.05, 7), [1, 3, 2, 100]
    )
    assert len(regions(partition_for_tilewright(load_model(path), semantics=ORT))) == 1
    value = np.random.default_rng(0).normal(0, 1, (1, 4, 4, 300)).astype(np.float32)
    y, _ = tw.compile(path, config="tiny", cache=False).run(value)
    (wanted,) = onnx_runtime(path, {"x1": value})
    np.testing.assert_array_equal(y, wanted)
