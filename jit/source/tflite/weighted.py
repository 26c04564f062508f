"""CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED, int8 and uint8."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import Reshape
from tilewright.jit.layers.builder import Operand, Weights
from tilewright.jit.layers.weighted import convolution, dense
from tilewright.jit.source.tflite.site import Site
from tilewright.runtime.litert.schema import PACKED

SAME, VALID = 0, 1
_NARROW = tuple(name for name, _ in PACKED.values())


@dataclass(frozen=True)
class Phases:
    """What a batch was dealt out of: ``image``, every ``block``-th row and column each, with ``padding`` (top, left,
    bottom, right) around it, less what of the result is cropped."""

    image: Operand
    block: tuple[int, int]
    padding: tuple[int, ...]


def conv_2d(site: Site, phases: Phases | None = None) -> str:
    """Weights (OC, KH, KW, IC / groups).

    ``phases``: of the first operand, where that is a batch of them.
    """
    weights = read_weights(site, 0, 2)
    weight = weights.values
    x = phases.image if phases is not None else site.pixels(0) if _by_pixel(site, weight) else site.operand(0)
    if weight.ndim != 4 or x.shape[3] % weight.shape[3]:
        raise Unsupported(f"weights of shape {weight.shape} on {x.shape[3]} channels")
    return convolution(
        site,
        x,
        weights,
        site.output(site.option("fusedActivationFunction")),
        groups=x.shape[3] // weight.shape[3],
        float_product=float_product(site, 0),
        **_window(site, x, weight.shape[1:3], phases),
    )


def _by_pixel(site: Site, weight: NDArray[np.integer]) -> bool:
    """Whether each pixel becomes one of the result."""
    return weight.shape[1:3] == (1, 1) and site.option("strideH") == site.option("strideW") == 1 and site.image is None


def depthwise_conv_2d(site: Site, phases: Phases | None = None) -> str:
    """Weights (1, KH, KW, C * multiplier): a grouped convolution with one input channel a group."""
    weights = read_weights(site, 0, 2, axis=3)
    x, weight = site.operand(0) if phases is None else phases.image, weights.values
    if weight.ndim != 4 or weight.shape[0] != 1 or weight.shape[3] % x.shape[3]:
        raise Unsupported(f"depthwise weights of shape {weight.shape} on {x.shape[3]} channels")
    return convolution(
        site,
        x,
        replace(weights, values=weight[0].transpose(2, 0, 1)[..., None]),
        site.output(site.option("fusedActivationFunction")),
        groups=x.shape[3],
        float_product=float_product(site, 0),
        **_window(site, x, weight.shape[1:3], phases),
    )


def fully_connected(site: Site) -> str:
    """Weights (OC, IC) on rows of IC elements, whatever the shape of the input."""
    weights = read_weights(site, 0, 2)
    weight = weights.values
    if site.option("weightsFormat") != 0 or weight.ndim != 2:
        raise Unsupported(f"fully connected weights of shape {weight.shape}, format {site.option('weightsFormat')}")
    x = site.pixels(0)
    count, inner = int(np.prod(x.shape)), weight.shape[1]
    if count % inner:
        raise Unsupported(f"weights for {inner} inputs on a tensor of {count} elements")
    rows: tuple[int, ...] = (1, 1, count // inner, inner)
    if x.shape[3] == inner:  # every pixel is a row, in its place
        rows = (1, *x.shape[1:])
    x = _reshaped(site, x, rows)
    out = site.output(site.option("fusedActivationFunction"))
    wanted = site.values.held_shape(site.result.index)
    if int(np.prod(wanted)) != count // inner * weight.shape[0]:
        raise Unsupported(f"a result of shape {site.result.shape}")
    result = dense(site, x, weights, out)
    return _reshaped(site, Operand(result, (*rows[:3], weight.shape[0]), out.quantisation), wanted).name


def float_product(site: Site, position: int) -> bool:
    """LiteRT prepares uint8 convolutions as its first versions did, with one float32 product of the scales."""
    return site.tensor(position).dtype == "uint8"


def _reshaped(site: Site, x: Operand, shape: tuple[int, ...]) -> Operand:
    if x.shape == shape:
        return x
    name = site.builder.append(Reshape, f"reshape_{x.name}", [x.name], shape, like=x.quantisation, shape=shape)
    return Operand(name, shape, x.quantisation)


def read_weights(site: Site, image: int, bias: int, axis: int = 0) -> Weights:
    """The second operand and the one at ``bias``, for the one at ``image``. ``values``: as in the file, with the output
    channels along ``axis``."""
    site.same_kind(image)
    tensor, values = site.tensor(1), site.constant(1)
    narrow = tensor.dtype in _NARROW and site.tensor(image).dtype == "int8"  # which the kernels widen first
    if tensor.dtype != site.tensor(image).dtype and not narrow:
        raise Unsupported(f"{tensor.dtype or 'packed'} weights under {site.tensor(image).dtype} activations")
    count = values.shape[axis] if values.ndim > axis else 0
    scales, zero_points = tensor.scales.astype(np.float64), tensor.zero_points
    if scales.size not in (1, count) or zero_points.size not in (0, 1, scales.size):
        raise Unsupported(f"{scales.size} weight scales for {count} channels")
    if scales.size > 1 and tensor.axis != axis:
        raise Unsupported(f"weight scales along axis {tensor.axis}, not {axis}")
    if not (np.isfinite(scales).all() and (scales >= 0).all()):
        raise Unsupported("weight scales that are no numbers")
    moved = int(zero_points[0]) if zero_points.size else 0
    if tensor.dtype != "uint8" and zero_points.any():
        raise Unsupported(f"{tensor.dtype} weights with a zero point")
    if tensor.dtype == "uint8" and scales.size > 1:
        raise Unsupported("uint8 weights with scales per channel")
    return Weights(values.astype(np.int16) - moved, np.broadcast_to(scales, (count,)), _bias(site, bias, count))


def _bias(site: Site, position: int, count: int) -> NDArray[np.int64]:
    """(OC,). The kernels add these integers, whatever scale the file gives them."""
    if not site.has(position):
        return np.zeros(count, np.int64)
    values = site.constant(position)
    if site.tensor(position).dtype != "int32" or values.size != count:
        raise Unsupported(f"a bias of {site.tensor(position).dtype}{values.shape} for {count} channels")
    return values.reshape(-1).astype(np.int64)


def _window(site: Site, x: Operand, kernel: tuple[int, ...], phases: Phases | None) -> dict[str, Any]:
    """Strides, dilation and padding."""
    strides = site.option("strideH"), site.option("strideW")
    dilation = site.option("dilationHFactor"), site.option("dilationWFactor")
    if min(*strides, *dilation) < 1:
        raise Unsupported(f"strides {strides} and dilation {dilation}")
    padding = same_padding(x.shape, kernel, strides, dilation, site.option("padding"))
    if phases is not None:
        if strides != (1, 1):
            raise Unsupported(f"strides {strides} over every so many rows and columns")
        # without strides padding does not depend on the size
        grown = [
            own * phases.block[k % 2] + more for k, (own, more) in enumerate(zip(padding, phases.padding, strict=True))
        ]
        padding = grown[0], grown[1], grown[2], grown[3]
        dilation = dilation[0] * phases.block[0], dilation[1] * phases.block[1]
    return {"strides": strides, "dilation": dilation, "padding": padding}


def same_padding(
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, int],
    dilation: tuple[int, int],
    padding: int,
) -> tuple[int, int, int, int]:
    """(top, left, bottom, right) of TFLite's SAME (0) or VALID (1) padding."""
    if padding == VALID:
        return 0, 0, 0, 0
    if padding != SAME:
        raise Unsupported(f"padding {padding}")
    total = [
        max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        for size, k, s, d in zip(shape[1:3], kernel, strides, dilation, strict=True)
    ]
    return total[0] // 2, total[1] // 2, total[0] - total[0] // 2, total[1] - total[1] // 2
