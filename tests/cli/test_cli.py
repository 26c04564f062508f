"""The command line: what it prints and writes, and one line with exit code 2 for everything that is wrong."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tests.cli.shell import Shell
from tests.conftest import REPOSITORY, ModelCase
from tests.fuzz import TfliteNet
from tests.fuzz.flatbuffer import StoredOperator, StoredTensor, write_tflite
from tests.runtime.network import SHAPE, images, make_artifact, reference
from tilewright import checking, compiling, terminal
from tilewright.config import PRESETS
from tilewright.files import FileError
from tilewright.runtime.report.report import Report
from tilewright.runtime.steps import TensorSpec


def test_run_writes_everything_that_is_asked_for(shell: Shell, toy: Path) -> None:
    x = images(3)
    np.save("x.npy", x)
    code = shell(
        "run", toy, "--config", "tiny", "--input", "x.npy", "--output", "y.npy", "--report", "r.json", "--trace",
        "t.json", "--html", "r.html", "--keep-intermediates", "d",
    )  # fmt: skip
    assert code == 0, shell.err
    assert np.array_equal(np.load("y.npy"), reference(x)[1].reshape(3, 32))
    report = json.loads(Path("r.json").read_text())
    assert report["inferences"] == 3
    assert json.loads(Path("t.json").read_text())["traceEvents"]
    assert Path("r.html").read_text().startswith("<!doctype html>")
    assert sorted(p.name for p in Path("d").iterdir()) == ["000_op000_conv_2d.npy", "index.json"]
    assert f"{report['cycles']:,}" in shell.out
    assert shell.err == ""


def test_a_compiled_artifact_runs_without_its_model(shell: Shell, toy: Path) -> None:
    assert shell("compile", toy, "--config", "tiny", "-o", "a.twa") == 0
    assert "a.twa: toy for tiny, 13 instructions" in shell.out
    toy.unlink()
    assert shell("run", "a.twa", "--inputs", 2, "--seed", 5, "--output", "y.npy") == 0
    assert shell("run", "a.twa", "--inputs", 2, "--seed", 5, "--output", "z.npy", "--config", "tiny") == 0
    assert np.load("y.npy").shape == (2, 32)
    assert np.array_equal(np.load("y.npy"), np.load("z.npy"))
    assert shell("inspect", "a.twa") == 0
    for text in ("input   x: int8[1, 2, 4, 4]", "conv", "segment 1 x: input", "pack x", "no arithmetic"):
        assert text in shell.out


def test_check_reports_differences_with_exit_code_1(shell: Shell, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = np.zeros((2, 32), np.int8)

    def outputs(model: Path, inputs: Any, progress: Any, *, stream: bool) -> list[Any]:
        exact = reference(inputs[0])[1].reshape(2, 32)
        return [exact + wrong]

    monkeypatch.setattr(checking, "reference_outputs", outputs)
    arguments = ("run", toy, "--config", "tiny", "--inputs", 2, "--check", "--output", "y.npy")
    assert shell(*arguments) == 0
    assert "all 64 elements of 2 outputs equal the reference" in shell.out
    wrong[1, 3:5] = [1, -2]
    assert shell(*arguments) == 1
    assert "2 of 64 elements in 1 of 2 outputs differ from the reference, by at most 2 LSB" in shell.out

    # an artifact knows its model by name and content
    assert shell("compile", toy, "--config", "tiny", "-o", "toy.twa") == 0
    check = ("run", "toy.twa", "--inputs", 2, "--check")
    assert shell(*check) == 1
    wrong[:] = 0
    assert shell(*check) == 0
    toy.rename("moved.tflite")
    assert "toy.tflite is not beside it; name it by --reference" in shell.fails(*check)
    assert shell(*check, "--reference", "moved.tflite") == 0
    toy.write_bytes(b"TFL3 another")
    assert "toy.tflite: is not the model that toy.twa was compiled from" in shell.fails(*check)
    assert "--reference: names the model of an artifact" in shell.fails("run", toy, "--check", "--reference", toy)


def test_bad_inputs_are_one_line_each(shell: Shell, artifact: Path) -> None:
    good = images(2)
    np.save("shape.npy", good[:, :, :, :3])
    np.save("dtype.npy", good.astype(np.float32))
    np.save("empty.npy", good[:0])
    Path("text.npy").write_text("1 2 3")
    np.save("good.npy", good)
    whole = Path("good.npy").read_bytes()
    Path("cut.npy").write_bytes(whole[:-7])
    Path("head.npy").write_bytes(whole[:20])
    np.save("objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    Path("pickle.npy").write_bytes(pickle.dumps(good))
    for name, text in {
        "shape": "shape.npy: input x: shape (2, 2, 4, 3), the model takes (N, 2, 4, 4)",
        "dtype": "dtype.npy: input x: dtype float32, the model takes int8",
        "empty": "empty.npy: input x: holds no inputs",
        "text": "text.npy: not a .npy file",
        "cut": "cut.npy: corrupt NumPy file",
        "head": "head.npy: corrupt NumPy file",
        "objects": "objects.npy: holds Python objects, not numbers",
        "pickle": "pickle.npy: not a .npy file",
        "none": "none.npy: cannot be read: no such file",
    }.items():
        assert text in shell.fails("run", artifact, "--input", f"{name}.npy", "--output", "y.npy")


def test_npz_inputs_go_by_name(shell: Shell, artifact: Path) -> None:
    np.savez("good.npz", x=images(2), other=np.zeros(3))
    assert shell("run", artifact, "--input", "good.npz", "--output", "y.npy") == 0
    assert np.array_equal(np.load("y.npy"), reference(images(2))[1].reshape(2, 32))
    np.savez("bad.npz", z=images(2))
    assert "bad.npz: holds z, but no input x" in shell.fails("run", artifact, "--input", "bad.npz")
    Path("text.npz").write_text("PK nothing")
    assert "text.npz: not a .npz file" in shell.fails("run", artifact, "--input", "text.npz")
    Path("cut.npz").write_bytes(Path("good.npz").read_bytes()[:100])
    assert "cut.npz: corrupt NumPy file" in shell.fails("run", artifact, "--input", "cut.npz")


def test_several_outputs_go_by_name(shell: Shell) -> None:
    """In a ``.npz`` whatever they are called, even twice; else the file of each is named."""
    outputs, names = (
        (TensorSpec("y", (1, 32)), TensorSpec("s", SHAPE), TensorSpec("y", (1, 32))),
        ("file", "a\tb", "file"),
    )
    made = make_artifact(outputs=outputs, output_names=names)
    made.save(shell.folder / "two.twa")
    np.save("x.npy", images(2))
    y = reference(images(2))[1]
    wanted = {"file": y.reshape(2, 32), "a\\tb": y.reshape(2, *SHAPE[1:]), "file:1": y.reshape(2, 32)}
    assert shell("run", "two.twa", "--input", "x.npy", "--output", "y.npz") == 0
    with np.load("y.npz", allow_pickle=False) as found:
        assert found.files == list(wanted)
        assert all(np.array_equal(found[name], value) for name, value in wanted.items())
    assert "y.npz" not in shell.out
    assert shell("run", "two.twa", "--input", "x.npy", "--output", "y.npy") == 0
    said = [line.split(maxsplit=1)[1] for line in shell.out.splitlines() if line.startswith("  output")]
    assert said == ["y.0.npy: file", "y.1.npy: a\tb", "y.2.npy: file"]
    for number, value in enumerate(wanted.values()):
        assert np.array_equal(np.load(f"y.{number}.npy"), value)


def test_bad_artifacts_are_one_line_each(shell: Shell, artifact: Path) -> None:
    data = artifact.read_bytes()
    Path("cut.twa").write_bytes(data[:-1])
    Path("bad.twa").write_bytes(data[:-1] + b"?")
    Path("text.twa").write_text("hello")
    assert "cut.twa: truncated" in shell.fails("run", "cut.twa")
    assert "bad.twa: corrupt: the checksum does not match" in shell.fails("run", "bad.twa")
    assert "text.twa: not a Tilewright artifact" in shell.fails("run", "text.twa")
    assert "cut.twa: truncated" in shell.fails("inspect", "cut.twa")
    line = shell.fails("run", artifact, "--config", "pynq-z2", "--output", "y.npy")
    assert "toy: compiled for config tiny, but the requested config is pynq-z2 (block_in: 4 != 16;" in line
    assert "--check needs the model, and toy is not beside it" in shell.fails("run", artifact, "--check")
    assert "compiled without intermediates" in shell.fails("run", artifact, "--keep-intermediates", "d")


def test_the_rows_of_a_stream_are_successive_steps(shell: Shell, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    net = TfliteNet(seed=8)
    net.save(tmp_path / "m.tflite", [net.lstm(net.input((1, 3, 6), scale=1 / 64), 5)])
    x = np.random.default_rng(0).integers(-128, 128, (4, 3, 6)).astype(np.int8)
    np.save(tmp_path / "x.npy", x)
    common = ("--input", tmp_path / "x.npy", "--config", "tiny", "--no-cache", "--check")
    for name, options in (("fresh", ()), ("stream", ("--stream",))):
        assert shell("run", tmp_path / "m.tflite", *common, "--output", tmp_path / f"{name}.npy", *options) == 0
        assert "equal the reference" in shell.out
    fresh, stream = (np.load(tmp_path / f"{name}.npy") for name in ("fresh", "stream"))
    np.testing.assert_array_equal(fresh[0], stream[0])
    assert (fresh[1:] != stream[1:]).any()
    error = shell.fails("run", tmp_path / "m.tflite", "--stream", "--jobs", "2")
    assert "--jobs: the inferences of a stream wait for each other" in error


def test_a_stream_of_a_network_without_states_says_so(shell: Shell, toy: Path) -> None:
    assert shell("run", toy, "--config", "tiny", "--stream", "--inputs", "2") == 0
    assert "keeps no state" in shell.out


@pytest.mark.parametrize("option", ["--output", "--report", "--trace", "--html", "--keep-intermediates"])
def test_outputs_that_cannot_be_written_are_found_before_the_run(
    shell: Shell, toy: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("compiled although the output cannot be written")

    monkeypatch.setattr(compiling, "compile_artifact", never)
    Path("file").write_text("")
    assert "file/y: cannot be written" in shell.fails("run", toy, option, "file/y")
    if option != "--keep-intermediates":
        assert "there is no directory missing; create it first" in shell.fails("run", toy, option, "missing/y")
        assert f"{shell.folder}: cannot be written: is a directory" in shell.fails("run", toy, option, shell.folder)
    assert "there is no directory missing" in shell.fails("compile", toy, "-o", "missing/a.twa")
    if os.geteuid() != 0:
        Path("locked").mkdir(mode=0o500)
        assert "locked/y: cannot be written: permission denied" in shell.fails("run", toy, option, "locked/y")


def test_a_disk_that_is_full_at_the_last_output_leaves_none(
    shell: Shell, artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Any, path: Path) -> None:
        raise FileError(f"{path}: cannot be written: no space left on device")

    monkeypatch.setattr(Report, "save_html", full)
    before = sorted(os.listdir())
    outputs = ("--output", "y.npy", "--report", "r.json", "--trace", "t.json", "--html", "r.html")
    assert "r.html: cannot be written: no space left on device" in shell.fails("run", artifact, *outputs)
    assert sorted(os.listdir()) == before


def test_names_that_do_not_exist_are_one_line_each(shell: Shell, toy: Path, artifact: Path) -> None:
    assert "none.tflite: cannot be read: no such file" in shell.fails("run", "none.tflite")
    assert "none.tflite: cannot be read" in shell.fails("inspect", "none.tflite")
    assert "pynq-z9: no such preset or .toml file; did you mean pynq-z2? The" in shell.fails(
        "run", toy, "--config", "pynq-z9"
    )
    assert "x.toml: cannot be read" in shell.fails("compile", toy, "--config", "x.toml", "-o", "a.twa")
    assert "device gpu: no such device; available: " in shell.fails("run", toy, "--device", "gpu")
    assert "device gpu: no such device" in shell.fails("run", artifact, "--device", "gpu")
    assert "pynq device: no overlay is given; name a .bit file" in shell.fails("run", toy, "--device", "pynq")
    assert "No such command 'dance'; tilewright --help lists the commands" in shell.fails("dance")
    assert "No such command 'lst'" in (line := shell.fails("config", "lst"))
    assert line.endswith("; tilewright config --help lists the commands\n")
    assert "No such option" in (line := shell.fails("run", toy, "--sped"))
    assert line.endswith("; tilewright run --help shows how it is used\n")
    assert "Missing argument" in shell.fails("run")
    assert "Missing option '--output' / '-o'; tilewright compile --help" in shell.fails("compile", toy)
    assert "--inputs" in shell.fails("run", toy, "--inputs", 0)
    assert "unknown model 'alexnet'" in shell.fails("models", "fetch", "alexnet")


def test_a_config_file_is_read(shell: Shell, toy: Path) -> None:
    Path("mine.toml").write_text(PRESETS["tiny"].replace(name="mine", dram_latency=20).to_toml())
    assert shell("run", toy, "--config", "mine.toml") == 0
    assert "toy on mine" in shell.out
    Path("bad.toml").write_text("block_in = 5")
    assert "bad.toml: block_in = 5: must be a power of two" in shell.fails("run", toy, "--config", "bad.toml")
    Path("bad.toml").write_text("blok_in = 8")
    line = shell.fails("config", "show", "bad.toml")
    assert "bad.toml: blok_in: no such parameter; did you mean block_in? The parameters are " in line
    Path("folder.toml").mkdir()
    assert "folder.toml: cannot be read: is a directory" in shell.fails("run", toy, "--config", "folder.toml")
    for command in (["run"], ["inspect"], ["compile", "-o", "a.twa"]):
        assert "folder.toml: is a folder; give the model file in it" in shell.fails(*command, "folder.toml")


def test_every_command_has_help_with_an_example(shell: Shell) -> None:
    for command in (["run"], ["compile"], ["inspect"], ["models", "list"], ["models", "fetch"]):
        assert shell(*command, "--help") == 0
        assert f"Example: tilewright {' '.join(command)}" in shell.out
    for group in ([], ["config"], ["models"], ["hw"]):
        assert shell(*group) == 0
        assert "Commands:" in shell.out
        assert "..." not in shell.out.partition("Commands:")[2]  # no line is cut off at 80 columns
    assert shell("--version") == 0
    assert shell.out.startswith("tilewright 0.")
    assert shell("models", "list") == 0
    assert "resnet8_cifar10" in shell.out


def test_it_runs_as_a_module_and_an_error_shows_no_traceback(shell: Shell) -> None:
    command = [sys.executable, "-m", "tilewright", "run", "none.tflite"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tilewright: none.tflite: cannot be read: no such file or directory\n"


def test_progress_is_silent_for_short_work_and_says_lines_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(terminal, "QUIET_SECONDS", 2.0)
    monkeypatch.setattr(terminal.time, "monotonic", lambda: clock[0])
    stream = io.StringIO()
    with terminal.ProgressReporter(Console(file=stream, width=80)) as reporter:
        for second in range(12):
            clock[0] = float(second)
            reporter.update("running", second, 12)
    assert stream.getvalue() == "running 5/12\nrunning 10/12\n"
    screen = io.StringIO()
    with terminal.ProgressReporter(Console(file=screen, width=80, force_terminal=True)) as reporter:
        reporter.update("running", 3, 12)
    assert "running" in screen.getvalue()
    assert "3/12" in screen.getvalue()


def test_check_uses_the_reference_interpreter(shell: Shell, model_case: Callable[[str], ModelCase]) -> None:
    pytest.importorskip("ai_edge_litert")
    case = model_case("autoencoder_toycar")
    seen: list[int] = []
    (outputs,) = checking.reference_outputs(case.model, [case.x[:3]], seen.append)
    assert np.array_equal(outputs, case.y[:3])
    assert seen == [1, 1, 1]


def test_broken_models_are_one_line_each(shell: Shell, shared_models: Path) -> None:
    pytest.importorskip("tvm")
    whole = (shared_models / "dscnn_keywords.tflite").read_bytes()
    Path("cut.tflite").write_bytes(whole[: len(whole) // 2])
    Path("head.tflite").write_bytes(whole[:10])
    Path("text.tflite").write_text("hello")
    Path("text.onnx").write_text("hello")
    Path("model.xyz").write_bytes(whole)
    Path("empty.tflite").write_bytes(b"")
    for name in ("cut.tflite", "head.tflite", "text.tflite", "text.onnx", "model.xyz", "empty.tflite"):
        assert name in shell.fails("run", name, "--output", "y.npy")
        assert name in shell.fails("compile", name, "-o", "a.twa")


def test_float_and_unsupported_models_are_one_line_each(shell: Shell) -> None:
    pytest.importorskip("tvm")
    onnx = pytest.importorskip("onnx")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    for name, operator in (("float", "Relu"), ("strange", "Erf")):
        graph = helper.make_graph(
            [helper.make_node(operator, ["x"], ["y"])], name,
            [helper.make_tensor_value_info("x", floats, [1, 4])], [helper.make_tensor_value_info("y", floats, [1, 4])],
        )  # fmt: skip
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), f"{name}.onnx")
        assert f"{name}.onnx" in shell.fails("run", f"{name}.onnx", "--output", "y.npy")


def test_random_indices_are_drawn_from_their_table(shell: Shell, tmp_path: Path) -> None:
    """Of an embedding: other numbers of int32 are beyond it."""
    pytest.importorskip("ai_edge_litert")
    tensors = [
        StoredTensor("words", (1, 4), "int32"),
        StoredTensor("table", (7, 8), "int8", np.array([0.1]), np.array([0]), data=np.ones((7, 8), np.int8)),
        StoredTensor("y", (1, 4, 8), "int8", np.array([0.1]), np.array([0])),
    ]
    write_tflite(tmp_path / "m.tflite", tensors, [StoredOperator("GATHER", [1, 0], [2], "GatherOptions")], [0], [2])
    common = ("run", tmp_path / "m.tflite", "--config", "tiny", "--no-cache", "--check")
    assert shell(*common) == 0
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 7, (3, 4), np.int32))
    assert shell(*common, "--input", tmp_path / "x.npy") == 0
    np.save(tmp_path / "x.npy", np.full((3, 4), 9, np.int32))
    message = shell.fails(*common, "--input", tmp_path / "x.npy")
    assert "index out of bounds" in message
    assert "random" not in message
