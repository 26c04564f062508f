"""Limits that the fields alone decide, checked over the whole program at once.

Segments and their kinds, DRAM extents, SRAM tiles of LOAD, FILL and STORE, wrap regions, micro-op ranges and alignment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.codec import Table, columns_of
from tilewright.isa.effects import TILES, dram_end, uses_act
from tilewright.isa.functions import RESCALING, Rounding
from tilewright.isa.program import MOST_SEGMENT_BYTES, PAGE, Program, SegmentKind
from tilewright.isa.spec import (
    FORMATS,
    UOP_MEMORY,
    Engine,
    Memory,
    Opcode,
    entry_bytes,
    memory_depth,
    roundings,
    uop_depth,
)
from tilewright.isa.verify.errors import Describer, Rule, VerifyError

_KINDS = get_args(SegmentKind)


def check_segments(
    program: Program, given: Sequence[int] | None, found: list[VerifyError] | None = None
) -> list[int]:  # fmt: skip
    """Checked segment sizes in beats; ``given`` (bytes) replaces the sizes that the program states.

    ``found``: takes all errors; without it the first one is raised.
    """
    config, segments = program.config, program.segments

    def fail(what: str) -> None:
        error = VerifyError(Rule.SEGMENT_TABLE, f"program: {Rule.SEGMENT_TABLE}: {what}")
        if found is None:
            raise error
        found.append(error)

    if len(segments) > config.segments:
        fail(f"{len(segments)} segments; the config has {config.segments}")
    if given is not None and len(given) != len(segments):
        fail(f"{len(given)} segment sizes given for {len(segments)} segments")
    names: set[str] = set()
    for number, segment in enumerate(segments):
        where = f"segment {number} ({segment.name})"
        if segment.name in names:
            fail(f"{where}: another segment has the same name")
        names.add(segment.name)
        if segment.kind not in _KINDS:
            fail(f"{where}: kind {segment.kind!r} is none of {', '.join(_KINDS)}")
        if segment.size < 0 or segment.size % config.beat_bytes:
            fail(f"{where}: size {segment.size} is not a whole number of {config.beat_bytes}-byte beats")
        if segment.repeat_stride < 0 or segment.repeat_stride % PAGE:
            fail(f"{where}: repeat_stride {segment.repeat_stride} is not a multiple of {PAGE}")
        if 0 < segment.repeat_stride < segment.size:
            fail(f"{where}: repeat_stride {segment.repeat_stride} is less than its size {segment.size}")
        if segment.data is not None and segment.kind != "constant":
            fail(f"{where}: has data, but only constant segments may (this is {segment.kind})")
        if segment.data is not None and len(segment.data) > segment.size:
            fail(f"{where}: {len(segment.data)} bytes of data exceed its size {segment.size}")
    sizes = [s.size for s in segments] if given is None else [int(size) for size in given]
    if sum(sizes) > MOST_SEGMENT_BYTES:
        fail(f"{sum(sizes)} bytes of segments; at most {MOST_SEGMENT_BYTES} can be had")
    return [size // config.beat_bytes for size in sizes]


def check_shared(programs: Sequence[Program]) -> None:
    """Raise :class:`VerifyError` unless the programs of all cores are for one Config and agree on what they share."""
    config, known = programs[0].config, dict[str, tuple[int, int]]()
    for core, program in enumerate(programs):
        if core >= config.cores or program.config.fingerprint != config.fingerprint:
            what = (
                "there is no such core" if core >= config.cores else "its program is for another config than core 0's"
            )
            raise VerifyError(Rule.DOORBELL, f"core {core}: {Rule.DOORBELL}: {what}")
        for segment in program.segments:
            size = segment.size, segment.repeat_stride
            if segment.kind == "shared" and known.setdefault(segment.name, size) != size:
                raise VerifyError(
                    Rule.SEGMENT_TABLE,
                    f"core {core}: {Rule.SEGMENT_TABLE}: segment {segment.name} has {size[0]} bytes every {size[1]}, "
                    f"and {known[segment.name][0]} every {known[segment.name][1]} on a core before",
                )  # fmt: skip


class _Rows:
    """Some rows of a decoded table."""

    def __init__(self, table: Table, wanted: NDArray[np.bool_], describe: Describer) -> None:
        self._indices, self._describe = np.flatnonzero(wanted), describe
        self.fields = columns_of(table[self._indices])

    def reject(self, rule: Rule, broken: NDArray[np.bool_], message: Callable[[int], str]) -> None:
        """Report broken rows, in order; ``message`` takes a row's place among these."""
        for k in np.flatnonzero(broken).tolist() if broken.any() else ():
            self._describe.report(rule, int(self._indices[k]), message(k))


