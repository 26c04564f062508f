"""Operators that stay with the interpreter or with NumPy: their time there, and what the array would need at least.

``python bench/bench_host_operators.py [--config pynq-z2] [--json FILE]`` prints, for
each operator in a typical shape, the processor time of one thread (the least of several rounds of calls, the call
itself included, which the first row has alone), and the cycles of ALU that its integers would take, with the time at
the Config's clock. These are counts, not programs: passes of ALU over vectors of BLOCK_OUT elements, a cycle each, of
the instructions that there are, without fills, waits and what GEMM does meanwhile. A maximum over channels is counted
as the compiler writes it, an inverse (or its root) as the sigmoid of an LSTM is (``docs/operators.md``), whose
arithmetic it would share. For what cannot be equal at any cost the count is of the same operator without its last bits.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.common import machine, options_of, seconds, write_json
from tests.fuzz import OnnxNet, TfliteNet
from tilewright.config import Config, load_config
from tilewright.jit.numbers.scales import softmax_constants
from tilewright.runtime import host, interpreters

CALLS, ROUNDS = 20, 15
SUM, PRODUCT, TABLE, REQUANTIZE = 3, 5, 2, 1  #: passes of ALU, of ``docs/operators.md``
SCALED = 6  #: a vector times a number of 32 bits: two halves, each multiplied, moved and added
INVERSE = 63  #: of one vector, as sigmoid's
DIGITS = 4  #: tables that a function of 32-bit results is
Arrays = list[NDArray[Any]]
Draw = Callable[[Path], tuple[Path, Arrays]]


@dataclass(frozen=True)
class Row:
    """An operator's shape, microseconds of the processor, and the cycles that ALU would take at least."""

    operator: str
    shape: str
    cpu_us: float
    cycles: int
    array_us: float


def greatest(channels: int, lanes: int) -> int:
    """Passes of ALU for the maximum of a pixel's channels: halves, then a vector and its turns, then one channel."""
    passes = 0
    while channels > lanes:
        channels = (channels + 1) // 2
        passes += (2 * REQUANTIZE + SUM) * math.ceil(channels / lanes)
    return passes + math.ceil(math.log2(channels)) * (REQUANTIZE + SUM) + REQUANTIZE


def arg_max(pixels: int, channels: int, lanes: int) -> int:
    """Which channels equal the greatest, their places, and the least of these."""
    vectors = math.ceil(channels / lanes)
    return pixels * (2 * greatest(channels, lanes) + vectors * (SUM + TABLE + 2 * REQUANTIZE))


def softmax(pixels: int, channels: int, lanes: int) -> int:
    """Differences to the greatest, their exponentials in digits, and each times the inverse of the sum."""
    vectors = math.ceil(channels / lanes)
    return pixels * (greatest(channels, lanes) + vectors * (SUM + DIGITS * TABLE + SCALED) + INVERSE)


def normalised(pixels: int, channels: int, lanes: int) -> int:
    """Squares, and each element times the inverse root of their sum; the mean is a product of GEMM."""
    return pixels * (math.ceil(channels / lanes) * (PRODUCT + SCALED) + INVERSE)


def gather(tokens: int, rows: int, lanes: int) -> int:
    """For each token which row it is, as the vector of ones and zeros that GEMM multiplies the table with."""
    return tokens * math.ceil(rows / lanes) * (SUM + TABLE)


# -- on the processor ------------------------------------------------------------------------------------------


def tflite(shape: tuple[int, ...], draw: Callable[[TfliteNet, Any], Any]) -> Draw:
    """A network of one operator on an int8 tensor."""

    def drawn(path: Path) -> tuple[Path, Arrays]:
        net = TfliteNet(seed=1)
        made = net.save(path.with_suffix(".tflite"), [draw(net, net.input(shape))])
        return made, [np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)]

    return drawn


def onnx(nodes: Callable[[OnnxNet, str], str], shape: tuple[int, ...], result: tuple[int, ...], dtype: str) -> Draw:
    """A network of float32 nodes on an input of ``dtype``."""

    def drawn(path: Path) -> tuple[Path, Arrays]:
        import onnx
        from onnx import TensorProto, helper

        net = OnnxNet(seed=1)
        name = nodes(net, "x")
        kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}
        graph = helper.make_graph(
            net.nodes, "network", [helper.make_tensor_value_info("x", kinds[dtype], list(shape))],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(result))], net.constants,
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        onnx.save(model, str(path.with_suffix(".onnx")))
        rng = np.random.default_rng(1)
        x = rng.normal(0, 1, shape).astype(np.float32) if dtype == "float32" else rng.integers(0, 1000, shape)
        return path.with_suffix(".onnx"), [x]

    return drawn


