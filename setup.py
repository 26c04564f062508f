"""What ``pyproject.toml`` cannot say: where the project is hosted, and the compiled library in wheels of one machine.

``project.urls`` of a package are made of the clone's ``origin``, without a user's name or token in it; of an archive
of the sources without a history they are those that it was made with.

With ``TILEWRIGHT_WHEEL`` (x86_64, aarch64 or armv7l) a wheel carries the host library compiled for that machine by
``python -m ziglang``, and one for x86_64 that is built on such a machine the kernels of compiler and simulator, as the
building Python and Numba compile them. Without it a wheel is for any machine, and these are compiled when first used.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from email.parser import HeaderParser
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

#: of a server: https://host/path, ssh://git@host:22/path, git@host:path
_ORIGIN = re.compile(
    r"(?:(?:https|ssh|git)://(?:[^@/]+@)?|[^@/:]+@)(?P<host>[\w-]+(?:\.[\w-]+)+)(?::\d+/|[:/])"
    r"(?P<path>[\w./~+-]+?)(?:\.git)?/?"
)


def hosted(origin: str) -> str | None:
    """The address for a browser of what ``git clone`` calls ``origin``; None for a folder of this machine."""
    found = _ORIGIN.fullmatch(origin.strip())
    return f"https://{found['host']}/{found['path']}" if found else None


def addresses(folder: Path) -> dict[str, str]:
    """``project.urls`` of the sources in a folder; none where nothing says where they are from."""
    packed = folder / "PKG-INFO"
    if packed.exists():
        lines = HeaderParser().parsestr(packed.read_text()).get_all("Project-URL", [])
        return {label: url for label, _, url in (line.partition(", ") for line in lines)}
    if not (folder / ".git").exists():  # what git says there is of a repository around it
        return {}
    try:
        asked = ["git", "config", "--get", "remote.origin.url"]
        origin = subprocess.run(asked, cwd=folder, capture_output=True, text=True).stdout
    except OSError:  # no git
        return {}
    place = hosted(origin)
    return {"Source": place, "Issues": f"{place}/issues"} if place else {}


def native_build() -> Any:
    """The module that knows how the library is compiled, without the package around it."""
    spec = spec_from_file_location("native_build", HERE / "runtime" / "native" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def has_kernels(machine: str) -> bool:
    """Whether a wheel for a machine gets kernels: boards need none, and what runs them here compiles them."""
    return machine == "x86_64" == platform.machine()


def compile_kernels(library: Path) -> None:
    """Put the kernels beside the built simulator that compiling and running the bundled network uses."""
    with tempfile.TemporaryDirectory() as cache:
        processor = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""}  # isa/machine_code.py: SHIPPED_CPU
        environment = {**os.environ, **processor, "TILEWRIGHT_CACHE": cache}
        environment["PYTHONPATH"] = os.pathsep.join([str(library), os.environ.get("PYTHONPATH", "")])
        script = (  # no problem is so small that it is interpreted
            "import sys; from tilewright.isa import compiled; compiled.PATIENCE_SECONDS = -1;"
            "from tilewright.cli.app import main; sys.exit(main(['run', sys.argv[1]]))"
        )
        command = [sys.executable, "-c", script, str(HERE / "examples" / "digits" / "digits.onnx")]
        subprocess.run(command, cwd=library, env=environment, check=True)
        shutil.copytree(
            Path(cache, "kernels"), library / "tilewright" / "isa" / "kernels",
            ignore=shutil.ignore_patterns("*.lock"), dirs_exist_ok=True,
        )  # fmt: skip


def requirements(machine: str) -> list[str]:
    """What building a wheel for a machine needs."""
    compiling = []
    if has_kernels(machine):
        import tomllib

        with open(HERE / "pyproject.toml", "rb") as file:
            project = tomllib.load(file)["project"]
        compiling = [*project["dependencies"], *project["optional-dependencies"]["compile"]]
    return ["ziglang>=0.13,<0.18", *compiling]


def commands(machine: str) -> dict[str, type]:
    """setuptools' commands that compile the library for a machine, and name the wheel accordingly."""
    from setuptools.command.bdist_wheel import bdist_wheel
    from setuptools.command.build_py import build_py

    build = native_build()
    flags, tag = build.ZIG[machine]

    class BuildLibrary(build_py):
        def run(self) -> None:
            super().run()
            folder = Path(self.build_lib) / "tilewright" / "runtime" / "native"
            build.compile_library(folder / build.NAME, [sys.executable, "-m", "ziglang", "cc", *flags])
            if has_kernels(machine):
                compile_kernels(Path(self.build_lib).resolve())

    class NameWheel(bdist_wheel):
        def get_tag(self) -> tuple[str, str, str]:
            return "py3", "none", tag

    return {"build_py": BuildLibrary, "bdist_wheel": NameWheel}


if __name__ == "__main__":
    from setuptools import setup

    machine = os.environ.get("TILEWRIGHT_WHEEL", "")
    own = {"cmdclass": commands(machine), "setup_requires": requirements(machine)} if machine else {}
    setup(project_urls=addresses(HERE), **own)
