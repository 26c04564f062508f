"""Command lines that nobody would type: every command with its options as Typer and argparse have them, values from
lists of what breaks programs, files that are good, damaged, devices, pipes, links and folders.

``python -m tests.campaigns.command_lines [--minutes M] [--seed S]``. Each line runs in a fork of this process and must
end within a minute with a documented exit code; an error is one printable line of bounded length, leaves nothing behind
and no file changed that is not named as an output. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import gc
import hashlib
import importlib
import io
import os
import random
import re
import shlex
import shutil
import signal
import stat
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from tests.campaigns.command_files import make_files
from tests.conftest import own_cache
from tilewright import pipes
from tilewright.cli import app as cli
from tilewright.cli.paths import FOLDER, READ, WRITTEN, Use, uses
from tilewright.printable import LONGEST_LINE
from tilewright.runtime import serve

HANG_SECONDS = 60
_SELDOM = {"models list", "config list"}  #: dear, or nothing to get wrong
SERVED_SECONDS = 1.0  #: after which a server is interrupted
#: commands that work as long as they are asked to: for those the end is no find, if they are at work
LONG = {
    "explore",
    "hw verilog",
    "quantize",
    "run",
    "inspect",
    "compile",
    "selftest",
}
JUDGES = {"run", "compare", "hw verilog", "selftest"}  #: 1 is a verdict

PRELOADED = (
    "tilewright.compiling", "tilewright.exploring", "tilewright.dse.search", "tilewright.dse.report", "optuna",
    "tilewright.dse.workers", "tilewright.jit.network", "tilewright.jit.source.onnx.source", "sqlalchemy", "numba",
    "tilewright.jit.source.tflite.source", "tilewright.jit.place.settle", "tilewright.runtime.sim_device", "onnx",
    "tilewright.runtime.selftest.command", "tests.fuzz.readers.formats", "onnxruntime", "matplotlib.pyplot",
    "tilewright.quantize.onnx_runtime", "tilewright.hw.verilog", "ai_edge_litert.interpreter", "tilewright.quantize",
)  # fmt: skip
NUMBERS = ["0", "1", "2", "-1", "3.5", "1e308", "nan", "inf", "-inf", "1e-300", "99999999999999999999", "\u0663", "1_0",
           "0x10", " 1", "", "a", "1e3", "+1", "4"]  # fmt: skip
TEXTS = ["", " ", "a", "-", "--", "\x1b[31m", "\u202e", "\udcff", "x" * 5000, "a=b", "=", "[/red]",
         "{0}", "%s", "random", "all", "tiny", "pynq-z2", "ultra96", "1:2", "2:1", "0:1", "a\nb", "~", "$HOME",
         "NaN"]  # fmt: skip
#: values of options that are texts, by name: right ones, and their own kinds of wrong ones
KNOWN = {
    "device": ["sim", "sim", "rtl", "hls", "pynq", "pynq://127.0.0.1:1", "pynq://", "pynq://a..b",
               "http://x", "pynq://[::1", "pynq://127.0.0.1:99999", "pynq://u:p@127.0.0.1:1", "sim://x"],
    "objective": ["latency", "throughput", "energy", "latency,dsp", "area", "dsp,dsp", ",", "Latency"],
    "board": ["pynq-z2", "ultra96", "tiny", "pynq-z1"],
    "sampler": ["nsga2", "tpe", "random", "grid", "NSGA2"],
    "clock": ["config", "model", "fast"],
    "set_": ["block_in=8", "block_in=8,16", "clock_mhz=50..100", "block_in=all", "block_in=", "=8", "name=x",
             "compiler.schedule=fastest", "batch=1,1,1", "block_in=8..", "clock_mhz=all"],
    "weight": ["net=2", "net=0", "net=nan", "net=-1", "=1", "net", "other=1"],
    "storage": ["sqlite://", "sqlite:///s.db", "sqlite:////dev/null", "sqlite:///no/dir/s.db", "sqlite:///x.npy",
                "postgresql+psycopg://127.0.0.1:1/x", "mysql://x", "sqlite:///", "://", "sqlite:///loop"],
    "scheduler": ["tcp://127.0.0.1:1", "nonsense", "tcp://a..b:1", "127.0.0.1:99999"],
    "seeds": ["0:1", "1:2", "5:5", "a:b", ":", "0:99999999999999999999999"],
    "base_url": ["http://127.0.0.1:1", "file:///nowhere", "nonsense", "http://[::1", "ftp://127.0.0.1:1/", "data:,x",
                 "http://127.0.0.1:99999", "http://a b/"],
    "names": ["all", "resnet8_cifar10", "dscnn_keywords", "nothing"],
    "formats": ["tflite", "onnx", "twa", "npy", "toml", "nothing"],
    "host": ["127.0.0.1", "::1", "localhost", "0.0.0.0", "", "a..b", "256.1.1.1", "\udcff", "x" * 300],
    "frontend": ["tflite", "onnx"], "size": ["small", "full"],
}  # fmt: skip
#: given always, so that a line that is accepted ends soon and asks no one on the network
BOUNDED = {
    "explore": [("trials", "5"), ("simulate", "0"), ("workers", "0")],
    "models fetch": [("base-url", "http://127.0.0.1:1")],
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """One option or argument of a command."""

    name: str
    flags: tuple[str, ...]  #: none for an argument
    takes: bool  #: whether it has a value
    number: bool
    use: Use | None
    many: bool = False
    required: bool = False


def parameters() -> dict[str, list[Parameter]]:
    """Every command by name, with what it takes, as its own parser says."""
    functions = {name: function for name, function, _ in cli.COMMANDS}
    functions |= {f"{group} {name}": function for group, _, members in cli.GROUPS for name, function, _ in members}
    root: Any = typer.main.get_command(cli.app)
    found: dict[str, list[Parameter]] = {}
    for name, function in functions.items():
        command = root
        for word in name.split():
            command = command.commands[word]
        marks = uses(function)
        found[name] = [
            Parameter(
                p.name, tuple(p.opts + p.secondary_opts) if p.param_type_name == "option" else (),
                not getattr(p, "is_flag", False), p.type_descriptor.annotation in (int, float),
                marks.get(p.name), p.multiple or p.nargs == -1, p.required,
            )
            for p in command.params
        ]  # fmt: skip
    for name, parser in (("serve", serve._parser()),):
        found[name] = [
            Parameter(a.dest, tuple(a.option_strings), a.nargs != 0, callable(a.type) and a.type is not Path,
                      READ if a.type is Path else None)
            for a in parser._actions
        ]  # fmt: skip
    names = {"device": None, "overlay": READ, "config": READ, "artifact": READ, "input": READ, "expected": READ}
    found["selftest"] = [Parameter(n, (f"--{n}",), True, False, use) for n, use in names.items()]
    return found


class Drawer:
    """Command lines, from a seed; ``files``: what the folder holds."""

    def __init__(self, seed: int, files: list[str]) -> None:
        self.right = 0.5  #: how often a value is a right one, line by line
        self.rng, self.files, self.commands = random.Random(seed), files, parameters()

    def line(self) -> tuple[str, list[str], set[str]]:
        """A command's name, the whole line, and the outputs that it names, without those that are inputs too."""
        rng = self.rng
        names = list(self.commands)
        name = rng.choices(names, [0.1 if name in _SELDOM else 1.0 for name in names])[0]
        outputs: set[str] = set()
        read: list[str] = []
        rare = rng.choice((0.03, 0.1, 0.3))
        self.right = rng.choice((0.3, 0.7, 0.97))
        options: list[list[str]] = []
        arguments: list[str] = []
        bounded = BOUNDED.get(name, [])
        for p in self.commands[name]:
            if p.name in ("help", "parameters", "_parameters") or f"--{p.name}" in [f"--{n}" for n, _ in bounded]:
                continue
            likely = 0.95 if p.required or not p.flags else rare
            for _ in range(rng.choice((1, 1, 2, 3)) if p.many else 1):
                if rng.random() > likely:
                    continue
                value = self._value(name, p)
                if p.use is READ:
                    read.append(value)
                elif p.use is WRITTEN and read and rng.random() < 0.25:
                    value = rng.choice(
                        [*read, *(f"./{each}" for each in read), "link.tflite", "hard.tflite", "link.json"]
                    )
                if p.use in (WRITTEN, FOLDER):
                    outputs.add(value)
                if not p.flags:
                    arguments.append(value)
                elif p.takes:
                    flag = rng.choice(p.flags)
                    joined = flag.startswith("--") and rng.random() < 0.3
                    options.append([f"{flag}={value}"] if joined else [flag, value])
                else:
                    options.append([rng.choice(p.flags)])
        inputs = {os.path.realpath(each) for each in read}
        outputs = {each for each in outputs if os.path.realpath(each) not in inputs}
        rng.shuffle(options)
        words = [word for option in options for word in option]
        words += [word for option, value in bounded for word in (f"--{option}", value)]
        whole = [*name.split(), *arguments, *words] if rng.random() < 0.9 else [*name.split(), *words, *arguments]
        if rng.random() < 0.03:
            whole.insert(rng.randrange(len(whole) + 1), rng.choice([*TEXTS, "--nonsense", "-v", "--version", "--help"]))
        return name, whole, outputs

    def _value(self, command: str, p: Parameter) -> str:
        rng = self.rng
        if p.number:
            return rng.choice(("1", "2", "3")) if rng.random() < self.right else rng.choice(NUMBERS)
        if p.use is not None:
            return self._file(command, p)
        if p.name in KNOWN and rng.random() < max(self.right, 0.8):
            return rng.choice(KNOWN[p.name][:2] if rng.random() < self.right else KNOWN[p.name])
        return rng.choice([*TEXTS, *self.files])

    def _file(self, command: str, p: Parameter) -> str:
        """What the parameter is meant for, often; else anything."""
        rng = self.rng
        meant = {"model": ["toy.twa", "net.tflite", "net.onnx"], "models": ["net.tflite", "net.onnx=2"],
                 "config": ["tiny", "pynq-z2", "c.toml"], "input": ["x.npy"], "old": ["r.json"], "new": ["r.json"],
                 "source": ["p.s"], "program": ["p.twp"], "data": ["f.npy"], "name": ["tiny", "c.toml"],
                 "space": ["space.toml"], "energy_table": ["energy.toml"],
                 "artifact": ["toy.twa"], "reference": ["net.tflite"]}.get(p.name, [])  # fmt: skip
        if command == "quantize" and p.name == "model":
            meant = ["float.onnx"]
        if p.use is FOLDER:  # nowhere outside of the scratch folder
            return rng.choice(
                ["newdir", "new/a", "folder", "x.npy", "loop", "dangling", "pipe", "/dev/null", "", "a\x1b"]
            )
        if p.use is not READ:
            meant = ["new.out", "new.onnx", "new/a", "newdir", "/dev/null", "/dev/full"]
        if meant and rng.random() < self.right:
            return rng.choice(meant)
        return rng.choice([*self.files, *TEXTS]) if rng.random() < 0.9 else f"{rng.choice(self.files)}/x"


