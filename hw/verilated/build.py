"""From Verilog to a loadable library, built once and kept by a hash of all that goes into it."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from tilewright.files import cache_root, locked, prune
from tilewright.hw.scratch import scratch
from tilewright.hw.verilated.toolchain import (
    CXX_FLAGS,
    FAST_FLAGS,
    SLOW_FLAGS,
    VERILATOR_FLAGS,
    ToolError,
    compile_objects,
    compiler_version,
    has_header,
    link,
    verilator,
    verilator_root,
)
from tilewright.progress import Progress, silent

HERE = Path(__file__).parent
HARNESS = ("harness.cpp", "core.hpp", "dram.hpp", "fallback/lz4.h")
RUNTIME = ("verilated.cpp", "verilated_threads.cpp")  #: Verilator's own, the same for every design
WAVES = {"": (), "fst": ("verilated_fst_c.cpp",), "vcd": ("verilated_vcd_c.cpp",)}
UNIT_BYTES = 1 << 19  #: generated C++ that is worth a translation unit of its own
DISK_BYTES = 1 << 29  #: when the cache holds more, the libraries used least recently go
_FLAGS = (CXX_FLAGS, FAST_FLAGS, SLOW_FLAGS)


def cache_directory() -> Path:
    """Where libraries are kept: ``rtl`` in ``$TILEWRIGHT_CACHE``, else in ``~/.cache/tilewright``."""
    return cache_root() / "rtl"


def kept(folder: Path, key: str, suffix: str, make: Callable[[Path], Path]) -> Path:
    """The file of a key in a cache folder: as it is there, or what ``make`` builds in a scratch folder now.

    Raises :class:`FileError` if the folder cannot be written, and what ``make`` raises.
    """
    target = folder / f"{key}{suffix}"
    with locked(folder, key):
        if target.exists():
            os.utime(target)
            return target
        with scratch(folder) as place:
            os.replace(make(place), target)
        (folder / f"{key}.lock").unlink(missing_ok=True)
    prune(folder, f"*{suffix}", DISK_BYTES)
    return target


def library_key(sources: Mapping[str, str], top: str, wave: str, optimise: bool) -> str:
    """24 hex digits over the Verilog, the harness, the flags and the tools' versions."""
    digest = hashlib.sha256()
    for name in sorted(sources):
        digest.update(f"{name}\0{sources[name]}\0".encode())
    for name in HARNESS:
        digest.update((HERE / name).read_bytes())
    digest.update(
        repr((top, wave, optimise, VERILATOR_FLAGS, *_FLAGS, version("verilator"), compiler_version())).encode()
    )
    return digest.hexdigest()[:24]


def build_library(
    sources: Mapping[str, str],
    top: str = "tilewright",
    wave: str = "",
    progress: Progress = silent,
    optimise: bool = True,
) -> Path:
    """The library of a design: from the cache, or built now.

    ``sources``: Verilog text by file name. ``wave``: waveform support, ``fst``, ``vcd`` or none (which is
    30 times faster). Without ``optimise`` it compiles three times as fast and runs at a tenth of the speed.
    Raises :class:`ToolError` if a tool is missing or fails.
    """
    if wave not in WAVES:
        raise ToolError(f"waveform {wave}: the kinds are fst and vcd")
    verilator_root()  # first, so that the message names it
    key = library_key(sources, top, wave, optimise)
    return kept(cache_directory(), key, ".so", lambda place: _build(sources, top, wave, place, progress, optimise))


def _build(sources: Mapping[str, str], top: str, wave: str, scratch: Path, progress: Progress, optimise: bool) -> Path:
    flags: list[str] = []
    libraries: list[str] = []
    if wave == "fst":
        if not has_header("zlib.h"):
            raise ToolError("zlib.h, which .fst waveforms need, is not installed; apt install zlib1g-dev, or use .vcd")
        libraries = ["-lz", "-llz4"] if has_header("lz4.h") else ["-lz"]
        flags = ["-DTRACE_FST"] if has_header("lz4.h") else ["-DTRACE_FST", "-I", str(HERE / "fallback")]
    elif wave == "vcd":
        flags = ["-DTRACE_VCD"]
    progress("Verilator: translating the design", 0, 3)
    for name, text in sources.items():
        (scratch / name).write_text(text)
    trace = {"": (), "fst": ("--trace-fst",), "vcd": ("--trace-vcd",)}[wave]
    verilator(
        ["--cc", "--top-module", top, "--prefix", "Vdesign", "--Mdir", "generated", "-Wno-fatal", "-Wno-lint",
         "-Wno-style", *VERILATOR_FLAGS, *trace, *sources], scratch,
    )  # fmt: skip
    progress("g++: compiling the design", 1, 3)
    root = verilator_root() / "include"
    folders = (root, root / "vltstd", HERE, scratch, scratch / "generated")
    include = [part for folder in folders for part in ("-I", str(folder))]
    units = _bundle(scratch / "generated", scratch, optimise)
    objects = compile_objects(units, [*flags, *include], scratch)
    objects += runtime_objects([root / name for name in (*RUNTIME, *WAVES[wave])], [*flags, "-I", str(root)])
    progress("g++: linking the design", 2, 3)
    target = scratch / "design.so"
    link(objects, libraries, target)
    progress("the design is built", 3, 3)
    return target


def _bundle(generated: Path, scratch: Path, optimise: bool) -> list[tuple[Path, tuple[str, ...]]]:
    """Translation units that include the harness and the generated files, with their flags.

    Half the time of a small file goes into the same headers, so files are put together: what runs once in
    one unit, the rest in as many as are worth compiling at once.
    """
    files = sorted(generated.glob("Vdesign*.cpp"), key=lambda p: -p.stat().st_size)
    slow = [path for path in files if path.stem.endswith("__Slow")]
    fast = [path for path in files if path not in slow]
    total = sum(path.stat().st_size for path in fast)
    count = max(1, min(os.cpu_count() or 1, total // UNIT_BYTES)) if optimise else 1
    units: list[list[str]] = [[] for _ in range(count)]
    sizes = [0] * count
    for path in fast:
        least = sizes.index(min(sizes))
        units[least].append(f"generated/{path.name}")
        sizes[least] += path.stat().st_size
    units[0].append("harness.cpp")
    if optimise:
        units.append([f"generated/{path.name}" for path in slow])
    else:
        units[0] += [f"generated/{path.name}" for path in slow]
    bundles: list[tuple[Path, tuple[str, ...]]] = []
    for number, names in enumerate(units):
        bundle = scratch / f"unit{number}.cpp"
        bundle.write_text("".join(f'#include "{name}"\n' for name in names))
        bundles.append((bundle, FAST_FLAGS if optimise and number < count else SLOW_FLAGS))
    return bundles


def runtime_objects(sources: list[Path], flags: list[str]) -> list[Path]:
    """Verilator's own files, compiled once for all designs with these flags."""
    key = repr((list(map(str, sources)), flags, *_FLAGS, version("verilator"), compiler_version()))
    name = "runtime-" + hashlib.sha256(key.encode()).hexdigest()[:16]
    folder = cache_directory() / name
    with locked(cache_directory(), name):
        if not folder.exists():
            with scratch(cache_directory()) as place:
                compile_objects([(source, FAST_FLAGS) for source in sources], flags, place)
                shutil.copytree(place, place / "done")
                os.replace(place / "done", folder)
    return sorted(folder.glob("*.o"))
