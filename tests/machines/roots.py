"""Machines to run Python on: another processor's Debian under qemu, and the oldest Python and NumPy.

What a machine needs is fetched by this machine's own apt-get and pip into ``build/machines``, without a change to the
system: apt-get has lists, architectures and a status of its own there, an empty one, so that it fetches whatever the
packages need. It is kept for the next time.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import REPOSITORY as ROOT
from tests.test_versions import interpreter
from tilewright.runtime.native import build

PACKAGES = ("python3-numpy",)
OLDEST_PYTHON, OLDEST_NUMPY = "3.10", "1.21.6"  #: of PYNQ 3.0


class Missing(Exception):
    """A machine cannot be had here; says what is missing."""


@dataclass(frozen=True)
class Machine:
    """How Python starts on a machine: the command, its environment beside this process's, and the compiled host
    library, as ``TILEWRIGHT_NATIVE`` names it; None where there is none."""

    command: tuple[str, ...]
    environment: dict[str, str]
    library: str | None = ""


@dataclass(frozen=True)
class Emulated:
    """A processor that qemu emulates: Debian's name of it and Linux's, its libraries' folder, qemu's program, its
    CPU."""

    architecture: str
    machine_name: str
    libraries: str
    qemu: str
    cpu: str

    def machine(self, folder: Path) -> Machine:
        """With a root of its own in ``folder``. Raises :class:`Missing`."""
        if shutil.which(self.qemu) is None:
            raise Missing(f"{self.qemu} is not installed: apt-get install qemu-user")
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            raise Missing("there is no apt-get to fetch Debian's packages with")
        root = folder / "root"
        if not root.is_dir():
            unpack(fetch(self.architecture, folder), root)
        library = root / "usr" / "lib" / self.libraries
        guest = {
            # what update-alternatives would link, had the packages been installed
            "LD_LIBRARY_PATH": f"{library}/blas:{library}/lapack",
            "PYTHONHOME": f"{root}/usr",
            "PYTHONPATH": f"{root}/usr/lib/python3/dist-packages:{ROOT}",
            "PYTHONPYCACHEPREFIX": str(folder / "cache"),
        }
        given = [option for name, value in guest.items() for option in ("-E", f"{name}={value}")]
        python = next((root / "usr" / "bin").glob("python3.*[0-9]"))
        command = self.qemu, "-cpu", self.cpu, "-L", str(root), *given, str(python), "-S", "-s"
        return Machine(command, {}, self.library(folder))

    def library(self, folder: Path) -> str | None:
        """The host library by a cross compiler; None where there is none."""
        compiler = f"{self.libraries}-gcc"
        if shutil.which(compiler) is None:
            print(
                f"{self.architecture}: NumPy's host steps alone; apt-get install gcc-{self.libraries} for the compiled"
            )
            return None
        flags = build.NATIVE_FLAGS.get(self.machine_name, [])
        return str(build.compile_library(folder / build.NAME, [compiler, *flags]))


@dataclass(frozen=True)
class Oldest:
    """This processor with the oldest Python and NumPy of a board."""

    def machine(self, folder: Path) -> Machine:
        """With NumPy in ``folder``. Raises :class:`Missing`."""
        python = interpreter(OLDEST_PYTHON)
        if python is None:
            raise Missing(f"there is no Python {OLDEST_PYTHON}: pyenv install {OLDEST_PYTHON}")
        numpy = folder / f"numpy-{OLDEST_NUMPY}"
        if not numpy.is_dir():
            _run(
                sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps",
                "--only-binary=:all:", "--ignore-requires-python", "--python-version", OLDEST_PYTHON,
                "--target", f"{numpy}.part", f"numpy=={OLDEST_NUMPY}",
            )  # fmt: skip
            Path(f"{numpy}.part").rename(numpy)
        environment = {"PYTHONPATH": f"{numpy}:{ROOT}", "PYTHONPYCACHEPREFIX": str(folder / "cache")}
        return Machine((python, "-S", "-s"), environment)


MACHINES: dict[str, Emulated | Oldest] = {
    "oldest": Oldest(),
    "armhf": Emulated("armhf", "armv7l", "arm-linux-gnueabihf", "qemu-arm", "cortex-a9"),
    "arm64": Emulated("arm64", "aarch64", "aarch64-linux-gnu", "qemu-aarch64", "cortex-a53"),
}


def fetch(architecture: str, folder: Path) -> list[Path]:
    """The packages of an architecture with all that they need, as files. Raises CalledProcessError."""
    for part in ("lists/partial", "archives/partial"):
        (folder / "apt" / part).mkdir(parents=True, exist_ok=True)
    (folder / "apt" / "status").touch()
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        "Dir::State": folder / "apt",
        "Dir::State::lists": folder / "apt" / "lists",
        "Dir::State::status": folder / "apt" / "status",
        "Dir::Cache": folder / "apt",
        "Dir::Cache::archives": folder / "apt" / "archives",
        "Dir::Log": folder / "apt",
    }
    apt = ["apt-get", "-qq", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]
    subprocess.run([*apt, "update"], stdin=subprocess.DEVNULL)  # one list of several may fail: what lacks shows below
    _run(*apt, "install", "--yes", "--no-install-recommends", "--download-only", *PACKAGES)
    return sorted((folder / "apt" / "archives").glob("*.deb"))


def unpack(packages: list[Path], root: Path) -> None:
    """The files of packages in a folder, which is there once all of them are."""
    part = root.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    for package in packages:
        _run("dpkg-deb", "-x", str(package), str(part))
    part.rename(root)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
