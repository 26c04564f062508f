"""The compiled host library gives the bytes of its NumPy reference, and its errors."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.isa.build import PAIRED
from tilewright.isa.dram_order import DramOrder
from tilewright.runtime import host
from tilewright.runtime.native import build
from tilewright.runtime.native import library as loading
from tilewright.runtime.native.library import library
from tilewright.runtime.native.order import CompiledOrder
from tilewright.runtime.steps import (
    CastStep,
    DequantizeStep,
    Form,
    PackStep,
    QuantizeStep,
    SoftmaxStep,
    StepError,
    TableSoftmaxStep,
    UnpackStep,
)

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.skipif(build.compiler() is None, reason="there is no C compiler")


def integers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], low: int, high: int) -> Array:
    """Of a dtype, within it and from ``low`` to ``high``."""
    limits = np.iinfo(dtype)
    return rng.integers(max(low, limits.min), min(high, limits.max) + 1, shape).astype(dtype)


def draw_pack(rng: np.random.Generator) -> tuple[PackStep, tuple[int, ...], str]:
    channels, lanes = int(rng.choice([1, 2, 3, 5, 16, 17, 40])), int(rng.choice([1, 4, 16]))
    shape: Any = (1, *(int(v) for v in rng.integers(1, 12, 2)), channels)
    layout: Any = str(rng.choice(["rows", "patches", "blocks"]))
    kernel, strides, dilation = ((int(a), int(b)) for a, b in rng.integers(1, [[5], [4], [3]], (3, 2)))
    values = channels * (kernel[0] * kernel[1] if layout == "patches" else 1)
    block = int(rng.integers(1, 3)) if layout == "blocks" else 1
    units = -(-(-(-values // lanes) + int(rng.integers(0, 2))) // block) * block
    permutation = [None, (0, 2, 3, 1), (0, 3, 1, 2)][rng.integers(0, 3)]
    tensor = shape if permutation is None else tuple(shape[permutation.index(axis)] for axis in range(4))
    dtype, offset = [("int8", 0), ("uint8", -128), ("int8", -19), ("uint8", -97)][rng.integers(0, 4)]
    top, left, bottom, right = (int(v) for v in rng.integers(0, 4, 4))
    step = PackStep(
        "x", 0, shape, lanes, units, layout, batch=int(rng.choice([1, 1, 2])), permutation=permutation,
        value_offset=offset, padding=(top, left, bottom, right), pad_value=int(rng.integers(-128, 128)),
        channel_pad=int(rng.integers(-128, 128)), kernel=kernel, strides=strides, dilation=dilation, block=block,
    )  # fmt: skip
    return step, tensor, dtype


def test_packing_and_unpacking_equal_numpy() -> None:
    rng, packed = np.random.default_rng(0), 0
    for _ in range(600):
        step, shape, dtype = draw_pack(rng)
        try:
            step.check(Form(shape, dtype))
        except StepError:
            continue  # a window that does not fit
        x = integers(rng, dtype, (3, *shape), -128 - step.value_offset, 127 - step.value_offset)
        assert np.array_equal(step.apply(x), step.apply_numpy(x)), step
        assert all(step._structs.values()), "NumPy was compared with itself"
        packed += 1
        order = step.permutation
        unpack = UnpackStep(
            "y", 0, step.shape, shape, step.lanes, -(-step.shape[3] // step.lanes), batch=step.batch,
            permutation=None if order is None else tuple(order.index(axis) for axis in range(4)),
            value_offset=128, dtype=str(rng.choice(["uint8", "int16", "uint16", "int32"])),
        )  # fmt: skip
        data = integers(rng, "uint8", (3, unpack.size), 0, 255)
        assert unpack._struct is not None
        assert np.array_equal(unpack.apply(data), unpack.apply_numpy(data)), unpack
    assert packed > 400


def test_a_permutation_that_no_strides_express_is_numpys() -> None:
    step = PackStep("x", 0, (1, 3, 4, 5), lanes=4, units=2, permutation=(0, 2, 1))
    x = integers(np.random.default_rng(1), "int8", (2, 1, 5, 12), -128, 127)
    assert np.array_equal(step.apply(x), step.apply_numpy(x))
    assert list(step._structs.values()) == [None]


def test_values_that_leave_int8_are_named() -> None:
    step = PackStep("x", 0, (1, 1, 1, 4), lanes=4, units=1, value_offset=-100)
    with pytest.raises(StepError, match="pack x: values from -200 to 27 do not fit int8"):
        step.apply(np.array([[[-100, 127, 0, 5]]], np.int8))


def outcome(work: Callable[..., Array], *arguments: Any) -> tuple[object, ...]:
    """Dtype and bytes, or the error."""
    try:
        made = work(*arguments)
    except (OverflowError, ValueError) as error:
        return (str(error),)
    return made.dtype, made.shape, made.tobytes()


def test_softmaxes_equal_numpy() -> None:
    rng = np.random.default_rng(2)
    for _ in range(300):
        multiplier, shift = int(rng.integers(0, 1 << 31)), int(rng.integers(0, 32))
        least, columns = -int(rng.choice([0, 1, 124, 248, 1984])), int(rng.choice([1, 2, 10, 1001]))
        x = integers(rng, "int8", (3, 1, columns), -128, 127)
        step = SoftmaxStep("x", "y", multiplier, shift, least)
        if min(255, -least) << shift <= 1 << 31:
            found = outcome(step.apply, x)
            assert found == outcome(host.softmax_int8, x, multiplier, shift, least), step
        factor, zero_point = float(rng.choice([255.0, 256.0, 1e15])), int(rng.integers(0, 256))
        table = np.exp(rng.choice([0.01, 0.1, 1.0]) * (np.arange(256) - 255)).astype(np.float32)
        by_table = TableSoftmaxStep("x", "y", tuple(map(float, table)), factor, zero_point)
        assert np.array_equal(by_table.apply(x), host.softmax_by_table(x, table, factor, zero_point))
    x, step = np.zeros((1, 5000), np.int8), SoftmaxStep("x", "y", 1 << 30, 20, -100)
    with pytest.raises(OverflowError, match="the sum over 5000 elements exceeds int32"):
        step.apply(x)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_changes_of_type_equal_numpy() -> None:
    rng, dtypes = np.random.default_rng(3), ["int8", "uint8", "int16", "uint16", "int32"]
    refused = 0
    for _ in range(1500):
        source, target = (str(d) for d in rng.choice(dtypes, 2))
        offset, limits = int(rng.choice([0, 128, -128, 5, 300, -70000, 2**31 - 1])), np.iinfo(target)
        low, high = max(limits.min - offset, np.iinfo(source).min), min(limits.max - offset, np.iinfo(source).max)
        if low > high or rng.random() < 0.3:  # some leave the type
            low, high = -(1 << 31), (1 << 31) - 1
        x = integers(rng, source, (2, 1, 33), low, high)
        found = outcome(CastStep("x", "y", offset, target).apply, x)
        assert found == outcome(host.cast, x, offset, target)
        refused += len(found) == 1
        reals = (rng.standard_normal((2, 1, 40)) * 10.0 ** rng.integers(-3, 12)).astype(np.float32)
        reals[0, 0, :9] = [0.5, -0.5, 1.5, 2.5, np.inf, -np.inf, -0.0, 1e38, np.nan if rng.random() < 0.3 else 1]
        scale, zero_point = float(rng.choice([0.5, 1, 0.1, 1e-40])), int(rng.choice([0, 3, -128, 2**31 - 1]))
        for rounding in ("even", "away"):
            step = QuantizeStep("x", "y", scale, zero_point, target, rounding)
            found = outcome(step.apply, reals)
            assert found == outcome(host.quantize, reals, scale, zero_point, target, rounding), step
        zero_point = 0 if source == "int32" else int(rng.integers(-1000, 1000))
        step_back = DequantizeStep("x", "y", 1e35, zero_point)
        assert outcome(step_back.apply, x) == outcome(host.dequantize, x, 1e35, zero_point)
    assert 0 < refused < 1500


@pytest.mark.parametrize("bits,beats", [(64, 16), (64, 4), (32, 8), (128, 2)])
def test_the_order_in_dram_equals_numpys(bits: int, beats: int) -> None:
    rng, config = np.random.default_rng(5), PAIRED.replace(axi_bits=bits, burst_beats=beats, block_in=64, block_out=64)
    reference, compiled = DramOrder(config), CompiledOrder(config)
    memory = integers(rng, "uint8", (8 * reference.block,), 0, 255)
    for _ in range(200):
        count, stride = int(rng.integers(1, 4)), reference.block * int(rng.integers(1, 3))
        begin, end = sorted(int(v) for v in rng.integers(0, 2 * reference.block + 1, 2))
        size = end - begin
        assert compiled._native(memory, begin, stride, count, size) is not None
        read = reference.read_stack(memory, begin, stride, count, size)
        assert np.array_equal(compiled.read_stack(memory, begin, stride, count, size), read)
        rows, expected = integers(rng, "uint8", (count, size), 0, 255), memory.copy()
        compiled.write_stack(memory, begin, stride, rows)
        reference.write_stack(expected, begin, stride, rows)
        assert np.array_equal(memory, expected)
    assert compiled._native(memory, memory.size - 1, 1, 2, 1) is None, "bytes that are not there"


def test_arrays_need_not_be_contiguous() -> None:
    x = integers(np.random.default_rng(4), "int8", (2, 1, 4, 6), -128, 127)[..., ::2]
    assert outcome(CastStep("x", "y", 128, "uint8").apply, x) == outcome(host.cast, x, 128, "uint8")
    step = PackStep("x", 0, (1, 1, 4, 3), lanes=4, units=1)
    assert np.array_equal(step.apply(x), step.apply_numpy(x))


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As in a process that has not looked for the library."""
    monkeypatch.setattr(loading, "library", loading.library.__wrapped__)
    return monkeypatch


