"""How a tensor lies in act: rows of padded pixels, in a ring that may be shorter than the tensor."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.config import Config

_DUPLICATE = ".alu"


def units_for(channels: int, config: Config) -> int:
    """Units per pixel: the channels padded to whole vectors of both BLOCK_IN and BLOCK_OUT."""
    block = config.widest_block
    return -(-channels // block) * block // config.lanes


def vectors_for(channels: int, config: Config) -> int:
    """Vectors of BLOCK_OUT that hold a channel. Where BLOCK_IN is wider, a pixel's units may hold more of them, which
    nobody computes."""
    return -(-channels // config.block_out)


@dataclass
class Buffer:
    """A tensor in act: ``[row][column][unit]``, or ``[row // 2][column][unit][row % 2]`` where ``step`` is 2, rows and
    columns counted with their padding.

    ``pad`` is (top, left, bottom, right) pixels of ``pad_value``. ``capacity`` rows are held; row v lies in
    slot ``v % capacity``. ``base`` is the first unit of the ring, set by the schedule.
    """

    tensor: str
    height: int
    width: int
    units: int
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_value: int = 0
    capacity: int = 0
    base: int = -1
    step: int = 1  #: units of act from one unit of a row to its next

    @property
    def stride(self) -> int:
        """Units per row, padding included."""
        return (self.pad[1] + self.width + self.pad[3]) * self.units

    @property
    def pixel(self) -> int:
        """Units of act from one pixel of a row to the next."""
        return self.units * self.step

    @property
    def rows(self) -> int:
        """Rows of the tensor, padding included."""
        return self.pad[0] + self.height + self.pad[2]

    @property
    def size(self) -> int:
        """Units the ring occupies."""
        return self.capacity * self.stride

    @property
    def wrap(self) -> dict[str, int]:
        """The wrap fields of instructions that address this ring."""
        return {"wrap_base": self.base, "wrap_size": self.size}

    def offset(self, row: int, column: int = 0, unit: int = 0) -> int:
        """Ring offset of a pixel; row 0 and column 0 are the first unpadded ones (negative: padding)."""
        slot = (row + self.pad[0]) % self.capacity
        beside = slot % self.step  # row of those that lie side by side
        return (slot - beside) * self.stride + ((column + self.pad[1]) * self.units + unit) * self.step + beside

    def slot(self, row: int) -> int:
        """Ring offset of a row's first pixel, padding included; row 0 is the first padded one."""
        return self.offset(row - self.pad[0], -self.pad[1])


def duplicate(tensor: str) -> str:
    """Name of the duplicate buffer of a tensor that both GEMM and ALU read.

    Two engines may not read one bank at a time, so each gets a buffer of its own, both written by the producer.
    """
    return tensor + _DUPLICATE


def origin(name: str) -> str:
    """The tensor that a buffer holds: the buffer's name, or for a duplicate the first buffer's."""
    return name.removesuffix(_DUPLICATE)
