"""The forms of a prepared graph's tensors, with two of its own: images laid out flat, and uint8 held as int8."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.frontend.builder import Operand, Quantisation
from tilewright.jit.graph import HostCast, Reshape, Transpose
from tilewright.jit.source.values import Values


@dataclass(frozen=True)
class Arranged:
    """A tensor of the prepared graph that has the elements of an NHWC int8 ``tensor``, each from one of ``positions``.

    ``before``: the tensor that it comes from in one step, a reshape or (``permutation``) a transpose.
    """

    tensor: str
    positions: NDArray[np.int64]
    before: object
    permutation: tuple[int, ...] | None


@dataclass
class PreparedValues(Values):
    """Keys are names of the prepared graph; ``(name, "int8")`` is a uint8 tensor less 128, axes as in the file.

    ``reshaped``: tensors that are others under a new shape, elements in the file's order; they are computed (by the
    host) where somebody asks for them, which a layer with weights for a flattened image need not do. ``arranged``:
    likewise those whose axes have changed places on the way, which a product of two tensors can often do with.
    """

    reshaped: dict[object, object] = field(default_factory=dict)
    arranged: dict[object, Arranged] = field(default_factory=dict)

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
        """A tensor of the accelerator, and where in it each element of ``key`` is, in the file's shape."""
        spec = self.specs[key]
        if key in self.arranged:
            return self.arranged[key].tensor, self.arranged[key].positions
        if self.is_pending(key):
            tensor, positions = self.places(self.reshaped[key])
            return tensor, positions.reshape(spec.shape)
        tensor = self.chip(key).name
        order = spec.order or tuple(range(len(spec.shape)))
        positions = np.arange(int(np.prod(spec.shape))).reshape([spec.shape[axis] for axis in order])
        return tensor, positions.transpose([order.index(axis) for axis in range(len(order))])

    def set_arranged(self, key: object, before: object, permutation: tuple[int, ...] | None) -> None:
        """``key`` is ``before`` with its axes in another order, or (None) under another shape."""
        spec, (tensor, positions) = self.specs[key], self.places(before)
        positions = positions.reshape(spec.shape) if permutation is None else positions.transpose(permutation)
        order = spec.order or tuple(range(len(spec.shape)))
        natural = (np.diff(positions.transpose(order).reshape(-1)) == 1).all()
        if natural and len(spec.shape) <= 4 and self.builder.tensors[tensor].shape == spec.chip_shape():
            self.chips[key] = tensor
        else:
            self.arranged[key] = Arranged(tensor, positions, before, permutation)

    def set_result(self, key: object, tensor: str) -> None:
        """``key`` is computed on the chip, in ``tensor``: as it is, or heads that lie in its channels.

        Raises Unsupported where the shapes tell otherwise.
        """
        have, shape = self.builder.tensors[tensor].shape, self.specs[key].shape
        heads = int(np.prod(shape[:-2]))
        if heads < 2 or have == self.specs[key].chip_shape() or have != (1, 1, shape[-2], heads * shape[-1]):
            self.set_chip(key, tensor)
            return
        own, rank = (key, "merged"), len(shape)
        split, swap = (*shape[:-3], shape[-2], shape[-3], shape[-1]), (*range(rank - 3), rank - 2, rank - 3, rank - 1)
        self.specs[own] = replace(self.specs[key], name=f"{self.specs[key].name}_heads", shape=split, order=None)
        self.chips[own] = tensor
        self.set_arranged(key, own, swap)

    def _settle(self, key: object) -> None:
        """Let the host compute a tensor that is another's elements, if it is one and nobody has asked for it before."""
        spec, own = self.specs[key], (key, "int8")
        if self.is_pending(key):
            source, permutation = self.reshaped[key], None
        elif key in self.arranged and not (key in self.files or key in self.chips or own in self.files):
            source, permutation = self.arranged[key].before, self.arranged[key].permutation
        else:
            return
        read, like = [self.signed(source)], spec.quantisation
        if permutation is None:
            tensor = self.builder.append(Reshape, spec.name, read, spec.shape, like=like, shape=spec.shape)
        else:
            tensor = self.builder.append(Transpose, spec.name, read, spec.shape, like=like, permutation=permutation)
        self.set_signed(key, tensor)
