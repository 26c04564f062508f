"""ADD, SUB, MUL, MAXIMUM and MINIMUM: of two tensors, of a tensor and numbers per channel, or a single number."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import Maximum, Minimum
from tilewright.jit.layers import pairwise
from tilewright.jit.layers.builder import Operand, stacked
from tilewright.jit.layers.moves import choose
from tilewright.jit.source.tflite import tables
from tilewright.jit.source.tflite.site import Site


def _activation(site: Site) -> int:
    return site.option("fusedActivationFunction")


def _numbers(site: Site, position: int) -> tuple[NDArray[np.int64], float]:
    """Constants per channel less their zero point, and their scale."""
    tensor, channels = site.tensor(position), site.pixels(1 - position).shape[3]
    values = site.constant(position).astype(np.int64)
    shape = stacked(values.shape)
    if shape[:3] != (1, 1, 1) or shape[3] not in (1, channels):
        raise Unsupported(f"a constant operand of shape {values.shape}")
    q = tensor.quantisation()
    zero_point = q.zero_point + (128 if tensor.dtype == "uint8" else 0)
    return np.broadcast_to(values.reshape(-1) - zero_point, (channels,)), q.scale


def _constant(site: Site) -> int | None:
    """The position of a constant operand with a single number, or numbers per channel; None for other two tensors."""
    site.same_kind(0, 1)
    found = next((k for k in (0, 1) if site.is_constant(k)), None)
    if found is None or site.constant(found).size == 1:
        return found
    channels = site.pixels(1 - found).shape[3]
    return found if stacked(site.constant(found).shape) == (1, 1, 1, channels) else None


def _operands(site: Site) -> tuple[Operand, Operand]:
    """Both operands. Where one has a number for each of several images, say, its rows are repeated as broadcasting
    repeats them."""
    return _repeated(site, 0), _repeated(site, 1)


def _repeated(site: Site, position: int) -> Operand:
    x, ahead = site.either(position), site.result.shape[:-2]
    if x.shape[1] in (1, math.prod(ahead)):
        return x
    rows = np.arange(x.shape[1]).reshape(site.tensor(position).shape[:-2])
    rows = np.broadcast_to(rows, ahead).reshape(-1)
    return choose(site, x, rows, np.arange(x.shape[2]), np.arange(x.shape[3]))


def add(site: Site) -> str:
    """ADD and SUB of two tensors, one of which may have a single row, column or channel; or numbers per channel."""
    constant, subtract = _constant(site), site.op.kind == "SUB"
    out = site.output(_activation(site))
    if constant is None:
        return pairwise.add(site, *_operands(site), out, subtract=subtract)
    if site.constant(constant).size == 1:
        return tables.table(site)
    signs = (-1 if subtract and constant == 0 else 1, -1 if subtract and constant == 1 else 1)
    return pairwise.add_constant(site, site.pixels(1 - constant), *_numbers(site, constant), out, signs=signs)


def multiply(site: Site) -> str:
    """MUL of two tensors, one of which may have a single row, column or channel; or of numbers per channel."""
    constant, out = _constant(site), site.output(_activation(site))
    if constant is None:
        return pairwise.multiply(site, *_operands(site), out)
    if site.constant(constant).size == 1:
        return tables.table(site)
    return pairwise.multiply_constant(site, site.pixels(1 - constant), *_numbers(site, constant), out)


def extreme(site: Site) -> str:
    """MAXIMUM and MINIMUM of two tensors, one of which may have a single row, column or channel; or of a number."""
    constant = _constant(site)
    if constant is not None and site.constant(constant).size == 1:
        return tables.table(site)
    kind = Maximum if site.op.kind == "MAXIMUM" else Minimum
    return pairwise.extreme(site, kind, *_operands(site), site.output())


def prelu(site: Site) -> str:
    """PRELU with a slope per channel"""
    site.same_kind(0, 1)
    return pairwise.leaky(site, site.pixels(0), *_numbers(site, 1), site.output())
