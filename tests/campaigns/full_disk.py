"""Every command that writes, with too little room for it and in a folder that it may not write.

``python -m tests.campaigns.full_disk [--limits N] [--seed S]``: files may grow to a random number of bytes
(RLIMIT_FSIZE, which fails as a full disk does), N times a command; then the folder is read-only. A command ends with 0
and whole files, or with 2 and one line, and what stood under its outputs' names before is there or replaced whole. Exit
code 1 otherwise.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.campaigns.kills import PATIENCE
from tests.conftest import REPOSITORY, own_cache

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
OLD = b"what was there"
#: command, and the files it writes
COMMANDS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("compile", str(DIGITS), "-o", "a.twa"), ("a.twa",)),
    (
        ("run", str(DIGITS), "--output", "y.npy", "--report", "r.json", "--html", "r.html", "--trace", "t.json"),
        ("y.npy", "r.json", "r.html", "t.json"),
    ),
    (("run", str(DIGITS), "--keep-intermediates", "layers"), ()),
    (("hw", "verilog", "--config", "tiny", "-o", "rtl"), ()),
    (("asm", "copy.s", "-o", "copy.twp"), ("copy.twp",)),
    (
        ("explore", str(DIGITS), "-o", "found", "--trials", "4", "--simulate", "0", "--workers", "0",
         "--set", "block_in=8,16"),
        ("found/front.json", "found/best.toml"),
    ),
)  # fmt: skip


def call(command: tuple[str, ...], folder: Path, cache: Path, before: Callable[[], None]) -> tuple[int, str]:
    """Exit code and error stream."""
    environment = {**os.environ, "TILEWRIGHT_CACHE": own_cache(cache), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", *command], cwd=folder, env=environment, capture_output=True, text=True,
        preexec_fn=before, timeout=PATIENCE,
    )  # fmt: skip
    return done.returncode, done.stderr


def judge(code: int, errors: str, folder: Path, files: tuple[str, ...], whole: dict[str, bytes]) -> str | None:
    """What is wrong about an end; None if nothing is."""
    lines = [line for line in errors.splitlines() if line.startswith("tilewright: ")]
    if code not in (0, 2):
        return f"exit code {code}: {errors.strip()[-300:]}"
    if "Traceback" in errors or (code == 2 and len(lines) != 1):
        return f"not one line: {errors.strip()[-300:]}"
    for name in files:
        content = (folder / name).read_bytes() if (folder / name).exists() else None
        if content != OLD and (content is None or len(content) < 0.9 * len(whole[name])):
            return f"{name}: {'gone' if content is None else f'{len(content)} of {len(whole[name])} bytes'}"
    return None


def limit_to(size: int) -> Callable[[], None]:
    """Files of this process may grow to so many bytes."""

    def apply() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return apply


def obey_modes() -> None:
    """Root may write everywhere, so what the process becomes loses that right (CAP_DAC_OVERRIDE, prctl(2))."""
    if os.geteuid() == 0 and ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0):
        raise OSError("the capability cannot be dropped")


def prepare(folder: Path, files: tuple[str, ...]) -> None:
    """Inputs, and old files under the outputs' names."""
    (folder / "copy.s").write_text(".config tiny\nwait gemm cycles=3\n")
    for name in files:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(OLD)


def main() -> int:
    """Run the campaign; the exit code is described above."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--limits", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, counts = random.Random(options.seed), Counter[str]()
    for command, files in COMMANDS:
        with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
            root = Path(name)
            root.chmod(0o755)
            good = root / "good"
            good.mkdir()
            prepare(good, ())
            code, errors = call(command, good, root / "cache", lambda: None)
            if code:
                print(f"{command[0]}: does not work with room: {errors}")
                return 1
            whole = {file: (good / file).read_bytes() for file in files}
            largest = max(path.stat().st_size for path in good.rglob("*") if path.is_file())
            for size in [0, *(int(largest * rng.random() ** 3) for _ in range(options.limits - 1)), -1]:
                folder = root / "bad"
                folder.mkdir()
                prepare(folder, files)
                if size < 0:
                    for path in [folder, *folder.rglob("*")]:
                        path.chmod(0o555)
                before = obey_modes if size < 0 else limit_to(size)
                code, errors = call(command, folder, root / f"cache{size}", before)
                what = "read-only" if size < 0 else f"{size} bytes"
                problem = judge(code, errors, folder, files, whole)
                counts["ended well" if code == 0 else "refused in a line"] += problem is None
                if problem:
                    counts["wrong"] += 1
                    print(f"{' '.join(command[:1])}, {what}: {problem}", flush=True)
                shutil.rmtree(folder)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
