"""``tilewright compare``, and the CI job of ``examples/ci``, run as a user's machine runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.runtime.network import images, make_artifact
from tilewright.cli.app import main
from tilewright.comparing import CompareError, compare
from tilewright.runtime.executable import Executable

CI = REPOSITORY / "examples" / "ci"
Reports = Callable[..., Path]


@pytest.fixture
def reports(tmp_path: Path) -> Reports:
    """Writes a report with some keys changed."""
    _, report = Executable(make_artifact()).run(images(2))
    data = report.to_dict()

    def write(name: str, **changes: Any) -> Path:
        path = tmp_path / name
        path.write_text(json.dumps({**data, **changes}))
        return path

    return write


def test_growth_of_more_than_a_percent_is_worse(reports: Reports) -> None:
    old = reports("old.json", cycles=10_000)
    assert not compare(old, reports("same.json", cycles=10_000)).faults
    assert not compare(old, reports("little.json", cycles=10_100)).faults
    assert compare(old, reports("more.json", cycles=10_101)).faults == ("cycles grew by 1.01%, more than 1 %",)
    assert not compare(old, reports("less.json", cycles=5_000)).faults
    assert not compare(old, reports("accepted.json", cycles=10_500), 5).faults


def test_other_integers_are_worse_and_other_inputs_cannot_be_compared(reports: Reports) -> None:
    old = reports("old.json")
    digests = json.loads(old.read_text())["digests"]
    assert len(digests["inputs"]) == len(digests["outputs"]) == 64
    differs = compare(old, reports("new.json", digests={**digests, "outputs": "0" * 64}))
    assert differs.faults == ("the outputs of the 2 inputs are not those of before",)
    with pytest.raises(CompareError, match="ran on other inputs"):
        compare(old, reports("other.json", digests={**digests, "inputs": "0" * 64}))


def test_digests_tell_every_integer_type_and_shape() -> None:
    from tilewright.runtime.executable import digest

    x = images(2)
    other = x.copy()
    other.flat[-1] ^= 1
    found = {digest(arrays) for arrays in ([x], [other], [x.view("u1")], [x.reshape(1, -1)], [x, x], [])}
    assert len(found) == 6
    assert digest([x]) == digest([x.copy()])


def test_layers_that_changed_are_named_most_first(reports: Reports) -> None:
    old = reports("old.json")
    data = json.loads(old.read_text())
    layers = [{**layer, "cycles": layer["cycles"] + 50 * k} for k, layer in enumerate(data["layers"])]
    layers[0]["name"] = "renamed|conv"
    changed = compare(
        old, reports("new.json", layers=layers, config_parameters={**data["config_parameters"], "batch": 2})
    )
    assert {name for name, _, _ in changed.layers()} == {"renamed|conv", "conv", "scale", "flatten"}
    changes = [abs(b - a) for _, a, b in changed.layers()]
    assert changes == sorted(changes, reverse=True)
    assert changes[-1] == 50
    assert changed.notes == ("batch was 1, and is 2",)
    page = changed.markdown()
    assert "as good" in page
    assert "| renamed conv | - |" in page


@pytest.mark.parametrize(
    "text,message",
    [("", "not a report"), ("[]", "not a report"), ("{}", "not a report"), ('{"format": 99}', "not a report"),
     ("[" * 100_000, "not a report")],
)  # fmt: skip
def test_what_is_no_report_is_named(text: str, message: str, reports: Reports, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text(text)
    for pair in ((bad, reports("good.json")), (reports("good.json"), bad)):
        with pytest.raises(CompareError, match=f"bad.json: {message}"):
            compare(*pair)


def test_reports_of_the_format_before_are_read_by_the_names_of_now(reports: Reports) -> None:
    now = json.loads(reports("new.json").read_text())
    earlier = {"lower_bound_cycles": "floor_cycles", "lower_bound_ratio": "floor_ratio", "lower_bounds": "floors"}

    def named(entry: dict[str, Any]) -> dict[str, Any]:
        return {earlier.get(key, key): value for key, value in entry.items()}

    old = reports("old.json")
    old.write_text(json.dumps({**named(now), "format": 1, "layers": [named(layer) for layer in now["layers"]]}))
    found = compare(old, reports("new.json"))
    assert not found.faults
    assert found.old == {**now, "format": 1}


def test_reports_of_other_formats_or_without_cycles_are_refused(reports: Reports) -> None:
    good = reports("good.json")
    with pytest.raises(CompareError, match="a report of format 3; this version of Tilewright compares 1, 2"):
        compare(reports("old.json", format=3), good)
    with pytest.raises(CompareError, match="cycles"):
        compare(reports("hls.json", cycles=None), good)
    with pytest.raises(CompareError, match="has no digest of outputs"):
        compare(reports("half.json", digests={"inputs": ""}), good)


def test_the_command_says_what_is_worse_and_exits_with_it(
    reports: Reports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    old, new = str(reports("old.json", cycles=100)), str(reports("new.json", cycles=150))
    for arguments, code in (
        ([old, new, "--markdown", str(page)], 1),
        ([old, new, "--most", "60"], 0),
        ([old, "no"], 2),
    ):
        monkeypatch.setattr("sys.argv", ["tilewright", "compare", *arguments])
        assert main() == code
    out = capsys.readouterr()
    assert "toy on tiny: 100 -> 150 cycles (+50.00%)" in out.out
    assert "worse: cycles grew by 50.00%, more than 1 %" in out.out
    assert "worse" in page.read_text()


def test_the_ci_job_keeps_a_baseline_passes_and_fails(tmp_path: Path) -> None:
    """The plain commands, on the digits example: a baseline, a run like it, and one against a faster baseline."""
    baseline = tmp_path / "digits.baseline.json"
    environment = {
        **os.environ, "TILEWRIGHT": f"{sys.executable} -m tilewright", "OUT": str(tmp_path / "out"),
        "PYTHONPATH": str(REPOSITORY),
    }  # fmt: skip

    def job() -> subprocess.CompletedProcess[str]:
        command = ["sh", str(CI / "check.sh"), str(REPOSITORY / "examples" / "digits" / "digits.onnx"), str(baseline)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, timeout=600)

    first = job()
    assert first.returncode == 0, first.stdout + first.stderr
    assert "commit it" in first.stdout
    second = job()
    assert second.returncode == 0, second.stdout + second.stderr
    assert "as good" in (tmp_path / "out" / "summary.md").read_text()
    kept = json.loads(baseline.read_text())
    baseline.write_text(json.dumps({**kept, "cycles": kept["cycles"] * 9 // 10}))
    third = job()
    assert third.returncode == 1, third.stdout + third.stderr
    assert "worse: cycles grew" in third.stdout


def test_the_github_job_runs_the_plain_commands() -> None:
    steps = [line.strip() for line in (CI / "tilewright.yml").read_text().splitlines()]
    assert "- run: sh check.sh model.tflite model.baseline.json" in steps
    posted = next(line for line in steps if "GITHUB_STEP_SUMMARY" in line)
    assert "cat tilewright-report/summary.md" in posted  # where check.sh leaves it
    assert "out=${OUT:-tilewright-report}" in (CI / "check.sh").read_text()
