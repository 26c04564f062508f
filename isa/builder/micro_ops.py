"""Micro-ops on chip: each sequence is loaded when it is used first; a full memory is filled from the start again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.config import Config
from tilewright.isa.builder.places import BuilderError, problem
from tilewright.isa.codec import EncodingError, encode_uops
from tilewright.isa.spec import UOP_FIELDS, UOP_MEMORY, Engine, Memory, uop_depth, uop_width
from tilewright.kinds import shown
from tilewright.ranges import whole

Load = tuple[Memory, bytes, int]  #: where to, the bytes, and how many micro-ops they are


class MicroOps:
    """Which sequences the micro-op memories hold."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._held: dict[Engine, dict[tuple[tuple[int, ...], ...], int]] = {Engine.GEMM: {}, Engine.ALU: {}}
        self._next = {Engine.GEMM: 0, Engine.ALU: 0}

    def resident(self, engine: Engine, uops: Sequence[tuple[int, ...]]) -> tuple[int, Load | None]:
        """First micro-op of a sequence, and what must be loaded there for it. Raises :class:`BuilderError`."""
        key = self._checked(engine, uops)
        held = self._held[engine]
        if key in held:
            return held[key], None
        depth, width = uop_depth(self._config, engine), uop_width(self._config, engine)
        names, push = [field.name for field in UOP_FIELDS[engine]], UOP_FIELDS[engine][0].bounds(self._config)[1]
        rows = [dict(zip(names, (push if uop[0] < 0 else uop[0], *uop[1:]))) for uop in key]
        rows += [{}] * (-len(rows) % max(1, self._config.beat_bytes * 8 // width))  # whole beats
        if len(rows) > depth:
            raise problem(
                f"{len(rows)} micro-ops of {engine.name} exceed the {depth} that fit; use loops, or a Config with more "
                f"uop_{engine.name.lower()}_bytes"
            )
        if self._next[engine] + len(rows) > depth:
            held.clear()
            self._next[engine] = 0
        begin = held[key] = self._next[engine]
        self._next[engine] += len(rows)
        try:
            return begin, (UOP_MEMORY[engine], encode_uops(rows, engine, self._config), len(rows))
        except EncodingError as error:
            raise problem(str(error)) from error

    def _checked(self, engine: Engine, uops: Any) -> tuple[tuple[int, ...], ...]:
        names = ", ".join(field.name for field in UOP_FIELDS[engine])
        rows = uops.tolist() if isinstance(uops, np.ndarray) else uops
        if not isinstance(rows, list | tuple) or not all(isinstance(uop, list | tuple) for uop in rows):
            raise problem(f"uops: {shown(uops)}; give a list of ({names})")
        if not rows or any(len(uop) != len(UOP_FIELDS[engine]) for uop in rows):
            raise problem(f"uops: must be a list of ({names}), at least one")
        return tuple(tuple(whole("uops", value, -1, error=BuilderError) for value in uop) for uop in rows)
