"""The constants behind the integers: against gemmlowp's two steps, brute force, and ONNX Runtime itself."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.jit.onnx_models import onnx_runtime
from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT, rescale, scale_round
from tilewright.isa.functions import Rounding
from tilewright.jit.graph import Add
from tilewright.jit.layers.builder import ONNX_RUNTIME, GraphBuilder, Layer, Operand, Output, Quantisation
from tilewright.jit.layers.elementwise import element_wise
from tilewright.jit.numbers.float_pairs import Sum, Term, fit_sum
from tilewright.jit.numbers.float_scaling import (
    double_output,
    float32_constants,
    float_output,
    require_float32,
    thresholds,
    tune,
)
from tilewright.jit.numbers.float_tables import add_table, requantize_table
from tilewright.jit.numbers.scales import (
    NotRepresentable,
    average_requant,
    exact_shift,
    input_scale,
    make_requant,
    mean_requant,
    quantize_multiplier,
    reachable,
    softmax_constants,
)
from tilewright.jit.reference import result_of
from tilewright.runtime.host import doubling_high_mul, rounding_divide_by_pot, softmax_int8

scales_below_one = st.floats(2.0**-31, 0.999, allow_nan=False).map(float)
int32s = st.integers(-(1 << 31), (1 << 31) - 1)


@given(scales_below_one, st.lists(int32s, min_size=1, max_size=50))
def test_double_rounding_is_one_shift(scale: float, values: list[int]) -> None:
    """SaturatingRoundingDoublingHighMul, then RoundingDivideByPOT, equal one multiplication and shift."""
    multiplier, shift = quantize_multiplier(scale)
    acc = np.array(values, np.int64)
    two_steps = rounding_divide_by_pot(doubling_high_mul(acc, multiplier), shift - 31)
    np.testing.assert_array_equal(scale_round(acc, multiplier, shift, 0, Rounding.DOUBLE), two_steps)


@given(scales_below_one)
def test_multiplier_is_the_nearest(scale: float) -> None:
    multiplier, shift = quantize_multiplier(scale)
    assert 1 << 30 <= multiplier < 1 << 31
    assert abs(multiplier - scale * 2.0**shift) <= 0.5


@pytest.mark.parametrize(
    "scale,pair",
    [
        (0.0, (0, 31)),
        (0.5, (1 << 30, 31)),
        (1.0, (1 << 30, 30)),
        (2.0**-32, (1 << 30, 62)),
        (2.0**-33, (0, 31)),
        (1 - 2.0**-40, (1 << 30, 30)),
    ],
)
def test_multiplier_at_the_edges(scale: float, pair: tuple[int, int]) -> None:
    assert quantize_multiplier(scale) == pair


def test_scales_of_one_and_more_need_proof_of_room() -> None:
    with pytest.raises(NotRepresentable, match="overflow"):
        make_requant(1.5, rounding=Rounding.DOUBLE, zero_point=0)
    make_requant(1.5, rounding=Rounding.DOUBLE, zero_point=0, reach=255)
    with pytest.raises(NotRepresentable, match="overflow"):
        make_requant(1.5, rounding=Rounding.DOUBLE, zero_point=0, reach=1 << 30)
    make_requant(1 - 2.0**-20, rounding=Rounding.DOUBLE, zero_point=0)
    with pytest.raises(NotRepresentable, match="overflow"):  # where the zero point is added
        make_requant(1 - 2.0**-24, rounding=Rounding.DOUBLE, zero_point=0)
    with pytest.raises(NotRepresentable):
        quantize_multiplier(float("inf"))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9, 15, 25, 49, 64, 125, 256, 1024])
def test_average_reciprocal_is_division(count: int) -> None:
    requant = average_requant(count, 1, -128, 127)
    sums = np.arange(-128 * count, 127 * count + 1)
    wanted = [int(abs(s) / count + 0.5) * (1 if s > 0 else -1) for s in sums.tolist()]
    got = scale_round(sums, int(requant.multiplier[0]), int(requant.shift[0]), 0, Rounding.SINGLE)
    np.testing.assert_array_equal(got, wanted)


@given(st.integers(-128, 127))
def test_exact_shift_subtracts_the_zero_point(zero_point: int) -> None:
    x = np.arange(-128, 128)
    scale = exact_shift(zero_point)
    got = rescale(x, scale.bias, scale.multiplier, scale.shift, 0, Rounding.SINGLE)
    np.testing.assert_array_equal(got, x - zero_point)


@given(st.integers(0, 2**32 - 1))
def test_reachable_range_is_attained(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weight = rng.integers(-128, 128, (5, 3)).astype(np.int8)
    low, high = reachable(weight, np.array([7, -3, 0]))
    x = np.where(weight.astype(int) > 0, 127, -128)
    np.testing.assert_array_equal((x * weight).sum(axis=0) + [7, -3, 0], high)
    x = np.where(weight.astype(int) > 0, -128, 127)
    np.testing.assert_array_equal((x * weight).sum(axis=0) + [7, -3, 0], low)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(2.0**-12, 0.4).map(np.float32),
    st.integers(-128, 127),
    st.integers(-60000, 0),
    st.integers(1, 60000),
    st.sampled_from([(-128, 127), (-20, 90), (127, 127)]),
)
def test_constants_of_a_staircase_against_brute_force(
    scale: np.float32, zero_point: int, low: int, high: int, clamp: tuple[int, int]
) -> None:
    """Float64 scaling, for every accumulator in the range: where the constants are said to be exact, all are equal."""
    ends = np.array([low]), np.array([high])
    table = thresholds(np.array([scale]), *ends, zero_point, *clamp, double_output)
    tuned = tune([scale], *ends, zero_point, *clamp, table)
    acc = np.arange(low, high + 1, dtype=np.int64)
    ours = np.clip(scale_round(acc, tuned.multiplier, tuned.shift, tuned.offset, tuned.rounding) + zero_point, *clamp)
    equal = (ours == double_output(acc, scale, zero_point, *clamp)).all()
    assert equal == tuned.exact[0]


@settings(max_examples=100, deadline=None)
@given(
    st.one_of(st.floats(2.0**-40, 127.0), st.integers(1, 200).map(lambda n: n / 1000)).map(np.float32),
    st.lists(int32s, min_size=1, max_size=50),
)
def test_float32_constants_scale_every_accumulator(scale: np.float32, values: list[int]) -> None:
    ties = np.rint((np.arange(256) + 0.5) / np.float64(scale)).clip(-(2**31), 2**31).astype(np.int64)
    acc = np.concatenate([np.array(values, np.int64), ties])
    acc = acc[np.abs(acc) <= 1 << 24]
    multiplier, shift = float32_constants([scale])
    got = scale_round(acc, multiplier, shift, 0, Rounding.FLOAT32)
    np.testing.assert_array_equal(np.clip(got, -128, 127), float_output(acc, scale, 0, -128, 127))


def test_float32_constants_at_the_edges() -> None:
    multiplier, shift = float32_constants([0.0, 2.0**-70, 1.0, 100.0, 2.0**-20 * 1.5])
    assert (multiplier * 2.0 ** (-24.0 - shift)).tolist() == [0.0, 0.0, 1.0, 100.0, 2.0**-20 * 1.5]
    for scale in (-0.5, np.nan, np.inf, 128.0):
        with pytest.raises(NotRepresentable):
            float32_constants([scale])
    far = np.array([1 << 25])
    for scale in (2.0**-16, 2.0**-33):
        require_float32([scale], -far, far)
    with pytest.raises(NotRepresentable, match="beyond 2"):
        require_float32([2.0**-17], -far, far)
    require_float32([2.0**-17], -far // 2, far // 2)


def _summed(fitted: Sum) -> np.ndarray:
    """(256, 256): the results of all pairs, by the reference of the graph."""
    x = np.arange(-128, 128, dtype=np.int8)
    a, b = (np.broadcast_to(v, (1, 256, 256, 1)) for v in (x[:, None, None], x[None, :, None]))
    first, second = fitted.scales
    op = Add(
        name="", inputs=[], output="", scale_a=first, scale_b=second, requant=fitted.requant,
        corrections=fitted.corrections,
    )  # fmt: skip
    return np.asarray(result_of(op, a, b)).reshape(256, 256)


DECIMAL = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12]


@settings(max_examples=25, deadline=None)
@given(*[st.one_of(st.floats(0.02, 0.2), st.sampled_from(DECIMAL))] * 3, st.integers(0, 2**32 - 1), st.booleans())
def test_a_fitted_sum_gives_every_pair(a: float, b: float, c: float, seed: int, unsigned: bool) -> None:
    zero_points = tuple(int(z) for z in np.random.default_rng(seed).integers(-128, 128, 3))
    wanted = add_table((a, b, c), (zero_points[0], zero_points[1], zero_points[2]), unsigned=unsigned)
    terms = Term(a / c, zero_points[0]), Term(b / c, zero_points[1])
    fitted = fit_sum(wanted, terms, -128 if unsigned else 0, -128, 127, 1)
    if fitted is not None:
        np.testing.assert_array_equal(_summed(fitted), np.clip(wanted, -128, 127))


@pytest.mark.parametrize("unsigned", [False, True])
def test_sums_of_calibrated_and_of_decimal_scales_are_found(unsigned: bool) -> None:
    """All of the former, and of the latter all but a few in a hundred; some of those with a table of corrections."""
    rng, found, corrected = np.random.default_rng(int(unsigned)), 0, 0
    for number in range(40):
        draw = (lambda: rng.choice(DECIMAL)) if number % 2 else (lambda: np.exp(rng.uniform(-5, -1.6)))
        a, b = float(draw()), float(draw())
        c, zeros = max(a, b), [int(z) for z in rng.integers(-128, 128, 3)]
        wanted = add_table((a, b, c), (zeros[0], zeros[1], zeros[2]), unsigned=unsigned)
        terms = Term(a / c, zeros[0]), Term(b / c, zeros[1])
        fitted = fit_sum(wanted, terms, -128 if unsigned else 0, -128, 127, 1)
        assert fitted is not None or number % 2
        if fitted is not None:
            found, corrected = found + 1, corrected + bool(fitted.corrections)
            np.testing.assert_array_equal(_summed(fitted), np.clip(wanted, -128, 127))
    assert found >= 39
    assert corrected


def _element_wise(path: Path, operator: str | None, parameters: list[tuple[float, int]], shape: list[int]) -> Path:
    """DequantizeLinear of each input, the operator (none: the first input alone), QuantizeLinear to the last."""
    constants, nodes, names = [], [], []
    for i, (scale, zero_point) in enumerate(parameters):
        constants.append(numpy_helper.from_array(np.asarray(scale, np.float32), f"s{i}"))
        constants.append(numpy_helper.from_array(np.asarray(zero_point, np.int8), f"z{i}"))
    for i in range(len(parameters) - 1):
        nodes.append(helper.make_node("DequantizeLinear", [f"x{i}", f"s{i}", f"z{i}"], [f"f{i}"]))
        names.append(f"x{i}")
    last = len(parameters) - 1
    result = "f0"
    if operator:
        nodes.append(helper.make_node(operator, [f"f{i}" for i in range(last)], ["r"]))
        result = "r"
    nodes.append(helper.make_node("QuantizeLinear", [result, f"s{last}", f"z{last}"], ["y"]))
    info = [helper.make_tensor_value_info(name, TensorProto.INT8, shape) for name in [*names, "y"]]
    graph = helper.make_graph(nodes, "g", info[:-1], info[-1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


@pytest.mark.parametrize("seed", range(5))
def test_tables_are_onnx_runtimes(seed: int, tmp_path: Path) -> None:
    """All 65,536 pairs through QLinearAdd, all 256 values through a change of scale."""
    rng = np.random.default_rng(seed)
    s = [float(np.float32(v)) for v in rng.uniform(0.005, 0.1, 3)]
    z = [int(v) for v in rng.integers(-128, 128, 3)]
    x = np.arange(-128, 128).astype(np.int8)
    a, b = np.meshgrid(x, x, indexing="ij")
    path = _element_wise(tmp_path / "add.onnx", "Add", list(zip(s, z)), [1, 1, 256, 256])
    (wanted,) = onnx_runtime(path, {"x0": a[None, None], "x1": b[None, None]})
    table = add_table((s[0], s[1], s[2]), (z[0], z[1], z[2]))
    np.testing.assert_array_equal(np.clip(table, -128, 127), wanted[0, 0])
    path = _element_wise(tmp_path / "scale.onnx", None, [(s[0], z[0]), (s[1], z[1])], [1, 256])
    (wanted,) = onnx_runtime(path, {"x0": x[None]})
    np.testing.assert_array_equal(np.clip(requantize_table(s[0], z[0], s[1], z[1]), -128, 127), wanted[0])


@given(st.integers(0, 2**32 - 1), st.floats(0.001, 1.0), st.integers(2, 1001))
def test_softmax_is_a_softmax(seed: int, scale: float, size: int) -> None:
    x = np.random.default_rng(seed).integers(-128, 128, (2, size)).astype(np.int8)
    got = softmax_int8(x, *softmax_constants(scale)).astype(np.float64)
    real = np.exp((x - x.max(axis=1, keepdims=True).astype(np.float64)) * float(np.float32(scale)))
    wanted = np.clip(256 * real / real.sum(axis=1, keepdims=True) - 128, -128, 127)
    assert np.abs(got - wanted).max() <= 1


def test_requantisation_is_exact_for_any_scales() -> None:
    """By constants where some give all 256 results, else by a table."""
    tables = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        odd, powers = np.exp(rng.uniform(-12, 5, 2)), 2.0 ** rng.integers(-6, 3, 2) * rng.choice([1, 0.5, 0.3, 3], 2)
        a, y = (float(np.float32(v)) for v in (odd if seed % 3 else powers))
        i, j, low = int(rng.integers(-128, 128)), int(rng.integers(-128, 128)), int(rng.integers(-128, 0))
        builder = GraphBuilder(ONNX_RUNTIME)
        x = Operand(builder.declare("x", (1, 1, 256, 1)), (1, 1, 256, 1), Quantisation(a, i))
        scale, requant = element_wise(Layer(builder, "y"), x, Output(Quantisation(y, j), low, 100))
        got = requant.apply(scale.apply(np.arange(-128, 128).astype(np.int8)))
        np.testing.assert_array_equal(got, np.clip(requantize_table(a, i, y, j), low, 100))
        assert all(layer.proven for layer in builder.exactness)
        tables += scale.table is not None
    assert 0 < tables < 40


@pytest.mark.parametrize("scale", [2.0**-26 * 0.4, 2.0**-26 * 0.6, 2.0**-26, 0.1, 40.0, 1e9])
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_softmax_constants_are_a_scale_in_26_bits_behind_the_point(scale: float, beta: float) -> None:
    real = min(beta * float(np.float32(scale)) * 2.0**26, 2.0**31 - 1)
    if real < 0.5:
        with pytest.raises(NotRepresentable, match=r"is below 2\^-26"):
            softmax_constants(scale, beta)
        return
    multiplier, left_shift, least = softmax_constants(scale, beta)
    assert multiplier / 2**31 * 2**left_shift == pytest.approx(real, rel=1e-9)
    assert left_shift >= 0
    # the least difference whose product still has no more than 5 bits ahead of the point
    assert -least <= 31 * 2**26 / 2**left_shift < 1 - least


@pytest.mark.parametrize("scale", [0.5, 0.9999, 1.0, 1.5, 2.0, 7.9, 8.1, 100.0])
def test_input_scales_shift_no_int8_value_out_of_int32(scale: float) -> None:
    """A shift to the left by one or more is LiteRT's own, of the difference times 2^20."""
    left = math.frexp(scale)[1]
    if 255 << RESCALE_LEFT_SHIFT + max(0, left) >= 1 << 31:
        with pytest.raises(NotRepresentable, match=f"input scale {scale:.6g} may overflow int32"):
            input_scale(scale, 5)
    else:
        found = input_scale(scale, 5)
        assert found.bias == -5 << RESCALE_LEFT_SHIFT
        assert found.multiplier / 2.0**found.shift == pytest.approx(scale, rel=1e-9)


