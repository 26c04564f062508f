"""UNIDIRECTIONAL_SEQUENCE_LSTM of int8 with an int16 cell.

Source: LiteRT ``kernels/unidirectional_sequence_lstm.cc`` (``PopulateQuantizedLstmParams8x8_16``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.numbers.scales import quantize_multiplier
from tilewright.jit.recurrent.ops import Lstm, Sums
from tilewright.jit.source.tflite.file import Tensor
from tilewright.jit.source.tflite.site import Site

#: places of inputs; gates in the order input, forget, cell, output
_ENTRY, _RECURRENT, _BIASES, _HIDDEN, _CELL = 1, 5, 12, 18, 19
#: what LiteRT's operator may have besides, and the first and last of its inputs
_EXTRAS = {"peepholes": (9, 11), "a projection": (16, 17), "layer normalisation": (20, 23)}
_GATE = 1 << 12  #: 1 of a gate
_TANH = 4


def lstm(site: Site) -> str:
    """UNIDIRECTIONAL_SEQUENCE_LSTM of int8 with an int16 cell, without projection, peepholes, layer norm, CIFG"""
    _require_plain(site)
    x, entry, hidden, cell = site.operand(0), site.tensor(0), site.tensor(_HIDDEN), site.tensor(_CELL)
    time_major = bool(site.option("timeMajor"))
    if len(entry.shape) != 3:
        raise Unsupported(f"an LSTM on a tensor of shape {entry.shape}")
    shown = site.file.tensors[site.file.model.subgraphs[0].operators[site.op.index].intermediates[4]]
    scale = 2.0**-15 / float(shown.scales[0]) * 2.0**-15
    multiplier, shift = quantize_multiplier(float(np.float32(scale)))
    clip = int(np.clip(np.float32(site.op.options.cellClip) / cell.scales[0], -32768, 32767))
    parts = [
        tuple(_sums(site, first + k, source, None if biases is None else site.constant(biases + k)) for k in range(4))
        for first, source, biases in ((_ENTRY, entry, _BIASES), (_RECURRENT, hidden, None))
    ]
    units = len(parts[0][0].weight)
    site.report_exact(units)
    return site.emit(
        Lstm, [x.name], (*x.shape[:3], units), site.result.quantisation(),
        steps=entry.shape[0 if time_major else 1], time_major=time_major, entry=parts[0], recurrent=parts[1],
        cell_bits=-round(float(np.log2(cell.scales[0]))), multiplier=multiplier, shift=shift,
        zero_point=int(shown.zero_points[0]), state_zero_point=int(hidden.zero_points[0]),
        cell_range=(-clip, clip) if clip > 0 else (-32768, 32767),
    )  # fmt: skip


def _require_plain(site: Site) -> None:
    """Raise Unsupported, naming what it is, for another kind of LSTM."""
    has = [name for name, (first, last) in _EXTRAS.items() if any(site.has(k) for k in range(first, last + 1))]
    has += ["a coupled input gate"] * (not site.has(_ENTRY))
    has += ["diagonal recurrent weights"] * bool(getattr(site.op.options, "diagonalRecurrentTensors", False))
    has += ["another activation than tanh"] * (site.option("fusedActivationFunction") != _TANH)
    if has:
        raise Unsupported(f"an LSTM with {', '.join(has)}")
    kinds = (site.tensor(0).dtype, site.tensor(_HIDDEN).dtype, site.tensor(_CELL).dtype, site.result.dtype)
    if kinds != ("int8", "int8", "int16", "int8"):
        raise Unsupported(f"an LSTM of {kinds[0]} with hidden states of {kinds[1]} and cells of {kinds[2]}")
    if not site.keeps_alone(_HIDDEN, _CELL):
        raise Unsupported("an LSTM whose state something else sets or reads")


def _sums(site: Site, place: int, source: Tensor, bias: NDArray[Any] | None) -> Sums:
    tensor = site.tensor(place)
    weight: NDArray[Any] = site.constant(place)
    if tensor.dtype != "int8" or tensor.scales.size != 1 or np.any(tensor.zero_points):
        raise Unsupported(f"an LSTM with weights of {tensor.dtype} in {tensor.scales.size} scales")
    multiplier, shift = quantize_multiplier(float(tensor.scales[0] * source.scales[0]) * _GATE)
    sums = weight.astype(np.int64).sum(axis=1) * -int(source.zero_points[0])
    return Sums(weight, sums if bias is None else sums + bias, multiplier, shift)
