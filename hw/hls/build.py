"""The HLS kernels as a loadable library: compiled natively, once per Config and source, and kept by a hash."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tilewright.config import Config
from tilewright.hw.hls.header import config_header
from tilewright.hw.verilated import build as verilated
from tilewright.hw.verilated.toolchain import ToolError, compiler, compiler_version, run
from tilewright.progress import Progress, silent

HERE = Path(__file__).parent
HEADERS_PACKAGE = "hls4ml"
#: C++14 is what Vitis HLS takes by default; DRAM, an array of bytes, is read as words
FLAGS = ("-std=c++14", "-O2", "-fPIC", "-shared", "-fno-strict-aliasing", "-Wno-unknown-pragmas")
WARNINGS = ("-Wall", "-Wextra")  #: the kernels are free of them, the ap_int headers not quite


@cache
def ap_types() -> Path:
    """The folder of ``ap_int.h`` and ``hls_stream.h``. Raises :class:`ToolError` if the package is missing."""
    spec = find_spec(HEADERS_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ToolError(
            f"{HEADERS_PACKAGE}, whose ap_int.h the hls device needs, is not installed; pip install 'tilewright[hls]'"
        )
    folder = Path(spec.submodule_search_locations[0]) / "templates" / "vivado" / "ap_types"
    for name in ("ap_int.h", "hls_stream.h"):
        if not (folder / name).exists():
            raise ToolError(f"{folder}: holds no {name}; reinstall {HEADERS_PACKAGE}")
    return folder


def cache_directory() -> Path:
    """Where libraries are kept: ``hls`` in ``$TILEWRIGHT_CACHE``, else in ``~/.cache/tilewright``."""
    return verilated.cache_directory().parent / "hls"


def sources() -> list[Path]:
    """Every C++ file of the kernels and their native harness."""
    return [HERE / "native.cpp", *sorted((HERE / "kernels").glob("*.[ch]pp"))]


def library_key(config: Config) -> str:
    """24 hex digits over the generated header, the sources, the flags, the ap_int headers and the compiler."""
    digest = hashlib.sha256(_header_body(config).encode())
    for path in (*sources(), *sorted(ap_types().rglob("*.h"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    digest.update(repr((FLAGS, compiler_version())).encode())
    return digest.hexdigest()[:24]


def _header_body(config: Config) -> str:
    """The header without its first line, which names the Config: configs of equal shape share a library."""
    return config_header(config).partition("\n")[2]


def build_library(config: Config, progress: Progress = silent) -> Path:
    """The library of a Config: from the cache, or compiled now.

    Raises :class:`ToolError` if a tool is missing or fails.
    """
    ap_types()
    compiler()  # first, so that the message names what is missing

    def build(place: Path) -> Path:
        progress(f"g++: compiling the HLS kernels for {config.name}", 0, 1)
        built = place / "kernels.so"
        compile_kernels(config, place, ["-o", str(built)])
        progress("the HLS kernels are compiled", 1, 1)
        return built

    return verilated.kept(cache_directory(), library_key(config), ".so", build)


def compile_kernels(config: Config, scratch: Path, options: list[str]) -> str:
    """Call g++ on the kernels with the header of ``config`` in ``scratch``; returns what it printed."""
    (scratch / "tilewright_config.h").write_text(config_header(config))
    include = ["-isystem", str(ap_types()), "-I", str(HERE), "-I", str(scratch)]
    return run([compiler(), *FLAGS, *include, str(HERE / "native.cpp"), *options], "g++", scratch)
