"""Small programs for any Config whose results are known beforehand: what ``tilewright selftest`` runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.arithmetic import requantize
from tilewright.isa.assembler import assemble
from tilewright.isa.codec import encode_uops
from tilewright.isa.functions import Rounding
from tilewright.isa.program import PAGE, Program, whole_pages
from tilewright.isa.spec import Engine, Memory, entry_bytes
from tilewright.isa.timing import ALU_DISTANCE

Bytes = NDArray[np.uint8]

CONSTANTS, INPUT, OUTPUT = range(3)  #: segments of every program here
VECTORS = 8  #: vectors that the engines' programs work on
IDENTITY = (1 << 30, 30)  #: multiplier and shift that leave a value as it is
QUARTER = (1 << 30, 32)  #: those that divide by 4
THREE_TENTHS = (10066330, 1)  #: those of FLOAT32 for float32's 0.3, which makes ties of numbers that end in 5
MOVED_BYTES = 16 * 1024  #: most bytes of one instruction of the bandwidth programs


@dataclass(frozen=True)
class Case:
    """A program, what goes into its input segment for each inference, and what its output segment then begins with."""

    program: Program
    inputs: Bytes  #: (inferences, bytes)
    outputs: Bytes  #: (inferences, bytes)


class _Source:
    """Assembly text with a segment of constants in front."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._constants = bytearray()
        self._lines: list[str] = []

    def constant(self, data: bytes) -> int:
        """Append constants; returns their offset in beats."""
        beat = self.config.beat_bytes
        start = len(self._constants)
        self._constants += data + bytes(-len(data) % beat)
        return start // beat

    def line(self, text: str) -> None:
        self._lines.append(text)

    def micro_op(self, engine: Engine) -> None:
        """Load a micro-op of all zeros: everything comes from the instruction's bases and loops."""
        memory = Memory.UOP_GEMM if engine == Engine.GEMM else Memory.UOP_ALU
        count = max(1, self.config.beat_bytes // entry_bytes(self.config, memory))
        offset = self.constant(encode_uops([{}] * count, engine, self.config))
        self.line(f"load {memory.name.lower()} sram_col=1 cols={count} segment=constants offset={offset}")

    def parameters(self, scale: tuple[int, int]) -> None:
        """Load one entry of prm: no bias, the same multiplier and shift for every channel."""
        entry = np.array([[0, scale[0], 0, scale[1]]] * self.config.block_out, np.int32)
        self.line(f"load prm sram_col=1 segment=constants offset={self.constant(entry.tobytes())}")

    def weights(self, values: NDArray[np.int64]) -> None:
        """Load one weight block of (BLOCK_OUT, BLOCK_IN) values from -1 to 1, which fit any weight width."""
        bits = self.config.weight_bits
        fields = (values.reshape(-1, 8 // bits) & ((1 << bits) - 1)) << (bits * np.arange(8 // bits))
        packed = fields.sum(axis=1).astype(np.uint8)
        self.line(f"load wgt sram_col=1 segment=constants offset={self.constant(packed.tobytes())}")

    def program(self, input_bytes: int, output_bytes: int, stride: int = 0) -> Program:
        beat = self.config.beat_bytes
        sizes = [-(-max(size, beat) // beat) * beat for size in (len(self._constants), input_bytes, output_bytes)]
        text = [
            f".segment constants constant size={sizes[0]} {{", f".hex {self._constants.hex()}", "}",
            f".segment x input size={sizes[1]} repeat_stride={stride}",
            f".segment y output size={sizes[2]} repeat_stride={stride}",
        ]  # fmt: skip
        return assemble("\n".join([*text, *self._lines]), "selftest", self.config)


def waits(config: Config, cycles: int = 100, stride: int = 0) -> Program:
    """One WAIT on every engine: nothing but fetch, dispatch and the end of a program."""
    source = _Source(config)
    for engine in Engine:
        source.line(f"wait {engine.name.lower()} cycles={cycles}")
    return source.program(0, 0, stride)


def hang(config: Config) -> Program:
    """Waits for a token that nobody sends."""
    source = _Source(config)
    source.line("wait gemm pop(alu)")
    return source.program(0, 0)


def outside(config: Config) -> Program:
    """Its second instruction stores beyond its segment."""
    source, beat = _Source(config), config.beat_bytes
    source.line(f"fill act sram_col=1 value=1 wrap_size={config.act_units} push(store)")
    source.line(f"store sram_col=1 wrap_size={config.act_units} segment=y offset={PAGE // beat} pop(load)")
    return source.program(0, PAGE)


def fill_and_store(config: Config, value: int = 0x5A) -> Case:
    """FILL and STORE: nothing is read from memory but the program."""
    source, units = _Source(config), 16
    wrap = f"sram_col=1 cols={units} wrap_size={config.act_units}"
    source.line(f"fill act {wrap} value={value} push(store)")
    source.line(f"store {wrap} segment=y pop(load)")
    size = units * config.act_unit_bytes
    return Case(source.program(0, size), np.zeros((1, 0), np.uint8), np.full((1, size), value, np.uint8))


def copy(config: Config, seed: int) -> Case:
    """LOAD and STORE of random bytes."""
    source, units = _Source(config), min(64, config.act_bank_units)
    wrap = f"sram_col=1 cols={units} wrap_size={config.act_units}"
    source.line(f"load act {wrap} segment=x push(store)")
    source.line(f"store {wrap} segment=y pop(load)")
    size = units * config.act_unit_bytes
    data = _random(seed, (1, size))
    return Case(source.program(size, size), data, data)


def moving(config: Config, opcode: str, times: int) -> tuple[Program, int]:
    """The same bytes loaded or stored so many times (a bandwidth), and how many bytes that is."""
    source = _Source(config)
    units = min(config.act_units // 2, MOVED_BYTES // config.act_unit_bytes)
    wrap = f"sram_col=1 cols={units} wrap_size={config.act_units}"
    size = units * config.act_unit_bytes
    if opcode == "store":
        source.line(f"fill act {wrap} value=1 push(store)")
    for k in range(times):
        tokens = " pop(load)" if opcode == "store" and k == 0 else ""
        source.line(f"load act {wrap} segment=x" if opcode == "load" else f"store {wrap} segment=y{tokens}")
    return source.program(size, size), size * times


def alu(config: Config) -> Case:
    """ALU: int8 values widened into acc, add, max, then REQUANTIZE by 0.3 in FLOAT32; by 1 without that mode."""
    source, spans = _Source(config), config.out_units
    scale, rounding = (THREE_TENTHS, Rounding.FLOAT32) if config.float32_scaling else (IDENTITY, Rounding.SINGLE)
    loop, far = f"inner={VECTORS} dst_inner={spans}", f"wait alu cycles={ALU_DISTANCE}"
    source.micro_op(Engine.ALU)
    source.parameters(scale)
    source.line(f"load acc8 sram_col=1 cols={VECTORS * spans} segment=x push(alu)")
    source.line(f"alu add {loop} use_imm=1 imm=3 pop(load)")
    source.line(far)
    source.line(f"alu max {loop} use_imm=1 imm=-100")
    source.line(far)
    _requantize_and_store(source, VECTORS * spans, rounding=rounding)
    x = _random(1, (1, VECTORS * spans * config.act_unit_bytes))
    y = requantize(np.maximum(x.view(np.int8).astype(np.int64) + 3, -100), 0, *scale, 0, rounding, 0)
    return Case(source.program(x.shape[1], x.shape[1]), x, y.view(np.uint8))


def rescale(config: Config) -> Case:
    """RESCALE from act to acc, then REQUANTIZE back."""
    source, spans = _Source(config), config.out_units
    source.micro_op(Engine.ALU)
    source.parameters((1 << 30, 50))  # undoes the left shift by 20 of RESCALE
    entry = np.array([[0, IDENTITY[0], 0, IDENTITY[1]]] * config.block_out, np.int32)
    source.line(f"load prm sram=1 sram_col=1 segment=constants offset={source.constant(entry.tobytes())}")
    units, wrap = VECTORS * spans, f"wrap_size={config.act_units}"
    source.line(f"load act sram_col=1 cols={units} {wrap} segment=x push(alu)")
    source.line(f"rescale inner={VECTORS} dst_inner={spans} src_inner={spans} {wrap} rounding=single pop(load)")
    source.line(f"wait alu cycles={ALU_DISTANCE}")
    _requantize_and_store(source, units, prm=1, first=config.act_bank_units)
    x = _random(2, (1, units * config.act_unit_bytes))
    return Case(source.program(x.shape[1], x.shape[1]), x, x)


def gemm(config: Config, inferences: int = 1) -> Case:
    """A 1x1 convolution: LOAD, GEMM, REQUANTIZE, STORE, for each inference."""
    source, c = _Source(config), config
    weights = np.random.default_rng(3).integers(-1, 2, (c.block_out, c.block_in))
    source.micro_op(Engine.GEMM)
    source.micro_op(Engine.ALU)
    source.parameters(QUARTER)
    source.weights(weights)
    units, wrap = VECTORS * c.in_units, f"wrap_size={c.act_units}"
    source.line(f"load act sram_col=1 cols={units} {wrap} segment=x push(gemm)")
    source.line(f"gemm inner={VECTORS} dst_inner={c.out_units} src_inner={c.in_units} {wrap} pop(load) push(alu)")
    _requantize_and_store(source, VECTORS * c.out_units, first=c.act_bank_units, pop=" pop(gemm)")
    x = _random(4, (inferences, units * c.act_unit_bytes))
    # units are [batch][lane]; channel = unit x lanes + lane
    vectors = x.view(np.int8).reshape(-1, VECTORS, c.in_units, c.batch, c.lanes).transpose(0, 1, 3, 2, 4)
    sums = vectors.reshape(-1, VECTORS, c.batch, c.block_in).astype(np.int64) @ weights.T
    y = requantize(sums, 0, *QUARTER, 0, Rounding.SINGLE, 0)
    y = y.reshape(-1, VECTORS, c.batch, c.out_units, c.lanes).transpose(0, 1, 3, 2, 4)
    stride = whole_pages(max(x.shape[1], y[0].size))
    program = source.program(x.shape[1], y[0].size, stride if inferences > 1 else 0)
    return Case(program, x, np.ascontiguousarray(y).reshape(inferences, -1).view(np.uint8))


def window(config: Config) -> Case:
    """GEMM in window mode: three taps along the units, every channel by itself."""
    source, c, units = _Source(config), config, VECTORS * config.out_units
    taps = np.zeros((c.block_out, c.block_in), np.int64)
    taps[:, :3] = [1, -1, 1]
    source.micro_op(Engine.GEMM)
    source.micro_op(Engine.ALU)
    source.parameters(QUARTER)
    source.weights(taps)
    wrap = f"wrap_size={c.act_units}"
    source.line(f"load act sram_col=1 cols={units} {wrap} segment=x push(gemm)")
    source.line(f"gemm window=1 pace=1 inner={units} dst_inner=1 src_inner=1 {wrap} pop(load) push(alu)")
    _requantize_and_store(source, units, first=c.act_bank_units, pop=" pop(gemm)")
    x = _random(5, (1, units * c.act_unit_bytes))
    values = np.pad(x.view(np.int8).reshape(units, -1).astype(np.int64), ((2, 0), (0, 0)))
    y = requantize(values[2:] - values[1:-1] + values[:-2], 0, *QUARTER, 0, Rounding.SINGLE, 0)
    return Case(source.program(x.shape[1], x.shape[1]), x, y.reshape(1, -1).view(np.uint8))


def _requantize_and_store(
    source: _Source, units: int, prm: int = 0, first: int = 0, pop: str = "", rounding: Rounding = Rounding.SINGLE
) -> None:
    """``units`` of acc through REQUANTIZE to act, from unit ``first``, and to the output."""
    c = source.config
    loop = f"inner={units // c.out_units} dst_inner={c.out_units} src_inner={c.out_units}"
    wrap = f"wrap_base={first} wrap_size={c.act_bank_units}"
    mode = rounding.name.lower()
    source.line(f"requantize {loop} {wrap} prm={prm} lo=-128 hi=127 rounding={mode}{pop} push(store)")
    source.line(f"store sram_col=1 cols={units} {wrap} segment=y pop(alu)")


def _random(seed: int, shape: tuple[int, int]) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
