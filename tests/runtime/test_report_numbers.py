"""Numbers of a report held to values worked out by hand: causes of cycles, places in the roofline, memories' spans."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import numpy as np
import pytest

from tests.isa.build import ALU, GEMM, LOAD, STORE
from tests.runtime.network import images, make_artifact
from tests.runtime.test_report import made_up
from tilewright.isa.spec import Engine
from tilewright.runtime.attribution import CAUSES, attribute, bound
from tilewright.runtime.executable import Executable
from tilewright.runtime.report.html import COLOURS
from tilewright.runtime.report.memory import COLUMNS, _Picture, memory_pictures
from tilewright.runtime.report.roofline import roofline_svg


def causes(**known: int) -> dict[str, int]:
    return dict.fromkeys(CAUSES, 0) | {name.replace("_", "-"): cycles for name, cycles in known.items()}


def test_a_layer_of_no_cycles_is_not_bound_by_the_array() -> None:
    assert bound(causes()) == "alu"
    assert bound(causes(compute=85, load=15)) == "compute"
    assert bound(causes(compute=84, load=16)) == "load"


def test_what_is_cleared_or_waited_for_is_no_work_of_the_bus() -> None:
    """FILL and LOAD share an engine; a bound on the read channel counts the LOAD alone."""
    rows = [("load", 0, 1, 9, [], []), ("fill", 10, 1, 29, [], [GEMM]), ("gemm", 30, 5, 47, [LOAD], [])]
    found = attribute(made_up(rows, cycles=50, layers=[0, 0, 0]), 1)
    assert found.served[Engine.LOAD].tolist() == [10]
    assert found.lower_bound(0, 5, 0, 99, 0) == 10


def test_a_token_that_comes_as_the_instruction_does_is_what_was_waited_for() -> None:
    rows = [("load", 0, 1, 9, [], [GEMM]), ("gemm", 10, 5, 27, [LOAD], [])]
    for dispatched, wanted in ((9, causes(compute=5, load=10)), (10, causes(compute=5, fetch=11))):
        late = [rows[0], ("gemm", dispatched + 1, 5, 27, [LOAD], [])]
        found = attribute(made_up(late, cycles=27, layers=[0, 0], dispatch=[0, dispatched]), 1)
        assert found.causes(0, 5) == {**wanted, "latency": 27 - sum(wanted.values())}


def test_an_engine_that_was_not_free_is_waited_for_from_its_first_instruction_on() -> None:
    """The second GEMM is held up by the first, which waits for a LOAD."""
    rows = [("alu", 0, 20, 36, [], [STORE]), ("alu", 20, 10, 46, [], [GEMM]), ("gemm", 47, 5, 64, [ALU], [])]
    found = attribute(made_up(rows, cycles=64, layers=[0, 0, 0]), 1)
    # 0..19 the first ALU, 20..29 the second, then its drain and the token, and GEMM's drain
    assert found.causes(0, 5) == causes(compute=5, alu=30, latency=17 + 12)


def test_the_end_belongs_to_what_retires_last_wherever_it_stands() -> None:
    rows = [("gemm", 0, 5, 17, [], [STORE]), ("store", 18, 1, 60, [GEMM], []), ("load", 0, 1, 9, [], [])]
    found = attribute(made_up(rows, cycles=63, layers=[0, 1, 2]), 3)
    assert found.cycles.tolist() == [5, 58, 0]
    assert found.causes(1, 0) == causes(store=43, latency=13 + 2)


def test_half_pace_is_no_more_than_the_array_had() -> None:
    """A GEMM whose end lies behind the run's."""
    activity = made_up([("gemm", 0, 10, 19, [], [])], cycles=6, layers=[0])
    activity.paused[0] = 8
    found = attribute(activity, 1)
    assert found.table[0].tolist() == [0, 6, 0, 0, 0, 0, 0]
    activity.paused[0] = 4
    assert attribute(activity, 1).table[0].tolist() == [2, 4, 0, 0, 0, 0, 0]


# -- roofline ------------------------------------------------------------------------------------------------------

LAYERS: tuple[dict[str, Any], ...] = (
    {"name": "a", "useful": 3000, "cycles": 40, "alone_cycles": 60, "read_bytes": 30, "write_bytes": 150},
    {"name": "b", "useful": 100, "cycles": 60, "alone_cycles": 20, "read_bytes": 1000, "write_bytes": 7},
    {"name": "c", "useful": 0, "cycles": 60, "alone_cycles": 60, "read_bytes": 10, "write_bytes": 0},
    {"name": "d", "useful": 50, "cycles": 0, "alone_cycles": 10, "read_bytes": 10, "write_bytes": 0},
    {"name": "e", "useful": 64, "cycles": 8, "alone_cycles": 8, "read_bytes": 0, "write_bytes": 0},
)  # fmt: skip