def layer_norm(net: OnnxNet, x: str) -> str:
    ones, zeros = net.constant(np.ones(64, np.float32)), net.constant(np.zeros(64, np.float32))
    return str(net.node("LayerNormalization", [x, ones, zeros], axis=-1))


def embedding(net: OnnxNet, x: str) -> str:
    return str(net.node("Gather", [net.constant(np.zeros((1000, 64), np.float32)), x], axis=0))


def processor_us(run: Callable[[], object]) -> float:
    """Microseconds of a call: the least of ROUNDS rounds of CALLS calls, in time of this process."""

    def calls() -> None:
        for _ in range(CALLS):
            run()

    return seconds(calls, ROUNDS, time.process_time)[0] / CALLS * 1e6


def interpreted(draw: Draw) -> Callable[[], object]:
    """A call of the interpreter that the network is of."""
    with tempfile.TemporaryDirectory() as folder:
        path, inputs = draw(Path(folder) / "m")
        runtime = "litert" if path.suffix == ".tflite" else "onnxruntime"
        run = interpreters.load(runtime, path.read_bytes(), path.name)
    return lambda: run(inputs)


def softmax_step(shape: tuple[int, ...]) -> Callable[[], object]:
    """The compiler's own step for a SOFTMAX of ``.tflite``."""
    x, numbers = np.random.default_rng(1).integers(-128, 128, (1, *shape)).astype(np.int8), softmax_constants(0.05)
    return lambda: host.softmax_int8(x, *numbers)


def cases(lanes: int) -> list[tuple[str, str, Callable[[], object], int]]:
    """(operator, shape, a call, cycles of ALU)."""
    small = tflite((1, 1, 1, 1), lambda net, x: net.abs(x))
    found = [("a call of LiteRT alone", "1 x 1", interpreted(small), 0)]
    for pixels, channels in ((1, 1000), (4096, 21)):
        draw = tflite((1, pixels, channels), lambda net, x: net.arg_max(x))
        found.append(("ARG_MAX", f"{pixels} x {channels}", interpreted(draw), arg_max(pixels, channels, lanes)))
    for pixels, channels in ((1, 1000), (512, 128)):
        shape = (1, pixels, channels)
        cost = softmax(pixels, channels, lanes)
        kernel = interpreted(tflite(shape, lambda net, x: net.softmax(x)))
        found.append(("SOFTMAX, here in NumPy", f"{pixels} x {channels}", softmax_step(shape), cost))
        found.append(("SOFTMAX, LiteRT's kernel", f"{pixels} x {channels}", kernel, cost))
    for pixels, channels in ((1, 128), (256, 64)):
        draw = tflite((1, pixels, channels), lambda net, x: net.l2_normalization(x))
        cost = normalised(pixels, channels, lanes)
        found.append(("L2_NORMALIZATION", f"{pixels} x {channels}", interpreted(draw), cost))
    draw = onnx(layer_norm, (1, 128, 64), (1, 128, 64), "float32")
    found.append(("LayerNormalization", "128 x 64", interpreted(draw), normalised(128, 64, lanes)))
    draw = onnx(embedding, (1, 32), (1, 32, 64), "int64")
    found.append(("Gather by computed indices", "32 of 1000 x 64", interpreted(draw), gather(32, 1000, lanes)))
    return found


def measure(config: Config) -> list[Row]:
    """All rows, printed as they come."""
    rows = []
    for operator, shape, call, cycles in cases(config.block_out):
        rows.append(Row(operator, shape, processor_us(call), cycles, cycles / config.clock_mhz))
        row = rows[-1]
        print(f"| {operator} | {shape} | {row.cpu_us:,.0f} | {cycles:,} | {row.array_us:,.0f} |", flush=True)
    return rows


def main() -> int:
    """Print the table."""
    options = options_of(__doc__).parse_args()
    config = load_config(options.config)
    print(f"{machine()}, processor time of one thread; {config.name} at {config.clock_mhz} MHz")
    print("| operator | shape | CPU, us | ALU at least, cycles | us |\n|---|---|---:|---:|---:|")
    rows = measure(config)
    write_json(options.json, {"machine": machine(), "config": config.name, "rows": [asdict(row) for row in rows]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
