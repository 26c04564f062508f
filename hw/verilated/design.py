"""The library of a Config's design: Verilog generated, Verilated and compiled, each once."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tilewright.config import Config
from tilewright.files import write_atomic
from tilewright.hw.verilated.build import build_library, cache_directory, kept
from tilewright.hw.verilated.toolchain import ToolError, compiler, verilator_root
from tilewright.progress import Progress, silent
from tilewright.sources import source_version

PACKAGES = ("tilewright.hw.rtl", "tilewright.isa")  #: what the Verilog is made from, beside the Config


@cache
def generator_key() -> str:
    """16 hex digits over the generator's source, that of the Config, and the version of Amaranth."""
    digest = hashlib.sha256(Path(__file__).read_bytes() + source_version(PACKAGES).encode())
    try:
        digest.update(version("amaranth").encode())
    except PackageNotFoundError as error:
        raise ToolError("Amaranth is not installed; pip install 'tilewright[rtl]'") from error
    return digest.hexdigest()[:16]


def design_sources(config: Config, events: bool = True, control_axi: int = 4) -> dict[str, str]:
    """Verilog text by file name, from the cache or generated now (seconds); the rest as for the generator."""
    shape = f"{'' if events else '-silent'}{'-control3' if control_axi == 3 else ''}"

    def write(place: Path) -> Path:
        sources = {name: _relative_sources(text) for name, text in _generated(config, events, control_axi).items()}
        made = place / "sources.json"
        write_atomic(made, json.dumps(sources))
        return made

    path = kept(cache_directory(), f"{config.hardware}-{generator_key()}{shape}", ".json", write)
    sources: dict[str, str] = json.loads(path.read_text())
    return sources


def _generated(config: Config, events: bool, control_axi: int) -> dict[str, str]:
    from tilewright.hw.rtl.generate import generate_verilog

    try:
        return generate_verilog(config, events, control_axi)
    except Exception as error:
        if type(error).__name__ != "YosysError":
            raise
        # Amaranth's Yosys is a process that compiles itself and keeps that on disk: its last line says what was wrong
        reason = str(error).strip().rpartition("\n")[2]
        raise ToolError(
            f"{config.name}: Yosys cannot write its Verilog: {reason}; is there room on the disk?"
        ) from error


def unreferenced_sources(config: Config) -> dict[str, str]:
    """:func:`design_sources` without references to the generator's lines: the same where its code only moved."""
    return {name: re.sub(r'\(\* src = "[^"\n]*" \*\)', "", text) for name, text in design_sources(config).items()}


def _relative_sources(text: str) -> str:
    """Source references from the project's or a package's root, not from that of this machine."""
    for root in (r"hw/rtl/\w+\.py:", r"amaranth/[\w/]+\.py:", r"\w+\.py:"):  # the last: Python's own library
        text = re.sub(rf'(src = |\|)"?/[^"|\n]*?/({root})', _shorter, text)
    return text


def _shorter(match: re.Match[str]) -> str:
    return match.group(1) + ("" if match.group(1) == "|" else '"') + match.group(2)


def design_library(config: Config, wave: str = "", progress: Progress = silent, optimise: bool = True) -> Path:
    """The loadable library of a Config's design; ``wave`` and ``optimise`` as for :func:`build_library`.

    Built on first use, which takes from seconds to a minute or two; ``progress`` is called then. Raises
    :class:`ToolError` naming the tool that is missing or has failed.
    """
    verilator_root()
    compiler()
    return build_library(unreferenced_sources(config), wave=wave, progress=progress, optimise=optimise)
