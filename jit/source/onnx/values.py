"""The forms of a prepared graph's tensors, with two of its own: images laid out flat, and uint8 held as int8."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.frontend.builder import Operand, Quantisation
from tilewright.jit.graph import HostCast
from tilewright.jit.source.matrices import beside_channels, heads_in_channels
from tilewright.jit.source.values import Values


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

    def is_pending(self, key: object) -> bool:
        """Whether ``key`` is another tensor's elements that nobody has asked for."""
        own = (key, "int8")
        return key in self.reshaped and not (key in self.files or key in self.chips or own in self.files)

    def places(self, key: object) -> tuple[str, NDArray[np.int64]]:
        """As :meth:`Values.places`, through reshapes that nobody has asked for."""
        if self.is_pending(key):
            tensor, positions = self.places(self.reshaped[key])
            return tensor, positions.reshape(self.specs[key].shape)
        return super().places(key)

    def set_result(self, key: object, tensor: str) -> None:
        """``key`` is computed on the chip, in ``tensor``: as it is, or heads that lie in its channels.

        Raises Unsupported where the shapes tell otherwise.
        """
        have, shape = self.builder.tensors[tensor].shape, self.specs[key].shape
        heads = int(np.prod(shape[:-2]))
        if heads < 2 or have == self.specs[key].chip_shape() or have != (1, 1, shape[-2], heads * shape[-1]):
            self.set_chip(key, tensor)
            return
        self.rearrange(key, heads_in_channels(self, key, tensor), beside_channels(len(shape)))

    def _settle(self, key: object) -> None:
        """Let the host compute a tensor that is another's elements, if it is one and nobody has asked for it before."""
        spec, own = self.specs[key], (key, "int8")
        if self.is_pending(key):
            source, permutation = self.reshaped[key], None
        elif key in self.rearranged and not (key in self.files or key in self.chips or own in self.files):
            source, permutation = self.rearranged[key].before, self.rearranged[key].permutation
        else:
            return
        self.set_signed(key, self._moved(spec, self.signed(source), permutation, spec.quantisation))
