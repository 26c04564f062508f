"""act and acc: banks of one read and one write port, chosen by the top address bits; no arbitration."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Elaboratable, Module, Mux, Signal, Value

from tilewright.hw.rtl.primitives import Ram
from tilewright.isa.spec import bits_for


class ReadPort:
    """enable and address (row) in one cycle; data (a whole row) two cycles later."""

    def __init__(self, name: str, address_bits: int, width: int) -> None:
        self.enable = Signal(name=f"{name}_enable")
        self.address = Signal(address_bits, name=f"{name}_address")
        self.data = Signal(width, name=f"{name}_data")


class WritePort:
    """chunks: which parts of the row are written; none for no write."""

    def __init__(self, name: str, address_bits: int, width: int, chunks: int) -> None:
        self.chunks = Signal(chunks, name=f"{name}_chunks")
        self.address = Signal(address_bits, name=f"{name}_address")
        self.data = Signal(width, name=f"{name}_data")


class BankedMemory(Elaboratable):
    """``rows`` of ``width`` bits in ``banks``; any number of ports, of which at most one reads and one writes a bank.

    The verifier guarantees that; if a program breaks the rule, the first port wins and nothing else happens.
    """

    def __init__(
        self, rows: int, width: int, banks: int, chunks: int, readers: tuple[str, ...], writers: tuple[str, ...]
    ) -> None:
        self.width, self.banks, self.chunks = width, banks, chunks
        self.bank_rows = rows // banks
        self.address_bits = bits_for(rows)
        self.readers = [ReadPort(f"read_{n}", self.address_bits, width) for n in readers]
        self.writers = [WritePort(f"write_{n}", self.address_bits, width, chunks) for n in writers]

    def elaborate(self, platform: object) -> Module:
        """Per bank: select ports; per reader: select the bank two cycles later."""
        m = Module()
        low = bits_for(self.bank_rows) if self.bank_rows > 1 else 0
        bank_bits = bits_for(self.banks)
        outputs = []
        for bank in range(self.banks):
            m.submodules[f"bank_{bank}"] = ram = Ram(self.width, self.bank_rows, chunks=self.chunks, registered=True)
            hits = [p.enable & (p.address[low:] == bank) for p in self.readers]
            m.d.comb += ram.read_enable.eq(Cat(*hits).any())
            m.d.comb += ram.read_address.eq(_first(hits, [p.address[:low] for p in self.readers]))
            hits = [p.address[low:] == bank for p in self.writers]
            masks = [Mux(hit, p.chunks, 0) for hit, p in zip(hits, self.writers)]
            wanted = [mask.any() for mask in masks]
            m.d.comb += [
                ram.write_enable.eq(_first(wanted, masks)),
                ram.write_address.eq(_first(wanted, [p.address[:low] for p in self.writers])),
                ram.write_data.eq(_first(wanted, [p.data for p in self.writers])),
            ]
            outputs.append(ram.read_data)
        for k, port in enumerate(self.readers):
            chosen_1 = Signal(bank_bits, name=f"bank_1_{k}", reset_less=True)
            chosen_2 = Signal(bank_bits, name=f"bank_2_{k}", reset_less=True)
            m.d.sync += [chosen_1.eq(port.address[low:]), chosen_2.eq(chosen_1)]
            m.d.comb += port.data.eq(Array(outputs)[chosen_2])
        return m


def _first(conditions: list[Value], values: list[Value]) -> Value:
    """The value of the first condition that holds, else the last value."""
    result = values[-1]
    for condition, value in zip(reversed(conditions[:-1]), reversed(values[:-1])):
        result = Mux(condition, value, result)
    return result
