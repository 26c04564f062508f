"""The Verilog of a Config as files: readable, with source references, and a JSON of its ports and memories."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tilewright.config import Config
from tilewright.files import write_files
from tilewright.hw.verilated.design import design_sources
from tilewright.hw.verilated.toolchain import verilator

WAIVERS = Path(__file__).parent / "lint.vlt"
MEMORIES = {"tw_ram": "synchronous read", "tw_ram_async": "asynchronous read"}

_MODULE = re.compile(r"^module +(\\\S+ |\w+)", re.MULTILINE)
_INSTANCE = re.compile(
    r"^  (?:\(\*.*\*\)\n  )?(\\\S+ |\w+) +(?:#\(\n((?:    \..*\n)+)  \) )?(\\\S+ |\w+) ?\(\n", re.MULTILINE
)
_PARAMETER = re.compile(r"\.(\w+)\((?:\d+'d)?\"?(\w+)\"?\)")


def describe(config: Config, sources: dict[str, str] | None = None) -> dict[str, Any]:
    """Ports of the top module, and every memory by its place in the hierarchy, with width, depth and read latency."""
    from tilewright.hw.rtl.ports import ports

    sources = design_sources(config) if sources is None else sources
    clocks = [{"name": name, "direction": "in", "width": 1, "doc": doc} for name, doc in
              (("clk", "clock, rising edge"), ("rst", "reset, active high, synchronous"))]  # fmt: skip
    return {
        "config": config.to_dict(),
        "fingerprint": config.fingerprint,
        "ports": clocks + [asdict(port) for port in ports(config)],
        "memories": _memories(sources["tilewright.v"]),
    }


def _memories(text: str) -> list[dict[str, Any]]:
    bodies: dict[str, str] = {}
    starts = [(m.group(1).strip().lstrip("\\"), m.end()) for m in _MODULE.finditer(text)]
    for (name, begin), (_, end) in zip(starts, [*starts[1:], ("", len(text))]):
        bodies[name] = text[begin:end]
    found: list[dict[str, Any]] = []

    def visit(module: str, path: str) -> None:
        for match in _INSTANCE.finditer(bodies[module]):
            kind, name = (match.group(k).strip().lstrip("\\") for k in (1, 3))
            if kind in bodies:
                visit(kind, f"{path}.{name}")
            elif kind in MEMORIES:
                given = dict(_PARAMETER.findall(match.group(2)))
                width, depth = int(given["WIDTH"]), int(given["DEPTH"])
                registered = given.get("OUTPUT_REGISTER", "0") != "0"
                found.append({
                    "path": f"{path}.{name}", "kind": kind, "width": width, "depth": depth, "bits": width * depth,
                    "read_latency": 0 if kind == "tw_ram_async" else 1 + registered,
                    "write_enables": int(given.get("CHUNKS", "1")),
                    "style": given.get("STYLE", "distributed"),
                })  # fmt: skip

    visit("tilewright", "tilewright")
    return found


def write_verilog(config: Config, folder: Path) -> list[Path]:
    """Write the Verilog, ``tilewright.json`` and the lint waivers to a folder; returns the files' paths.

    Raises :class:`FileError` if the folder cannot be written.
    """
    sources = design_sources(config)
    files = {
        **sources,
        "tilewright.json": json.dumps(describe(config, sources), indent=1) + "\n",
        WAIVERS.name: WAIVERS.read_text(),
    }
    return write_files(folder, files)


def lint(folder: Path) -> list[str]:
    """Warnings of ``verilator --lint-only -Wall`` on a folder that :func:`write_verilog` has written."""
    names = sorted(path.name for path in folder.glob("*.v"))
    printed = verilator(
        ["--lint-only", "-Wall", "-Wno-fatal", "--top-module", "tilewright", WAIVERS.name, *names], folder, check=False
    )
    return [line for line in printed.splitlines() if line.startswith("%")]
