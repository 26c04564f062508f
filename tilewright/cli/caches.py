"""``tilewright cache``: what the cache folder holds, and how it is emptied."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from tilewright.errors import TilewrightError
from tilewright.files import cache_root
from tilewright.printable import say

#: folders of the cache, and what is in them
PARTS = {
    "artifacts": "compiled networks",
    "host-times": "times of operators on this CPU, for --objective",
    "kernels": "machine code of the compiler's and the simulator's kernels",
    "native": "the host library, compiled from C",
    "rtl": "simulations of the RTL and of HLS designs, by Verilator and g++",
    "verified": "marks of artifacts that passed the verifier",
}


class CacheError(TilewrightError):
    """A part of the cache has no such name, or cannot be removed."""


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def info() -> None:
    """Show where the cache is, and the size of each of its parts."""
    root = cache_root()
    say(f"{root} (TILEWRIGHT_CACHE moves it)")
    sizes = {name: _bytes(root / name) for name in PARTS}
    for name, size in sizes.items():
        say(f"{name:>10}  {size / 1e6:>8,.1f} MB  {PARTS[name]}")
    say(f"{'all':>10}  {sum(sizes.values()) / 1e6:>8,.1f} MB")


def clear(
    parts: Annotated[
        list[str] | None, typer.Argument(metavar="[PART]...", help="What `tilewright cache info` shows; default: all.")
    ] = None,
) -> None:
    """Empty the cache, or parts of it. All that is in it is made again when it is needed."""
    if unknown := [part for part in parts or [] if part not in PARTS]:
        raise CacheError(f"{unknown[0]}: no part of the cache; there are {', '.join(PARTS)}")
    root = cache_root()
    for part in parts or PARTS:
        try:
            shutil.rmtree(root / part)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise CacheError(f"{root / part}: cannot be removed: {(error.strerror or str(error)).lower()}") from error
        say(f"{root / part} removed")
