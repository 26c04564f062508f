"""A program with the layer shapes of MLPerf Tiny's ResNet-8, built by hand: a load for speed measurements.

Real tokens, real timing, random weights; its outputs mean nothing. On the default config it runs 49,156 dense
micro-ops (12.6 M multiply-accumulates) in about a thousand instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.codec import encode, encode_uops
from tilewright.isa.program import Program, Segment
from tilewright.isa.spec import Combine, Engine, Memory, Opcode, entry_bytes, memory_depth
from tilewright.verification.random_order import History, TokenOrder, Touch

CONSTANT, INPUT, OUTPUT = range(3)
CHANNELS = 16


@dataclass(frozen=True)
class Layer:
    """A convolution on a square image: ``size`` output rows and columns, ``kernel`` x ``kernel`` taps."""

    size: int
    inputs: int
    outputs: int
    kernel: int
    stride: int = 1
    residual: bool = False


LAYERS = (
    Layer(32, 32, 16, 1),  # 3x3x3 patches packed into two blocks of 16
    Layer(32, 16, 16, 3),
    Layer(32, 16, 16, 3, residual=True),
    Layer(16, 16, 32, 3, 2),
    Layer(16, 32, 32, 3, residual=True),
    Layer(16, 16, 32, 1, 2),
    Layer(8, 32, 64, 3, 2),
    Layer(8, 64, 64, 3, residual=True),
    Layer(8, 32, 64, 1, 2),
    Layer(1, 64, 16, 1),
)


class _Builder:
    def __init__(self, config: Config, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.config, self.rng = config, rng
        self.order = TokenOrder(config, rng)
        self.history = {
            "act": History(config.act_units, config.act_bank_units),
            "acc": History(config.acc_units, config.acc_bank_units),
            "wgt": History(config.wgt_entries),
            "prm": History(config.prm_entries),
            "uop_gemm": History(memory_depth(config, Memory.UOP_GEMM)),
            "uop_alu": History(memory_depth(config, Memory.UOP_ALU)),
        }
        self.blob = bytearray()

    def emit(self, opcode: Opcode, engine: Engine, fields: dict[str, int], *touches: Touch) -> None:
        need = np.zeros(4, np.int64)
        for touch in touches:
            need = np.maximum(need, self.history[touch.memory].needs(touch))
        pops, _ = self.order.require(engine, need)
        index = self.order.append(opcode, engine, fields, pops)
        for touch in touches:
            self.history[touch.memory].record(engine, index, touch)

    def load(self, memory: Memory, name: str, first: int, data: bytes) -> None:
        """LOAD of constants to consecutive entries."""
        beat = self.config.beat_bytes
        self.blob += b"\0" * (-len(self.blob) % beat)
        count = len(data) // entry_bytes(self.config, memory)
        fields = {"memory": int(memory), "sram": first, "sram_col": 1, "cols": count, "segment": CONSTANT,
                  "offset": len(self.blob) // beat}  # fmt: skip
        self.blob += data
        self.emit(Opcode.LOAD, Engine.LOAD, fields, Touch(name, writes=np.arange(first, first + count)))


def _span(start: int, count: int, step: int = 1) -> NDArray[np.int64]:
    return start + step * np.arange(count, dtype=np.int64)


def resnet8_like(config: Config, seed: int = 0) -> Program:
    """The program for a 1x16x16 config with memories as large as the default's."""
    if (config.batch, config.block_in, config.block_out, config.weight_bits) != (1, CHANNELS, CHANNELS, 8):
        raise ValueError(f"{config.name}: resnet8_like is laid out for 1 x 16 x 16 and 8-bit weights")
    b = _Builder(config, seed)
    third = config.act_units // 3 // 4 * 4
    wgt_at = uop_at = 0
    alu_uops = [{"dst": j, "src": j, "prm": j} for j in range(4)]
    b.load(Memory.UOP_ALU, "uop_alu", 0, encode_uops(alu_uops, Engine.ALU, config))
    prm = np.zeros((4 * CHANNELS, 4), np.int32)
    prm[:] = (100, 1 << 30, 0, 40)
    b.load(Memory.PRM, "prm", 0, prm.tobytes())
    tile = {"memory": int(Memory.ACT), "sram_col": 1, "wrap_size": config.act_units}
    b.emit(Opcode.FILL, Engine.LOAD, {**tile, "cols": config.act_units, "value": -1},
           Touch("act", writes=_span(0, config.act_units)))  # fmt: skip
    b.emit(Opcode.LOAD, Engine.LOAD, {**tile, "cols": 2048, "segment": INPUT}, Touch("act", writes=_span(0, 2048)))
    for number, layer in enumerate(LAYERS):
        icb, ocb, k = layer.inputs // CHANNELS, layer.outputs // CHANNELS, layer.kernel
        taps = k * k * icb
        if wgt_at + taps * ocb > config.wgt_entries:
            wgt_at = 0
        b.load(Memory.WGT, "wgt", wgt_at, b.rng.integers(0, 256, 256 * taps * ocb).astype(np.uint8).tobytes())
        pitch = layer.size * layer.stride + (2 if k == 3 else 0)
        uops = [
            {"dst": 0, "src": (y * pitch + x) * icb + c, "wgt": (y * k + x) * icb + c, "accumulate": int(y + x + c > 0)}
            for y in range(k) for x in range(k) for c in range(icb)
        ]  # fmt: skip
        b.load(Memory.UOP_GEMM, "uop_gemm", uop_at, encode_uops(uops, Engine.GEMM, config))
        source = 0 if number == 0 else (number + 1) % 3 * third
        target = (number + 2) % 3 * third
        for row in range(layer.size):
            acc = row % config.acc_banks * config.acc_bank_units  # GEMM and ALU work in different banks
            for j in range(ocb):
                _gemm_row(
                    b, layer, uop_at, source + row * layer.stride * pitch * icb, acc + j, wgt_at + j * taps, pitch
                )
            _alu_row(b, layer, acc, target + (row + 1) * (layer.size + 2) * ocb, (number % 3) * third)
        wgt_at, uop_at = wgt_at + taps * ocb, uop_at + taps
    b.emit(Opcode.STORE, Engine.STORE, {"sram": target + 3, "sram_col": 1, "cols": 1, "wrap_size": config.act_units,
           "segment": OUTPUT}, Touch("act", reads=_span(target + 3, 1)))  # fmt: skip
    segments = (
        Segment("constants", "constant", -(-len(b.blob) // config.beat_bytes) * config.beat_bytes, bytes(b.blob)),
        Segment("input", "input", 2048 * CHANNELS),
        Segment("output", "output", CHANNELS),
    )
    return Program(config, encode(b.order.finish(), config), segments)


def _gemm_row(b: _Builder, layer: Layer, uop: int, src: int, dst: int, wgt: int, pitch: int) -> None:
    """One output row of one block of output channels."""
    icb, ocb, k = layer.inputs // CHANNELS, layer.outputs // CHANNELS, layer.kernel
    taps = k * k * icb
    fields = {
        "uop_begin": uop, "uop_count": taps, "inner": layer.size, "dst": dst, "dst_inner": ocb, "src": src,
        "src_inner": layer.stride * icb, "wgt": wgt, "wrap_size": b.config.act_units,
    }  # fmt: skip
    acc = _span(dst, layer.size, ocb)
    reach = ((k - 1) * pitch + k - 1 + (layer.size - 1) * layer.stride) * icb + icb
    b.emit(
        Opcode.GEMM, Engine.GEMM, fields,
        Touch("act", reads=_span(src, reach) % b.config.act_units), Touch("acc", acc, acc),
        Touch("wgt", reads=_span(wgt, taps)), Touch("uop_gemm", reads=_span(uop, taps)),
    )  # fmt: skip


def _alu_row(b: _Builder, layer: Layer, acc: int, target: int, other: int) -> None:
    """Residual and requantisation of one output row."""
    ocb = layer.outputs // CHANNELS
    loops = {"uop_count": ocb, "inner": layer.size, "dst_inner": ocb, "src_inner": ocb, "wrap_size": b.config.act_units}
    row = _span(acc, layer.size * ocb)
    constants = (Touch("prm", reads=_span(0, ocb)), Touch("uop_alu", reads=_span(0, ocb)))
    if layer.residual:
        act = _span(other, layer.size * ocb)
        fields = {**loops, "dst": acc, "src": other, "combine": int(Combine.ADD)}
        b.emit(Opcode.RESCALE, Engine.ALU, fields, Touch("act", reads=act), Touch("acc", row, row), *constants)
    fields = {**loops, "dst": target, "src": acc, "zero_point": 3, "lo": -128, "hi": 127}
    written = Touch("act", writes=_span(target, layer.size * ocb))
    b.emit(Opcode.REQUANTIZE, Engine.ALU, fields, Touch("acc", reads=row), written, *constants)
