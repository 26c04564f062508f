"""Tensors to and from the bytes of a program's segments, as the accelerator wants them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tilewright.runtime.native import calls
from tilewright.runtime.native.library import Pack, Unpack, library
from tilewright.runtime.step_base import (
    MOST_ELEMENTS,
    Axis,
    Extent,
    Form,
    Index,
    Int8,
    Integer,
    Size,
    Step,
    StepError,
)
from tilewright.schema import Count, Range

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
Image = tuple[Extent, Extent, Extent, Extent]  #: (1, H, W, C)
Offset = Annotated[int, Range(-255, 255)]


@dataclass(frozen=True)
class PackStep(Step):
    """Pack tensor ``tensor`` into ``segment`` of ``program`` from byte ``offset`` on.

    The tensor is permuted (``permutation``, axes of the user's tensor in NHWC order; None to leave it),
    reshaped to ``shape`` = (1, H, W, C), ``value_offset`` is added (-128 for uint8 models), and the values,
    which must then fit int8, are surrounded by ``padding`` = (top, left, bottom, right) of ``pad_value``:
    (1, H', W', C) with H' = H + top + bottom. Then, by ``layout``:

    * ``rows``: units ``[h][w][u][batch][lane]``, H' x W' x ``units`` of them, channel c in unit ``c // lanes``,
      lane ``c % lanes``; channels beyond C hold ``channel_pad``;
    * ``patches``: for each output position of a ``kernel`` = (KH, KW) window with ``strides`` and ``dilation``
      over the padded image, the KH*KW*C values in (ky, kx, c) order, then ``channel_pad`` up to
      ``units * lanes``: units ``[oy][ox][unit][batch][lane]``;
    * ``blocks``: as ``rows``, but ``block`` units of all pixels of a row before the next: units
      ``[h][block][w][unit of the block][batch][lane]``.

    Batch row 0 carries the image; the others are zero.
    """

    kind: ClassVar[str] = "pack"
    tensor: str
    segment: Index
    shape: Image
    lanes: Extent
    units: Extent
    layout: Literal["rows", "patches", "blocks"] = "rows"
    program: Index = 0
    offset: Count = 0
    batch: Extent = 1
    permutation: tuple[Axis, ...] | None = None
    value_offset: Offset = 0
    padding: tuple[Size, Size, Size, Size] = (0, 0, 0, 0)
    pad_value: Int8 = 0
    channel_pad: Int8 = 0
    kernel: tuple[Extent, Extent] = (1, 1)
    strides: tuple[Extent, Extent] = (1, 1)
    dilation: tuple[Extent, Extent] = (1, 1)
    block: Extent = 1

    @property
    def positions(self) -> tuple[int, int]:
        """Rows and columns of the packed data: H' x W' for ``rows`` and ``blocks``, OH x OW for ``patches``."""
        top, left, bottom, right = self.padding
        height, width = self.shape[1] + top + bottom, self.shape[2] + left + right
        if self.layout != "patches":
            return height, width
        reach_y, reach_x = ((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation))
        return (height - reach_y) // self.strides[0] + 1, (width - reach_x) // self.strides[1] + 1

    def check(self, form: Form) -> None:
        """Raise :class:`StepError` unless a tensor of this form can be packed so."""
        channels = self.shape[3]
        top, left, bottom, right = self.padding
        padded = (self.shape[1] + top + bottom) * (self.shape[2] + left + right) * channels
        rows, columns = self.positions
        if self.layout == "patches":
            channels *= self.kernel[0] * self.kernel[1]
        self.refuse(form.dtype in ("int8", "uint8"), f"{form} are no 8-bit integers")
        _check_permutation(self, self.permutation, len(form.shape))
        self.refuse(form.elements == math.prod(self.shape), f"shape {list(form.shape)} does not hold {self.shape}")
        self.refuse(self.shape[0] == 1, f"the batch of {self.shape} is not 1")
        self.refuse(padded <= MOST_ELEMENTS, f"the padded image has {padded} values, more than {MOST_ELEMENTS}")
        self.refuse(rows >= 1 and columns >= 1, f"a {self.kernel} window does not fit the image {self.shape}")
        width = self.units * self.lanes
        self.refuse(channels <= width, f"{channels} values do not fit {self.units} units of {self.lanes}")
        self.refuse(self.units % self.block == 0, f"{self.units} units are no whole blocks of {self.block}")

    @property
    def size(self) -> int:
        """Bytes written per inference."""
        rows, columns = self.positions
        return rows * columns * self.units * self.batch * self.lanes

    def apply(self, x: Array) -> Bytes:
        """``x`` of shape (N, *tensor shape) -> the packed bytes, uint8 of shape (N, size)."""
        compiled = self._compiled(x)
        packed = None if compiled is None else calls.pack(compiled, x, self.size)
        return self.apply_numpy(x) if packed is None else packed

    def _compiled(self, x: Array) -> Pack | None:
        """For the compiled library; None where it is not there, cannot do it, or :meth:`check` refuses ``x``."""
        key = x.shape[1:], x.dtype
        if key not in self._structs:
            form = Form(x.shape[1:], x.dtype.name)
            try:
                self.check(form)
            except StepError:
                return None
            self._structs[key] = self._struct(form)
        return self._structs[key]

    @cached_property
    def _structs(self) -> dict[tuple[tuple[int, ...], np.dtype[Any]], Pack | None]:
        return {}

    def _struct(self, form: Form) -> Pack | None:
        strides = calls.strides(self.shape, form.shape, self.permutation)
        if library() is None or strides is None:
            return None
        return Pack(
            *self.shape[1:], strides, self.lanes, self.units, self.batch, calls.LAYOUTS[self.layout], self.block,
            *self.padding, self.pad_value, self.channel_pad, self.value_offset, int(form.dtype == "uint8"),
            self.kernel, self.strides, self.dilation,
        )  # fmt: skip

    def apply_numpy(self, x: Array) -> Bytes:
        """The reference of :meth:`apply`, which names values that do not fit int8."""
        if self.value_offset:
            x = x.astype(np.int32) + self.value_offset
        narrow = x.astype(np.int8, copy=False)
        if narrow.dtype != x.dtype and not np.array_equal(narrow, x):
            raise StepError(f"pack {self.tensor}: values from {x.min()} to {x.max()} do not fit int8")
        return self.arrange(narrow).view(np.uint8)

    def arrange(self, x: Array) -> Array:
        """Values of any dtype, shape (N, *tensor shape), where the segment holds them: (N, size).

        What :meth:`apply` does but for ``value_offset`` and the check for int8.
        """
        image = self._image(x)
        values = self._patches(image) if self.layout == "patches" else image
        count, rows, columns, channels = values.shape
        width = self.units * self.lanes
        if channels > width:
            raise StepError(f"pack {self.tensor}: {channels} values do not fit {self.units} units of {self.lanes}")
        packed = np.full((count, rows, columns, width), self.channel_pad, x.dtype)
        packed[..., :channels] = values
        batched = packed.reshape(count, rows, columns, self.units, 1, self.lanes)
        if self.batch > 1:
            batched = np.zeros((count, rows, columns, self.units, self.batch, self.lanes), x.dtype)
            batched[..., 0, :] = packed.reshape(count, rows, columns, self.units, self.lanes)
        if self.layout == "blocks":
            batched = batched.reshape(count, rows, columns, self.units // self.block, -1).transpose(0, 1, 3, 2, 4)
        return batched.reshape(count, -1)

    def _image(self, x: Array) -> Array:
        """The NHWC image, padded: (N, H', W', C)."""
        count = x.shape[0]
        if self.permutation is not None:
            x = x.transpose(0, *(axis + 1 for axis in self.permutation))
        if x.size != count * int(np.prod(self.shape)):
            raise StepError(f"pack {self.tensor}: shape {x.shape[1:]} does not hold {self.shape}")
        x = x.reshape(count, *self.shape[1:])
        top, left, bottom, right = self.padding
        if not any(self.padding):
            return x
        spread = ((0, 0), (top, bottom), (left, right), (0, 0))
        return np.pad(x, spread, constant_values=self.pad_value)

    def _patches(self, image: Array) -> Array:
        """Patches of the padded image: (N, OH, OW, KH * KW * C)."""
        image = np.ascontiguousarray(image)
        count, _, _, channels = image.shape
        rows, columns = self.positions
        if rows < 1 or columns < 1:
            raise StepError(f"pack {self.tensor}: a {self.kernel} window does not fit the image {self.shape}")
        n, h, w, c = image.strides
        shape = (count, rows, columns, *self.kernel, channels)
        strides = (n, h * self.strides[0], w * self.strides[1], h * self.dilation[0], w * self.dilation[1], c)
        view = as_strided(image, shape, strides, writeable=False)
        return view.reshape(count, rows, columns, -1)


@dataclass(frozen=True)
class UnpackStep(Step):
    """Read tensor ``tensor`` from ``segment`` of ``program``, byte ``offset`` on.

    The segment holds units ``[h][w][u][batch][lane]`` (batch row 0 carries the image); ``shape`` is
    (1, H, W, C). The first C channels are taken, ``value_offset`` is added, the axes are permuted
    (``permutation``, axes of NHWC in the user's order), and the result becomes ``dtype`` in ``tensor_shape``.
    """

    kind: ClassVar[str] = "unpack"
    tensor: str
    segment: Index
    shape: Image
    tensor_shape: tuple[Extent, ...]
    lanes: Extent
    units: Extent
    program: Index = 0
    offset: Count = 0
    batch: Extent = 1
    permutation: tuple[Axis, ...] | None = None
    value_offset: Offset = 0
    dtype: Integer = "int8"

    @property
    def result(self) -> Form:
        """The form of the tensor."""
        return Form(self.tensor_shape, self.dtype)

    def check(self) -> None:
        """Raise :class:`StepError` unless the units can hold the image, and the tensor its values."""
        _, _, _, channels = self.shape
        width = self.units * self.lanes
        self.refuse(channels <= width, f"{channels} channels do not fit {self.units} units of {self.lanes}")
        _check_permutation(self, self.permutation, 4)
        self.refuse(self.shape[0] == 1, f"the batch of {self.shape} is not 1")
        self.refuse(
            self.result.elements == math.prod(self.shape), f"shape {self.shape} does not fill {self.tensor_shape}"
        )
        limits, least = np.iinfo(self.dtype), self.value_offset - 128
        fits = limits.min <= least and least + 255 <= limits.max
        self.refuse(fits, f"values from {least} to {least + 255} do not fit {self.dtype}")

    @property
    def size(self) -> int:
        """Bytes read per inference."""
        return self.shape[1] * self.shape[2] * self.units * self.batch * self.lanes

    def apply(self, data: Bytes) -> Array:
        """``data``: uint8 of shape (N, size) -> the tensor, shape (N, *tensor_shape)."""
        if self._struct is not None and data.shape[1:] == (self.size,):
            return calls.unpack(self._struct, data, self.tensor_shape, self.dtype)
        return self.apply_numpy(data)

    @cached_property
    def _struct(self) -> Unpack | None:
        """For the compiled library; None where it is not there, or :meth:`check` refuses the step."""
        try:
            self.check()
        except StepError:
            return None
        order = self.permutation
        inverse = None if order is None else tuple(order.index(axis) for axis in range(4))
        shape = self.shape if order is None else tuple(self.shape[axis] for axis in order)
        strides = calls.strides(self.shape, shape, inverse)
        if library() is None or strides is None:
            return None
        type_number = calls.TYPES[self.dtype]
        return Unpack(*self.shape[1:], strides, self.lanes, self.units, self.batch, self.value_offset, type_number)

    def apply_numpy(self, data: Bytes) -> Array:
        """The reference of :meth:`apply`."""
        values = self.collect(data.view(np.int8))
        if self.value_offset:
            values = values.astype(np.int32) + self.value_offset
        return np.ascontiguousarray(values.astype(self.dtype, copy=False))

    def collect(self, data: Array) -> Array:
        """Values of any dtype as the segment holds them, shape (N, size) -> the tensor's, (N, *tensor_shape).

        What :meth:`apply` does but for ``value_offset`` and the change of dtype.
        """
        count = data.shape[0]
        _, height, width, channels = self.shape
        units = data.reshape(count, height, width, self.units, self.batch, self.lanes)
        values: Array = units[..., 0, :].reshape(count, 1, height, width, -1)[..., :channels]
        if self.permutation is not None:
            values = values.transpose(0, *(axis + 1 for axis in self.permutation))
        return values.reshape(count, *self.tensor_shape)


def _check_permutation(step: Step, permutation: tuple[int, ...] | None, axes: int) -> None:
    ordered = permutation is None or sorted(permutation) == list(range(axes))
    step.refuse(ordered, f"{permutation} is no order of {axes} axes")
