"""Files that are written whole or not at all, whatever is in the way; and files that are not what they seem."""

from __future__ import annotations

import errno
import io
import os
import pwd
import random
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import REPOSITORY
from tests.runtime.network import make_artifact
from tilewright import cache, pipes
from tilewright.arrays import load_array, load_arrays, save_array, save_outputs
from tilewright.cli.app import main
from tilewright.config import load_config
from tilewright.dse.space import load_space
from tilewright.errors import TilewrightError
from tilewright.files import (
    ABANDONED_SECONDS,
    CACHE_VARIABLE,
    PART,
    FileError,
    cache_root,
    check_directory_writable,
    check_writable,
    directory_for,
    read_bytes,
    read_text,
    together,
    write_atomic,
    write_files,
    write_with,
)
from tilewright.isa import machine_code
from tilewright.jit.energy.model import load_table


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(FileError, match=r"'a\\x00b.tflite': cannot be read: embedded null byte"):
        read_bytes("a\0b.tflite")
    for check in (check_writable, check_directory_writable):
        with pytest.raises(FileError, match=r"'a\\x00b': cannot be written: embedded null byte"):
            check("a\0b")


@pytest.mark.parametrize("outputs", [1, 2])
def test_what_is_no_regular_file_is_written_to_and_never_replaced(outputs: int, tmp_path: Path) -> None:
    pipe, arrays = tmp_path / "pipe.npy", [np.arange(5), np.arange(3)]
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    check_writable(pipe)
    assert save_outputs(pipe, arrays[0] if outputs == 1 else arrays, ["a", "b"]) == [pipe]
    reader.join(20)
    stream = io.BytesIO(received[0])
    for wanted in arrays[:outputs]:
        assert np.array_equal(np.load(stream), wanted)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe.npy"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device, and replace one")
def test_a_device_that_is_full_stays_a_device(tmp_path: Path) -> None:
    full = tmp_path / "full"
    os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
    try:
        full.open("wb").close()
    except OSError:
        pytest.skip("devices do not work here")
    with pytest.raises(FileError, match="full: cannot be written: no space left on device"):
        save_array(full, np.arange(5))
    assert stat.S_ISCHR(full.stat().st_mode)


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to("there/y")
    for text in ("new", "newer"):
        check_writable(link)
        write_atomic(link, text)
        assert link.is_symlink()
        assert (tmp_path / "there/y").read_text() == text


