"""Resize by mode ``linear``: rows and columns are weighted by themselves, as ONNX Runtime's kernel does it in float32.

The weights are fractions with one denominator, so an exact sum is an integer over that; what float32 makes of it is
known where no rounding can carry it across a tie.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.functions import Rounding
from tilewright.jit.errors import Unsupported
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.graph import Add, Requant, Resample
from tilewright.jit.layers.builder import Operand, Output
from tilewright.jit.layers.scaling import tuned_requant
from tilewright.jit.numbers.float_scaling import Tuned, tune
from tilewright.jit.numbers.scales import IDENTITY_SCALE, identity_requant
from tilewright.jit.reference import resampled
from tilewright.jit.sampling import Sampling, merged
from tilewright.jit.source.onnx.cut import cut
from tilewright.jit.source.onnx.prepared import Node
from tilewright.jit.source.onnx.site import Site
from tilewright.runtime import interpreters

_EPSILON = 2.0**-24  #: half a unit in the last place of a float32 number of 1 and more
_ROUNDINGS = 8  #: dequantisation, product of weights, product, three sums, quotient, and the square of all that
_BITS = 24  #: of a float32 number
_MODES = ("align_corners", "asymmetric", "half_pixel", "pytorch_half_pixel")
_METHOD = "fractions with one denominator; what float32 makes of them is within the roundings"
_TRIALS = 3  #: random images on which a resampling is compared with ONNX Runtime's


@dataclass(frozen=True)
class Axis:
    """``weights`` over ``denominator``; float32 ones are off by ``error`` at most, summed over a row."""

    weights: Sampling
    denominator: int
    error: float


@dataclass(frozen=True)
class Grid:
    """Both axes of an image; ``bits``: by how many a value grows on its way, where float32 never rounds; else None."""

    rows: Axis
    columns: Axis

    @property
    def denominator(self) -> int:
        return self.rows.denominator * self.columns.denominator

    @property
    def error(self) -> float:
        return self.rows.error + self.columns.error + self.rows.error * self.columns.error

    @property
    def bits(self) -> int | None:
        whole = self.denominator.bit_length() - 1
        return whole + 2 if self.error == 0 and self.denominator == 1 << whole else None  # halves where a pixel is two


def is_linear(node: Node) -> bool:
    """Whether a node is a Resize that weighs pixels."""
    return node.kind == "Resize" and (node.attribute("mode", "nearest") or "nearest") != "nearest"


def grid(site: Site) -> Grid:
    """The weights of the node; raises Unsupported for forms of it that are not known."""
    node, name, result = site.node, site.input(0), site.node.outputs[0]
    mode = node.attribute("mode", "nearest")
    if mode != "linear" or node.attribute("antialias", 0):
        raise Unsupported(f"Resize by mode {mode}{' against aliasing' if node.attribute('antialias', 0) else ''}")
    if (node.attribute("keep_aspect_ratio_policy", "stretch") or "stretch") != "stretch":
        raise Unsupported("Resize that keeps the ratio of the sides")
    site.require_image(name, result)
    before, after = site.shape(name), site.shape(result)
    if len(before) != 4 or before[:2] != after[:2]:
        raise Unsupported(f"Resize linear from {before} to {after}")
    first = len(node.inputs) == 2  # of opset 10, which has no mode of coordinates
    coordinates = "asymmetric" if first else node.attribute("coordinate_transformation_mode", "half_pixel")
    at = 1 if first else 2
    scales: list[float | None] = [None] * 4
    if site.has(at) and site.constant(at).size:
        axes = node.attribute("axes", None) or range(4)
        given = dict(zip((int(axis) % 4 for axis in axes), site.constant(at).tolist(), strict=True))
        scales = [float(given.get(axis, 1.0)) for axis in range(4)]
    return weights_of(before, after, coordinates, scales)


def weights_of(
    before: tuple[int, ...], after: tuple[int, ...], mode: str, scales: Sequence[float | None] = (None,) * 4
) -> Grid:
    """Those of an image NCHW, whose sizes say the ``scales`` that are not given; raises Unsupported as :func:`grid`."""
    if mode not in _MODES:
        raise Unsupported(f"Resize with coordinates {mode}")
    found = Grid(*(_axis(before[k], after[k], mode, scales[k]) for k in (2, 3)))
    if found.denominator * 255 >= 1 << 31:
        raise Unsupported(f"Resize linear with weights in 1/{found.denominator}")
    return found


def _axis(size: int, out: int, mode: str, scale: float | None) -> Axis:
    """``scale``: where the node has it, else that of the sizes."""
    exact = Fraction(out, size) if scale is None else Fraction(scale)
    weighed = [_weighed(_place(k, size, out, mode, exact), size) for k in range(out)]
    denominator = math.lcm(*(after.denominator for _, after in weighed))
    if denominator >= 1 << 16:
        raise Unsupported(f"Resize linear with weights in 1/{denominator}")
    low = np.array([place for place, _ in weighed])
    after = np.array([int(part * denominator) for _, part in weighed])
    places, weights = _neighbours(low, size), np.stack([denominator - after, after], 1)
    in_float, parts = _float_weights(size, out, mode, scale)
    off = merged(np.hstack([in_float, places]), np.hstack([parts, -weights / denominator]))[1]
    dyadic = denominator & (denominator - 1) == 0  # else the quotient itself is rounded, in float64
    error = float(np.abs(off).sum(axis=1).max()) + (0.0 if dyadic else 2.0**-50)
    return Axis(Sampling.of(size, places, weights), denominator, error)


def _place(k: int, size: int, out: int, mode: str, scale: Fraction) -> Fraction:
    """Where a row or column of the result lies among the input's."""
    if mode == "align_corners":
        return Fraction(k * (size - 1), out - 1) if out > 1 else Fraction(0)
    if mode == "asymmetric":
        return k / scale
    if mode == "pytorch_half_pixel" and out == 1:
        return Fraction(0)
    return (k + Fraction(1, 2)) / scale - Fraction(1, 2)


