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
from tilewright import cache
from tilewright.arrays import load_array, load_arrays, save_array, save_outputs
from tilewright.cli.app import main
from tilewright.files import (
    ABANDONED_SECONDS,
    CACHE_VARIABLE,
    PART,
    FileError,
    cache_root,
    check_writable,
    read_bytes,
    together,
    write_atomic,
    write_files,
    write_with,
)
from tilewright.sim import compiled


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(FileError, match=r"'a\\x00b.tflite': cannot be read: embedded null byte"):
        read_bytes("a\0b.tflite")


@pytest.mark.parametrize("outputs", [1, 2])
def test_what_is_no_regular_file_is_written_to_and_never_replaced(outputs: int, tmp_path: Path) -> None:
    pipe, arrays = tmp_path / "pipe.npy", [np.arange(5), np.arange(3)]
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    check_writable(pipe)
    save_outputs(pipe, arrays[0] if outputs == 1 else arrays)
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
    for name in ("HOME", CACHE_VARIABLE, "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(FileError, match="no home directory .*; set TILEWRIGHT_CACHE"):
        cache_root()
    cache.clear_memory()
    assert cache.lookup("0" * 64) is None
    cache.store("0" * 64, make_artifact())
    assert cache.lookup("0" * 64) is not None
    assert all(path.is_absolute() for path in compiled._candidates("kernels"))
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
