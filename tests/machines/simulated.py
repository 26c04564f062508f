"""A design that is simulated, in the place of the Verilated one: large networks take a second, not minutes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.hw.verilated.facade import Facade
from tilewright.isa.dram_order import DramOrder
from tilewright.isa.program import Program, Segment
from tilewright.isa.registers import ID_VALUE, Control, Status, offsets
from tilewright.isa.spec import instruction_width
from tilewright.sim import Functional, simulate_timing

Bytes = NDArray[np.uint8]


class SimulatedDesign:
    """What :class:`Facade` asks of a design of one core: registers, and memory that a program changes."""

    cores = 1

    def __init__(self, config: Config) -> None:
        self.config, self.order, self.at = config, DramOrder(config), offsets(config)
        self.regions: list[tuple[int, Bytes, bool]] = []
        self.held: dict[int, int] = {}
        self.programs: dict[bytes, tuple[Functional, int]] = {}
        fingerprint = config.fingerprint
        self.put(ID=ID_VALUE, FINGERPRINT_HIGH=int(fingerprint[:8], 16), FINGERPRINT_LOW=int(fingerprint[8:], 16))

    def put(self, **values: int) -> None:
        self.held |= {self.at[name]: value for name, value in values.items()}

    def get(self, name: str) -> int:
        return self.held.get(self.at[name], 0)

    def read(self, offset: int) -> int:
        return self.held.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        if offset != self.at["CONTROL"]:
            self.held[offset] = value
        elif value >> Control.START & 1:
            self.execute()
            self.put(STATUS=1 << Status.DONE)
        else:
            self.put(STATUS=0)

    def run(self, cycles: int) -> bool:
        return self.get("STATUS") != 0

    def set_regions(self, regions: list[tuple[int, Bytes, bool]], core: int = 0) -> None:
        self.regions = regions

    def disturb(self, how: object) -> None: ...

    def record(self, keep: int, core: int = 0) -> None: ...

    def recorded(self, core: int = 0) -> None: ...

    def close(self) -> None: ...

    def memory(self, address: int) -> Bytes:
        """The memory from a byte address on. Raises LookupError where there is none."""
        for base, data, _ in self.regions:
            if base <= address < base + data.size:
                return data[address - base :]
        raise LookupError(f"no memory at {address:#x}")

    def address(self, name: str) -> int:
        return self.get(f"{name}_HIGH") << 32 | self.get(f"{name}_LOW")

    def execute(self) -> None:
        """What START does: all inferences, one after another."""
        functional, cycles = self.program()
        segments = functional.program.segments
        for inference in range(self.get("REPEAT")):
            places = [
                self.memory(self.address(f"SEGMENT{k}_BASE") + inference * segment.repeat_stride)
                for k, segment in enumerate(segments)
            ]
            before = [self.order.read(place, 0, segment.size) for place, segment in zip(places, segments)]
            after = [data.copy() for data in before]
            assert functional.run(after).fault is None
            for place, old, new in zip(places, before, after):
                if (old != new).any():
                    self.order.write(place, 0, new)
        self.put(CYCLES_LOW=cycles, COMPLETED=self.get("REPEAT"))

    def program(self) -> tuple[Functional, int]:
        """The program that the registers tell of, and its cycles."""
        config = self.config
        size = self.get("PROGRAM_INSTRUCTIONS") * instruction_width(config) // 8
        code = self.order.read(self.memory(self.address("PROGRAM")), 0, size).tobytes()
        if code not in self.programs:
            limits = [self.get(f"SEGMENT{k}_LIMIT") for k in range(config.segments)]
            segments = tuple(
                Segment(f"{k}", "scratch", limit * config.beat_bytes, None, self.get(f"SEGMENT{k}_STRIDE"))
                for k, limit in enumerate(limits[: max(k for k, limit in enumerate(limits) if limit) + 1])
            )
            program = Program(config, code, segments)
            self.programs[code] = Functional(program), simulate_timing(program).cycles
        return self.programs[code]


class SimulatedFacade(Facade):
    """A board with a :class:`SimulatedDesign`."""

    def design(self, config: Config) -> Any:
        return SimulatedDesign(config)
