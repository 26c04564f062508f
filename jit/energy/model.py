"""Energy of an inference: counted actions times a table of energies per action, after Accelergy's example.

The table (``energy_table.toml``) holds published energies with their sources; :func:`action_energies` turns them
into picojoules per action of one Config: memories by width and bank size, multipliers, DRAM bytes, cycles. Nothing is
fitted to a board, and nothing was measured on one: totals are expected within a factor of ``uncertainty`` either way,
and are there to rank Configs. Processor, board and idle DRAM are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.files import FileError, read_text
from tilewright.hw.parts import BOARDS
from tilewright.isa.spec import MEMORIES, Memory, MemoryInfo
from tilewright.jit.energy.actions import ACTIONS, Counts
from tilewright.schema import read_toml

TABLE = Path(__file__).with_name("energy_table.toml")
#: what a component of the result gathers
COMPONENTS = {
    "array": ("mac",), "alu": ("alu_multiply", "alu_add", "table_read", "table_write"),
    "act": ("act_read", "act_write"), "wgt": ("wgt_read", "wgt_write"),
    "acc": ("acc_read", "acc_write"), "prm": ("prm_read", "prm_write"),
    "uop": ("uop_read", "uop_write"), "dram": ("dram_byte",), "clock": ("clock",), "static": ("static",),
}  # fmt: skip
_MEMORIES = (Memory.ACT, Memory.WGT, Memory.ACC, Memory.PRM, Memory.UOP_GEMM, Memory.TABLE)
_SRAM_BYTES, _BLOCK_RAM_BYTES = 8192, 4096
_PRM_BITS = 32 + 32 + 32 + 6  #: of one channel
_REFERENCE_NODE, _REFERENCE_VOLT = 45.0, 0.9


class EnergyError(TilewrightError):
    """An energy table that cannot be read or lacks an entry."""


@dataclass(frozen=True)
class EnergyTable:
    """Published energies by name, as in the TOML file; hashable by its text."""

    text: str
    source: str = "energy_table.toml"
    values: dict[str, Any] = field(default_factory=dict, compare=False, hash=False, repr=False)

    @property
    def uncertainty(self) -> float:
        """The factor either way within which totals are expected."""
        return float(self.values["uncertainty"])


@dataclass(frozen=True)
class Energy:
    """Microjoules of one inference by component."""

    by: dict[str, float]
    uncertainty: float

    @property
    def total(self) -> float:
        """Microjoules of one inference."""
        return sum(self.by.values())


def load_table(path: Path = TABLE) -> EnergyTable:
    """A table from a TOML file laid out like the built-in one; entries that it lacks are taken from there.

    Raises :class:`EnergyError` naming the file and the entry.
    """
    default = read_toml(TABLE.read_text())
    try:
        text = read_text(path)
        given = read_toml(text)
    except FileError as error:
        raise EnergyError(str(error)) from error
    except ValueError as error:
        raise EnergyError(f"{path}: not valid TOML: {error}") from error
    return EnergyTable(text, path.name, _merged(default, given, str(path)))


@lru_cache(maxsize=1)
def default_table() -> EnergyTable:
    """The built-in table."""
    return load_table()


def _merged(default: Mapping[str, Any], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """``default`` with what ``given`` holds; numbers must stay positive numbers, texts texts."""
    result = dict(default)
    for name, value in given.items():
        if name not in default:
            raise EnergyError(f"{where}: {name}: no such entry; there are {', '.join(default)}")
        old = default[name]
        if isinstance(old, dict):
            if not isinstance(value, dict):
                raise EnergyError(f"{where}: {name}: must be a table")
            result[name] = _merged(old, value, f"{where}: {name}")
        elif isinstance(old, str):
            if not isinstance(value, str):
                raise EnergyError(f"{where}: {name} = {value!r}: must be text")
            result[name] = value
        else:
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
                raise EnergyError(f"{where}: {name} = {value!r}: must be a number from 0 on")
            result[name] = value
    return result


@lru_cache(maxsize=4096)
def action_energies(config: Config, table: EnergyTable) -> dict[str, float]:
    """Picojoules per action (:data:`tilewright.jit.energy.actions.ACTIONS`) on a Config at its ``clock_mhz``.

    ``cycle`` is split into ``clock`` (clock network, busy or not) and ``static`` (leakage over the cycle's time).
    """
    base = _scaled(config, table)
    act, wgt, acc, prm, uop, table_lane = (_access(base, MEMORIES[m], config) for m in _MEMORIES)
    energies = {
        "mac": base["multiply8"] * config.weight_bits / 8 + base["add32"],
        "alu_multiply": base["multiply32"] + 2 * base["add32"], "alu_add": base["add32"],
        "act_read": act, "act_write": act, "wgt_read": wgt, "wgt_write": wgt, "acc_read": acc, "acc_write": acc,
        "prm_read": prm, "prm_write": prm, "uop_read": uop, "uop_write": uop, "dram_byte": base["dram_byte"],
    }  # fmt: skip
    lanes = config.batch * config.block_out
    energies |= {"table_read": lanes * table_lane, "table_write": lanes * table_lane}
    busy = config.block_in * lanes * energies["mac"] + wgt + config.in_units * act + 2 * uop
    busy += lanes * energies["alu_multiply"] + prm + config.out_units * (3 * acc + act)
    energies["clock"] = float(table.values["clock"]["share"]) * busy
    energies["static"] = float(table.values["static"]["milliwatt"]) * 1e3 / config.clock_mhz
    return energies


def _scaled(config: Config, table: EnergyTable) -> dict[str, float]:
    """The table's entries on the process and in the fabric of a Config's board, in picojoules."""
    values = table.values
    part = BOARDS.get(config.board, "XC7Z020")
    process = values["process"]["xc7" if part.startswith("XC7") else "xcup"]
    shrink = process["node"] / _REFERENCE_NODE * (process["volt"] / _REFERENCE_VOLT) ** 2
    factors = {"board": 1.0, "hard": shrink * values["fabric"]["hard"], "logic": shrink * values["fabric"]["logic"]}
    found = {}
    for name, entry in values["actions"].items():
        if entry["kind"] not in factors:
            raise EnergyError(f"{table.source}: {name}: kind = {entry['kind']!r}: must be one of {', '.join(factors)}")
        found[name] = entry["pj"] * factors[entry["kind"]]
    return found


def _access(base: Mapping[str, float], memory: MemoryInfo, config: Config) -> float:
    """One access to a memory; a bank is built of 64-bit columns of at least one block RAM each."""
    size = memory.entry_bytes(config)
    columns = (config.block_out * _PRM_BITS if memory.memory == Memory.PRM else 8 * size) / 64
    column = max(_BLOCK_RAM_BYTES, size * memory.bank_units(config) / columns)
    return base["sram64"] * columns * (column / _SRAM_BYTES) ** 0.5


def energy(counts: Counts, config: Config, table: EnergyTable) -> Energy:
    """Energy of counted actions on a Config."""
    each = action_energies(config, table)
    amounts = {**counts, "clock": counts["cycle"], "static": counts["cycle"]}
    by = {
        component: 1e-6 * sum(amounts.get(action, 0) * each[action] for action in actions)
        for component, actions in COMPONENTS.items()
    }
    return Energy(by, table.uncertainty)


def table_rows(config: Config, table: EnergyTable) -> list[dict[str, Any]]:
    """The energies in use on a Config, one row per action, for the report."""
    each = action_energies(config, table)
    texts = {**ACTIONS, "clock": "one cycle of the clock network", "static": "leakage of one cycle"}
    return [{"action": name, "what": texts[name], "pj": round(value, 4)} for name, value in each.items()]


def sources(table: EnergyTable) -> list[str]:
    """Where the table's numbers come from, one line per entry."""
    named = {**table.values["actions"], **table.values["process"]}
    named |= {name: table.values[name] for name in ("fabric", "clock", "static")}
    return [f"{name}: {entry['source']}" for name, entry in named.items()]
