"""Operators of :class:`TfliteNet` that keep states: LSTM and SVDF."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.fuzz.flatbuffer import StoredTensor
from tests.fuzz.tensors import BuildError, Range, Tensor
from tests.fuzz.tflite_base import TfliteBase


class Recurrent(TfliteBase):
    """Recurrent layers."""

    def lstm(
        self, x: Tensor, units: int, hidden_scale: float = 1 / 128, hidden_zero_point: int = 0, cell_clip: float = 0.0,
        cell_bits: int = 11, time_major: bool = False,
    ) -> Tensor:  # fmt: skip
        """UNIDIRECTIONAL_SEQUENCE_LSTM on (batch, time, features), int8 with a 16-bit cell state of ``cell_bits`` of
        fraction; with ``time_major`` on (time, batch, features)."""
        self._need_rank("UNIDIRECTIONAL_SEQUENCE_LSTM", x, 3)
        if x.dtype != "int8" or x.scale is None:
            raise BuildError(f"UNIDIRECTIONAL_SEQUENCE_LSTM: takes int8, not {x.dtype}")
        features, batch = x.shape[2], x.shape[1 if time_major else 0]
        kinds = [(features, x.rms)] * 4 + [(units, 0.5)] * 4
        weights = [self._narrow_weight(units, depth, rms) for depth, rms in kinds]
        biases = [
            self._bias(
                np.rint(self.rng.normal(0, 0.5, units) / (x.scale * scale)).astype(np.int32),
                np.array([x.scale * scale], np.float32),
            )
            for _, scale in weights[:4]
        ]
        numbers = np.array([hidden_scale]), np.array([hidden_zero_point])
        state = self._store(StoredTensor(self._name(), (batch, units), "int8", *numbers, variable=True))
        cell = self._store(
            StoredTensor(self._name(), (batch, units), "int16", np.array([2.0**-cell_bits]), np.zeros(1), variable=True)
        )
        gates = [
            self._store(StoredTensor(self._name(), (), "int16", np.array([2.0**-12]), np.zeros(1))) for _ in range(4)
        ]
        hidden = self._store(StoredTensor(self._name(), (), "int8", *numbers))
        values = Range(0.0, 0.4, -1.0, 1.0)
        y = self._quantised((*x.shape[:2], units), "int8", values, hidden_scale, hidden_zero_point)
        inside = [*(w for w, _ in weights), -1, -1, -1, *biases, -1, -1, state, cell, -1, -1, -1, -1]
        self.op(
            "UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *inside], [y], "UnidirectionalSequenceLSTMOptions",
            intermediates=[*gates, hidden], fusedActivationFunction=4, cellClip=cell_clip, projClip=0.0,
            timeMajor=time_major,
        )  # fmt: skip
        self.macs += x.shape[0] * x.shape[1] * 4 * units * (features + units)
        return y

    def svdf(
        self, x: Tensor, units: int, memory: int = 8, rank: int = 1, state: str = "int16", state_zero_point: int = 0,
        bias: bool = True, state_gain: float = 1.0, **out: Any,
    ) -> Tensor:  # fmt: skip
        """SVDF on (batch, features) of int8 with weights over time and a ``state`` of int16 or int8, which a
        ``state_gain`` of some 4 and more saturates."""
        self._need_rank("SVDF", x, 2)
        if x.dtype != "int8" or x.scale is None:
            raise BuildError(f"SVDF: takes int8, not {x.dtype}")
        (batch, features), filters = x.shape, units * rank
        weight, _ = self._narrow_weight(filters, features, x.rms)
        most = np.iinfo(state).max
        time_scale, state_scale = float(np.float32(1 / most)), float(np.float32(4 / most / state_gain))
        values = np.clip(np.rint(self.rng.normal(0, most / 3, (filters, memory))), -most - 1, most)
        time = StoredTensor(
            self._name(), values.shape, state, np.array([time_scale]), np.zeros(1), 0, values.astype(state)
        )
        found = Range(0.0, math.sqrt(memory * rank) / 3, 0.0)
        numbers = np.array([state_scale]), np.array([state_zero_point])
        stored = [self._store(time)]
        sums = np.array([state_scale * time_scale], np.float32)
        shifts = np.clip(self.rng.normal(0, 0.3, units) / sums, -(1 << 30), 1 << 30)
        stored.append(self._bias(np.rint(shifts).astype(np.int32), sums) if bias else -1)
        shape = (batch, memory * filters)
        stored.append(self._store(StoredTensor(self._name(), shape, state, *numbers, variable=True)))
        y = self._output((batch, units), found, "int8", **out)
        self.op("SVDF", [x, weight, *stored], [y], "SVDFOptions", rank=rank, fusedActivationFunction=1)
        self.macs += batch * filters * (features + memory)
        return y

    def _narrow_weight(self, units: int, depth: int, rms: float) -> tuple[int, float]:
        data = np.clip(np.rint(self.rng.normal(0, 40, (units, depth))), -127, 127).astype(np.int8)
        scale = float(np.float32(1.0 / (40 * math.sqrt(depth) * max(rms, 0.05))))
        stored = StoredTensor(f"w{len(self.tensors)}", (units, depth), "int8", np.array([scale]), np.zeros(1), 0, data)
        return self._store(stored), scale
