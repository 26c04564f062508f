"""The open flow's tools and databases, as they are found on this machine; the first that is missing is named."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewright.hw.boards.board import Board, BoardError

FAMILY = "zynq7"  #: the folder of Project X-Ray's database
CHIPDB, PRJXRAY = "CHIPDB", "PRJXRAY_DB_DIR"  #: variables that name folders, as in openXC7's own examples
NEXTPNR = "nextpnr-himbaechel"
#: what each tool does here, and where it is from
TOOLS = {
    NEXTPNR: "places and routes; github.com/YosysHQ/nextpnr, built with -DARCH=himbaechel -DHIMBAECHEL_UARCH=xilinx",
    "fasm2frames": "turns features into frames; of Project X-Ray (github.com/f4pga/prjxray)",
    "xc7frames2bit": "writes the bitstream; of Project X-Ray (github.com/f4pga/prjxray)",
}


@dataclass(frozen=True)
class Tools:
    """Paths: of each tool of :data:`TOOLS`, nextpnr's chip database (None: the one that it was installed with), X-Ray's
    database of the family."""

    programs: Mapping[str, str]
    chipdb: Path | None
    database: Path
    part_file: Path


def find_tools(board: Board) -> Tools:
    """All that the flow needs for a board. Raises :class:`BoardError` naming what is missing, and how it is given."""
    programs = {}
    for name, what in TOOLS.items():
        found = shutil.which(name)
        if found is None:
            raise BoardError(f"{name} is not on PATH: TOOLCHAIN=openxc7 needs it ({what})")
        programs[name] = found
    die = board.part[: len("xc7z020")]
    folder = os.environ.get(CHIPDB)
    chipdb = (Path(folder) / f"chipdb-{die}.bin").resolve() if folder else None
    database = _folder(PRJXRAY, "Project X-Ray's databases") / FAMILY
    part_file = database / board.part / "part.yaml"
    for path, variable in ((chipdb, CHIPDB), (part_file, PRJXRAY)):
        if path is not None and not path.is_file():
            raise BoardError(f"{path}: there is no such file; is {variable} the right folder, and made for {die}?")
    return Tools(programs, chipdb, database, part_file)


def _folder(variable: str, what: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        raise BoardError(f"{variable} is not set: TOOLCHAIN=openxc7 takes from it the folder of {what}")
    return Path(value).resolve()
