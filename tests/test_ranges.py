"""Numbers given by name: what they may be, and every place that takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.conftest import REPOSITORY
from tests.runtime.network import images, make_artifact, make_program
from tilewright.checking import reference_outputs
from tilewright.comparing import compare
from tilewright.errors import TilewrightError
from tilewright.jit.place.energy import Power
from tilewright.ranges import ArgumentError, flag, real, whole
from tilewright.runtime.executable import Executable
from tilewright.sim import initial_segments, simulate

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
NO_COUNT = (0, -1, 1.5, 1.0, "2", True, None, float("nan"), np.float32(2), [1], 10**30)
NO_NUMBER = (-1, "3", True, None, float("nan"), float("inf"), [1.0], 1j)


def test_what_is_in_range() -> None:
    assert [whole("n", value, 1, 4) for value in (1, 4, np.int8(3))] == [1, 4, 3]
    assert type(whole("n", np.int8(3), 1)) is int
    assert [real("x", value, 0, 4) for value in (0, 4.0, np.float32(0.5))] == [0.0, 4.0, 0.5]
    assert type(real("x", 4, 0)) is float
    assert flag("f", True)
    assert not flag("f", False)


@pytest.mark.parametrize("value", NO_COUNT)
def test_what_is_no_count(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^n = .*: must be an integer from 1 to 2,000 of them$"):
        whole("n", value, 1, 2000, of="of them")
    for objective in (None, "throughput"):
        with pytest.raises(TilewrightError, match="^jobs = .*must be an integer from 1 to 256 threads"):
            tw.compile(DIGITS, "tiny", objective=objective, jobs=value)
    if value is not None:  # which leaves it out
        with pytest.raises(TilewrightError, match="jobs = .*must be an integer from 1 to 256 threads"):
            Executable(make_artifact()).run(images(1), jobs=value)
        with pytest.raises(TilewrightError, match="^watchdog = .*must be an integer from 1"):
            simulate(make_program(), initial_segments(make_program()), watchdog=value)


@pytest.mark.parametrize("value", NO_NUMBER)
def test_what_is_no_number(value: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"^x = .*: must be a number from 0 to 2.5 W$"):
        real("x", value, 0, 2.5, of="W")
    report = tmp_path / "r.json"
    Executable(make_artifact()).run(images(1))[1].save_json(report)
    with pytest.raises(TilewrightError, match="^most_percent = .*must be a number of at least 0 %"):
        compare(report, report, value)
    with pytest.raises(TilewrightError, match="^host_watts = .*must be a number from 0"):
        Power(value)
    with pytest.raises(
        TilewrightError, match="^host_idle_watts = .*must be a number from 0 to 2 W, which is host_watts"
    ):
        Power(2, value)


@pytest.mark.parametrize("name", ["keep_intermediates", "fast_host", "cache"])
def test_words_are_neither_true_nor_false(name: str) -> None:
    with pytest.raises(TilewrightError, match=f"^{name} = 'no': must be True or False"):
        tw.compile(DIGITS, "tiny", **{name: "no"})  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "more",
    [
        {"objective": "speed"},
        {"objective": 3},
        {"exact": "nearly"},
        {"exact": None},
        {"exact": ["close"]},
        {"example": np.zeros(1)},
    ],
)
def test_what_a_file_is_not_compiled_with(more: dict[str, Any]) -> None:
    with pytest.raises(TilewrightError, match=f"^.*{next(iter(more))}.*(must be one of (latency|proven)|leave it out)"):
        tw.compile(DIGITS, config="tiny", **more)


@pytest.mark.parametrize("inputs", [[], [np.zeros((0, 1, 8, 8), np.uint8)], [5], [np.uint8(3)], [np.zeros(1)] * 2])
def test_what_is_no_input_of_a_check(inputs: list[Any]) -> None:
    with pytest.raises(TilewrightError, match="^--check: .*takes (1 inputs, [02] given|NumPy arrays)"):
        reference_outputs(str(DIGITS), inputs)


@pytest.mark.parametrize("segments", [[[0] * 4096], [b"x" * 4096], [None]])
def test_what_is_no_segment(segments: list[Any]) -> None:
    program = make_program()
    with pytest.raises(TilewrightError, match="needs a contiguous 1-D uint8 array, got (list|bytes|NoneType)"):
        simulate(program, segments * len(program.segments))
