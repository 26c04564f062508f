"""What the build needs to know of a board: one TOML file each in ``data/``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.hw.parts import BOARDS, PARTS

HERE = Path(__file__).parent
DATA = HERE / "data"


class BoardError(TilewrightError):
    """A board is unknown, a build cannot be set up, a tool is missing or fails, or its result is not acceptable."""


@dataclass(frozen=True)
class Board:
    """A board with a PYNQ image. Addresses are byte addresses of the PS."""

    name: str
    title: str
    part: str  #: Vivado's name of the device
    board_part: str  #: pattern of the board files' name; they are used if installed, and not needed
    ps: str  #: zynq7 or zynqmp: the Tcl file with the PS core's ports and settings
    memory_bits: int  #: data width of the PS's HP port
    memory_axi: int  #: its protocol: 3 or 4
    control_axi: int  #: protocol of the PS's master ports for registers: 3 or 4
    max_clock_mhz: int  #: of the PS's clocks for the PL
    control_address: int  #: the accelerator's registers, on the PS's first master port
    interrupt_address: int  #: the interrupt controller's registers, on the second of Zynq-7000, else on the first
    ps_config: dict[str, str]  #: settings of the PS core that PL and .hwh depend on

    @property
    def axi_ports(self) -> int:
        """How many memory ports the PS has for the PL."""
        return PARTS[BOARDS[self.name]]["axi_ports"]

    def check(self, config: Config) -> None:
        """Raises :class:`BoardError` if the board cannot give what the config asks for."""
        if config.memory_ports > self.axi_ports:
            each, names = (
                ("a memory port", "cores") if config.axi_ports == 1 else ("two memory ports", "cores or axi_ports")
            )
            raise BoardError(
                f"cores = {config.cores}: each takes {each}, and the PS of {self.title} has {self.axi_ports}; "
                f"lower {names} in the config"
            )
        if config.clock_mhz > self.max_clock_mhz:
            raise BoardError(
                f"clock_mhz = {config.clock_mhz}: the PS of {self.title} gives the PL at most "
                f"{self.max_clock_mhz} MHz; lower clock_mhz in the config"
            )


def board_names() -> list[str]:
    """The boards that can be built for."""
    return sorted(path.stem for path in DATA.glob("*.toml"))


def load_board(name: str) -> Board:
    """The board of a name. Raises :class:`BoardError` naming the known ones if there is none."""
    if name not in board_names():
        raise BoardError(f"board {name!r} is not known; the boards are {', '.join(board_names())}")
    return Board(name=name, **tomllib.loads((DATA / f"{name}.toml").read_text()))
