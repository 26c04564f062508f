"""One lane of the ALU against the arithmetic of the instruction set: corners of all operands, and many random ones."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hw.lane_alone import TINY, LaneAlone, lane_verilog
from tests.hw.lane_programs import EXTREMES, numbers
from tests.hw.mapped import mapped
from tilewright.hw.rtl import alu_lane
from tilewright.isa.arithmetic import requantize, rescale
from tilewright.isa.functions import RESCALING, AluOp, Combine, Rounding
from tilewright.isa.spec import Opcode, roundings

RANDOM = 20_000
CLAMPS = ((0, -128, 127), (-128, -128, 127), (127, -128, 127), (5, -3, 100), (-7, 100, -100))  #: zero point, lo, hi


@pytest.fixture(scope="module")
def lane(toolchain: None, tmp_path_factory: pytest.TempPathFactory) -> LaneAlone:
    return LaneAlone(tmp_path_factory.mktemp("lane"), lane_verilog())


def operands(seed: int, count: int = RANDOM) -> dict[str, np.ndarray]:
    """Random operands of all magnitudes; then every pair of extremes scaled by every shift; then ties."""
    rng = np.random.default_rng(seed)
    names = ("src", "dst", "bias", "multiplier", "offset")
    found = {name: numbers(rng, count) for name in names}
    found["act"], found["shift"] = rng.integers(-128, 128, count), rng.integers(0, 64, count)
    found["offset"][rng.random(count) < 0.5] = 0
    value, multiplier, shift = (g.ravel() for g in np.meshgrid(EXTREMES, EXTREMES, np.arange(64)))
    corner = {"src": value, "multiplier": multiplier, "shift": shift, "dst": rng.choice(EXTREMES, len(shift))}
    shift = rng.integers(1, 64, count)
    odd = 2 * rng.integers(-300, 300, count) + 1
    tie = {"src": odd * (1 << np.minimum(shift - 1, 20)), "multiplier": 1 << np.clip(shift - 21, 0, 30), "shift": shift}
    tie["offset"] = rng.integers(-1, 2, count)
    near = {
        "src": numbers(rng, count) >> 20,
        "multiplier": rng.integers(1, 4, count),
        "shift": rng.integers(0, 4, count),
    }
    zeros = dict.fromkeys((*names, "act", "shift"), 0)
    groups = [found, *({name: group.get(name, np.zeros(len(group["src"]), int)) for name in zeros}
                       for group in (corner, tie, near, beside_float_ties(rng, 4 * count)))]  # fmt: skip
    return {name: np.concatenate([g[name] for g in groups]).astype("<i4") for name in zeros}


def beside_float_ties(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Products at the edges of what FLOAT32's first rounding makes a tie, and at some distances from it."""
    n, shift = rng.integers(-520, 520, count), rng.integers(0, 28, count)
    n = np.where(rng.random(count) < 0.5, n >> rng.integers(0, 10, count), n)
    size = np.frexp(np.where(n < 0, -n - 1, n).astype(float))[1]  # bits of the smaller neighbour
    edge = np.int64(1) << np.maximum(shift + size - 1, 0)  # half a unit of the last of 24 bits there
    distance = rng.choice([0, 1, 1, 1, 2], count) * edge * rng.choice([-1, 1], count) + rng.integers(-1, 2, count)
    product = (2 * n + 1) * (np.int64(1) << (shift + 23)) + distance
    bits = np.clip(shift + 23, 0, 30)
    return {"src": product >> bits, "multiplier": 1 << bits, "offset": product & ((1 << bits) - 1), "shift": shift}


