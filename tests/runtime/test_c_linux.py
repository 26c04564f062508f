"""``tilewright-run`` on files that stand for a board's registers and memory, with a thread as the accelerator."""

from __future__ import annotations

import mmap
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.native_network import FunctionBoard
from tests.runtime.network import images, make_artifact, reference
from tests.runtime.test_artifact_attack import ROWS
from tilewright.isa.registers import Control, Status
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.executable import Executable
from tilewright.runtime.native import build
from tilewright.runtime.random_inputs import random_inputs
from tilewright.sim import Functional

ADDRESS, SIZE = 1 << 20, 1 << 20
HANG_SECONDS = 60.0

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="there is no C compiler")


class FileBoard(FunctionBoard):
    """Runs what is started in the registers' file: one launch, for no file answers at once as hardware does."""

    def __init__(self, artifact: Artifact, folder: Path) -> None:
        machines = [Functional(program) for program in artifact.programs]

        def run(program: int, segments: list[np.ndarray]) -> None:
            assert machines[program].run(segments).fault is None

        super().__init__(artifact.config, artifact.programs, run)
        self.registers, self.memory = folder / "registers", folder / "memory"
        self.registers.write_bytes(bytes(4096))
        self.memory.write_bytes(bytes(ADDRESS + SIZE))
        self._words = np.frombuffer(self._map(self.registers), np.uint32)
        self.buffers[ADDRESS] = np.frombuffer(self._map(self.memory), np.uint8)[ADDRESS:]
        for offset, value in self.values.items():
            self._words[offset // 4] = value
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._ended = threading.Event()

    def _map(self, path: Path) -> mmap.mmap:
        with path.open("r+b") as file:
            return mmap.mmap(file.fileno(), 0)

    def __enter__(self) -> FileBoard:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _serve(self) -> None:
        control = self.offsets["CONTROL"] // 4
        while not self._ended.is_set():
            if self._words[control] >> Control.START & 1:
                self._words[control] = 0
                self.values = {4 * k: int(word) for k, word in enumerate(self._words)}
                self._start()
                self._words[self.offsets["CYCLES_LOW"] // 4] = 1234
                self._words[self.offsets["STATUS"] // 4] = 1 << Status.DONE
            time.sleep(0.0005)

    @property
    def arguments(self) -> list[str]:
        return ["--registers", f"{self.registers}@0", "--memory", f"{self.memory}@{ADDRESS:#x}+{SIZE:#x}"]


def compiled(folder: Path, *flags: str) -> Path:
    program = folder / "tilewright-run"
    sources = map(str, (build.HERE / "programs" / "tilewright-run.c", *build.sources()))
    command = ["cc", "-std=c11", "-g", "-O1", "-fsanitize=address,undefined", "-Wall", "-Wextra", "-Werror", *flags]
    subprocess.run([*command, "-I", str(build.HERE), "-o", str(program), *sources, "-lm"], check=True)
    return program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    Executable(make_artifact())(images(1))  # compiles the simulator, for which no launch waits
    return compiled(tmp_path_factory.mktemp("run"))


def run(program: Path, *arguments: object) -> tuple[int, str, str]:
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def board(tmp_path: Path) -> Iterator[FileBoard]:
    with FileBoard(make_artifact(), tmp_path) as made:
        make_artifact().save(tmp_path / "a.twa")
        yield made


def test_arrays_go_in_and_out(program: Path, board: FileBoard, tmp_path: Path) -> None:
    x = images(1)
    np.save(tmp_path / "x.npy", x)
    files = ("--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    code, said, error = run(program, *board.arguments, *files, tmp_path / "a.twa")
    assert (code, error) == (0, "")
    lines = said.splitlines()
    assert lines[:2] == [
        "input x: int8[1, 2, 4, 4], real = 1 * (integer - 0)",
        "output y: int8[1, 32], real = 1 * (integer - 0)",
    ]
    assert lines[2].startswith("1 inferences in ")
    assert lines[2].endswith("; 1234 cycles of the accelerator each")
    y = np.load(tmp_path / "y.npy")
    assert y.dtype == np.int8
    assert np.array_equal(y, reference(x)[1].reshape(1, 1, 32))


def test_several_outputs_are_bytes_where_they_are_no_arrays(program: Path, tmp_path: Path) -> None:
    ROWS.save(tmp_path / "rows.twa")
    (x,) = random_inputs(Executable(ROWS).inputs, 5, 1)
    (tmp_path / "x").write_bytes(x.tobytes())
    files = ("--input", tmp_path / "x", "--output", tmp_path / "v", "--output", tmp_path / "p")
    with FileBoard(ROWS, tmp_path) as board:
        assert run(program, *board.arguments, *files, tmp_path / "rows.twa")[0] == 0
    wanted = Executable(ROWS)(x)
    assert [(tmp_path / name).read_bytes() for name in "vp"] == [y.tobytes() for y in wanted]


def test_what_is_wrong_is_said_in_one_line(program: Path, board: FileBoard, tmp_path: Path) -> None:
    np.save(tmp_path / "wide.npy", images(1).astype(np.int32))
    (tmp_path / "short").write_bytes(bytes(31))
    artifact, registers = tmp_path / "a.twa", ["--registers", f"{board.registers}@0"]
    twice = ["--output", tmp_path / "y", "--output", tmp_path / "z"]
    cases: list[tuple[list[object], str]] = [
        ([*board.arguments], "usage: tilewright-run"),
        ([*registers, "--memory", tmp_path / "none", artifact], "none: neither u-dma-buf's"),
        ([*registers, "--memory", f"{board.memory}@0x10+0x1000", artifact], "no whole pages"),
        (["--registers", tmp_path / "none", *board.arguments[2:], artifact], "none: cannot be opened: No such file"),
        ([*board.arguments, tmp_path / "b.twa"], "b.twa: cannot be read: No such file"),
        ([*board.arguments, "--input", tmp_path / "wide.npy", artifact], "no .npy file of the input's type"),
        ([*board.arguments, "--input", tmp_path / "short", artifact], "short: does not hold whole inferences"),
        ([*board.arguments, *twice, artifact], "another number of files"),
        ([*registers, "--memory", f"{board.memory}@{ADDRESS:#x}+0x1000", artifact], "the board has no "),
    ]
    for arguments, said in cases:
        code, _, error = run(program, *arguments)
        assert code == 2
        assert said in error, (said, error)
        assert said.startswith("usage") or len(error.splitlines()) == 1
    board._words[0] = 0
    assert "no Tilewright at this address" in run(program, *board.arguments, artifact)[2]


def test_the_cache_of_u_dma_buf_is_maintained(board: FileBoard, tmp_path: Path) -> None:
    folder = tmp_path / "u-dma-buf" / "udmabuf0"
    folder.mkdir(parents=True)
    written = ("sync_offset", "sync_size", "sync_direction", "sync_for_device", "sync_for_cpu")
    values = {"phys_addr": f"{ADDRESS:#x}\n", "size": f"{SIZE}\n", **dict.fromkeys(written, "")}
    for name, text in values.items():
        (folder / name).write_text(text)
    device = tmp_path / "udmabuf0"
    device.write_bytes(bytes(SIZE))
    board.buffers[ADDRESS] = np.frombuffer(board._map(device), np.uint8)
    program = compiled(tmp_path, f'-DTILEWRIGHT_SYSFS="{tmp_path}"')
    x = images(1, 3)
    (tmp_path / "x").write_bytes(x.tobytes())
    arguments = [*board.arguments[:2], "--memory", device, "--input", tmp_path / "x", "--output", tmp_path / "y"]
    assert run(program, *arguments, tmp_path / "a.twa")[::2] == (0, "")
    assert (tmp_path / "y").read_bytes() == reference(x)[1].tobytes()
    assert [(folder / name).read_text() for name in written[2:]] == ["2", "1", "1"]
    (segment,) = [s for s in make_artifact().programs[0].segments if s.kind == "output"]
    assert int((folder / "sync_size").read_text()[:6]) >= segment.size
