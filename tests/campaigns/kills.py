"""SIGKILL at random moments of compile, run, explore, fetch and serve: nothing half is left, and the next run is right.

``python -m tests.campaigns.kills [--kills N] [--seed S]``: N kills of each. After each kill the outputs are absent or
whole, and the same command, run to its end, gives what one gives that nobody killed. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.server
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import tilewright as tw
from tests.conftest import REPOSITORY, own_cache
from tests.runtime.network import images, make_artifact, reference
from tilewright import fetch
from tilewright.errors import TilewrightError
from tilewright.files import PART
from tilewright.runtime.executable import Executable
from tilewright.runtime.remote.client import RemoteDevice

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
PATIENCE = 3600  #: seconds of a command on a busy machine, the compilation of kernels included
CONTENT = bytes(range(256)) * 4000


def start(folder: Path, *command: str) -> subprocess.Popen[str]:
    """A command in a folder, with a cache there."""
    environment = {**os.environ, "TILEWRIGHT_CACHE": own_cache(folder / "cache"), "PYTHONPATH": str(REPOSITORY)}
    return subprocess.Popen(
        [sys.executable, "-m", "tilewright", *command], cwd=folder, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> None:
    """Wait for a command that must succeed."""
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, printed


def artifact_facts(path: Path) -> object:
    """What of an artifact two compilations have in common."""
    artifact = tw.load(path).artifact
    return [hashlib.sha256(program.instructions).hexdigest() for program in artifact.programs]


def front_facts(path: Path) -> object:
    """The front, whole or not at all."""
    return json.loads(path.read_text())["front"]


#: command, and how each of its files is read
COMMANDS: dict[str, tuple[tuple[str, ...], dict[str, Callable[[Path], object]]]] = {
    "compile": (("compile", str(DIGITS), "-o", "a.twa"), {"a.twa": artifact_facts}),
    "run": (
        ("run", str(DIGITS), "--inputs", "8", "--output", "y.npy", "--report", "r.json"),
        {"y.npy": lambda path: np.load(path).tolist(), "r.json": lambda path: json.loads(path.read_text())["digests"]},
    ),
    "explore": (
        ("explore", str(DIGITS), "-o", "found", "--trials", "64", "--simulate", "1", "--workers", "0"),
        {"found/front.json": front_facts},
    ),
}


def kill_command(name: str, kills: int, rng: random.Random) -> int:
    """Kills of a command that writes files; how many went wrong."""
    command, files = COMMANDS[name]
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="tilewright-") as place:
        whole = 0.0
        for calm in (Path(place) / "first", Path(place) / "calm"):  # the first may compile kernels for minutes
            calm.mkdir()
            began = time.monotonic()
            finish(start(calm, *command))
            whole = time.monotonic() - began
        wanted = {file: read(calm / file) for file, read in files.items()}
        for number in range(kills):
            folder = Path(place) / f"kill{number}"
            folder.mkdir()
            process = start(folder, *command)
            time.sleep(rng.uniform(0.1, 1.0) * whole)
            process.kill()
            process.communicate()
            try:
                for file, read in files.items():
                    assert not (folder / file).exists() or read(folder / file) == wanted[file], f"{file} is half"
                finish(start(folder, *command))
                for file, read in files.items():
                    assert read(folder / file) == wanted[file], f"{file} is another afterwards"
            except (AssertionError, ValueError, TilewrightError) as error:
                wrong += 1
                print(f"{name}, kill {number}: {error}", flush=True)
    return wrong


class Slow(http.server.BaseHTTPRequestHandler):
    """A model, in a second."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        with contextlib.suppress(OSError):  # the reader is killed
            for at in range(0, len(CONTENT), len(CONTENT) // 20):
                self.wfile.write(CONTENT[at : at + len(CONTENT) // 20])
                time.sleep(0.05)

    def log_message(self, *arguments: object) -> None:
        """Keep the output small."""


FETCH = """
import sys
from tilewright import fetch
fetch.MODELS = {"fake": fetch.RemoteModel("fake.tflite", sys.argv[2], int(sys.argv[3]), "")}
fetch.fetch_model("fake", ".", sys.argv[1])
"""


def kill_fetch(kills: int, rng: random.Random) -> int:
    """Kills of a download; what is left is swept by the next one an hour later."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    digest, wrong = hashlib.sha256(CONTENT).hexdigest(), 0
    command = [sys.executable, "-c", FETCH, f"http://127.0.0.1:{server.server_port}", digest, str(len(CONTENT))]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "no_proxy": "127.0.0.1"}
    with tempfile.TemporaryDirectory(prefix="tilewright-") as place:
        for number in range(kills):
            process = subprocess.Popen(command, cwd=place, env=environment)
            time.sleep(rng.uniform(0.3, 1.5))
            process.kill()
            process.wait()
            for path in Path(place).iterdir():
                whole = path.name == "fake.tflite" and path.read_bytes() == CONTENT
                if not whole and not path.name.endswith(PART):
                    wrong += 1
                    print(f"fetch, kill {number}: left {path.name}", flush=True)
                if path.name.endswith(PART):
                    os.utime(path, (1, 1))
        subprocess.run(command, cwd=place, env=environment, check=True)
        left = [path.name for path in Path(place).iterdir()]
        if left != ["fake.tflite"]:
            wrong += 1
            print(f"fetch: {left} are there in the end", flush=True)
    server.shutdown()
    assert fetch.MODELS
    return wrong


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def served(folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """``tilewright serve`` of the simulator, listening; what it logs is read and forgotten."""
    process = start(folder, "serve", "--device", "sim", "--config", "tiny", "--port", str(port))
    assert process.stdout is not None
    threading.Thread(target=process.stdout.read, daemon=True).start()
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.wait()


def kill_serve(kills: int, rng: random.Random) -> int:
    """Kills of a server under a client: the client is told in a line, and the next server serves him."""
    artifact, wrong, port = make_artifact(), 0, free_port()
    x = images(4)
    expected = reference(x)[1].reshape(4, 32)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as place:
        for number in range(kills + 1):
            with served(Path(place), port) as process:
                executable = Executable(artifact, RemoteDevice(artifact.config, f"pynq://127.0.0.1:{port}"))
                try:
                    assert np.array_equal(executable(x), expected), "wrong integers"
                    if number < kills:
                        threading.Timer(rng.uniform(0.0, 0.3), process.kill).start()
                        until = time.monotonic() + 30
                        while time.monotonic() < until:
                            assert np.array_equal(executable(x), expected), "wrong integers"
                        raise AssertionError("the client did not notice")
                except TilewrightError as error:
                    if "\n" in str(error) or number == kills:
                        wrong += 1
                        print(f"serve, kill {number}: {error}", flush=True)
                except (AssertionError, OSError) as error:
                    wrong += 1
                    print(f"serve, kill {number}: {type(error).__name__} {error}", flush=True)
    return wrong


def main() -> int:
    """Run the campaign; the exit code is described above."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--of", nargs="+", default=[*COMMANDS, "fetch", "serve"])
    options = parser.parse_args()
    rng, wrong = random.Random(options.seed), 0
    for name in options.of:
        if name in COMMANDS:
            found = kill_command(name, options.kills, rng)
        else:
            found = (kill_fetch if name == "fetch" else kill_serve)(options.kills, rng)
        print(f"{name}: {options.kills} kills, {found} wrong", flush=True)
        wrong += found
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
