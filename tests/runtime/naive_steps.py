"""The steps of an artifact by plain loops: slow, and an index that lies outside is an error."""

from __future__ import annotations

import base64
import struct
from typing import Any

import numpy as np

from tilewright.runtime.artifact import Artifact
from tilewright.runtime.steps import (
    CastStep,
    ConstantStep,
    CutStep,
    DequantizeStep,
    JoinStep,
    LaunchStep,
    PackStep,
    QuantizeStep,
    ReshapeStep,
    SoftmaxStep,
    TransposeStep,
    UnpackStep,
)
from tilewright.sim import Functional

Array = np.ndarray[Any, Any]


def at(values: Any, index: int) -> Any:
    """An element by a position that must be inside: Python's negative ones are not."""
    assert 0 <= index < len(values), index
    return values[index]


def pack(step: PackStep, x: Array, segment: Array) -> None:
    """One inference's tensor into its segment, byte by byte."""
    if step.permutation is not None:
        x = np.transpose(x, step.permutation)
    image = x.reshape(step.shape)[0].tolist()
    top, left, bottom, right = step.padding

    def pixel(y: int, x: int, channel: int) -> int:
        assert 0 <= y < step.shape[1] + top + bottom
        assert 0 <= x < step.shape[2] + left + right
        if not (top <= y < top + step.shape[1] and left <= x < left + step.shape[2]):
            return step.pad_value
        value: int = at(at(at(image, y - top), x - left), channel) + step.value_offset
        return value

    rows, columns = step.positions
    position = step.offset
    blocks = [*range(0, step.units, step.block)] if step.layout == "blocks" else [0]
    for oy in range(rows):
        for block, ox in ((block, ox) for block in blocks for ox in range(columns)):
            if step.layout == "patches":
                values = [
                    pixel(oy * step.strides[0] + ky * step.dilation[0], ox * step.strides[1] + kx * step.dilation[1], c)
                    for ky in range(step.kernel[0]) for kx in range(step.kernel[1]) for c in range(step.shape[3])
                ]  # fmt: skip
            else:
                values = [pixel(oy, ox, c) for c in range(step.shape[3])]
            assert len(values) <= step.units * step.lanes
            values += [step.channel_pad] * (step.units * step.lanes - len(values))
            for unit in range(block, block + step.block) if step.layout == "blocks" else range(step.units):
                for row in range(step.batch):
                    for lane in range(step.lanes):
                        value = values[unit * step.lanes + lane] if row == 0 else 0
                        assert -128 <= value <= 127
                        at(segment, position)
                        segment[position] = value & 255
                        position += 1


def unpack(step: UnpackStep, segment: Array) -> Array:
    """One inference's tensor out of its segment."""
    _, height, width, channels = step.shape
    values = []
    for pixel in range(height * width):
        for c in range(channels):
            unit, lane = divmod(c, step.lanes)
            assert unit < step.units
            place = ((pixel * step.units + unit) * step.batch) * step.lanes + lane
            value = int(at(segment, step.offset + place))
            values.append(value - 256 * (value > 127) + step.value_offset)
    image = np.array(values, dtype=object).reshape(step.shape)
    if step.permutation is not None:
        image = np.transpose(image, step.permutation)
    result = image.reshape(step.tensor_shape).astype(step.dtype)
    assert [int(v) for v in result.reshape(-1)] == image.reshape(-1).tolist()
    return result


def run(artifact: Artifact, inputs: dict[str, Array]) -> list[Array]:
    """The outputs of one inference; ``inputs`` by name, in the tensors' own shapes."""
    environment = dict(inputs)
    memories = [
        [np.frombuffer((s.data or b"").ljust(s.size, b"\0"), np.uint8).copy() for s in program.segments]
        for program in artifact.programs
    ]
    for step in artifact.steps:
        if isinstance(step, PackStep):
            pack(step, environment[step.tensor], memories[step.program][step.segment])
        elif isinstance(step, LaunchStep):
            for program in step.programs:
                assert Functional(artifact.programs[program]).run(memories[program]).fault is None
        elif isinstance(step, UnpackStep):
            environment[step.tensor] = unpack(step, memories[step.program][step.segment])
        elif isinstance(step, CastStep):
            x = environment[step.input]
            values = [int(v) + step.offset for v in x.reshape(-1)]
            assert all(np.iinfo(step.dtype).min <= v <= np.iinfo(step.dtype).max for v in values)
            environment[step.output] = np.array(values, step.dtype).reshape(x.shape)
        elif isinstance(step, QuantizeStep):
            x, limits = environment[step.input], np.iinfo(step.dtype)
            with np.errstate(over="ignore"):
                scaled = [float(v / np.float32(step.scale)) for v in x.reshape(-1)]
            ties = round if step.rounding == "even" else lambda v: int(np.copysign(np.floor(abs(v) + 0.5), v))
            values = [
                (limits.max if v > 0 else limits.min) if np.isinf(v)
                else min(max(ties(v) + step.zero_point, limits.min), limits.max)
                for v in scaled
            ]  # fmt: skip
            environment[step.output] = np.array(values, step.dtype).reshape(x.shape)
        elif isinstance(step, DequantizeStep):
            x = environment[step.input]
            with np.errstate(over="ignore"):
                reals = [np.float32(int(v) - step.zero_point) * np.float32(step.scale) for v in x.reshape(-1)]
            environment[step.output] = np.array(reals, np.float32).reshape(x.shape)
        elif isinstance(step, ReshapeStep):
            environment[step.output] = environment[step.input].reshape(step.shape)
        elif isinstance(step, CutStep):
            x, found = environment[step.input], np.zeros(step.size, environment[step.input].dtype)
            for place in np.ndindex(*step.size):
                found[place] = x[tuple(b + p for b, p in zip(step.begin, place, strict=True))]
            environment[step.output] = found
        elif isinstance(step, JoinStep):
            found = np.zeros(step.shape, environment[step.inputs[0]].dtype)
            for name, origin in zip(step.inputs, step.origins, strict=True):
                for place in np.ndindex(*environment[name].shape):
                    found[tuple(o + p for o, p in zip(origin, place, strict=True))] = environment[name][place]
            environment[step.output] = found
        elif isinstance(step, ConstantStep):
            held, code = base64.b64decode(step.data), np.dtype(step.dtype).char
            unpacked = struct.unpack(f"<{len(held) // np.dtype(step.dtype).itemsize}{code}", held)
            environment[step.output] = np.array(unpacked, step.dtype).reshape(step.shape)
        elif isinstance(step, TransposeStep):
            environment[step.output] = np.transpose(environment[step.input], step.permutation)
        else:
            assert isinstance(step, SoftmaxStep)  # whose oracle is LiteRT, elsewhere
            environment[step.output] = step.apply(environment[step.input][None])[0]
    return [environment[tensor.name] for tensor in artifact.outputs]
