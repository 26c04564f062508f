"""``tilewright sim`` and the assembler's ``--tokens``: values, pages, and errors with file, line, segment and shape."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tilewright.cli.app import main
from tilewright.isa.builder import Builder
from tilewright.isa.container import dump
from tilewright.isa.disassembler import disassemble
from tilewright.isa.program import Program

Captured = pytest.CaptureFixture[str]


def halves() -> Program:
    """y = x / 2, rounded up, of 4 x 16 int8."""
    b = Builder("tiny", name="halves")
    x, y = b.input("x", [4, 16]), b.output("y", [4, 16])
    a, s, prm = b.act(16), b.acc(16), b.prm(1)
    b.load(prm, np.tile(np.array([0, 1, 0, 1]), (1, 4, 1)))
    b.layer("in")
    b.load(s, x)
    b.layer("out")
    b.requantize(dst=a, src=s, prm=prm)
    b.store(a, y)
    return b.program()


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "halves.s"
    path.write_text(disassemble(halves()))
    return path


def fail(capsys: Captured, arguments: list[str]) -> list[str]:
    """The lines that a command ends with, which must fail with exit code 2 and print nothing else."""
    capsys.readouterr()
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


@pytest.mark.parametrize("form", ["s", "twp"])
def test_values_report_trace_and_page(form: str, text: Path, tmp_path: Path, capsys: Captured) -> None:
    program = text
    if form == "twp":
        program = tmp_path / "halves.twp"
        program.write_bytes(dump(halves()))
    x = np.arange(-32, 32, dtype=np.int8).reshape(4, 16)
    np.save(tmp_path / "x.npy", x)
    files = {kind: tmp_path / f"r.{kind}" for kind in ("html", "json", "trace")}
    arguments = ["--html", str(files["html"]), "--report", str(files["json"]), "--trace", str(files["trace"])]
    sides = ["--input", f"x={tmp_path}/x.npy", "--output", f"y={tmp_path}/y.npy"]
    assert main(["sim", str(program), *sides, *arguments]) == 0
    printed = capsys.readouterr().out
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), (x.astype(int) + 1) >> 1)
    report = json.loads(files["json"].read_text())
    assert f"cycles  {report['cycles']:,} (" in printed
    assert f"output  {tmp_path}/y.npy: y" in printed
    assert [layer["name"] for layer in report["layers"]] == ["in", "out"]
    assert sum(layer["cycles"] for layer in report["layers"]) == report["cycles"]
    assert report["lower_bounds"]["alu"] == 16
    assert report["lower_bounds"]["write"] == 64 // 4
    page = files["html"].read_text()
    assert 'id="timeline"' in page
    assert '"layers":["in","out"]' in page
    names = {event["name"] for event in json.loads(files["trace"].read_text())["traceEvents"]}
    assert {"in", "out"} <= names


def test_inputs_that_are_not_given_are_random_and_it_says_so(text: Path, tmp_path: Path, capsys: Captured) -> None:
    outputs = []
    for name in ("a.npy", "b.npy"):
        assert main(["sim", str(text), "--output", f"y={tmp_path / name}"]) == 0
        assert "input  x (input, int8 4x16): random numbers" in capsys.readouterr().out
        outputs.append(np.load(tmp_path / name))
    np.testing.assert_array_equal(*outputs)
    assert len(np.unique(outputs[0])) > 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "x.npy"], "--input x.npy: must be NAME=FILE.npy; {text} has x (input, int8 4x16)"),
        (["--input", "y=x.npy"], "--input y=x.npy: {text} has no such segment; it has x (input, int8 4x16)"),
        (["--input", "x=x.npy", "--input", "x=x.npy"], "--input x=x.npy: x was given before; leave one of them out"),
        (["--output", "x=y.npy"], "--output x=y.npy: {text} has no such segment; it has y (output, int8 4x16)"),
        (["--input", "x=x.npy"], "x.npy: x (input, int8 4x16): int16 64 was given; convert or reshape it, or declare"),
        (["--input", "x=gone.npy"], "gone.npy: cannot be read"),
        (["--output", "y=gone/y.npy"], "gone/y.npy: cannot be written: there is no directory gone"),
        (["--input", "x=x.npy", "--output", "y=x.npy"], "x.npy: cannot be written: is the input itself"),
        (["--output", "y=y.npy", "--html", "y.npy"], "y.npy: both --output and --html would be written there"),
    ],
)
def test_arguments_that_do_not_fit(
    arguments: list[str], message: str, text: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros(64, np.int16))
    before = sorted(tmp_path.iterdir())
    (line,) = fail(capsys, ["sim", str(text), *arguments])
    assert line.startswith("tilewright: " + message.format(text=text))
    assert sorted(tmp_path.iterdir()) == before


def test_every_broken_rule_has_file_line_and_way_out(text: Path, capsys: Captured) -> None:
    lines = text.read_text().splitlines()
    where = next(n for n, line in enumerate(lines) if line.startswith("store"))
    lines[where] = lines[where].replace("pop(alu)", "").replace("cols=16", "cols=17")
    text.write_text("\n".join(lines))
    for command in ("sim", "verify"):
        *details, last = fail(capsys, [command, str(text)])
        assert last == f"tilewright: {text}: breaks 2 rules"
        assert details[1].startswith(f"{text}:{where + 1}: instruction ")
        assert "extent: reaches beat 16 of segment 2 (y), which has 16 beats; make the segment larger" in details[1]
        assert "token-leftover: its token from alu to store is never popped" in details[0]


def test_declared_shapes_that_do_not_fit(text: Path, capsys: Captured) -> None:
    plain = text.read_text()
    for old, new, message in (
        ("[4, 16]}, ", "[4, 17]}, ", "meta tensors: x: 68 bytes exceed the segment's 64; make it larger"),
        (
            '"int8", "shape": [4, 16]}, ',
            '"int7", "shape": [4, 16]}, ',
            "meta tensors: x: dtype: 'int7' is none of int8",
        ),
        ('{"x": ', '{"q": ', "meta tensors: 'q' is no segment; they are x, y"),
    ):
        assert old in plain
        text.write_text(plain.replace(old, new))
        (line,) = fail(capsys, ["sim", str(text)])
        assert line.startswith("tilewright: " + message)


def test_a_program_without_shapes_holds_bytes(text: Path, tmp_path: Path) -> None:
    lines = [line for line in text.read_text().splitlines() if not line.startswith(".meta")]
    text.write_text("\n".join(lines))
    np.save(tmp_path / "x.npy", np.full(64, 8, np.int8))
    assert main(["sim", str(text), "--input", f"x={tmp_path}/x.npy", "--output", f"y={tmp_path}/y.npy"]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.full(64, 4, np.int8))


def test_asm_places_tokens(text: Path, tmp_path: Path, capsys: Captured) -> None:
    words = [
        line if line.startswith(".meta") else " ".join(w for w in line.split() if not w.startswith(("pop(", "push(")))
        for line in text.read_text().splitlines()
    ]
    text.write_text("\n".join(words))
    assert len(fail(capsys, ["verify", str(text)])) > 1
    program = tmp_path / "placed.twp"
    assert main(["asm", str(text), "--tokens", "-o", str(program)]) == 0
    assert program.read_bytes() == dump(halves())
    text.write_text("\n".join(word for word in words if not word.startswith("load acc8")))
    (line,) = fail(capsys, ["asm", str(text), "--tokens", "-o", str(tmp_path / "no.twp")])
    assert line.startswith(f"tilewright: {text}:")
    assert line.endswith("which nothing wrote before; load or compute it before")
