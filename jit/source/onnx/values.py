"""The forms of a prepared graph's tensors, with two of its own: images laid out flat, and uint8 held as int8."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.graph import HostCast
from tilewright.jit.layers.builder import Operand, Quantisation
from tilewright.jit.source.matrices import beside_channels, heads_in_channels
from tilewright.jit.source.values import FileTensor, Values, outwards


@dataclass
class PreparedValues(Values):
    """Keys are names of the prepared graph; ``(name, "int8")`` is a uint8 tensor less 128, axes as in the file.

    ``reshaped``: tensors that are others under a new shape, elements in the file's order; they are computed (by the
    host) where somebody asks for them, which a layer with weights for a flattened image need not do; likewise those
    ``rearranged``, whose axes have changed places on the way, which a product of two tensors can often do with.
    """

    reshaped: dict[object, object] = field(default_factory=dict)

    def chip(self, key: object) -> Operand:
        """``key`` as an operand of the accelerator. Raises Unsupported where it is no 8-bit image of batch 1."""
        if key not in self.chips:
            self._settle(key)
            if self.specs[key].dtype == "uint8":
                self.signed(key)
                self.chips[key] = super().chip((key, "int8")).name
        return super().chip(key)

    def file(self, key: object) -> str:
        """``key`` in the file's own form."""
        self._settle(key)
        if key not in self.files and self.specs[key].dtype == "uint8":
            spec = self.specs[key]
            assert spec.quantisation is not None
            stored = Quantisation(spec.quantisation.scale, spec.quantisation.zero_point + 128)
            self.files[key] = self.builder.append(
                HostCast, spec.name, [self.signed(key)], spec.shape, "uint8", like=stored, offset=128, dtype="uint8"
            )
        return super().file(key)

    def held_shape(self, key: object) -> tuple[int, int, int, int]:
        """That of an image: other tensors have a key of their own for their rows of pixels (:meth:`stack`)."""
        return self.specs[key].chip_shape()

    def signed(self, key: object) -> str:
        """An 8-bit ``key`` as int8 with the file's axes."""
        self._settle(key)
        spec = self.specs[key]
        if spec.dtype == "int8":
            return self.file(key)
        own = (key, "int8")
        if own not in self.files:
            self.specs[own] = replace(spec, dtype="int8")
            if key in self.chips:
                self.chips[own] = self.chips[key]
                return super().file(own)
            assert spec.quantisation is not None
            self.files[own] = self.builder.append(
                HostCast,
                f"cast_{self.files[key]}",
                [self.files[key]],
                spec.shape,
                like=spec.quantisation,
                offset=-128,
                dtype="int8",
            )
        return self.files[own]

    def set_signed(self, key: object, tensor: str) -> None:
        """``key`` is computed by the host, as int8 with the file's axes."""
        if self.specs[key].dtype == "int8":
            self.files[key] = tensor
        else:
            self.specs[key, "int8"] = replace(self.specs[key], dtype="int8")
            self.files[key, "int8"] = tensor

    def set_reshaped(self, key: object, source: object) -> None:
        """``key`` has the elements of ``source``, in the file's order."""
        self.reshaped[key] = self.reshaped[source] if self.is_pending(source) else source
        tensor = self.chips.get(self.reshaped[key])
        if tensor is not None and self.is_image(key, *self.places(key)):
            self.chips[key] = tensor

    def is_pending(self, key: object) -> bool:
        """Whether ``key`` is another tensor's elements that nobody has asked for."""
        own = (key, "int8")
        return key in self.reshaped and not (key in self.files or key in self.chips or own in self.files)

    def places(self, key: object) -> tuple[str, NDArray[np.int64]]:
        """As :meth:`Values.places`, of any shape, through reshapes that nobody has asked for."""
        if self.is_pending(key):
            tensor, positions = self.places(self.reshaped[key])
            return tensor, positions.reshape(self.specs[key].shape)
        if key not in self.rearranged and not self.specs[key].has_image():
            return self.stack(key).name, np.arange(math.prod(self.specs[key].shape)).reshape(self.specs[key].shape)
        return super().places(key)

    def set_result(self, key: object, tensor: str) -> None:
        """``key`` is computed on the chip, in ``tensor``: as it is, or heads that lie in its channels.

        Of other shapes than images' all matrices lie in the rows. Raises Unsupported where the shapes tell otherwise.
        """
        if not self.specs[key].has_image():
            own = self._stacked(key)
            self.set_chip(own, tensor)
            self.set_reshaped(key, own)
            return
        have, shape = self.builder.tensors[tensor].shape, self.specs[key].shape
        heads = int(np.prod(shape[:-2]))
        if heads < 2 or have == self.specs[key].chip_shape() or have != (1, 1, shape[-2], heads * shape[-1]):
            self.set_chip(key, tensor)
            return
        self.rearrange(key, heads_in_channels(self, key, tensor), beside_channels(len(shape)))

    def stack(self, key: object) -> Operand:
        """As :meth:`Values.stack`, of any shape: all axes ahead of the last two become one.

        The last axes are the file's, also of a tensor that the accelerator holds with its channels last.
        """
        if self.specs[key].has_image() and self.in_order(key):
            return self.chip(key)
        own = self._stacked(key)
        if key in self.rearranged:
            self.rearrange(own, key, None)
        else:
            self.set_reshaped(own, key)
        return self.chip(own)

    def held(self, key: object) -> Operand:
        """As :meth:`Values.held`: an image with its channels last."""
        return self.chip(key) if self.specs[key].has_image() else self.stack(key)

    def in_order(self, key: object) -> bool:
        """Whether the accelerator holds ``key`` with the axes as the file has them."""
        order = self.specs[key].order
        return order is None or order == tuple(range(len(order)))

    def _stacked(self, key: object) -> object:
        """The key of a tensor of that shape."""
        spec, own = self.specs[key], (key, "stacked")
        shape = (1, int(np.prod(spec.shape[:-2])), *spec.shape[-2:])
        self.specs[own] = replace(spec, name=f"{spec.name}_stacked", shape=shape, order=None)
        return own

    def set_function(self, key: object, source: object, function: Callable[[Operand], str]) -> None:
        """``key`` is a ``function`` (of an operand, giving a tensor) of the single elements of ``source``.

        Where these are another tensor's, elsewhere, and nobody has asked for them in a form of their own, it is
        computed of that tensor, and its elements go the same way.
        """
        steps: list[tuple[object, tuple[int, ...] | None]] = []
        origin = source
        while source not in self.chips and (found := self._before(origin)) is not None:
            steps.append((origin, found[1]))
            origin = found[0]
        if not self.specs[origin].has_image():
            steps, origin = [], source
        own = self.specs[key]
        before = key
        if steps:
            before = (key, "function")
            self.specs[before] = self._like(own, self.specs[origin])
        self.set_chip(before, function(self.chip(origin)))
        for number, (read, permutation) in enumerate(reversed(steps), 1):
            made = key if number == len(steps) else (key, "function", number)
            self.specs.setdefault(made, self._like(own, self.specs[read]))
            if read in self.rearranged:
                self.rearrange(made, before, permutation)
            else:
                self.set_reshaped(made, before)
            before = made

    @staticmethod
    def _like(own: FileTensor, other: FileTensor) -> FileTensor:
        """The form of ``other`` for elements of ``own``."""
        return replace(other, name=f"{own.name}_of_{other.name}", dtype=own.dtype, quantisation=own.quantisation)

    def _before(self, key: object) -> tuple[object, tuple[int, ...] | None] | None:
        """What ``key`` is made of in one step, a reshape or a transpose; None where it is a tensor of its own."""
        if key in self.rearranged:
            return self.rearranged[key].before, self.rearranged[key].permutation
        return (self.reshaped[key], None) if key in self.reshaped else None

    def _settle(self, key: object) -> None:
        """Let the host compute a tensor that is another's elements, if it is one and nobody has asked for it before."""
        spec, own = self.specs[key], (key, "int8")
        found = self._before(key)
        if found is None or key in self.files or key in self.chips or own in self.files:
            return
        at = self.rearranged.get(key)
        order = None if at is None else outwards(at.positions)
        if at is not None and order is not None:
            shape, back = [spec.shape[axis] for axis in order], [order.index(axis) for axis in range(len(order))]
            turned = replace(spec, name=f"{spec.name}_turned", shape=tuple(shape))
            made = self._moved(turned, at.tensor, None, spec.quantisation)
            if back != sorted(back):
                made = self._moved(spec, made, tuple(back), spec.quantisation)
            self.set_signed(key, made)
            return
        source, permutation = found
        self.set_signed(key, self._moved(spec, self.signed(source), permutation, spec.quantisation))
