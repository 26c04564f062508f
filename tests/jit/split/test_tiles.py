"""Parts in tiles, whose programs read back from DRAM what they have stored, made one launch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.jit.split.test_launch import TINY, run
from tests.jit.split.test_linked import ROWS, launches, link, parted
from tests.jit.split.test_pieces import residual
from tilewright.jit import programs
from tilewright.jit.compiler import compile_graph
from tilewright.jit.errors import PlaceError
from tilewright.jit.split.core_program import CoreProgram, Place
from tilewright.jit.split.scatter import SKIPPED

GRAPH = residual(24)


@pytest.fixture
def in_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are those of tiles, which small networks seldom are."""
    monkeypatch.setattr(programs, "streams", lambda planner: False)
    monkeypatch.setattr(programs, "_promises", lambda *_: True)
    monkeypatch.setattr(programs, "SURE", 1e9)


@pytest.mark.usefixtures("in_tiles")
@pytest.mark.parametrize("cuts", [[2], [3], [1, 3], [2, 4]])
def test_a_core_reads_back_rows_that_its_neighbour_makes_too(cuts: list[int]) -> None:
    """The neighbour's are stored in the whole tensor, maybe later than they are read here: each core keeps its own."""
    apart = parted(GRAPH, TINY, cuts, [ROWS] * (len(cuts) + 1))
    whole = link(apart)
    assert len(launches(apart)) == len(cuts) + 1
    assert len(launches(whole)) == 1
    run(GRAPH, whole)


@pytest.mark.usefixtures("in_tiles")
def test_what_another_core_stores_is_not_read_in_passing() -> None:
    """What LOAD leaves out would be whatever was there before, of which the verifier says nothing."""
    (program,) = compile_graph(GRAPH, TINY.replace(cores=1)).programs
    made = CoreProgram(program.config)
    places = [
        Place(number, 0, segment.size, np.full(segment.size // program.config.act_unit_bytes, SKIPPED))
        for number, segment in enumerate(program.segments) if segment.kind in ("input", "output")
    ]  # fmt: skip
    with pytest.raises(PlaceError, match="a LOAD reads units that another core stores"):
        made.part(program, places, 0, 0)
