"""The overlay: bitstream and .hwh under one name with a manifest beside them, made only of what passed the checks."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tilewright.config import Config, ConfigError
from tilewright.files import write_files
from tilewright.hw.boards.board import Board, BoardError, load_board
from tilewright.hw.boards.reports import check_timing, parse_timing, parse_utilisation

MANIFEST_FORMAT = 1
CELL = "tilewright_0"  #: the accelerator in the block design


@dataclass(frozen=True)
class Overlay:
    """The three files that go to the board, and the manifest's content."""

    bitstream: Path
    handoff: Path
    manifest_path: Path
    manifest: dict[str, Any]


def package_overlay(folder: Path) -> Overlay:
    """Check the results in ``folder/out`` and make ``folder/overlay`` from them.

    Raises :class:`BoardError` naming the file or the path if a result is missing or timing is not met.
    """
    build, config = _read_build(folder)
    board = load_board(build["board"])
    out = folder / "out"
    timing = parse_timing(out / "timing.rpt")
    facts = _read_facts(out / "facts.txt")
    check_timing(timing, out / "timing.rpt", float(facts["clock_mhz"]))
    used = parse_utilisation(out / "utilization.rpt")
    files: dict[str, bytes] = {}
    for suffix in ("bit", "hwh"):
        path = out / f"tilewright.{suffix}"
        if not path.is_file() or path.stat().st_size == 0:
            raise BoardError(f"{path}: is missing or empty: the run did not end with a bitstream")
        files[suffix] = path.read_bytes()
    return write_overlay(folder / "overlay", board, config, files, {
        "source": build["source"],
        "clock_mhz": float(facts["clock_mhz"]),
        "slack_ns": {"setup": timing.setup, "hold": timing.hold, "pulse_width": timing.pulse_width},
        "utilisation": used,
        "strategy": facts.get("strategy", "unknown"),
        "tools": {"vivado": facts["vivado"]},
    })  # fmt: skip


def write_overlay(
    target: Path, board: Board, config: Config, files: dict[str, bytes], facts: dict[str, Any]
) -> Overlay:
    """Write an overlay's three files, and nothing else, to a folder.

    ``files``: content by suffix, ``bit`` and ``hwh``. ``facts``: what the manifest says of the build, of which
    ``source``, ``clock_mhz``, ``utilisation`` and ``tools`` are always there.
    """
    name = f"tilewright-{board.name}"
    sums = {suffix: hashlib.sha256(content).hexdigest() for suffix, content in files.items()}
    manifest = {
        "format": MANIFEST_FORMAT,
        "config": config.to_dict(),
        "fingerprint": config.fingerprint,
        "bitstream_sha256": sums["bit"],
        "hwh_sha256": sums["hwh"],
        "ip": CELL,
        "interrupt": f"{CELL}/irq",
        "board": board.name,
        "part": board.part,
        # the HLS design has the same registers, of which the engines' counters and the trace stay 0
        "engine_counters": facts["source"] == "rtl",
        "control_address": board.control_address,
        **facts,
        "tools": {**facts["tools"], "tilewright": _own_version()},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    copies = {suffix: target / f"{name}.{suffix}" for suffix in files}
    manifest_path = target / f"{name}.json"
    contents = {f"{name}.{suffix}": content for suffix, content in files.items()}
    write_files(target, {**contents, manifest_path.name: json.dumps(manifest, indent=1) + "\n"})
    for stale in set(target.iterdir()) - {*copies.values(), manifest_path}:
        shutil.rmtree(stale) if stale.is_dir() else stale.unlink()
    return Overlay(copies["bit"], copies["hwh"], manifest_path, manifest)


def _read_build(folder: Path) -> tuple[dict[str, str], Config]:
    try:
        build = json.loads((folder / "build.json").read_text())
        return build, Config.from_toml((folder / "config.toml").read_text(), source=str(folder / "config.toml"))
    except (OSError, ValueError, ConfigError) as error:
        raise BoardError(f"{folder}: not a build folder of tilewright.hw.boards: {error}") from error


def _read_facts(path: Path) -> dict[str, str]:
    try:
        facts = dict(line.split(maxsplit=1) for line in path.read_text().splitlines())
        float(facts["clock_mhz"])
    except (OSError, ValueError, KeyError) as error:
        raise BoardError(f"{path}: the clock that the PS makes is not in it: {error}") from error
    return {"vivado": "unknown", **facts}


def _own_version() -> str:
    try:
        return version("tilewright")
    except PackageNotFoundError:
        return "unknown"