def snapshot(folder: Path) -> dict[str, str]:
    """By path, what each file below a folder is."""
    found = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        kind = stat.S_IFMT(status.st_mode)
        content = (
            hashlib.sha256(path.read_bytes()).hexdigest() if kind == stat.S_IFREG and status.st_size < 1 << 30 else ""
        )
        found[os.fsdecode(os.fsencode(str(path.relative_to(folder))))] = f"{kind:o} {status.st_size} {content}"
    return found


def in_fork(words: list[str], folder: Path, served: bool) -> tuple[int | None, str, str, float]:
    """Exit code (None: a hang, negative: a signal), both streams and seconds of a command line."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            _child(words, folder, served, out.fileno(), err.fileno())
        code: int | None = None
        while time.monotonic() - start < HANG_SECONDS:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                break
            time.sleep(0.01)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        if code is None:
            os.waitpid(pid, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return code, texts[0], texts[1], time.monotonic() - start


def _child(words: list[str], folder: Path, served: bool, out: int, err: int) -> None:
    code = 99
    try:
        os.setsid()
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        for number, name in ((1, "stdout"), (2, "stderr")):
            setattr(sys, name, io.TextIOWrapper(os.fdopen(number, "wb", 0, closefd=False), write_through=True))
        pipes.PIPE_SECONDS = 0.2
        if served:
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, SERVED_SECONDS)
        code = cli.main(words)
    except BaseException:  # noqa: BLE001 - it is the find
        traceback.print_exc()
    finally:
        os._exit(code)


PROGRESS = re.compile(
    r"^(importing|schedul|proving|running|checking|exporting|estimating|exploring|simulating|building|calibrating|"
    r"measuring|quantis|comparing|config|tflite|onnx|twa|npy|toml|float|serving|stopped|LiteRT|INFO|WARNING|rtl|hls|placing)"
)


def faults(name: str, words: list[str], outputs: set[str], ended: tuple[int | None, str, str, float],
           before: dict[str, str], after: dict[str, str]) -> Iterator[str]:  # fmt: skip
    """What is wrong with how a command line ended."""
    code, out, err, _ = ended
    if code is None:
        if name not in LONG:
            yield "hang"
        return
    if "Traceback (most recent" in out + err or "Exception ignored" in err:
        yield "traceback"
    if code not in ({0, 1, 2} if name in JUDGES else {0, 2}) and not (name == "serve" and code == 130):
        yield f"exit code {code}"
    if code == 2:
        lines = [line for line in err.splitlines() if line and not PROGRESS.match(line)]
        if len(lines) != 1 or not lines[0].startswith("tilewright: "):
            yield f"{len(lines)} lines of error"
        elif len(lines[0]) > LONGEST_LINE + 20:
            yield "a long line"
        new = {path for path in after if path not in before}
        kept = {path for path in new if path.endswith(("trials.db", "s.db")) or Path(path).name in ("newdir", "new")}
        if new - kept:
            yield f"left {sorted(new - kept)[:3]}"
    if any(not c.isprintable() and c not in "\n\t" for c in err) or (
        any(not c.isprintable() and c not in "\n\t" for c in out) and name not in ("disasm",)
    ):
        yield "control characters"
    for path, was in before.items():
        if after.get(path) != was and not (code in (0, 1) and _named(path, outputs)):
            yield f"changed {path}"


def _named(path: str, outputs: set[str]) -> bool:
    """Whether a file is an output that the line named, by a link too, or stands in a folder that is one."""
    real = os.path.realpath(path)
    return any(real == os.path.realpath(o) or real.startswith(os.path.realpath(o or ".") + "/") for o in outputs)


def main() -> int:
    """Run the campaign; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lines", type=int, default=1 << 60)
    options = parser.parse_args()
    for module in PRELOADED:  # once, not in each fork
        importlib.import_module(module)
    gc.freeze()
    counts: collections.Counter[str] = collections.Counter()
    found: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        stock, folder = Path(scratch, "stock"), Path(scratch, "folder")
        os.environ["TILEWRIGHT_CACHE"] = own_cache(Path(scratch, "cache"))
        os.environ["TILEWRIGHT_MODELS_URL"] = "http://127.0.0.1:1"
        files = make_files(stock)
        drawer = Drawer(options.seed, files)
        end = time.monotonic() + 60 * options.minutes
        made = False
        while time.monotonic() < end and sum(counts[n] for n in drawer.commands) < options.lines:
            if not made:
                shutil.rmtree(folder, ignore_errors=True)
                make_files(folder, stock)
                before, made = snapshot(folder), True
            os.chdir(folder)
            name, words, outputs = drawer.line()
            ended = in_fork(words, folder, name == "serve")
            after = snapshot(folder)
            counts[name] += 1
            counts[f"exit {ended[0]}"] += 1
            for what in faults(name, words, outputs, ended, before, after):
                kind = f"{name}: {what}"
                last = next((line for line in reversed(ended[2].splitlines()) if line.strip()), "")
                found.setdefault(kind, []).append(shlex.join(words))
                if len(found[kind]) <= 3:
                    print(f"FIND {kind}\n  {ascii(shlex.join(words))[:600]}\n  {ascii(last)[:400]}", flush=True)
                    if what == "traceback":
                        print(ended[2][-1500:], flush=True)
            made = after == before
        os.chdir("/")
    total = sum(counts[name] for name in drawer.commands)
    print(f"{total} command lines: {dict(counts)}")
    print(f"{sum(map(len, found.values()))} finds of {len(found)} kinds: { {k: len(v) for k, v in found.items()} }")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