@pytest.mark.parametrize("count", [1, 2, 3, 6, 64, 1000, 70_000])
@pytest.mark.parametrize("ratio", [2.0**-31, 2.0**-20, 0.001, 0.3, 1.0])
def test_means_fold_the_count_as_far_as_the_shift_goes(count: int, ratio: float) -> None:
    """As LiteRT does: the multiplier is shifted by the count's bits, and no shift of it is below none."""
    requant = mean_requant(ratio, 3, 1.0, -4, count, 2)
    multiplier, shift = quantize_multiplier(float(np.float32(ratio)))
    fold = min(count.bit_length() - 1, 32, 62 - shift)
    assert requant.multiplier.tolist() == [(multiplier << fold) // count] * 2
    assert requant.shift.tolist() == [shift + fold] * 2
    assert requant.shift[0] <= 62
    assert requant.bias.tolist() == [-3 * count] * 2
    assert (requant.zero_point, requant.rounding) == (-4, Rounding.DOUBLE)


def test_averages_whose_reciprocal_is_beyond_int32_are_not_given() -> None:
    for count in (1, 2, 5, 17, 300):
        requant = average_requant(count, 3, -128, 127)
        assert 0 < int(requant.multiplier.max()) < 1 << 31
        assert int(requant.multiplier[0]) == (1 << int(requant.shift[0])) // count + 1
