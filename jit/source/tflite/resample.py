"""RESIZE_NEAREST_NEIGHBOR, RESIZE_BILINEAR and TRANSPOSE_CONV: images spread out, as LiteRT's kernels do it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tilewright.isa.functions import Rounding
from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import Requant, Resample
from tilewright.jit.layers.builder import Operand
from tilewright.jit.layers.weighted import convolution
from tilewright.jit.numbers.scales import identity_requant
from tilewright.jit.reference import resampled
from tilewright.jit.sampling import Sampling
from tilewright.jit.source.tflite.cut import cut
from tilewright.jit.source.tflite.site import NONE, Site
from tilewright.jit.source.tflite.weighted import SAME, float_product, read_weights
from tilewright.runtime import interpreters

_BITS = 10  #: of the fraction of a position, in LiteRT's integer bilinear kernel
_TRIALS = 3  #: random images on which a resampling is compared with LiteRT's, the first of extremes
_LARGE = 1 << 22  #: elements of an image that is enough by itself


def resize(site: Site) -> str:
    """Rows and columns are weighted by themselves; what comes out is compared with the kernel."""
    site.same_kind(0)
    site.require_known(1)
    x, shape = site.operand(0), site.image_shape()
    corners, centers = bool(site.option("alignCorners")), bool(site.option("halfPixelCenters"))
    if site.op.kind == "RESIZE_BILINEAR":
        rows, columns = (_bilinear(a, b, corners, centers) for a, b in zip(x.shape[1:3], shape[1:3], strict=True))
        requant = _halves(x.shape[3], up=site.result.dtype == "uint8")
    else:
        rows, columns = (_nearest(a, b, corners, centers) for a, b in zip(x.shape[1:3], shape[1:3], strict=True))
        requant = identity_requant(x.shape[3])
    _compare(site, x, rows, columns, requant)
    site.report_exact(x.shape[3])
    quantisation = site.output().quantisation
    return site.emit(Resample, [x.name], shape, quantisation, rows=rows, columns=columns, offset=0, requant=requant)


def _bilinear(size: int, out: int, corners: bool, centers: bool) -> Sampling:
    """Weights in 1/1024, by LiteRT's ``ComputeInterpolationValuesInteger``."""
    one = 1 << _BITS
    if corners and out > 1:
        scale = (one * (size - 1) + (out - 1) // 2) // (out - 1)
    else:
        scale = (one * size + out // 2) // out
    at = np.arange(out) * scale + (scale // 2 - one // 2 if centers else 0)
    low, high = np.maximum(at >> _BITS, 0), np.minimum((at + one - 1) >> _BITS, size - 1)
    low, high = (np.where(at < 0, 0, place) for place in (low, high))  # C++ rounds the quotient towards zero
    return Sampling.of(size, np.stack([low, high], 1), np.stack([one - (at - one * low), at - one * low], 1))


def _nearest(size: int, out: int, corners: bool, centers: bool) -> Sampling:
    """One place each, by LiteRT's ``GetNearestNeighbor``, in float32 as there."""
    f = np.float32
    scale = f(size - 1) / f(out - 1) if corners and out > 1 else f(size) / f(out)
    at = (np.arange(out).astype(f) + f(0.5 if centers else 0)) * scale
    places = np.floor(at + f(0.5)) if corners else np.floor(at)
    return Sampling.picks(size, np.clip(places.astype(np.int64), 0, size - 1))


def _halves(channels: int, up: bool) -> Requant:
    """Division by 2^20: halves up (uint8: nothing is negative), or away from zero, by a multiplier just above."""
    multiplier, shift = (1 << 10, 30) if up else ((1 << 29) + 1, 49)
    one, zero = np.full(channels, 1, np.int32), np.zeros(channels, np.int32)
    return Requant(zero, one * multiplier, one * shift, zero, Rounding.SINGLE, 0)


def _compare(site: Site, x: Operand, rows: Sampling, columns: Sampling, requant: Requant) -> None:
    """Raises Unsupported unless LiteRT's kernel gives the same on some images."""
    tensor = site.tensor(0)
    model = cut(site.file, [site.op.index], [tensor.index], [site.result.index], site.folded, {})
    run = interpreters.load("litert", model, site.name)
    rng = np.random.default_rng(0)
    for trial in range(_TRIALS if math.prod(x.shape) < _LARGE else 1):
        image = rng.integers(-128, 128, x.shape) if trial else rng.choice([-128, 127], x.shape)
        moved = image + (128 if tensor.dtype == "uint8" else 0)
        given = np.broadcast_to(moved, np.broadcast_shapes(moved.shape, tensor.shape)).astype(tensor.dtype)
        wanted = run([given])[0].astype(np.int64) - (moved - image).flat[0]
        got = requant.apply(resampled(image, rows, columns, 0))
        if got.size * len(given) != wanted.size or (got != wanted.reshape(len(given), *got.shape[1:])).any():
            raise Unsupported("positions or weights other than LiteRT's kernel is known for")


def transpose_conv(site: Site) -> str:
    """TRANSPOSE_CONV: the image with zeros between its pixels, under the kernel turned around."""
    site.same_kind(2)
    site.require_known(0)
    x = site.operand(2)
    weights = read_weights(site, 2, 3)
    weight = weights.values
    if weight.ndim != 4 or weight.shape[3] != x.shape[3]:
        raise Unsupported(f"weights of shape {weight.shape} on {x.shape[3]} channels")
    strides = site.option("strideH"), site.option("strideW")
    if min(strides) < 1:
        raise Unsupported(f"strides {strides}")
    activation = getattr(site.op.options, "fusedActivationFunction", NONE)
    out = site.output(int(activation))
    wanted = site.image_shape()
    before, after = [], []
    for size, result, k, s in zip(x.shape[1:3], wanted[1:3], weight.shape[1:3], strides, strict=True):
        windows = -(-result // s) if site.option("padding") == SAME else -(-(result - k + 1) // s)
        padding = max(0, (windows - 1) * s + k - result) // 2
        before.append(k - 1 - padding)
        after.append(result + padding - 1 - (size - 1) * s)
    return convolution(
        site, x, replace(weights, values=weight[:, ::-1, ::-1]), out, spread=strides,
        padding=(before[0], before[1], after[0], after[1]), float_product=float_product(site, 2),
    )  # fmt: skip