def check_fields(table: Table, program: Program, beats: Sequence[int], describe: Describer) -> None:
    """Report instructions whose fields break a limit, rule by rule."""
    config = program.config

    def select(*wanted: Opcode) -> _Rows:
        return _Rows(table, np.isin(table["opcode"], wanted), describe)

    loads, fills, stores = map(select, TILES)
    _check_tile(loads, config)
    _check_extent(loads, program, beats)
    fills.reject(
        Rule.MEMORY, ~np.isin(fills.fields.memory, (Memory.ACT, Memory.ACC)),
        lambda k: f"fills {Memory(int(fills.fields.memory[k])).name}; FILL writes ACT or ACC only",
    )  # fmt: skip
    _check_tile(fills, config)
    _check_tile(stores, config)
    _check_extent(stores, program, beats)
    _check_wraps(_Rows(table, uses_act(columns_of(table)), describe), config)
    for memory in UOP_MEMORY.values():
        _check_uop_loads(loads, memory, config)
    for engine in (Engine.GEMM, Engine.ALU):
        _check_uop_ranges(select(*(f.opcode for f in FORMATS if f.operands and f.engine == engine)), config, engine)
    rescale = select(Opcode.RESCALE)
    rescale.reject(
        Rule.ROUNDING, ~np.isin(rescale.fields.rounding, RESCALING),
        lambda k: f"rounding {Rounding(int(rescale.fields.rounding[k])).name} is for REQUANTIZE only; use "
        f"{', '.join(rounding.name for rounding in RESCALING)}",
    )  # fmt: skip
    requantize = select(Opcode.REQUANTIZE)
    requantize.reject(
        Rule.ROUNDING, ~np.isin(requantize.fields.rounding, roundings(config)),
        lambda k: f"rounding {Rounding(int(requantize.fields.rounding[k])).name} needs a Config with float32_scaling",
    )  # fmt: skip
    gemm = select(Opcode.GEMM)
    barred = (gemm.fields.window == 0) | (not config.dsp_packing)

    def on_packed_windows(rule: Rule, flag: NDArray[np.int64]) -> None:
        gemm.reject(
            rule, (flag == 1) & barred, lambda k: f"{rule} = 1 needs window = 1 and a Config with dsp_packing"
        )  # fmt: skip

    on_packed_windows(Rule.PAIR, gemm.fields.pair)
    on_packed_windows(Rule.TWIN, gemm.fields.twin)


def _check_tile(rows: _Rows, config: Config) -> None:
    f = rows.fields
    memory, size = f.memory, f.wrap_size  # STORE has no memory; its column is 0, which is ACT
    last = f.sram + (f.rows - 1) * f.sram_row + (f.cols - 1) * f.sram_col
    depth = np.array([memory_depth(config, m) for m in Memory])[memory]
    rows.reject(
        Rule.WRAP, (memory == Memory.ACT) & (last >= 2 * size),
        lambda k: f"act offset {last[k]} must be below twice the wrap size {size[k]}",
    )  # fmt: skip
    rows.reject(
        Rule.RANGE, (memory != Memory.ACT) & (last >= depth),
        lambda k: f"{Memory(int(memory[k])).name.lower()} address {last[k]} must be below {depth[k]}",
    )  # fmt: skip


def _check_wraps(rows: _Rows, config: Config) -> None:
    base, size = rows.fields.wrap_base, rows.fields.wrap_size
    rows.reject(
        Rule.WRAP, base + size > config.act_units,
        lambda k: f"wrap_base {base[k]} + wrap_size {size[k]} must be at most the {config.act_units} units of act",
    )  # fmt: skip


def _check_extent(rows: _Rows, program: Program, beats: Sequence[int]) -> None:
    segments, segment = program.segments, rows.fields.segment
    rows.reject(
        Rule.SEGMENT, segment >= len(segments),
        lambda k: f"segment {segment[k]} does not exist; the program has {len(segments)}",
    )  # fmt: skip
    known, segment = segment < len(segments), np.minimum(segment, len(segments))
    kinds = np.array([*(_KINDS.index(s.kind) for s in segments), 0], np.int64)[segment]

    def named(k: int) -> str:
        return f"segment {segment[k]} ({segments[segment[k]].name})"

    rows.reject(
        Rule.SEGMENT_KIND, known & (rows.fields.opcode == Opcode.STORE) & (kinds <= _KINDS.index("input")),
        lambda k: f"stores to {named(k)}, which is {segments[segment[k]].kind}; only output, scratch and shared "
        "segments are written",
    )  # fmt: skip
    uops = np.isin(rows.fields.memory, list(UOP_MEMORY.values()))  # STORE's column is 0
    rows.reject(
        Rule.SEGMENT_KIND, known & uops & (kinds != _KINDS.index("constant")),
        lambda k: f"loads micro-ops from {named(k)}, which is {segments[segment[k]].kind}; only constant segments hold "
        "micro-ops",
    )  # fmt: skip
    end, limit = dram_end(rows.fields, program.config), np.asarray([*beats, 0], np.int64)[segment]
    rows.reject(
        Rule.EXTENT,
        known & (end > limit),
        lambda k: f"reaches beat {end[k] - 1} of {named(k)}, which has {limit[k]} beats",
    )  # fmt: skip


def _check_uop_loads(rows: _Rows, memory: Memory, config: Config) -> None:
    per_beat = config.beat_bytes // entry_bytes(config, memory)
    if per_beat <= 1:
        return
    loads, several = rows.fields.memory == memory, rows.fields.rows > 1

    def whole(name: str, matters: NDArray[np.bool_]) -> None:
        column = getattr(rows.fields, name)
        rows.reject(
            Rule.ALIGNMENT, matters & (column % per_beat != 0),
            lambda k: f"{name} = {column[k]} must be a multiple of {per_beat}, the {memory.name} entries of a beat",
        )  # fmt: skip

    whole("sram", loads)
    whole("sram_row", loads & several)
    whole("cols", loads)
    rows.reject(
        Rule.ALIGNMENT, loads & (rows.fields.sram_col != 1),
        lambda k: f"sram_col = {rows.fields.sram_col[k]} must be 1: a beat holds {per_beat} {memory.name} entries",
    )  # fmt: skip


def _check_uop_ranges(rows: _Rows, config: Config, engine: Engine) -> None:
    depth, end = uop_depth(config, engine), rows.fields.uop_begin + rows.fields.uop_count
    rows.reject(
        Rule.RANGE, end > depth,
        lambda k: f"micro-op {end[k] - 1} must be below {depth}, the depth of the {engine.name} micro-op memory",
    )  # fmt: skip
