"""Ctrl-C wherever the process is: exit code 130, one line, nothing half-written, nobody left behind."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import HANG, REPOSITORY, own_cache
from tests.fuzz.seeds import draw_network
from tests.runtime.network import make_artifact
from tilewright.interrupts import EXIT_INTERRUPTED

BEGIN = """
import sys, time, threading
from pathlib import Path
from tilewright import interrupts
from tilewright.files import directory_for, write_with
interrupts.PATIENCE_SECONDS = 0.5
interrupts.install()
def busy(*_):
    print("busy", flush=True)
    for _ in range(600):
        time.sleep(0.1)
"""
#: where the interrupt comes, and what the process says
PLACES = {
    "in a library that compiles": "exec(compile('f()', '', 'exec'), {'__name__': 'llvmlite.binding.ffi', 'f': busy})",
    "in a destructor": "class A:\n    def __del__(self):\n        busy()\nA()",
    "while something is loaded": "Path('module.py').write_text('import __main__\\n__main__.busy()')\nimport module",
    "where it is passed over": "while True:\n    try:\n        busy()\n    except BaseException:\n        pass",
    "before a thread that does not end": "threading.Thread(target=busy).start()\nbusy()",
    "while a file is written": "write_with('whole', lambda stream: (stream.write(b'half'), busy()))",
    "while a file is written in what is fragile": "with directory_for('new/folder'):\n"
    "    exec(compile('f(\"new/folder/whole\", g)', '', 'exec'), {'__name__': 'numba', 'f': write_with, 'g': busy})",
}


def _heard() -> None:
    """What a shell has started behind its back ignores interrupts, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupted(command: list[str], folder: Path, after: float | None = None) -> tuple[int, str]:
    """Exit code and error stream of a process that is interrupted when it prints, or ``after`` seconds."""
    found = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "TILEWRIGHT_CACHE": own_cache(folder.parent / "cache"),
    }
    with subprocess.Popen(
        [sys.executable, *command], cwd=folder, env=found, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, preexec_fn=_heard,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        if after is None:
            process.stdout.readline()
        else:
            time.sleep(after)
        os.killpg(process.pid, signal.SIGINT)
        try:
            _, said = process.communicate(timeout=HANG)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, said


@pytest.mark.parametrize("place", PLACES)
def test_an_interrupt_ends_the_process_wherever_it_is(place: str, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    end = "try:\n    from_here()\nexcept KeyboardInterrupt:\n    print('tilewright: interrupted', file=sys.stderr)\n"
    body = "def from_here():\n" + "\n".join(f"    {line}" for line in PLACES[place].splitlines())
    code, said = interrupted(["-c", f"{BEGIN}{body}\n{end}    interrupts.end(130)\n"], tmp_path / "work")
    assert code == EXIT_INTERRUPTED
    assert said == "tilewright: interrupted\n"
    assert {path.name for path in (tmp_path / "work").iterdir()} <= {"module.py", "__pycache__"}


def test_a_second_interrupt_does_not_wait(tmp_path: Path) -> None:
    wait = "import os, signal\ninterrupts.PATIENCE_SECONDS = 60\ntry:\n    busy()\nfinally:\n"
    again = "    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(60)\n"
    started = time.monotonic()
    assert interrupted(["-c", BEGIN + wait + again], tmp_path) == (EXIT_INTERRUPTED, "tilewright: interrupted\n")
    assert time.monotonic() - started < 40


def test_who_is_not_to_hear_of_interrupts_does_not(tmp_path: Path) -> None:
    children = "import subprocess\nwith interrupts.unheard():\n    p = subprocess.Popen(['sleep', '2'])\n"
    wait = "interrupts.PATIENCE_SECONDS = 60\ntry:\n    busy()\nexcept KeyboardInterrupt:\n    sys.exit(p.wait())\n"
    assert interrupted(["-c", BEGIN + children + wait], tmp_path) == (0, "")
    ignored = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ninterrupts.install()\n"
    again = "print('busy', flush=True)\ntime.sleep(1)\nsys.exit(interrupts.end(5))\n"
    fresh = BEGIN.replace("interrupts.install()", ignored)
    assert interrupted(["-c", fresh + again], tmp_path) == (5, "")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", ["compile", "run", "explore", "fetch"])
def test_commands_at_random_moments(name: str, seed: int, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    model = draw_network("tflite", 7, "full", tmp_path)[1]
    make_artifact().save(tmp_path / "toy.twa")
    command = {
        "compile": ["compile", str(model), "-o", "a.twa", "--no-cache"],
        "run": ["run", str(tmp_path / "toy.twa"), "--inputs", "20000", "--output", "y.npy", "--html", "h.html"],
        "explore": ["explore", str(REPOSITORY / "examples/digits/digits.onnx"), "-o", "e", "--trials", "3000"],
        "fetch": ["models", "fetch", "all", "-d", "d", "--base-url", "http://127.0.0.1:PORT/"],
    }[name]
    silent = socket.create_server(("127.0.0.1", 0))  # answers nothing
    command = [word.replace("PORT", str(silent.getsockname()[1])) for word in command]
    after = random.Random(seed).uniform(0.6, 5.0)
    with silent:
        code, said = interrupted(["-m", "tilewright", *command], folder, after)
    left = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
    if code == 0:  # it was faster
        return
    assert code == EXIT_INTERRUPTED, said
    lines = [line for line in said.splitlines() if line.startswith("tilewright: ")]
    assert len(lines) == 1
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert not [path for path in left if not path.startswith("e") or path.endswith(".tilewright-part")]
