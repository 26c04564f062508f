"""``tilewright config``, ``asm``, ``disasm``, ``verify``: output, exit codes, and nothing left behind by errors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.isa.rules.races import gemm_onto_acc_being_filled
from tests.isa.test_assembler import LEGAL
from tilewright.cli.app import main
from tilewright.config import PRESETS, Config
from tilewright.isa.container import dump
from tilewright.isa.program import Program
from tilewright.isa.spec import instruction_width

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "copy.s"
    path.write_text(LEGAL)
    return path


def _error(capsys: Captured, arguments: list[str]) -> str:
    """The error line of a command that must fail with exit code 2."""
    capsys.readouterr()
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("tilewright: ")
    return captured.err.removeprefix("tilewright: ").strip()


def test_config_list_names_every_preset(capsys: Captured) -> None:
    assert main(["config", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "preset"
    assert [line.split()[0] for line in lines[1:]] == list(PRESETS)
    assert "1x16x16" in lines[1]
    assert all(line == line.rstrip() for line in lines)


def test_config_show_is_toml_that_loads(capsys: Captured, tmp_path: Path) -> None:
    assert main(["config", "show", "kv260"]) == 0
    text = capsys.readouterr().out
    assert Config.from_toml(text) == PRESETS["kv260"]
    assert PRESETS["kv260"].fingerprint in text
    (tmp_path / "mine.toml").write_text(text.replace("dram_latency = 64", "dram_latency = 99"))
    assert main(["config", "show", str(tmp_path / "mine.toml")]) == 0
    assert "dram_latency = 99" in capsys.readouterr().out


def test_config_show_of_nothing_known(capsys: Captured, tmp_path: Path) -> None:
    assert _error(capsys, ["config", "show", "pynq"]).startswith(
        "pynq: no such preset or .toml file; did you mean pynq-z2? The"
    )
    (tmp_path / "bad.toml").write_text("block_in = 17")
    message = _error(capsys, ["config", "show", str(tmp_path / "bad.toml")])
    assert message == f"{tmp_path}/bad.toml: block_in = 17: must be a power of two from 4 to 64"


def test_asm_verify_disasm_round_trip(capsys: Captured, source: Path, tmp_path: Path) -> None:
    program, text = tmp_path / "copy.twp", tmp_path / "again.s"
    assert main(["asm", str(source), "-o", str(program)]) == 0
    assert "2 instructions, 4 segments, config mine" in capsys.readouterr().out
    assert main(["verify", str(source)]) == 0
    assert capsys.readouterr().out.startswith(f"{source}: legal: 2 instructions")
    assert main(["verify", str(program)]) == 0
    assert capsys.readouterr().out.startswith(f"{program}: legal: 2 instructions")
    assert main(["disasm", str(program), "-o", str(text)]) == 0
    assert main(["disasm", str(program)]) == 0
    assert capsys.readouterr().out == text.read_text()
    again = tmp_path / "again.twp"
    assert main(["asm", str(text), "-o", str(again)]) == 0
    assert again.read_bytes() == program.read_bytes()


def test_verify_names_file_instruction_and_rule(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "race.twp"
    path.write_bytes(dump(gemm_onto_acc_being_filled(False)))
    message = _error(capsys, ["verify", str(path)])
    assert message.startswith(f"{path}: instruction 10 (GEMM on gemm): race-waw: writes acc unit 20")


def test_undecodable_program_cannot_be_shown(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "odd.twp"
    size = instruction_width(PRESETS["tiny"]) // 8
    path.write_bytes(dump(Program(PRESETS["tiny"], bytes(size - 1) + b"\x80", ())))
    assert _error(capsys, ["disasm", str(path)]).startswith(f"{path}: instruction 0 (LOAD): bits set above its fields")


def test_errors_leave_no_output(capsys: Captured, source: Path, tmp_path: Path) -> None:
    before = sorted(os.listdir(tmp_path))
    source.write_text(LEGAL + "fly\n")
    message = _error(capsys, ["asm", str(source), "-o", str(tmp_path / "copy.twp")])
    assert message.startswith(f"{source}:{LEGAL.count(chr(10)) + 1}: 'fly': expected an instruction")
    source.write_bytes(b"\xff\xfe")
    assert "not UTF-8 text at byte 0" in _error(capsys, ["asm", str(source), "-o", str(tmp_path / "copy.twp")])
    source.write_text(LEGAL)
    assert "cannot be written" in _error(capsys, ["asm", str(source), "-o", str(tmp_path / "gone" / "copy.twp")])
    assert sorted(os.listdir(tmp_path)) == before


def test_missing_and_corrupt_files(capsys: Captured, source: Path, tmp_path: Path) -> None:
    other = source.with_name("copy.txt")
    other.write_text(LEGAL)
    for command in ("verify", "disasm"):
        assert "gone.twp: cannot be read: " in _error(capsys, [command, str(tmp_path / "gone.twp")])
        assert "not a Tilewright program" in _error(capsys, [command, str(other)])
    assert "gone.s: cannot be read: " in _error(capsys, ["asm", str(tmp_path / "gone.s"), "-o", "x.twp"])
    path = tmp_path / "short.twp"
    path.write_bytes(dump(gemm_onto_acc_being_filled(True))[:-1])
    assert "truncated" in _error(capsys, ["verify", str(path)])
    assert "-o" in _error(capsys, ["asm", str(source)])


@pytest.mark.parametrize(
    "command", [["config", "list"], ["config", "show"], ["asm"], ["disasm"], ["verify"]], ids=" ".join
)
def test_help_has_an_example(capsys: Captured, command: list[str]) -> None:
    assert main([*command, "--help"]) == 0
    assert f"Example: tilewright {' '.join(command)}" in " ".join(capsys.readouterr().out.split())
