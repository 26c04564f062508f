"""A tiny network, made by hand: a 1x1 convolution and a rescale, on the ``tiny`` config."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.isa.build import ALU, CONSTANT, GEMM, INPUT, LOAD, OUTPUT, STORE, Builder
from tilewright.config import PRESETS, Config
from tilewright.isa.arithmetic import requantize, rescale
from tilewright.isa.functions import Rounding
from tilewright.isa.program import Program
from tilewright.isa.spec import Memory
from tilewright.isa.timing import ALU_DISTANCE
from tilewright.runtime.artifact import Artifact, Intermediate
from tilewright.runtime.steps import LaunchStep, PackStep, ReshapeStep, Step, TensorSpec, UnpackStep

TINY = PRESETS["tiny"]
SHAPE = (1, 2, 4, 4)
PIXELS = 8
WEIGHTS = np.random.default_rng(7).integers(-128, 128, (4, 4), dtype=np.int8)
#: bias, multiplier, offset, shift of the four channels
CONV_PRM = np.array([[100 * c, (3 << 28) + c, 0, 36] for c in range(4)], np.int32)
SCALE_PRM = np.array([[0, 1 << 30, 0, 40] for _ in range(4)], np.int32)


def make_program(config: Config = TINY, faulty: bool = False) -> Program:
    """LOAD, GEMM, REQUANTIZE (layer conv), RESCALE, REQUANTIZE (layer scale), STORE."""
    b = Builder(config)
    owners: list[int] = []

    def done(layer: int) -> None:
        owners.extend([layer] * (len(b.instructions) - len(owners)))

    b.uops(GEMM, [{}])
    b.uops(ALU, [{}])
    b.load(Memory.PRM, count=2, segment=CONSTANT, offset=b.constant(CONV_PRM.tobytes() + SCALE_PRM.tobytes()))
    b.load(Memory.WGT, segment=CONSTANT, offset=b.constant(WEIGHTS.tobytes()))
    b.load(Memory.ACT, count=PIXELS, push=[GEMM, ALU])
    loop: dict[str, Any] = {"inner": PIXELS, "dst_inner": 1, "src_inner": 1}
    b.gemm(**loop, pop=[LOAD], push=[ALU])
    b.requantize(**loop, dst=16, zero_point=3, lo=-128, hi=127, rounding=Rounding.DOUBLE, pop=[LOAD, GEMM])
    done(0)
    b.wait(ALU, ALU_DISTANCE)
    b.rescale(**loop, src=16, dst=64, prm=1, rounding=Rounding.DOUBLE)
    b.wait(ALU, ALU_DISTANCE)
    b.requantize(**loop, src=64, dst=32, prm=1, zero_point=-1, lo=-100, hi=127, rounding=Rounding.SINGLE, push=[STORE])
    b.store(count=PIXELS, sram=32, pop=[ALU], offset=1 << 20 if faulty else 0)
    done(1)
    b.store(count=PIXELS, sram=16, offset=PIXELS * config.act_unit_bytes // config.beat_bytes)
    done(0)
    program = b.program()
    segments = tuple(
        dataclasses.replace(s, repeat_stride=s.size if s.kind in ("input", "output") else 0) for s in program.segments
    )
    layers = [
        {"name": "conv", "op": "CONV_2D", "place": "accelerator", "macs": 128, "array_cycles": 8, "read_bytes": 232,
         "write_bytes": 0,
         "floor_cycles": 50},
        {"name": "scale", "op": "QUANTIZE", "place": "accelerator", "macs": 0, "array_cycles": 0, "read_bytes": 0,
         "write_bytes": 32,
         "floor_cycles": 8},
    ]  # fmt: skip
    meta: dict[str, Any] = {"layers": layers, "instruction_layer": owners}
    return dataclasses.replace(program, segments=segments, meta=meta)


def reference(x: NDArray[np.int8]) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """(conv, scale) outputs of images (N, 2, 4, 4)."""
    acc = x.astype(np.int64) @ WEIGHTS.astype(np.int64).T
    bias, multiplier, offset, shift = CONV_PRM.T
    conv = requantize(acc, bias, multiplier, shift, offset, Rounding.DOUBLE, 3)
    bias, multiplier, offset, shift = SCALE_PRM.T
    wide = rescale(conv, bias, multiplier, shift, offset, Rounding.DOUBLE)
    return conv, requantize(wide, bias, multiplier, shift, offset, Rounding.SINGLE, -1, -100, 127)


def make_artifact(config: Config = TINY, faulty: bool = False, keep: bool = False, **changes: Any) -> Artifact:
    """The network as an artifact: pack, launch, unpack, reshape to (1, 32)."""
    half = PIXELS * config.act_unit_bytes
    steps: list[Step] = [PackStep("x", INPUT, SHAPE, config.lanes, 1), LaunchStep()]
    if keep:
        steps.append(UnpackStep("conv_out", OUTPUT, SHAPE, SHAPE, config.lanes, 1, offset=half))
    steps += [UnpackStep("s", OUTPUT, SHAPE, SHAPE, config.lanes, 1), ReshapeStep("s", "y", (1, 32))]
    made = Artifact(
        name="toy",
        config=config,
        programs=(make_program(config, faulty),),
        steps=tuple(steps),
        inputs=(TensorSpec("x", SHAPE),),
        outputs=(TensorSpec("y", (1, 32)),),
        intermediates=(Intermediate("op000 conv/2d", TensorSpec("conv_out", SHAPE)),) if keep else (),
        host_layers=({"name": "flatten", "op": "RESHAPE", "place": "host", "reason": "no arithmetic"},),
        compile_seconds=0.25,
    )
    return dataclasses.replace(made, **changes)


def images(count: int, seed: int = 0) -> NDArray[np.int8]:
    """Random images (count, 2, 4, 4)."""
    return np.random.default_rng(seed).integers(-128, 128, (count, *SHAPE[1:]), dtype=np.int8)