def scale(o: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return o["bias"], o["multiplier"], o["shift"], o["offset"]


def requantizes(lane: LaneAlone, rounding: Rounding, seeds: range = range(len(CLAMPS))) -> bool:
    for seed in seeds:
        o, (zero_point, lo, hi) = operands(seed), CLAMPS[seed]
        fields = {"rounding": int(rounding), "zero_point": zero_point, "lo": lo, "hi": hi}
        expected = requantize(o["src"], *scale(o), rounding, zero_point, lo, hi)
        if not np.array_equal(lane(Opcode.REQUANTIZE, fields, **o).astype(np.int8), expected):
            return False
    return True


def rescales(lane: LaneAlone, rounding: Rounding, combine: Combine) -> bool:
    o = operands(int(combine))
    o["bias"] = np.where(np.arange(len(o["act"])) < RANDOM, o["bias"], o["src"])  # its extremes come by the bias
    expected = combine.apply(o["dst"], rescale(o["act"], *scale(o), rounding))
    fields = {"rounding": int(rounding), "combine": int(combine)}
    return np.array_equal(lane(Opcode.RESCALE, fields, **o), expected)


def computes(lane: LaneAlone, function: AluOp) -> bool:
    o = operands(int(function))
    small = {**o, "src": o["src"] % 64}  # counts, which random numbers seldom are
    return all(
        np.array_equal(lane(Opcode.ALU, {"function": int(function)}, **x), function.apply(x["dst"], x["src"]))
        for x in (o, small)
    ) and all(
        np.array_equal(
            lane(Opcode.ALU, {"function": int(function), "use_imm": 1, "imm": imm}, **o), function.apply(o["dst"], imm)
        )
        for imm in EXTREMES
    )


@pytest.mark.parametrize("rounding", list(Rounding))
def test_requantize_is_exact(lane: LaneAlone, rounding: Rounding) -> None:
    assert requantizes(lane, rounding)


@pytest.mark.parametrize("rounding", RESCALING)
@pytest.mark.parametrize("combine", list(Combine))
def test_rescale_is_exact(lane: LaneAlone, rounding: Rounding, combine: Combine) -> None:
    assert rescales(lane, rounding, combine)


@pytest.mark.parametrize("function", list(AluOp))
def test_functions_are_exact(lane: LaneAlone, function: AluOp) -> None:
    assert computes(lane, function)


def test_a_lane_of_a_config_without_float32_has_no_such_logic(toolchain: None, tmp_path: Path) -> None:
    config = TINY.replace(float32_scaling=False)
    sources = lane_verilog(config=config)
    assert all(name in lane_verilog()["lane_alone.v"] for name in ("odd_15", "kept_always_15"))
    assert not any(name in text for name in ("odd_15", "kept_always_15") for text in sources.values())
    lane = LaneAlone(tmp_path, sources)
    assert all(requantizes(lane, rounding, range(1)) for rounding in roundings(config))


@pytest.mark.slow
def test_what_yosys_maps_it_to_is_equal(toolchain: None, tmp_path: Path) -> None:
    lane = LaneAlone(tmp_path, {"mapped.v": mapped(lane_verilog(), "lane_alone", tmp_path)})
    assert all(requantizes(lane, rounding, range(1)) for rounding in Rounding)
    assert all(rescales(lane, Rounding.DOUBLE, combine) for combine in Combine)
    assert all(computes(lane, function) for function in AluOp)


CHANGES = (
    ("shift_13 = carry(shift_12, 13)", "shift_13 = shift_12"),
    ("shift_14 = carry(shift_13, 14)", "shift_14 = shift_13"),
    ("sign_15 = carry(sign_14, 15)", "sign_15 = sign_14"),
    ("carry(old_9, 15)", "carry(old_9, 14)"),
    ("below_14 | below_4", "below_4"),
    ("below_14 | below_4", "below_14"),
    ("_below(low_14,", "_below(low_4,"),
    (" | _below(low_1, shift_14[:2])", ""),
    ("beyond_14 | beyond_4", "beyond_4"),
    ("beyond_14 | beyond_4", "beyond_14"),
    ("_beyond(high_14,", "_beyond(high_4,"),
    (" | _beyond(high_1, shift_14[:2])", ""),
    ("over = beyond_15 | (r_15[9:31] != r_15[31].replicate(22))", "over = beyond_15"),
    ("ends = Mux(greatest, ", "ends = Mux(0, "),
    ("(overflow_14 & now.to_even)", "Const(0, 1)"),
    ("word[0] & now.rounds & (", "word[0] & ("),
    ("Mux(scaled, self.bias_7, 0)", "self.bias_7"),
    ("Mux(scaled, self.offset_7, 0)", "self.offset_7"),
    ("now.in_float & part", "part"),
    ("Mux(up_15, next_one, plain)", "plain"),
    ("clamped | (up_15 & most)", "clamped"),
)
MULTIPLY = (
    ("bottom_3 <= bottom_2;", "bottom_3 <= low_low[16:0];"), ("(low_low >>> 17)", "(low_low >> 17)"),
    ("a_high_3 * b_high_3", "a_high_2 * b_high_3"),
    ("b_high = b[33:17]", "b_high = {{2{b[31]}}, b[31:17]}"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("change", [*CHANGES, *MULTIPLY], ids=lambda change: change[0])
def test_the_checks_notice(toolchain: None, change: tuple[str, str], tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": alu_lane.__name__}
    text = inspect.getsource(alu_lane)
    exec(text.replace(*change), names)
    sources = lane_verilog(names["AluLane"])
    broken = {name: source.replace(*change) for name, source in sources.items()}
    assert text.count(change[0]) + sum(source.count(change[0]) for source in sources.values()) == 1
    lane = LaneAlone(tmp_path, broken)
    assert not (
        all(requantizes(lane, rounding, range(1)) for rounding in Rounding)
        and all(rescales(lane, Rounding.EVEN, combine) for combine in Combine)
        and all(computes(lane, function) for function in AluOp)
    )
