"""How much of each layer's signal quantisation costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.progress import Progress
from tilewright.quantize.base import Array, Layer, Tensors

_LEAST = 1e-20  #: the least sum of squares that is taken from float32, which rounds smaller squares to zero


@dataclass(frozen=True)
class LayerLoss:
    """Ratios of signal to quantisation noise in dB: ``before`` the layer, at the worst of what it reads, and
    ``after`` it, both in the quantised network; infinite where nothing differs."""

    name: str
    kind: str
    before: float
    after: float

    @property
    def lost(self) -> float:
        """What this layer adds to the noise, in dB; negative where it averages noise away."""
        return 0.0 if self.after in (math.inf, self.before) else self.before - self.after


class Powers:
    """Sums of squares of signals and of what differs from them, by tensor."""

    def __init__(self) -> None:
        self._signal: dict[str, float] = {}
        self._noise: dict[str, float] = {}

    def add(self, name: str, wanted: Array, got: Array) -> None:
        exact, found = wanted.reshape(-1), got.reshape(-1)
        with np.errstate(all="ignore"):
            error = exact - found
            signal, noise = float(exact @ exact), float(error @ error)
        if not (_LEAST < signal < math.inf and _LEAST < noise < math.inf):  # float32 has no room for one of the squares
            signal, noise = _squares(exact.astype(np.float64), found.astype(np.float64))
        self._signal[name] = self._signal.get(name, 0.0) + signal
        self._noise[name] = self._noise.get(name, 0.0) + noise

    def known(self, name: str) -> bool:
        return name in self._signal

    def known_names(self) -> list[str]:
        return list(self._signal)

    def decibels(self, name: str) -> float:
        signal, noise = self._signal[name], self._noise[name]
        if noise == 0:
            return math.inf
        ratio = signal / noise
        return 10 * math.log10(ratio) if ratio else -math.inf


def _squares(exact: Array, found: Array) -> tuple[float, float]:
    """Sums of squares of the signal where it is finite, and of what differs from it there."""
    there = np.isfinite(exact)  # infinities and NaN of the float network are no signal that could be lost
    error = np.nan_to_num(exact[there] - found[there], nan=math.inf, posinf=math.inf, neginf=math.inf)
    return float(exact[there] @ exact[there]), float(error @ error)


def layer_losses(
    layers: Sequence[Layer], real: Tensors, quantised: Tensors, inputs: Sequence[Sequence[Array]], progress: Progress
) -> list[LayerLoss]:
    """Both networks run on ``inputs``; the layers whose result both have, those that lose most first."""
    powers = Powers()
    for done, x in enumerate(inputs):
        progress("comparing layers", done, len(inputs))
        wanted, got = real(x), quantised(x)
        for name in wanted.keys() & got.keys():
            if wanted[name].size == got[name].size:
                powers.add(name, wanted[name], got[name])
    progress("comparing layers", len(inputs), len(inputs))
    found = []
    merged: dict[str, Layer] = {}  #: results that the quantised model lacks, and what stands for their layer
    for layer in layers:
        for ahead in [merged[t] for t in layer.reads if t in merged]:
            reads = (*(t for t in layer.reads if t != ahead.makes), *ahead.reads)
            layer = Layer(ahead.name, f"{ahead.kind}+{layer.kind}", reads, layer.makes)
        if not powers.known(layer.makes):
            merged[layer.makes] = layer
            continue
        before = min((powers.decibels(t) for t in layer.reads if powers.known(t)), default=math.inf)
        found.append(LayerLoss(layer.name, layer.kind, before, powers.decibels(layer.makes)))
    return sorted(found, key=lambda layer: (-layer.lost, layer.after))
