"""The whole of ``make bitstream``, with the checking Tcl stub as Vivado and Vitis HLS."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.hw.tcl.netlist import write_netlists
from tests.hw.tcl.shells import STUB
from tilewright.config import PRESETS, Config
from tilewright.hw.boards.__main__ import main
from tilewright.hw.boards.board import BoardError, load_board
from tilewright.hw.boards.project import Source, tcl, write_project
from tilewright.hw.boards.tools import version_warning
from tilewright.runtime.pynq.manifest import read_manifest


@pytest.fixture
def tools(tclsh: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``tools(name, ..., mode=, release=)`` puts the stub on PATH under these names."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("STUB_NETLISTS", str(tmp_path / "netlists"))

    def install(*names: str, mode: str = "", release: str = "2023.2") -> None:
        for name in names:
            path = folder / name
            path.write_text(f'#!/bin/sh\nexec {tclsh} {STUB} {name} "$@"\n')
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("STUB_MODE", mode)
        monkeypatch.setenv("STUB_VERSION", release)

    return install


CLOCK = PRESETS["pynq-z2"].clock_mhz
Tools = Callable[..., None]
Captured = pytest.CaptureFixture[str]


def build(folder: Path, *options: str) -> int:
    return main(["build", "pynq-z2", "-o", str(folder), "--jobs", "1", *options])


def error_line(captured: Captured) -> str:
    return captured.readouterr().err.strip().splitlines()[-1]


@pytest.mark.parametrize("source", ["rtl", "hls"])
def test_an_overlay_is_made_with_its_manifest(
    shells: None, tools: Tools, tmp_path: Path, capsys: Captured, source: Source
) -> None:
    tools("vivado", "vitis-run" if source == "hls" else "vitis_hls")
    write_netlists(PRESETS["pynq-z2"], tmp_path / "netlists")
    folder = tmp_path / "build"
    assert build(folder, "--source", source) == 0
    overlay = folder / "overlay"
    assert sorted(path.name for path in overlay.iterdir()) == [
        "tilewright-pynq-z2.bit", "tilewright-pynq-z2.hwh", "tilewright-pynq-z2.json",
    ]  # fmt: skip
    manifest = json.loads((overlay / "tilewright-pynq-z2.json").read_text())
    config = PRESETS["pynq-z2"]
    assert Config.from_dict(manifest["config"]) == config
    assert (manifest["format"], manifest["fingerprint"]) == (1, config.fingerprint)
    for key, suffix in (("bitstream_sha256", "bit"), ("hwh_sha256", "hwh")):
        content = (overlay / f"tilewright-pynq-z2.{suffix}").read_bytes()
        assert manifest[key] == hashlib.sha256(content).hexdigest()
    assert manifest["slack_ns"] == {"setup": 0.412, "hold": 0.031, "pulse_width": 3.75}
    assert manifest["utilisation"]["BRAM"] == {"used": 118.5, "available": 140}
    assert manifest["tools"]["vivado"] == "2023.2"
    assert (manifest["ip"], manifest["interrupt"]) == ("tilewright_0", "tilewright_0/irq")
    facts = dict(line.split(maxsplit=1) for line in (tmp_path / "build" / "out" / "facts.txt").read_text().splitlines())
    assert float(facts["clock_mhz"]) == manifest["clock_mhz"] <= config.clock_mhz  # what the PS's divider makes of it
    assert (manifest["strategy"], manifest["source"]) == (facts["strategy"], source)
    assert manifest["engine_counters"] is (source == "rtl")
    assert read_manifest(overlay / "tilewright-pynq-z2.bit").config == config  # as the pynq device reads it
    assert "setup slack 0.412 ns" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("slack", f"timing is not met at {CLOCK} MHz: setup slack -0.512 ns, worst path from system_i"),
        ("report_slack", "setup slack -0.512 ns, worst path from"),
        ("no_report", "timing.rpt: the timing report is missing"),
        ("no_clock", "no constrained path for delay type max"),
        ("crash", "vivado failed (exit code 1): ERROR: [Common 17-345] A valid license was not found"),
        ("killed", "vivado failed (exit code 139): its last line is 'Abnormal program termination (11)'"),
        ("synth_1 failed", "run synth_1 ended with 'synth_design ERROR'"),
        ("impl failed", "none of the runs impl_1, impl_2, impl_3, impl_4 came to its end"),
        ("no_bit", "0 files match"),
    ],
)  # fmt: skip
def test_a_failed_build_is_told_and_leaves_no_overlay(
    shells: None, tools: Tools, tmp_path: Path, capsys: Captured, mode: str, message: str
) -> None:
    folder = tmp_path / "build"
    tools("vivado")
    assert build(folder) == 0
    tools("vivado", mode=mode)
    assert build(folder) == 2
    line = error_line(capsys)
    assert line.startswith("tilewright: ")
    assert message in line
    assert not (folder / "overlay").exists()


def test_another_release_of_vivado_is_warned_of(shells: None, tools: Tools, tmp_path: Path, capsys: Captured) -> None:
    tools("vivado", release="2019.1")
    assert build(tmp_path / "build") == 0
    assert "warning: Vivado 2019.1: the scripts are written for 2022.2 to 2024.2" in capsys.readouterr().err
    assert [version_warning(release) for release in ("2022.2", "2023.1", "2024.2")] == [None] * 3
    assert version_warning("2024.10") is not None


def test_without_the_tools_the_message_says_what_to_install(
    shells: None, tools: Tools, tmp_path: Path, capsys: Captured
) -> None:
    assert build(tmp_path / "build") == 2
    assert "vivado is not on PATH: a bitstream needs AMD Vivado 2022.2 to 2024.2" in error_line(capsys)
    tools("vivado")
    assert build(tmp_path / "build", "--source", "hls") == 2
    assert "neither vitis-run nor vitis_hls is on PATH" in error_line(capsys)
    assert not (tmp_path / "build").exists()


def test_hls_failures_are_told(shells: None, tools: Tools, tmp_path: Path, capsys: Captured) -> None:
    write_netlists(PRESETS["pynq-z2"], tmp_path / "netlists")
    for mode, message in (
        ("hls_crash", "vitis_hls failed (exit code 1): ERROR: [HLS 200-70] Synthesizability check failed"),
        ("no_netlist", "Vitis HLS has not synthesised the kernel dispatch"),
    ):
        tools("vivado", "vitis_hls", mode=mode)
        assert build(tmp_path / "build", "--source", "hls") == 2
        assert message in error_line(capsys)


@pytest.mark.parametrize("source", ["rtl", "hls"])
def test_a_project_is_carried_to_another_machine(
    tclsh: str, shells: None, tools: Tools, tmp_path: Path, capsys: Captured, source: Source
) -> None:
    there = tmp_path / "there"
    write_netlists(PRESETS["pynq-z2"], tmp_path / "netlists")
    assert build(tmp_path / "here", "--source", source, "--project-only") == 0
    shutil.move(tmp_path / "here", there)
    tools("vivado", "vitis_hls")
    path = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    done = subprocess.run(["/bin/sh", "build.sh"], cwd=there, env={**os.environ, "PATH": path}, capture_output=True)
    assert done.returncode == 0, done.stdout
    assert main(["package", str(there)]) == 0
    assert (there / "overlay" / "tilewright-pynq-z2.json").exists()
    assert str(there / "overlay") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "de10"], "board 'de10' is not known; the boards are kv260, pynq-z1, pynq-z2, ultra96, zcu104"),
        (["build", "pynq-z2", "--config", "nothing"], "nothing: no such preset or .toml file"),
        (["package", "/nonexistent"], "not a build folder"),
    ],
)
def test_wrong_arguments(arguments: list[str], message: str, capsys: Captured) -> None:
    assert main(arguments) == 2
    assert message in error_line(capsys)


def test_a_clock_that_the_board_cannot_give_is_refused(tmp_path: Path) -> None:
    config = PRESETS["pynq-z2"].replace(clock_mhz=300)
    with pytest.raises(BoardError, match="clock_mhz = 300: the PS of PYNQ-Z2 gives the PL at most 250 MHz"):
        write_project(load_board("pynq-z2"), config, "rtl", tmp_path)


def test_make_passes_its_variables_on() -> None:
    done = subprocess.run(
        ["make", "-n", "bitstream", "BOARD=zcu104", "SOURCE=hls", "CONFIG=my.toml", "PROJECT_ONLY=1"],
        cwd=REPOSITORY, text=True, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    command = " ".join(done.stdout.replace("\\\n", " ").split())
    assert "-m tilewright.hw.boards build zcu104 --source hls --config my.toml --project-only" in command


def test_values_for_tcl() -> None:
    assert tcl({"a": "1 2", "b": ["x", "y"]}) == "{{a} {1 2} {b} {{x} {y}}}"
    with pytest.raises(BoardError, match="cannot be passed"):
        tcl("a}")
