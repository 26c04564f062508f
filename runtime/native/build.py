"""The compiled host library: from its C sources to a shared object. Needs Python's own library and a C compiler alone,
for ``setup.py`` loads this file by itself."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
NAME = "libtilewright.so"
#: equal results on every processor: floats are rounded after each operation
FLAGS = ("-std=c11", "-O3", "-ffp-contract=off", "-fPIC", "-fvisibility=hidden", "-shared", "-s")
#: Debian's compiler leaves out the vectors that every Zynq has
NATIVE_FLAGS = {"armv7l": ["-march=armv7-a", "-mfpu=neon"]}
#: machines that wheels are made for: what zig calls them, and pip
ZIG = {
    "x86_64": (["-target", "x86_64-linux-gnu.2.17"], "manylinux_2_17_x86_64"),
    "aarch64": (["-target", "aarch64-linux-gnu.2.17"], "manylinux_2_17_aarch64"),
    "armv7l": (["-target", "arm-linux-gnueabihf.2.17", "-mcpu=cortex_a9"], "manylinux_2_17_armv7l"),
}


class BuildError(Exception):
    """The compiler failed; says how it was called and what it printed."""


def sources() -> list[Path]:
    """The library's C files, in order."""
    return sorted(HERE.glob("*.c"))


def compiler() -> list[str] | None:
    """The C compiler's command for this machine: ``$CC``, else cc; None where there is none."""
    command = shlex.split(os.environ.get("CC", "")) or ["cc"]
    return [*command, *NATIVE_FLAGS.get(platform.machine(), ())] if shutil.which(command[0]) else None


def compile_library(target: Path, command: Sequence[str]) -> Path:
    """Compile the library with a compiler's command. Raises :class:`BuildError`."""
    call = [*command, *FLAGS, "-o", str(target), *map(str, sources()), "-lm"]
    done = subprocess.run(call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise BuildError(f"{shlex.join(call)}: exit code {done.returncode}: {done.stdout.strip()}")
    return target


def key(command: Sequence[str]) -> str:
    """24 hex digits over sources, flags, compiler and machine."""
    digest = hashlib.sha256(repr((command, FLAGS, platform.machine())).encode())
    for file in sorted(HERE.glob("*.[ch]")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:24]
