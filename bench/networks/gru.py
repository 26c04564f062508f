"""A GRU on a sequence, unrolled as converters write it: LiteRT has no operator for one.

The form of cuDNN and of Keras' ``reset_after``: the reset gate multiplies the state's product. All steps share their
weights, and the products of the inputs are one FULLY_CONNECTED for all steps.
"""

from __future__ import annotations

from typing import Any

from tests.fuzz import Tensor, TfliteNet
from tests.fuzz.tensors import Range

SUMS: dict[str, Any] = {"scale": 1 / 16, "zero_point": 0}  #: of what goes into a gate
STATES: dict[str, Any] = {"scale": 1 / 128, "zero_point": 0}  #: of hidden states, which lie between -1 and 1


class Gru(TfliteNet):
    """A writer of int8 networks whose layers of one name have one set of weights."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._shared: dict[str, tuple[int, int, Range]] = {}
        self._name_of_layer = ""

    def _weights(self, *layer: Any, **options: Any) -> tuple[int, int, Range]:
        if self._name_of_layer not in self._shared:
            self._shared[self._name_of_layer] = super()._weights(*layer, **options)
        return self._shared[self._name_of_layer]

    def _dense(self, name: str, x: Tensor, units: int) -> Tensor:
        self._name_of_layer = name
        return self.fully_connected(x, units, flatten=False, keep_num_dims=True, **SUMS)

    def gru(self, x: Tensor, state: Tensor) -> list[Tensor]:
        """The hidden state (1, units) after each step of ``x`` (1, steps, features), from ``state`` (1, units) on."""
        units = state.shape[-1]
        sums = [self._dense(f"input_{gate}", x, units) for gate in ("update", "reset", "new")]
        states = []
        for t in range(x.shape[1]):
            update, reset, new = (
                self.strided_slice(s, (0, t, 0), (1, t + 1, units), (1, 1, 1), shrink=2) for s in sums
            )
            state = self._step(update, reset, new, state)
            states.append(state)
        return states

    def _step(self, update: Tensor, reset: Tensor, new: Tensor, state: Tensor) -> Tensor:
        """``made + update * (state - made)``."""
        units = state.shape[-1]
        update = self.logistic(self.add(update, self._dense("state_update", state, units), **SUMS))
        reset = self.logistic(self.add(reset, self._dense("state_reset", state, units), **SUMS))
        made = self.tanh(self.add(new, self.mul(reset, self._dense("state_new", state, units), **SUMS), **SUMS))
        return self.add(made, self.mul(update, self.sub(state, made, **STATES), **STATES), **STATES)


def draw(units: int, steps: int, seed: int = 0) -> tuple[Gru, list[Tensor]]:
    """A network of as many features as units, and what it gives: the state after each step."""
    net = Gru(seed)
    x = net.input((1, steps, units))
    return net, net.gru(x, net.input((1, units), **STATES))
