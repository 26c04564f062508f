"""Operators on real numbers, NHWC: what a network's tensors hold, to choose the numbers they are quantised with.

They need not agree with any kernel to the last bit; nothing is compared with them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Real = NDArray[np.float32]


def activated(x: Real, activation: str) -> Real:
    """A fused activation by its name in the writer."""
    if activation == "none":
        return x
    return np.clip(x, 0, 6 if activation == "relu6" else None)


def conv(x: Real, weights: Real, stride: int, groups: int) -> Real:
    """A convolution with "same" padding; weights (outputs, height, width, inputs of a group)."""
    windows = _windows(x, weights.shape[1], stride, 0.0)
    inputs, outputs = x.shape[3] // groups, weights.shape[0] // groups
    parts = [
        np.tensordot(
            windows[:, :, :, g * inputs : (g + 1) * inputs],
            weights[g * outputs : (g + 1) * outputs],
            ((3, 4, 5), (3, 1, 2)),
        )
        for g in range(groups)
    ]
    return np.concatenate(parts, axis=3)


def depthwise(x: Real, weights: Real, stride: int) -> Real:
    """A depthwise convolution with "same" padding; weights (1, height, width, channels)."""
    windows = _windows(x, weights.shape[1], stride, 0.0)
    result: Real = np.einsum("nhwcij,ijc->nhwc", windows, weights[0])
    return result


def transpose_conv(x: Real, weights: Real, stride: int) -> Real:
    """A transposed convolution with "same" padding; weights (outputs, height, width, inputs)."""
    n, h, w, _ = x.shape
    kernel = weights.shape[1]
    whole = np.zeros((n, (h - 1) * stride + kernel, (w - 1) * stride + kernel, weights.shape[0]), np.float32)
    for i in range(kernel):
        for j in range(kernel):
            whole[:, i : i + h * stride : stride, j : j + w * stride : stride] += x @ weights[:, i, j].T
    before = max(kernel - stride, 0) // 2
    return whole[:, before : before + h * stride, before : before + w * stride]


def max_pool(x: Real, kernel: int, stride: int) -> Real:
    """Maximum of each window, "same" padding."""
    result: Real = _windows(x, kernel, stride, -np.inf).max(axis=(4, 5))
    return result


def average_pool(x: Real, kernel: int, stride: int) -> Real:
    """Mean of each window, padding not counted."""
    sums = _windows(x, kernel, stride, 0.0).sum(axis=(4, 5))
    counts = _windows(np.ones_like(x), kernel, stride, 0.0).sum(axis=(4, 5))
    return (sums / counts).astype(np.float32)


def hard_swish(x: Real) -> Real:
    """x * relu6(x + 3) / 6."""
    return (x * np.clip(x + 3, 0, 6) / 6).astype(np.float32)


def logistic(x: Real) -> Real:
    """1 / (1 + exp(-x))."""
    return (1 / (1 + np.exp(-x))).astype(np.float32)


def lstm(x: Real, from_input: list[Real], from_state: list[Real], biases: list[Real]) -> Real:
    """The hidden states of (1, time, features); gates in the order of the file: input, forget, cell, output."""
    hidden: NDArray[Any] = np.zeros(from_state[0].shape[0], np.float32)
    cell = hidden
    states = []
    for step in x[0]:
        sums = [w @ step + r @ hidden + b for w, r, b in zip(from_input, from_state, biases, strict=True)]
        taken, kept, given = (logistic(sums[k]) for k in (0, 1, 3))
        cell = kept * cell + taken * np.tanh(sums[2])
        hidden = given * np.tanh(cell)
        states.append(hidden)
    return np.stack(states)[None].astype(np.float32)


def _windows(x: Real, kernel: int, stride: int, filler: float) -> Real:
    """(n, rows, columns, channels, kernel, kernel), a view of the padded tensor."""
    pads = [(0, 0)]
    for size in x.shape[1:3]:
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        pads.append((total // 2, total - total // 2))
    padded = np.pad(x, [*pads, (0, 0)], constant_values=filler)
    return sliding_window_view(padded, (kernel, kernel), axis=(1, 2))[:, ::stride, ::stride]