def test_numpy_takes_over_where_there_is_no_library(
    fresh: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fresh.setenv("TILEWRIGHT_NATIVE", "0")
    assert loading.library() is None
    fresh.setenv("TILEWRIGHT_NATIVE", str(tmp_path / "missing.so"))
    with pytest.raises(OSError, match="missing.so"):
        loading.library()
    fresh.delenv("TILEWRIGHT_NATIVE")
    fresh.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    fresh.setattr(build, "NAME", "nothing-here.so")
    fresh.setenv("CC", "no-such-compiler")
    assert loading.library() is None
    fresh.setenv("CC", "false")
    with caplog.at_level(logging.WARNING, "tilewright.native"):
        assert loading.library() is None
    assert "the compiled library cannot be built: false -std=c11" in caplog.text


def test_a_compiler_s_library_is_kept(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    fresh.setattr(build, "NAME", "nothing-here.so")
    assert isinstance(loading.library(), ctypes.CDLL)
    (made,) = (tmp_path / "native").glob("*.so")
    fresh.setattr(build, "compile_library", None)
    assert isinstance(loading.library(), ctypes.CDLL)
    assert [*(tmp_path / "native").glob("*.so")] == [made]


def test_a_package_for_another_machine_does_without_its_library(
    fresh: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "foreign.so").write_bytes(b"\x7fELF, but of nobody's")
    fresh.setattr(build, "NAME", str(tmp_path / "foreign.so"))
    fresh.setattr(loading, "_compiled", lambda: None)
    with caplog.at_level(logging.WARNING, "tilewright.native"):
        assert loading.library() is None
    assert "the package's compiled library cannot be loaded" in caplog.text


def test_the_library_is_used() -> None:
    assert library() is not None