LIMITED = """
import resource, signal, sys
from pathlib import Path
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
{setup}
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
try:
    {write}
except Exception as error:
    sys.exit(f"{{type(error).__name__}}: {{error}}")
"""
FULL = {
    "verilog": (
        "from tilewright.hw.verilog import write_verilog\nfrom tilewright.config import PRESETS\n"
        "from tilewright.hw.verilated.design import design_sources\ndesign_sources(PRESETS['tiny'])",
        "write_verilog(PRESETS['tiny'], Path(sys.argv[1]))",
    ),
    "array": (
        "import numpy as np\nfrom tilewright.arrays import save_array",
        "save_array(Path(sys.argv[1]) / 'tilewright.v', np.zeros(30000))",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FULL)
def test_a_full_disk_leaves_what_was_there(what: str, tmp_path: Path) -> None:
    if what == "verilog":
        pytest.importorskip("amaranth")
    (tmp_path / "tilewright.v").write_text("as it was")
    setup, write = FULL[what]
    code = LIMITED.format(setup=setup, write=write)
    ended = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=REPOSITORY, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "FileError" in ended.stderr
    assert f"{tmp_path}" in ended.stderr
    assert "cannot be written: " in ended.stderr
    assert os.listdir(tmp_path) == ["tilewright.v"]
    assert (tmp_path / "tilewright.v").read_text() == "as it was"


def test_files_that_belong_together_are_written_together(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"a/x": "1", "y": b"2"}
    assert write_files(tmp_path, files) == [tmp_path / "a/x", tmp_path / "y"]
    (tmp_path / "z").mkdir()
    with pytest.raises(FileError, match="cannot be written"):
        write_files(tmp_path, {"y": "new", "a/x/below": "impossible"})
    assert (tmp_path / "y").read_bytes() == b"2"
    assert not [p for p in tmp_path.rglob("*") if p.name.endswith(PART)]


def test_what_is_written_together_appears_at_once_or_not_at_all(tmp_path: Path) -> None:
    kept, new, link = tmp_path / "kept", tmp_path / "new", tmp_path / "link"
    kept.write_text("old")
    link.symlink_to(kept)

    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(FileError, match=r"b: cannot be written: no space left on device"), together():  # noqa: PT012
        write_atomic(link, "lost")
        write_atomic(new, "lost")
        assert kept.read_text() == "old"
        write_with(tmp_path / "b", full)
    assert kept.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["kept", "link"]
    with together():
        write_atomic(new, "first")
        write_atomic(link, "changed")
        write_atomic(new, "second")
    assert (kept.read_text(), new.read_text(), link.is_symlink()) == ("changed", "second", True)
    with pytest.raises(FileError, match="kept"), together():
        write_atomic(kept / "below", "impossible")
    write_atomic(kept, "by itself")
    assert kept.read_text() == "by itself"
    assert sorted(os.listdir(tmp_path)) == ["kept", "link", "new"]


def test_what_killed_writers_have_left_is_swept(tmp_path: Path) -> None:
    killed, alive, users = (tmp_path / name for name in (f".y.npy.1{PART}", f".y.npy.2{PART}", ".y.npy.3"))
    for path in (killed, alive, users):
        path.write_text("x")
    old = time.time() - ABANDONED_SECONDS - 60
    for path in (killed, users):
        os.utime(path, (old, old))
    save_array(tmp_path / "z.npy", np.arange(3))
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([alive.name, users.name, "z.npy"])


def test_without_a_home_nothing_is_kept_and_all_else_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:  # fmt: skip
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.chdir(tmp_path)
    for name in ("HOME", CACHE_VARIABLE, "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(FileError, match="no home directory .*; set TILEWRIGHT_CACHE"):
        cache_root()
    cache.clear_memory()
    assert cache.lookup("0" * 64) is None
    cache.store("0" * 64, make_artifact())
    assert cache.lookup("0" * 64) is not None
    assert all(path.is_absolute() for path in machine_code.candidates())
    assert os.listdir(tmp_path) == []


INSERTED = (b"\xff" * 4, b"9" * 30, b"(" * 200, b"-", b"\x00" * 8, b"O", b"'", b"PK\x01\x02")


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, cut out, doubled or put in, mostly near the front or the end, where the headers are."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        size = len(changed)
        at = rng.choice([rng.randrange(size), rng.randrange(min(size, 130)), size - 1 - rng.randrange(min(size, 130))])
        kind = rng.randrange(5)
        if kind == 0:
            changed[at] = rng.randrange(256)
        elif kind == 1:
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del changed[at : at + rng.randint(1, 8)]
        elif kind == 3:
            changed[at:at] = rng.choice(INSERTED)
        else:
            changed = changed[: at + 1]
    return bytes(changed)


@pytest.mark.parametrize("kind", ["npy", "version 2", "fortran", "npz", "compressed"])
def test_a_damaged_array_is_an_array_or_one_line(kind: str, tmp_path: Path) -> None:
    stream, x = io.BytesIO(), np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    if kind == "npz":
        np.savez(stream, x=x, y=x)
    elif kind == "compressed":
        np.savez_compressed(stream, x=x, y=x)
    elif kind == "version 2":
        np.lib.format.write_array(stream, x, version=(2, 0))
    else:
        np.save(stream, np.asfortranarray(x) if kind == "fortran" else x)
    file, rng, said = tmp_path / "x", random.Random(7), list[str]()
    for _ in range(1500):
        file.write_bytes(damaged(stream.getvalue(), rng))
        try:
            loaded = load_arrays(file) if kind in ("npz", "compressed") else {"": load_array(file)}
            assert all(isinstance(value, np.ndarray) for value in loaded.values())
        except FileError as error:
            said.append(str(error))
    assert len(said) > 700
    assert all(text.startswith(f"{file}: ") and "\n" not in text for text in said)


@pytest.mark.parametrize(
    "array", [np.array(["a", "b"]), np.zeros(3, [("a", "i4")]), np.zeros(2, "M8[s]"), np.zeros(2, complex)]
)
def test_arrays_of_no_numbers_are_refused(array: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(FileError, match="corrupt NumPy file: holds .*, not numbers"):
        load_array(tmp_path / "x.npy")


def test_a_member_that_is_no_array_is_refused(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("x.npy", b"text")
    with pytest.raises(FileError, match="holds bytes, not numbers"):
        load_arrays(tmp_path / "x.npz")


@pytest.mark.parametrize("command", [["run"], ["inspect"], ["verify"], ["config", "show"], ["compare", "/dev/zero"]])
def test_a_device_without_an_end_is_not_read(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "/dev/zero"]) == 2
    assert "/dev/zero: cannot be read: a device, not a file" in capsys.readouterr().err


READERS = [
    "run F", "inspect F", "compile F -o a.twa", "verify F", "disasm F", "asm F -o p.twp", "config show ./F",
    "compare F F", "quantize F.tflite --data F -o q.tflite", "quantize F.onnx --data x.npy -o q.onnx",
    "explore F -o out", "explore toy.tflite -o out --space F", "explore toy.tflite -o out --energy-table F",
    "run F.tflite", "run F.onnx", "run F.twa", "run a.twa --input F", "run a.twa --config ./F.toml",
    "run a.twa --check --reference F", "inspect toy.tflite --placement --objective energy "
    "--host-watts 5 --energy-table F", "compile toy.tflite -o b.twa --config ./F.toml",
    "selftest --device sim --artifact F",
    "hw verilog -o v --config ./F.toml",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["zero", "folder", "pipe", "huge", "zeros", "loop"])
@pytest.mark.parametrize("line", READERS)
def test_whatever_a_command_is_given_to_read_it_ends_in_one_line(
    line: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A device, a pipe that nobody writes to, more bytes than there is memory; ``F`` with any suffix is that."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pipes, "PIPE_SECONDS", 0.2)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    make_artifact().save("a.twa")
    np.save("x.npy", np.zeros((1, 1, 2, 4, 4), np.int8))
    Path("toy.tflite").write_bytes(b"1234TFL3")
    for name in {"F", *(word for word in line.replace("./", "").split() if word.startswith("F"))}:
        if kind == "zero":
            os.symlink("/dev/zero", name)
        elif kind == "folder":
            os.mkdir(name)
        elif kind == "pipe":
            os.mkfifo(name, 0o600)
        elif kind == "huge":
            with open(name, "wb") as file:
                file.truncate(1 << 42)
            os.chmod(name, 0o600)
        elif kind == "loop":
            os.symlink(name, name)
        else:
            Path(name).write_bytes(bytes(3))
            os.chmod(name, 0o600)
    before = sorted(os.listdir())
    assert main(line.split()) == 2
    said = capsys.readouterr().err
    assert said.startswith("tilewright: ")
    assert said.count("\n") == 1
    assert "F" in said or "toy.tflite" in said
    assert sorted(set(os.listdir()) - {"cache"}) == before


def test_a_pipe_is_read_to_its_end_however_slowly_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes, "PIPE_SECONDS", 0.8)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb", buffering=0) as stream:
            for piece in (b"a" * 100_000, b"b", b""):
                stream.write(piece)
                time.sleep(0.9)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_bytes(pipe) == b"a" * 100_000 + b"b"
    writer.join(20)
    with pytest.raises(FileError, match="pipe: cannot be read: a pipe, and nobody has written to it for 0.8 s"):
        read_bytes(pipe)
    with pytest.raises(FileError, match="pipe: cannot be written: a pipe, and nobody has read from it for 0.8 s"):
        write_atomic(pipe, b"")


def test_a_pipe_without_an_end_is_read_to_the_limit(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f"exec cat /dev/zero > {pipe}"]) as endless:
        with pytest.raises(FileError, match="more than 10,000,000 bytes"):
            read_bytes(pipe, 10_000_000)
        endless.wait(20)


def test_files_whose_size_is_not_known_are_read_whole() -> None:
    assert b"model name" in read_bytes("/proc/cpuinfo") or b"processor" in read_bytes("/proc/cpuinfo")
    with pytest.raises(FileError, match="more than 10 bytes"):
        read_bytes("/proc/cpuinfo", 10)


def test_text_that_is_none_and_toml_without_a_bottom_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(FileError, match="not UTF-8 text at byte 5"):
        read_text(tmp_path / "a.toml")
    (tmp_path / "b.toml").write_text("a = " + "[" * 100_000)
    for load in (load_config, lambda path: load_space(path, "tiny"), load_table):
        with pytest.raises(TilewrightError, match="b.toml: not valid TOML: nested too deeply"):
            load(tmp_path / "b.toml")


def test_a_folder_that_was_made_for_nothing_goes_again(tmp_path: Path) -> None:
    def fail(folder: str, *kept: str) -> None:
        with directory_for(tmp_path / folder) as made, together():
            write_atomic(made / "file", "text")
            for name in kept:
                (tmp_path / name).touch()
            write_atomic(tmp_path, "text")

    with pytest.raises(FileError, match="is a directory"):
        fail("a/b")
    assert os.listdir(tmp_path) == []
    (tmp_path / "a").mkdir()
    with pytest.raises(FileError, match="is a directory"):
        fail("a/b", "a/kept")
    assert os.listdir(tmp_path / "a") == ["kept"]
    with directory_for(tmp_path / "c") as made:
        assert made.is_dir()
    assert sorted(os.listdir(tmp_path)) == ["a", "c"]
