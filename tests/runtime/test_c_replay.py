"""The C runtime under sanitizers, on sound and damaged artifacts, and compiled for a board's processor under qemu."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY, ModelCase
from tests.isa.build import INPUT, OUTPUT
from tests.runtime.network import make_artifact
from tests.runtime.test_artifact_attack import PATCHES, ROWS, artifact_mutants, program_mutants
from tests.runtime.test_c_runtime import computed, opened
from tilewright.compiling import compile as compile_model
from tilewright.errors import TilewrightError
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.executable import Executable
from tilewright.runtime.native import build
from tilewright.runtime.random_inputs import random_inputs

HERE = Path(__file__).parent
*EARLIER, KEPT = sorted((HERE / "kept").glob("*.twa"))  #: by format
SANITIZED = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
ARM = ("-O3", "-march=armv7-a", "-mfpu=neon", "-static")
STEP = 17  #: every so many of the mutants
OK, NO_MEMORY, UNSUPPORTED, INPUT_REFUSED = 0, 1, 4, 8

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="there is no C compiler")


def compiled(folder: Path, compiler: str, flags: Sequence[str]) -> Path:
    """``replay.c`` with the runtime."""
    program = folder / f"replay-{compiler}"
    command = [compiler, "-std=c11", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", *flags, "-I", str(build.HERE)]
    sources = map(str, (HERE / "replay.c", *build.sources()))
    subprocess.run([*command, "-o", str(program), *sources, "-lm"], check=True)
    return program


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("replay"), "cc", SANITIZED)


def codes(program: Path, files: Sequence[Path]) -> list[tuple[int, str]]:
    """What becomes of each file: the runtime's code and its text."""
    done = subprocess.run([program, *map(str, files)], capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stderr[-4000:]
    assert not done.stderr
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    assert len(lines) == len(files), "an error's text is one line"
    return [(int(code), text) for code, _, text in lines]


def written(folder: Path, contents: Sequence[bytes]) -> list[Path]:
    files = [folder / f"{number}.twa" for number in range(len(contents))]
    for file, content in zip(files, contents):
        file.write_bytes(content)
    return files


def test_sound_artifacts_run(sanitized: Path, tmp_path: Path) -> None:
    files = written(tmp_path, [made.to_bytes() for made in (make_artifact(), make_artifact(keep=True), ROWS, PATCHES)])
    assert codes(sanitized, [KEPT, *files]) == [(OK, "ran")] * 5


def test_earlier_formats_are_refused_by_number(sanitized: Path) -> None:
    assert EARLIER
    for number, (code, text) in enumerate(codes(sanitized, EARLIER), 1):
        assert (code, text.partition(",")[0]) == (3, f"artifact format {number}")


def test_cut_and_changed_files_are_refused(sanitized: Path, tmp_path: Path) -> None:
    whole = KEPT.read_bytes()
    contents = [whole[:end] for end in range(0, len(whole), 101)]
    contents += [whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :] for at in range(0, len(whole), 103)]
    for code, text in codes(sanitized, written(tmp_path, contents)):
        assert code == 3, text


@pytest.mark.parametrize("made", [ROWS, PATCHES], ids=["rows", "patches"])
def test_hostile_headers_are_refused_or_run(made: Artifact, sanitized: Path, tmp_path: Path) -> None:
    """With a right checksum, so that every value is read; what Python takes is not called damaged."""
    part = (artifact_mutants(made) + program_mutants(made))[::STEP]
    found = codes(sanitized, written(tmp_path, [data for _, data in part]))
    ran = 0
    for (what, data), (code, text) in zip(part, found, strict=True):
        ran += code == OK
        written_so = not what.startswith(("fingerprint", "meta")) and not what.endswith("is gone")  # C needs them
        if written_so and accepted(data):
            assert code in (OK, NO_MEMORY, UNSUPPORTED, INPUT_REFUSED), (what, text)
    assert 0 < ran < len(part) // 2


def accepted(data: bytes) -> bool:
    """Whether Python takes an artifact."""
    try:
        Executable(Artifact.from_bytes(data))
    except TilewrightError:
        return False
    return True