def _weighed(place: Fraction, size: int) -> tuple[int, Fraction]:
    """The first of the two neighbours of a place, and the weight of the second."""
    place = max(Fraction(0), min(place, Fraction(size - 1)))
    low = math.floor(place)
    return low, place - low


def _neighbours(low: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """(places, 2), the last of all its own."""
    return np.stack([low, np.minimum(low + 1, size - 1)], 1)


def _float_weights(
    size: int, out: int, mode: str, scale: float | None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Neighbours and their weights in float32, operation by operation, as ONNX Runtime's ``SetupUpsampleBilinear``
    has them."""
    f = np.float32
    k, by = np.arange(out).astype(f), f(out) / f(size) if scale is None else f(scale)
    if mode == "align_corners":
        place = k * f(size - 1) / f(max(out - 1, 1))
    elif mode == "asymmetric":
        place = k / by
    elif mode == "pytorch_half_pixel" and out == 1:
        place = k * f(0)
    else:
        place = (k + f(0.5)) / by - f(0.5)
    place = np.clip(place, f(0), f(size - 1))
    neighbours = _neighbours(np.minimum(place.astype(np.int64), size - 1), size)
    low, high = neighbours.T
    after, before = np.abs(place - low.astype(f)), np.abs(place - high.astype(f))
    after, before = (np.where(low == high, f(0.5), part) for part in (after, before))
    return neighbours, np.stack([before, after], 1).astype(np.float64)


# -- between DequantizeLinear and QuantizeLinear ---------------------------------------------------------------


def resized(site: Site, x: Operand, over: Grid, out: Output) -> str:
    """The node's result, quantised to ``out``, with what is known of its roundings."""
    if x.scale / out.quantisation.scale * 512 > 1 << 20:
        raise Unsupported("Resize linear to a scale that is out of all proportion")
    _confirm_floats(site, x, over)
    tuned, doubt = _fitted(x, over, out)
    channels = x.shape[3]
    exact, bound = (0, 1) if doubt else (channels, 0)
    site.report(LayerExactness(site.name, site.semantics, channels, exact, bound, doubt, _METHOD))
    return _emit(site, x, over, tuned_requant(tuned, np.zeros(channels, np.int64), out), x.zero_point, out)


def _slack(x: Operand, over: Grid) -> float:
    """How far ONNX Runtime's result can be from the exact one, in units of the input's scale."""
    reach = max(127 - x.zero_point, 128 + x.zero_point)
    roundings = 1 if _never_rounds(x, over) else _ROUNDINGS
    return reach * (roundings * _EPSILON + over.error)


def free_bits(over: Grid) -> int | None:
    """The most significant bits of a scale for which float32 rounds no sum of dequantised values; None: no number."""
    return None if over.bits is None else _BITS - 8 - over.bits


def _never_rounds(x: Operand, over: Grid) -> bool:
    """Whether all that is ahead of the quotient is exact in float32, in whatever order it is added."""
    odd = Fraction(x.scale).numerator
    odd //= odd & -odd
    free = free_bits(over)
    return free is not None and odd.bit_length() <= free


def _fitted(x: Operand, over: Grid, out: Output) -> tuple[Tuned, float]:
    """(constants of the output stage, the share of sums for which equality is not certain)."""
    q, whole, exact = out.quantisation, over.denominator, _never_rounds(x, over)
    ratio = Fraction(x.scale) / Fraction(q.scale)
    low, high = (-128 - x.zero_point) * whole, (127 - x.zero_point) * whole
    slack = Fraction(_slack(x, over)) * whole
    table, doubtful = [], 0
    for level in range(out.lo + 1 - q.zero_point, out.hi + 1 - q.zero_point):
        tie = (level - Fraction(1, 2)) * whole / ratio
        is_sum = tie.denominator == 1  # which rounds to the even one of its neighbours
        first = int(tie) + level % 2 if is_sum else math.ceil(tie)
        table.append(min(max(first, low), high + 1))
        near = min(math.floor(tie + slack), high) - max(math.ceil(tie - slack), low) + 1
        doubtful += max(0, near - (is_sum and exact and low <= tie <= high))
    reached = np.array([table], np.int64)
    tuned = tune([float(ratio / whole)], np.array([low]), np.array([high]), q.zero_point, out.lo, out.hi, reached)
    return tuned, min(1.0, doubtful / (high - low + 1)) if tuned.exact.all() else 1.0


def _confirm_floats(site: Site, x: Operand, over: Grid) -> None:
    """Raises Unsupported unless ONNX Runtime's float32 results are as near as is said."""
    name, result = site.input(0), site.node.outputs[0]
    run = interpreters.load("onnxruntime", cut(site.prepared, [site.node], [name], [result], {}), site.name)
    rng = np.random.default_rng(0)
    slack = _slack(x, over) * x.scale
    for _ in range(_TRIALS):
        image = rng.integers(-128, 128, x.shape)
        values = (image - x.zero_point).astype(np.float32) * np.float32(x.scale)
        got = run([values.transpose(0, 3, 1, 2)])[0].transpose(0, 2, 3, 1)
        sums = resampled(image, over.rows.weights, over.columns.weights, x.zero_point)
        if (np.abs(sums * (x.scale / over.denominator) - got) > slack).any():
            raise Unsupported("positions or weights other than ONNX Runtime's kernel is known for")


# -- of 8-bit tensors ------------------------------------------------------------------------------------------


def truncated(site: Site) -> str:
    """Resize of an 8-bit tensor as it is: float32 sums, of which ONNX Runtime drops the fraction."""
    over, x = grid(site), site.values.chip(site.input(0))
    if over.bits is None or over.bits + 8 > _BITS:
        raise Unsupported("Resize linear of 8-bit values by weights that float32 rounds")
    whole, channels, signed, out = over.denominator, x.shape[3], site.is_signed(), Output(x.quantisation)
    floor = _quotient(whole, 0, channels)
    if not signed:
        stages = [floor]  # uint8 less 128, of which the floor is the same
    else:
        stages = [replace(floor, lo=0), replace(_quotient(whole, whole - 1, channels), hi=0)]
    _confirm_integers(site, x, over, stages, signed)
    site.report_exact(channels)
    parts = [_emit(site, x, over, stage, 0, out) for stage in stages]
    if len(parts) == 1:
        return parts[0]
    shape = (1, len(over.rows.weights), len(over.columns.weights), channels)
    return site.emit(
        Add, parts, shape, x.quantisation, scale_a=IDENTITY_SCALE, scale_b=IDENTITY_SCALE,
        requant=identity_requant(channels),
    )  # fmt: skip


def _quotient(whole: int, more: int, channels: int) -> Requant:
    """``(acc + more) >> bits``, of a power of two."""
    bits = whole.bit_length() - 1
    return Requant.alike(channels, 0, 1, bits, more - whole // 2, Rounding.SINGLE, 0)


def _confirm_integers(site: Site, x: Operand, over: Grid, stages: list[Requant], signed: bool) -> None:
    """Raises Unsupported unless ONNX Runtime gives the same on some images."""
    name, result = site.input(0), site.node.outputs[0]
    run = interpreters.load("onnxruntime", cut(site.prepared, [site.node], [name], [result], {}), site.name)
    rng, moved = np.random.default_rng(0), 0 if signed else 128
    for _ in range(_TRIALS):
        image = rng.integers(-128, 128, x.shape)
        given = (image + moved).astype(np.int8 if signed else np.uint8).transpose(0, 3, 1, 2)
        wanted = run([given])[0].transpose(0, 2, 3, 1).astype(np.int64) - moved
        sums = resampled(image, over.rows.weights, over.columns.weights, 0)
        found = np.sum([stage.apply(sums) for stage in stages], axis=0, dtype=np.int64)
        if (found != wanted).any():
            raise Unsupported("positions or weights other than ONNX Runtime's kernel is known for")


# -- shared ----------------------------------------------------------------------------------------------------


def _emit(site: Site, x: Operand, over: Grid, requant: Requant, offset: int, out: Output) -> str:
    shape = (1, len(over.rows.weights), len(over.columns.weights), x.shape[3])
    return site.emit(
        Resample, [x.name], shape, out.quantisation, rows=over.rows.weights, columns=over.columns.weights,
        offset=offset, requant=requant,
    )  # fmt: skip
