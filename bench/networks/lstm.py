"""A recurrent network on spectrograms, as keyword spotters are: dense layer at each step, two LSTM layers, classifier.

UNIDIRECTIONAL_SEQUENCE_LSTM with int8 weights and activations, its cell state in int16.
"""

from __future__ import annotations

from bench.networks.calibrated import Calibrated, Value

FEATURES = 40
UNITS = 128
CLASSES = 12


def lstm(net: Calibrated, size: int = 49, narrow: int = 1) -> list[Value]:
    """Hidden states of all steps, logits, probabilities. ``size`` is the number of steps; ``narrow`` divides units."""
    x = net.dense(net.input((size, FEATURES)), UNITS // narrow, "relu", steps=True)
    states = net.lstm(net.lstm(x, UNITS // narrow), UNITS // narrow)
    x = net.dense(net.last_step(states), 64 // narrow, "relu")
    logits = net.dense(x, CLASSES)
    return [states, logits, net.softmax(logits)]