def record(artifact: Artifact, folder: Path, x: Sequence[Any] | None = None, count: int = 5) -> list[str]:
    """The arguments that have ``replay`` run the artifact, and the files that it reads."""
    board, (program,) = computed(artifact), artifact.programs
    network, path = opened(artifact, board), folder / "network.twa"
    artifact.save(path)
    x = random_inputs(Executable(artifact, verified=True).inputs, 1, count) if x is None else x
    kinds = [segment.kind for segment in program.segments]
    assert (kinds.count("input"), kinds.count("output")) == (1, 1)
    segments = kinds.index("input"), kinds.index("output")
    outputs = network.run(*x)
    for name, arrays in (("x", x), ("y", outputs)):
        for number, array in enumerate(arrays):
            (folder / f"{name}{number}").write_bytes(array.tobytes())
    (folder / "packed").write_bytes(b"".join(before[segments[0]].tobytes() for before, _ in board.seen))
    (folder / "given").write_bytes(b"".join(after[segments[1]].tobytes() for _, after in board.seen))
    beat = artifact.config.beat_bytes
    return [str(path), str(folder), *map(str, (len(x[0]), beat, *segments))]


def test_values_are_equal_under_sanitizers(sanitized: Path, tmp_path: Path) -> None:
    for number, made in enumerate((make_artifact(), ROWS, PATCHES)):
        folder = tmp_path / str(number)
        folder.mkdir()
        done = subprocess.run([sanitized, *record(made, folder)], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "0 equal\n", "")
    (folder / "y0").write_bytes(b"\0" + (folder / "y0").read_bytes()[:-1])
    arguments = [str(folder / "network.twa"), str(folder), "5", str(made.config.beat_bytes), str(INPUT), str(OUTPUT)]
    assert subprocess.run([sanitized, *arguments], capture_output=True, text=True).stdout == "0 differs\n"


@pytest.fixture(scope="module")
def on_arm(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs ``replay`` as on a Cortex-A9."""
    for tool in ("qemu-arm", "arm-linux-gnueabihf-gcc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not here: apt install qemu-user gcc-arm-linux-gnueabihf")
    program = compiled(tmp_path_factory.mktemp("arm"), "arm-linux-gnueabihf-gcc", ARM)
    return ["qemu-arm", "-cpu", "cortex-a9", str(program)]


@pytest.mark.parametrize("made", [make_artifact(), ROWS, PATCHES], ids=["toy", "rows", "patches"])
def test_a_boards_processor_packs_and_unpacks_the_same(made: Artifact, on_arm: list[str], tmp_path: Path) -> None:
    done = subprocess.run([*on_arm, *record(made, tmp_path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 equal\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet8_cifar10", "dscnn_keywords", "mobilenet_v2_imagenet"])
def test_real_networks_are_the_same_on_a_boards_processor(
    name: str, model_case: Any, on_arm: list[str], tmp_path: Path
) -> None:
    case: ModelCase = model_case(name)
    artifact = compile_model(case.model, "pynq-z2").artifact
    done = subprocess.run([*on_arm, *record(artifact, tmp_path, [case.x[:2]])], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0 equal\n")
    assert (tmp_path / "y0").read_bytes() == case.y[:2].tobytes()


@pytest.mark.slow
def test_the_digits_are_the_same_on_a_boards_processor(on_arm: list[str], tmp_path: Path) -> None:
    artifact = compile_model(REPOSITORY / "examples" / "digits" / "digits.onnx", "pynq-z2").artifact
    done = subprocess.run([*on_arm, *record(artifact, tmp_path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0 equal\n")


def test_sizes_that_no_memory_has_are_refused(sanitized: Path, tmp_path: Path) -> None:
    """Of a scratch segment, which the file itself does not hold."""
    whole = make_artifact()
    (program,) = whole.programs
    for size in (1 << 29, (1 << 31) - 4096):
        large = [dataclasses.replace(s, size=size) if s.kind == "scratch" else s for s in program.segments]
        if not any(s.kind == "scratch" for s in large):
            large.append(dataclasses.replace(large[INPUT], name="large", kind="scratch", size=size, repeat_stride=0))
        made = dataclasses.replace(whole, programs=(dataclasses.replace(program, segments=tuple(large)),))
        ((code, text),) = codes(sanitized, written(tmp_path, [made.to_bytes()]))
        assert (code, "the board has no" in text) == (NO_MEMORY, True)
