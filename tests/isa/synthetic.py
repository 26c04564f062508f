"""A synthetic program of the size of ResNet-18: 7.2 M GEMM micro-op iterations in about 6300 instructions."""

from __future__ import annotations

from tests.isa.build import ALU, GEMM, LOAD, OUTPUT, STORE, Builder
from tilewright.config import PRESETS
from tilewright.isa.functions import Combine
from tilewright.isa.program import Program
from tilewright.isa.spec import Memory

ROWS, WIDTH, BLOCKS, OUT = 2, 14, 16, 2  #: output rows and columns of a tile, input and output channel blocks
ITERATIONS = ROWS * WIDTH * BLOCKS * 9 * OUT  #: per tile


def resnet_sized(tiles: int = 900) -> Program:
    """3x3 convolution tiles with a residual add, everything double-buffered, LOAD running ahead."""
    config = PRESETS["pynq-z2"]
    b = Builder(config, size=1 << 20)
    line = WIDTH + 2
    kernel = [
        {"dst": o * ROWS * WIDTH, "src": ky * line + kx + c * (ROWS + 2) * line,
         "wgt": (o * BLOCKS + c) * 9 + ky * 3 + kx, "accumulate": int((c, ky, kx) != (0, 0, 0))}
        for o in range(OUT) for c in range(BLOCKS) for ky in range(3) for kx in range(3)
    ]  # fmt: skip
    b.uops(GEMM, kernel)
    b.uops(ALU, [{"dst": o * ROWS * WIDTH, "src": o * ROWS * WIDTH, "prm": o} for o in range(OUT)])
    b.load(Memory.PRM, count=OUT)
    units, result, half = BLOCKS * (ROWS + 2) * line, OUT * ROWS * WIDTH, 288
    for t in range(tiles):
        parity, free = t % 2, t >= 2
        src, dst, acc = parity * 1024, 2048 + parity * 1024, parity * 512
        b.load(Memory.ACT, count=units, sram=src, pop=[ALU] if free else [])
        b.load(Memory.WGT, count=half, sram=parity * half, offset=(t % 7) * 64, push=[GEMM])
        b.gemm(
            count=len(kernel), inner=WIDTH, outer=ROWS, dst=acc, dst_inner=1, dst_outer=WIDTH, src=src, src_inner=1,
            src_outer=line, wgt=parity * half, pop=[LOAD, ALU] if free else [LOAD], push=[ALU],
        )  # fmt: skip
        loops = {"count": OUT, "inner": WIDTH, "outer": ROWS, "dst_inner": 1, "dst_outer": WIDTH, "src_inner": 1,
                 "src_outer": WIDTH}  # fmt: skip
        b.rescale(**loops, dst=acc, src=src, combine=Combine.ADD, pop=[GEMM], push=[LOAD])
        b.alu(count=OUT, inner=WIDTH, outer=ROWS, dst=acc, dst_inner=1, dst_outer=WIDTH, use_imm=1, imm=3)
        b.requantize(**loops, dst=dst, src=acc, pop=[STORE] if free else [], push=[GEMM, STORE])
        b.store(count=result, sram=dst, segment=OUTPUT, offset=(t % 16) * 2 * result, pop=[ALU], push=[ALU])
    for engine, others in ((LOAD, [ALU]), (GEMM, [ALU]), (ALU, [STORE])):
        for _ in range(2):
            b.wait(engine, pop=others)
    return b.program()
