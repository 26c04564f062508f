"""What the project needs of the machine and pip cannot bring: checked by ``make`` before anything else runs.

``preflight.py demo`` looks at what ``make demo`` needs, ``preflight.py`` at what ``make setup`` and ``make test`` do.
What is missing is told with one ``apt install`` line; tests that skip for want of it name the same line. Plain Python
without dependencies: it runs before there is an environment, on interpreters that are too old, too.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec

OLDEST = (3, 11)
DEMO_APT = "apt install python3-venv make"  #: for the demo, which compiles nothing
#: everything at once, the same on every release of Debian and Ubuntu; installing it again does no harm
APT = f"{DEMO_APT} g++ libpython3-dev zlib1g-dev tcl python3-tk"


def has_venv() -> bool:
    """Whether an environment with pip can be made; Debian's python3 alone has the module, but not what it installs."""
    return sys.prefix != sys.base_prefix or all(find_spec(name) for name in ("venv", "ensurepip"))


def has_compiler() -> bool:
    """Whether there is ``$CXX``, else g++."""
    return shutil.which(os.environ.get("CXX") or "g++") is not None


def libpython() -> str:
    """The file name of this interpreter's shared library."""
    name = sysconfig.get_config_var("INSTSONAME") or ""
    return name if ".so" in name else f"libpython{sys.version_info[0]}.{sys.version_info[1]}.so"


def has_libpython() -> bool:
    """Whether that library is where cocotb looks for it: the loader's path or the interpreter's folders."""
    folders = [sysconfig.get_config_var(name) for name in ("LIBPL", "LIBDIR")]
    folders.append(os.path.join(sys.base_exec_prefix, "lib"))
    if any(os.path.exists(os.path.join(folder, libpython())) for folder in folders if folder):
        return True
    try:
        ctypes.CDLL(libpython())
    except OSError:
        return False
    return True


def has_zlib() -> bool:
    """Whether the compiler finds zlib's header."""
    if not has_compiler():
        return False
    command = [os.environ.get("CXX") or "g++", "-E", "-x", "c++", "-include", "zlib.h", os.devnull]
    return subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0


def has_tcl() -> bool:
    """Whether there is a Tcl shell, or Python's own Tcl."""
    return shutil.which("tclsh") is not None or find_spec("_tkinter") is not None


#: what it is -> is it there, what it is for, can the tests do without it
VENV = {"venv": (has_venv, "the environment in .venv", False)}
NEEDS = {
    "g++": (has_compiler, "the RTL and HLS devices are compiled with it", False),
    libpython(): (has_libpython, "cocotb's simulators run Python through it", False),
    "zlib.h": (has_zlib, ".fst waveforms; their test skips", True),
    "Tcl": (has_tcl, "the scripts of the boards; their tests skip", True),
}


def lacking(what: str) -> str:
    """Why a test skips that needs ``what``; an empty text if that is there."""
    return "" if NEEDS[what][0]() else f"{what} is not installed: {APT}"


def main(arguments: list[str]) -> int:
    """Tell what is missing; 1 if the setup cannot go on without it."""
    if sys.version_info < OLDEST:
        version = ".".join(map(str, sys.version_info[:2]))
        print(f"Tilewright needs Python 3.11 or newer; {sys.executable} is {version}.", file=sys.stderr)
        print("Name another, for example: make setup PYTHON=python3.12", file=sys.stderr)
        return 1
    wanted = dict(VENV) if arguments == ["demo"] else dict(VENV, **NEEDS)
    missing = {what: (use, optional) for what, (there, use, optional) in wanted.items() if not there()}
    if not missing:
        return 0
    for what, (use, optional) in missing.items():
        print(f"{'note' if optional else 'missing'}: {what} is not installed ({use})", file=sys.stderr)
    print(f"On Debian and Ubuntu, as root: {DEMO_APT if arguments == ['demo'] else APT}", file=sys.stderr)
    if libpython() in missing and not sys.base_prefix.startswith("/usr"):
        print(
            f"{sys.executable} is not the system's Python: take that (PYTHON=/usr/bin/python3 and a new .venv), or "
            "build this one with --enable-shared.",
            file=sys.stderr,
        )
    return 0 if all(optional for _, optional in missing.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