def roofline(ports: int) -> str:
    data = {
        "config_parameters": {"axi_bits": 64, **({"axi_ports": ports} if ports > 1 else {})},
        "array_macs_per_cycle": 256,
        "cycles": 160,
        "layers": [{**layer, "bound": "load"} for layer in LAYERS],
    }
    return roofline_svg(data, COLOURS)


def scale(svg: str, axis: str) -> Any:
    """From a coordinate to its value, by the numbers on an axis."""
    at = {"x": r'<text x="([\d.]+)" y="[\d.]+" text-anchor="middle">([\d.e+-]+)<',
          "y": r'<text x="[\d.]+" y="([\d.]+)" text-anchor="end">([\d.e+-]+)<'}[axis]  # fmt: skip
    marks = [
        (float(place) - (4 if axis == "y" else 0), math.log10(float(value))) for place, value in re.findall(at, svg)
    ]
    (first, low), (last, high) = marks[0], marks[-1]
    assert len(marks) > 1
    return lambda place: 10 ** (low + (float(place) - first) * (high - low) / (last - first))


@pytest.mark.parametrize("ports", [1, 2])
def test_dots_and_roof_are_where_the_axes_say(ports: int) -> None:
    svg, beat = roofline(ports), 8 * ports
    x, y = scale(svg, "x"), scale(svg, "y")
    assert x(740) > x(56), "to the right, and"
    assert y(16) > y(280), "upwards"
    dots = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="([\d.]+)"[^>]*><title>(\w):', svg)
    assert [name for *_, name in dots] == ["a", "b", "e"]
    wanted = {"a": (3000 / 150, 3000 / 60), "b": (100 / 1000, 100 / 60), "e": (64 / 1, 64 / 8)}
    for cx, cy, radius, name in dots:
        assert (x(cx), y(cy)) == pytest.approx(wanted[name], rel=0.01)
        cycles = next(layer["cycles"] for layer in LAYERS if layer["name"] == name)
        assert float(radius) == pytest.approx(4 + 12 * math.sqrt(cycles / 160), abs=0.06)
    (roof,) = re.findall(r'points="([^"]+)"', svg)
    (low, slope), (ridge, top), (_, flat) = (
        (x(px), y(py)) for px, py in (pair.split(",") for pair in roof.split())
    )  # fmt: skip
    assert slope == pytest.approx(low * beat, rel=0.02)
    assert (ridge, top, flat) == pytest.approx((256 / beat, 256, 256), rel=0.02)
    assert f"bus: {beat} B/cycle" in svg


# -- memories ------------------------------------------------------------------------------------------------------


def test_a_part_is_held_from_the_first_writing_to_the_step_of_the_last_use() -> None:
    picture = _Picture(100, 4)
    picture.write(0, 24, 3, 0)
    picture.read(10, 10, 7)
    picture.read(10, 10, 5)
    picture.write(24, 25, 9, 0)  # the same layer goes on, and takes the next part too
    picture.write(0, 0, 12, 2)
    picture.write(99, 99, 20, 5)
    picture.close()
    assert picture.spans == [[[3, 10, 0], [12, 13, 2]], [[9, 10, 0]], [], [[20, 21, 5]]]
    assert (_Picture(3, 4).rows, _Picture(4, 4).rows) == (3, 4)


def test_programs_one_after_another_have_their_own_layers_and_times() -> None:
    (run,) = Executable(make_artifact()).run(images(1))[1].runs
    alone, both = memory_pictures([run]), memory_pictures([run, run])
    for memory, twice in zip(alone, both, strict=True):
        for part, parts in zip(memory["parts"], twice["parts"], strict=True):
            first, second = parts[: len(part)], parts[len(part) :]
            assert [layer for *_, layer in first] == [layer for *_, layer in part]
            assert [layer for *_, layer in second] == [2 + layer for *_, layer in part]
            for (begin, _, _), (early, _, _), (late, _, _) in zip(part, first, second, strict=True):
                assert abs(early - begin / 2) <= 1
                assert abs(late - COLUMNS / 2 - begin / 2) <= 1
    cycles = run.counters.cycles
    assert run.activity is not None
    stored = int(np.max(run.activity.begin))
    assert max(end for part in alone[0]["parts"] for _, end, _ in part) >= stored * COLUMNS // cycles
    half = dataclasses.replace(run, counters=dataclasses.replace(run.counters, events=None))
    assert memory_pictures([run, half]) == []
