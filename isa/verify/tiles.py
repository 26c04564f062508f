"""Limits that the fields alone decide, checked over the whole program at once.

Segments and their kinds, DRAM extents, SRAM tiles of LOAD, FILL and STORE, wrap regions, micro-op ranges and alignment.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.codec import COLUMNS
from tilewright.isa.functions import Rounding
from tilewright.isa.program import PAGE, Program
from tilewright.isa.spec import Engine, Memory, Opcode, entry_bytes, memory_depth, uop_depth
from tilewright.isa.verify.errors import Describer, Rule, VerifyError

_KINDS = ("constant", "input", "output", "scratch")


def check_segments(program: Program, given: Sequence[int] | None) -> list[int]:
    """Checked segment sizes in beats; ``given`` (bytes) replaces the sizes that the program states."""
    config, segments = program.config, program.segments

    def fail(what: str) -> VerifyError:
        return VerifyError(Rule.SEGMENT_TABLE, f"program: {Rule.SEGMENT_TABLE}: {what}")

    if len(segments) > config.segments:
        raise fail(f"{len(segments)} segments; the config has {config.segments}")
    if given is not None and len(given) != len(segments):
        raise fail(f"{len(given)} segment sizes given for {len(segments)} segments")
    names: set[str] = set()
    for number, segment in enumerate(segments):
        where = f"segment {number} ({segment.name})"
        if segment.name in names:
            raise fail(f"{where}: another segment has the same name")
        names.add(segment.name)
        if segment.kind not in _KINDS:
            raise fail(f"{where}: kind {segment.kind!r} is none of {', '.join(_KINDS)}")
        if segment.size < 0 or segment.size % config.beat_bytes:
            raise fail(f"{where}: size {segment.size} is not a whole number of {config.beat_bytes}-byte beats")
        if segment.repeat_stride < 0 or segment.repeat_stride % PAGE:
            raise fail(f"{where}: repeat_stride {segment.repeat_stride} is not a multiple of {PAGE}")
        if segment.data is not None and segment.kind != "constant":
            raise fail(f"{where}: has data, but only constant segments may (this is {segment.kind})")
        if segment.data is not None and len(segment.data) > segment.size:
            raise fail(f"{where}: {len(segment.data)} bytes of data exceed its size {segment.size}")
    sizes = [s.size for s in segments] if given is None else [int(size) for size in given]
    return [size // config.beat_bytes for size in sizes]


class _Columns:
    """The columns of some rows of a decoded table, by field name."""

    def __init__(self, table: NDArray[np.int64], rows: NDArray[np.intp]) -> None:
        self._table, self.rows = table[rows], rows

    def __getitem__(self, name: str) -> NDArray[np.int64]:
        column: NDArray[np.int64] = self._table[:, COLUMNS[name]]
        return column


def row_beats(config: Config, memory: int, cols: int) -> int:
    """Beats of one DRAM row of ``cols`` units or entries."""
    return -(-cols * entry_bytes(config, Memory(memory)) // config.beat_bytes)


def check_fields(table: NDArray[np.int64], program: Program, beats: Sequence[int], describe: Describer) -> None:
    """Raise :class:`VerifyError` for the first instruction, rule by rule, whose fields break a limit."""
    config = program.config
    opcodes = table[:, COLUMNS["opcode"]]

    def select(*wanted: Opcode) -> _Columns:
        return _Columns(table, np.flatnonzero(np.isin(opcodes, wanted)))

    for fields in (select(Opcode.LOAD), select(Opcode.FILL), select(Opcode.STORE)):
        if fields.rows.size:
            opcode = Opcode(int(fields["opcode"][0]))
            if opcode == Opcode.FILL:
                _check_fill_memory(fields, describe)
            _check_tile(fields, config, describe)
            if opcode != Opcode.FILL:
                _check_extent(fields, program, beats, describe)
    _check_wraps(_Columns(table, np.arange(len(table))), config, describe)
    _check_uop_loads(select(Opcode.LOAD), config, describe)
    _check_uop_ranges(select(Opcode.GEMM), config, Engine.GEMM, describe)
    _check_uop_ranges(select(Opcode.ALU, Opcode.REQUANTIZE, Opcode.RESCALE), config, Engine.ALU, describe)
    rescale = select(Opcode.RESCALE)
    if (k := _first(rescale["rounding"] == Rounding.CONSTANT)) is not None:
        raise describe.error(
            Rule.ROUNDING, int(rescale.rows[k]), "rounding CONSTANT is for REQUANTIZE only; use DOUBLE, SINGLE or EVEN"
        )


def _first(broken: NDArray[np.bool_]) -> int | None:
    return int(np.argmax(broken)) if broken.any() else None


def _check_fill_memory(fields: _Columns, describe: Describer) -> None:
    if (k := _first(~np.isin(fields["memory"], (Memory.ACT, Memory.ACC)))) is not None:
        name = Memory(int(fields["memory"][k])).name
        raise describe.error(Rule.MEMORY, int(fields.rows[k]), f"fills {name}; FILL writes ACT or ACC only")


def _check_tile(fields: _Columns, config: Config, describe: Describer) -> None:
    memory = fields["memory"]  # STORE has none; its column is 0, which is ACT
    last = fields["sram"] + (fields["rows"] - 1) * fields["sram_row"] + (fields["cols"] - 1) * fields["sram_col"]
    is_act = memory == Memory.ACT
    if (k := _first(is_act & (last >= 2 * fields["wrap_size"]))) is not None:
        raise describe.error(
            Rule.WRAP, int(fields.rows[k]),
            f"act offset {last[k]} must be below twice the wrap size {fields['wrap_size'][k]}",
        )  # fmt: skip
    depth = np.array([memory_depth(config, m) for m in Memory])[memory]
    if (k := _first(~is_act & (last >= depth))) is not None:
        name = Memory(int(memory[k])).name.lower()
        raise describe.error(Rule.RANGE, int(fields.rows[k]), f"{name} address {last[k]} must be below {depth[k]}")


def _check_wraps(fields: _Columns, config: Config, describe: Describer) -> None:
    opcode, memory = fields["opcode"], fields["memory"]
    uses = np.isin(opcode, (Opcode.STORE, Opcode.GEMM, Opcode.REQUANTIZE, Opcode.RESCALE))
    uses |= np.isin(opcode, (Opcode.LOAD, Opcode.FILL)) & (memory == Memory.ACT)
    end = fields["wrap_base"] + fields["wrap_size"]
    if (k := _first(uses & (end > config.act_units))) is not None:
        raise describe.error(
            Rule.WRAP, k,
            f"wrap_base {fields['wrap_base'][k]} + wrap_size {fields['wrap_size'][k]} must be at most the "
            f"{config.act_units} units of act",
        )  # fmt: skip


def _check_extent(fields: _Columns, program: Program, beats: Sequence[int], describe: Describer) -> None:
    config, segments = program.config, program.segments
    segment = fields["segment"]
    if (k := _first(segment >= len(segments))) is not None:
        raise describe.error(
            Rule.SEGMENT, int(fields.rows[k]),
            f"segment {segment[k]} does not exist; the program has {len(segments)}",
        )  # fmt: skip
    kinds = np.array([_KINDS.index(s.kind) for s in segments])[segment]
    loads = fields["opcode"] == Opcode.LOAD
    if (k := _first(~loads & (kinds <= _KINDS.index("input")))) is not None:
        number = int(segment[k])
        raise describe.error(
            Rule.SEGMENT_KIND, int(fields.rows[k]),
            f"stores to segment {number} ({segments[number].name}), which is {segments[number].kind}; "
            f"only output and scratch segments are written",
        )  # fmt: skip
    uops = np.isin(fields["memory"], (Memory.UOP_GEMM, Memory.UOP_ALU))
    if (k := _first(loads & uops & (kinds != _KINDS.index("constant")))) is not None:
        number = int(segment[k])
        raise describe.error(
            Rule.SEGMENT_KIND, int(fields.rows[k]),
            f"loads micro-ops from segment {number} ({segments[number].name}), which is {segments[number].kind}; "
            f"only constant segments hold micro-ops",
        )  # fmt: skip
    size = np.array([entry_bytes(config, m) for m in Memory])[fields["memory"]]
    row = -(-fields["cols"] * size // config.beat_bytes)
    end = fields["offset"] + (fields["rows"] - 1) * fields["stride"] + row
    limit = np.asarray(beats, np.int64)[segment]
    if (k := _first(end > limit)) is not None:
        number = int(segment[k])
        raise describe.error(
            Rule.EXTENT, int(fields.rows[k]),
            f"reaches beat {end[k] - 1} of segment {number} ({segments[number].name}), which has {limit[k]} beats",
        )  # fmt: skip


def _check_uop_loads(fields: _Columns, config: Config, describe: Describer) -> None:
    for memory in (Memory.UOP_GEMM, Memory.UOP_ALU):
        per_beat = config.beat_bytes // entry_bytes(config, memory)
        if per_beat <= 1:
            continue
        loads = fields["memory"] == memory
        for name, broken in (
            ("sram", fields["sram"] % per_beat != 0),
            ("sram_row", (fields["rows"] > 1) & (fields["sram_row"] % per_beat != 0)),
            ("cols", fields["cols"] % per_beat != 0),
        ):
            if (k := _first(loads & broken)) is not None:
                raise describe.error(
                    Rule.ALIGNMENT, int(fields.rows[k]),
                    f"{name} = {fields[name][k]} must be a multiple of {per_beat}, the {memory.name} entries of a beat",
                )  # fmt: skip
        if (k := _first(loads & (fields["sram_col"] != 1))) is not None:
            raise describe.error(
                Rule.ALIGNMENT, int(fields.rows[k]),
                f"sram_col = {fields['sram_col'][k]} must be 1: a beat holds {per_beat} {memory.name} entries",
            )  # fmt: skip


def _check_uop_ranges(fields: _Columns, config: Config, engine: Engine, describe: Describer) -> None:
    depth = uop_depth(config, engine)
    end = fields["uop_begin"] + fields["uop_count"]
    if (k := _first(end > depth)) is not None:
        raise describe.error(
            Rule.RANGE, int(fields.rows[k]),
            f"micro-op {end[k] - 1} must be below {depth}, the depth of the {engine.name} micro-op memory",
        )  # fmt: skip
