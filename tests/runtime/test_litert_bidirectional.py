"""Bidirectional layers whose results are merged, in the forms that LiteRT's kernels compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.fuzz.flatbuffer import StoredOperator, StoredTensor, write_tflite
from tilewright.runtime import interpreters

pytest.importorskip("ai_edge_litert")

FEATURES, UNITS, STEPS = 2, 3, 4


class _Layer:
    """A bidirectional layer of 3 units in each direction on 4 steps of 2 features."""

    def __init__(self, kind: str, batch: int, time_major: bool, merge: bool, weights: str = "float32") -> None:
        self.rng = np.random.default_rng(0)
        self.tensors: list[StoredTensor] = []
        self.batch, self.weights = batch, weights
        lead = (STEPS, batch) if time_major else (batch, STEPS)
        x = self._add((*lead, FEATURES))
        inside = self._rnn() if kind == "RNN" else self._lstm()
        results = [self._add((*lead, UNITS * (1 + merge))) for _ in range(2 - merge)]
        options = {"timeMajor": time_major, "mergeOutputs": merge, "fusedActivationFunction": 4}
        name = f"BIDIRECTIONAL_SEQUENCE_{kind}"
        self.operator = StoredOperator(name, [x, *inside], results, f"BidirectionalSequence{kind}Options", options)

    def save(self, path: Path, asymmetric: bool = False) -> bytes:
        self.operator.fields["asymmetricQuantizeInputs"] = asymmetric
        return write_tflite(path, self.tensors, [self.operator], [0], self.operator.outputs).read_bytes()

    def _rnn(self) -> list[int]:
        cells = [[*self._matrices(1), self._bias(), self._state()] for _ in range(2)]
        return [*cells[0], *cells[1], -1, -1, -1]

    def _lstm(self) -> list[int]:
        cells = [[*self._matrices(4), -1, -1, -1, *(self._bias() for _ in range(4)), -1, -1] for _ in range(2)]
        return [*cells[0], *cells[1], *(self._state() for _ in range(4)), *[-1] * 9]

    def _matrices(self, gates: int) -> list[int]:
        return [self._weight(depth) for depth in (FEATURES, UNITS) for _ in range(gates)]

    def _weight(self, depth: int) -> int:
        values = self.rng.normal(0, 0.5, (UNITS, depth))
        if self.weights == "float32":
            return self._add(values.shape, data=values.astype(np.float32))
        data = np.clip(np.rint(values * 100), -127, 127).astype(np.int8)
        return self._add(values.shape, "int8", scales=np.array([0.01]), data=data)

    def _bias(self) -> int:
        return self._add((UNITS,), data=self.rng.normal(0, 0.5, UNITS).astype(np.float32))

    def _state(self) -> int:
        return self._add((self.batch, UNITS), variable=True)

    def _add(self, shape: tuple[int, ...], dtype: str = "float32", **more: object) -> int:
        self.tensors.append(StoredTensor(f"t{len(self.tensors)}", shape, dtype, **more))  # type: ignore[arg-type]
        return len(self.tensors) - 1


def _results(content: bytes, x: np.ndarray) -> list[np.ndarray]:
    return interpreters.load("litert", content, "m.tflite")([x])


@pytest.mark.parametrize(
    ("kind", "batch", "time_major", "weights", "asymmetric"),
    [
        ("LSTM", 1, False, "float32", False),
        ("LSTM", 2, True, "int8", False),
        ("RNN", 2, False, "int8", False),
        ("RNN", 2, True, "float32", False),
        ("RNN", 2, True, "int8", True),
        ("RNN", 1, True, "int8", False),
    ],
)
def test_merged_results_are_those_of_both_directions(
    kind: str, batch: int, time_major: bool, weights: str, asymmetric: bool, tmp_path: Path
) -> None:
    shape = (STEPS, batch, FEATURES) if time_major else (batch, STEPS, FEATURES)
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    whole, parts = (
        _results(_Layer(kind, batch, time_major, merge, weights).save(tmp_path / "m.tflite", asymmetric), x)
        for merge in (True, False)
    )
    np.testing.assert_allclose(whole[0], np.concatenate(parts, axis=-1), rtol=0, atol=1e-5)
