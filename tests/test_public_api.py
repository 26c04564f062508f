"""Documented functions, each argument in turn of a wrong type or out of range: errors are Tilewright's, in one line."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.conftest import REPOSITORY
from tests.runtime.network import TINY, images, make_artifact, make_program
from tilewright.checking import reference_outputs
from tilewright.comparing import compare
from tilewright.errors import TilewrightError
from tilewright.isa.assembler import assemble
from tilewright.isa.builder import Builder
from tilewright.isa.disassembler import disassemble
from tilewright.isa.spec import Memory
from tilewright.isa.tokens.place import place_tokens
from tilewright.isa.verifier import find_errors, verify
from tilewright.progress import silent
from tilewright.quantize.files import quantize_file
from tilewright.quantize.result import Quantised
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.device import DeviceError, DeviceFault, open_device
from tilewright.runtime.executable import Executable
from tilewright.runtime.regions import use_device
from tilewright.runtime.remote.client import RemoteDevice
from tilewright.runtime.sim_device import SimDevice
from tilewright.sim import Functional, Run, initial_segments, run_program, simulate, simulate_cores, simulate_timing

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
NAN, INFINITE = float("nan"), float("inf")
MASKED = np.ma.masked_array(np.zeros((1, 2, 4, 4), np.int8), mask=True)
#: what no argument may end in a traceback for; a thing that fits one of them is taken
STRANGE: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, NAN, INFINITE, 10**30, 1j, "", "nonsense", "a\0b", b"bytes", (), [], {}, {"a": 1}, [None],
    ["x", 3], object(), SimDevice, len, np.zeros((2, 2)), np.float32(2), np.array(None), MASKED,
    Path("/nowhere/at/all"), make_program, TINY, iter([]),
)  # fmt: skip
Call = tuple[Callable[..., Any], dict[str, Any]]
_ROWS = {"rows": 1, "cols": 4, "row_step": None, "col_step": 1}
#: by method of a Builder, arguments that it takes; words name what :func:`calls` makes
BUILDER: dict[str, dict[str, Any]] = {
    "input": {"name": "a", "shape": [4], "dtype": "int8"},
    "output": {"name": "a", "shape": [4], "dtype": "int8"},
    "scratch": {"name": "a", "shape": [4], "dtype": "int8"},
    "act": {"units": 4, "bank": None}, "acc": {"units": 4, "bank": None}, "wgt": {"entries": 1}, "prm": {"entries": 1},
    "layer": {"name": "conv"},
    "load": {"to": "act", "source": "x", "at": 0, "stride": None, **_ROWS},
    "fill": {"to": "acc", "value": 1, **_ROWS},
    "store": {"source": "act", "to": "y", "at": 0, "stride": None, **_ROWS},
    "gemm": {"uops": [(0, 0, 0, 0)], "dst": "acc", "src": "act", "wgt": "wgt"},
    "alu": {"function": "add", "dst": "acc", "src": None, "imm": 1, "uops": [(0, 0, 0)]},
    "requantize": {
        "dst": "act", "src": "acc", "prm": "prm", "rounding": "single", "zero_point": 0, "lo": -128, "hi": 127,
        "uops": [(0, 0, 0)],
    },
    "rescale": {
        "dst": "acc", "src": "act", "prm": "prm", "combine": "write", "rounding": "single", "uops": [(0, 0, 0)],
    },
    "wait": {"engine": "gemm", "cycles": 1},
}  # fmt: skip


def calls(folder: Path) -> dict[str, Callable[[], Call]]:
    """By documented name: makes the function or bound method, and arguments that it takes."""
    artifact, program = make_artifact(), make_program()
    artifact_file, report_file, segments = folder / "a.twa", folder / "r.json", initial_segments(program)
    executable = Executable(artifact)
    executable.save(artifact_file)
    report = executable.run(images(1))[1]
    report.save_json(report_file)
    row = np.zeros(8, np.uint8)

    def of_device(name: str, **arguments: Any) -> Callable[[], Call]:
        def make() -> Call:
            device = SimDevice(TINY)
            allocation = device.allocate(program, 1)
            if name in ("wait", "counters"):
                device.launch(allocation, 1)
            if name == "counters":
                device.wait(allocation)
            fields = {"allocation": allocation, "allocations": [allocation]}
            return getattr(device, name), {k: fields.get(k, v) for k, v in arguments.items()}

        return make

    def of_builder(method: str, arguments: dict[str, Any]) -> Callable[[], Call]:
        def make() -> Call:
            b = Builder("tiny")
            ranges = {"act": b.act(4), "acc": b.acc(4), "wgt": b.wgt(1), "prm": b.prm(1), "x": b.input("x", [16])}
            own = {"y": b.output("y", [16]), **ranges}
            return getattr(b, method), {k: own.get(v, v) if isinstance(v, str) else v for k, v in arguments.items()}

        return make

    def plain(function: Callable[..., Any], **arguments: Any) -> Callable[[], Call]:
        return lambda: (function, arguments)

    def begun() -> Functional:
        machine = Functional(program)
        machine.begin(segments)
        return machine

    one = {"segment": 1, "inference": 0, "offset": 0}
    return {
        "compile": plain(
            tw.compile, model=DIGITS, config="tiny", device="sim", keep_intermediates=False, fast_host=False,
            exact="default", objective=None, jobs=1, host_watts=None, host_idle_watts=None, energy_table=None,
            cache=True, progress=None, example=None,
        ),
        "load": plain(tw.load, path=artifact_file, device="sim"),
        "load_config": plain(tw.load_config, name_or_path="tiny"),
        "explore": plain(
            _explore, models=DIGITS, output=folder / "sweep", board="pynq-z2", trials=1, objective="latency",
            weights=None, clock="config", sampler="random", space=None, values=("block_in=8",), storage="sqlite://",
            seed=0, batch=1, max_lut=80.0, workers=0, scheduler=None, simulate=0, synthesise=0, energy_table=None,
            progress=silent, watch=None,
        ),
        "Executable": plain(Executable, artifact=artifact, device="sim", verified=False),
        "Executable.load": plain(Executable.load, path=artifact_file, device="sim"),
        "Executable.run": plain(executable.run, x=images(1), jobs=None, progress=None, keep_intermediates=None),
        "Executable.prepare": plain(executable.prepare, inferences=1),
        "Executable.save": plain(executable.save, path=folder / "b.twa"),
        "Executable.to_be_busy": plain(executable.to_be_busy, jobs=1),
        "Stream.run": lambda: (executable.stream().run, {"x": images(1), "progress": None, "keep_intermediates": None}),
        "Report.save_model_explorer": plain(report.save_model_explorer, path=folder / "m.json"),
        "Report.save_html": plain(report.save_html, path=folder / "r.html"),
        "Report.save_json": plain(report.save_json, path=folder / "s.json"),
        "Report.save_trace": plain(report.save_trace, path=folder / "t.json"),
        "Config": plain(tw.Config, **TINY.to_dict()),
        "Config.replace": plain(TINY.replace, block_in=4, name="x", dsp_packing=True),
        "Config.differences": plain(TINY.differences, other=TINY),
        "Config.from_dict": plain(tw.Config.from_dict, values=TINY.to_dict()),
        "Config.from_toml": plain(tw.Config.from_toml, text=TINY.to_toml(), source="here"),
        "Artifact.check_config": plain(artifact.check_config, config=TINY, owner="it"),
        "Artifact.from_bytes": plain(Artifact.from_bytes, data=artifact_file.read_bytes(), source="here"),
        "Artifact.load": plain(Artifact.load, path=artifact_file),
        "Artifact.save": plain(artifact.save, path=folder / "c.twa"),
        "open_device": plain(open_device, name="sim", config=TINY, jobs=None),
        "RemoteDevice": plain(RemoteDevice, config=TINY, url="pynq://127.0.0.1:9", wait=0),
        "Device.allocate": plain(SimDevice(TINY).allocate, program=program, inferences=1),
        "Device.write": of_device("write", allocation=0, **one, data=row),
        "Device.read": of_device("read", allocation=0, **one, size=8),
        "Device.write_stack": of_device("write_stack", allocation=0, segment=1, offset=0, data=row[None]),
        "Device.read_stack": of_device("read_stack", allocation=0, segment=1, inferences=1, offset=0, size=8),
        "Device.share": of_device("share", allocations=0),
        "Device.launch": of_device("launch", allocation=0, inferences=1),
        "Device.wait": of_device("wait", allocation=0, progress=None),
        "Device.run_together": of_device("run_together", allocations=0, inferences=1, progress=None),
        "Device.counters": of_device("counters", allocation=0),
        "Device.release": of_device("release", allocation=0),
        "quantize_file": plain(
            quantize_file, model=folder / "m.onnx", data=folder / "d.npy", labels=None, bits=8, progress=silent
        ),
        "Quantised.save": plain(Quantised(b"x", [], 1).save, path=folder / "q.onnx"),
        "reference_outputs": plain(
            reference_outputs, model=DIGITS, inputs=[np.zeros((1, 1, 8, 8), np.uint8)], progress=None, stream=False
        ),
        "compare": plain(compare, old=report_file, new=report_file, most_percent=1.0),
        "use_device": plain(_use_device, device="sim"),
        **{f"Builder.{name}": of_builder(name, given) for name, given in BUILDER.items()},
        "Builder": plain(Builder, config="tiny", name="program"),
        "run_program": plain(run_program, program=program, inputs={"x": np.zeros(program.segments[1].size, np.int8)}),
        "place_tokens": plain(place_tokens, program=program, name="program", places=()),
        "find_errors": plain(find_errors, program=program, in_order=False),
        "assemble": plain(assemble, text=disassemble(program), source="here"),
        "disassemble": plain(disassemble, program=program),
        "verify": plain(verify, program=program, segment_sizes=None),
        "simulate": plain(
            simulate, program=program, segments=segments, watchdog=None, functional=True, timing=True
        ),
        "simulate_timing": plain(simulate_timing, program=program, watchdog=None),
        "Functional": plain(Functional, program=program),
        "Functional.run": plain(Functional(program).run, segments=segments),
        "Functional.begin": plain(Functional(program).begin, segments=segments),
        "Functional.advance": lambda: (begun().advance, {"end": 1}),
        "Functional.memory": plain(Functional(program).memory, memory=Memory.ACT),
        "simulate_cores": plain(simulate_cores, config=TINY, runs=[Run(0, program)]),
    }  # fmt: skip


#: documented, and not tried here: without arguments, made by other functions alone, for TVM, whose types they take, or
#: for tests, whose networks they build
ELSEWHERE = {
    "Executable.stream", "Prepared", "Prepared.close", "Stream", "Stream.reset", "Report", "Report.engines",
    "Report.to_dict", "Config.to_dict", "Config.to_toml", "Exploration", "Artifact", "Artifact.to_bytes", "Device",
    "Device.close", "Quantised", "Comparison", "Comparison.layers", "Comparison.markdown", "tilewright_pipeline",
    "relax_pipeline", "partition_for_tilewright", "collect_reports", "Program", "Program.columns", "Program.table",
    "Builder.program", "Range",
}  # fmt: skip


def _explore(**arguments: Any) -> Any:
    pytest.importorskip("optuna", reason="the extra dse is not installed")
    return tw.explore(**arguments)


def _use_device(device: Any) -> None:
    with use_device(device):
        pass


def _is_method(member: Any) -> bool:
    return inspect.isfunction(member) or inspect.ismethod(member)


def documented() -> set[str]:
    """Functions, classes and their public methods of ``docs/api.md``."""
    found = set()
    text = (REPOSITORY / "docs" / "api.md").read_text()
    for kind, name, options in re.findall(r"auto(function|class):: (\S+)((?:\n +:[^\n]*)*)", text):
        module, _, attribute = name.rpartition(".")
        found.add(attribute)
        value = getattr(import_module(module), attribute)
        if kind == "class" and attribute not in ("RemoteDevice",):
            chosen = re.findall(r":members: (.+)", options)
            left_out = ", ".join(re.findall(r":exclude-members: (.+)", options)).split(", ")
            methods = [n for n, m in inspect.getmembers(value, _is_method) if n[0] != "_" and n not in left_out]
            listed = chosen[0].split(", ") if chosen else methods
            found |= {f"{attribute}.{n}" for n in methods if n in listed}
    return found


def wrongs(make: Callable[[], Call]) -> Iterator[str]:
    """What goes wrong in other ways than by a word: an argument in turn is each of the strange things."""
    for name in make()[1]:
        for number, strange in enumerate(STRANGE):
            if callable(strange) and name in ("progress", "watch"):
                continue  # what a caller's own function does is his
            target, arguments = make()
            try:
                target(**{**arguments, name: strange})
            except TilewrightError as error:
                if "\n" in str(error) or not str(error):
                    yield f"{name} = {strange!r} ({number}): {str(error)!r} is not one line"
            except Exception as error:  # noqa: BLE001 - which is what is looked for
                yield f"{name} = {strange!r} ({number}): {type(error).__name__}: {error}"


def test_every_documented_function_is_tried(tmp_path: Path) -> None:
    assert documented() == set(calls(tmp_path)) | ELSEWHERE


NAMES = sorted(documented() - ELSEWHERE)


@pytest.mark.parametrize("name", NAMES)
def test_strange_arguments_are_refused_in_words(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*arguments: Any) -> None:
        raise TilewrightError("the arguments were taken")

    monkeypatch.chdir(tmp_path)  # where words that are taken for paths are written
    if name == "explore":
        monkeypatch.setattr("tilewright.dse.networks.load_networks", read)
    made = calls(tmp_path)[name]
    assert list(wrongs(made)) == []


def test_the_arguments_that_strange_ones_replace_are_right(tmp_path: Path) -> None:
    for name, make in calls(tmp_path).items():
        target, arguments = make()
        if name not in ("explore", "quantize_file", "RemoteDevice"):  # takes long, has no model here, no server
            target(**arguments)


def test_errors_are_the_same_after_pickling() -> None:
    fault = DeviceFault("sim device", "BUS", 3, "conv", "no answer")
    again = pickle.loads(pickle.dumps(fault))
    assert (type(again), str(again), again.code, again.layer) == (DeviceFault, str(fault), "BUS", "conv")


def test_bytes_of_a_segment_are_bytes() -> None:
    device, program = SimDevice(TINY), make_program()
    allocation = device.allocate(program, 1)
    for data in (np.full(8, 300), np.zeros(8, np.int8), [1], np.zeros((), np.uint8)):
        with pytest.raises(DeviceError, match="^data: must be an array of uint8"):
            device.write(allocation, 1, 0, 0, data)  # type: ignore[arg-type]
