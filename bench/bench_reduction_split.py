"""What splitting layers over input channels, with a reduction between cores, could save at best.

``python -m bench.bench_reduction_split [--config zcu104] [--cores 2 4] MODEL ...``. Of each convolution of a network,
but for grouped and transposed ones: the least cycles in which k cores can compute it if each takes rows of the result,
some of its channels, or some of the input's channels. Counted are the array's cycles and what each core must load and
store, the larger of them; for the last way the 32-bit sums that cores exchange through DRAM to add them up besides, and
none of the waiting for each other. Prints for each network the cycles of the better of the first two ways, and how much
of them the third saves.
"""

from __future__ import annotations

from pathlib import Path

from bench.common import options_of, write_json
from tilewright.config import Config, load_config
from tilewright.jit import graph as g
from tilewright.jit.importer import import_model
from tilewright.jit.lower.state import image_shape
from tilewright.jit.sides import accelerator_graphs
from tilewright.jit.simplify import simplified

SUM_BYTES = 4  #: of a sum that is not requantised


def least(op: g.Conv2D, tensors: dict[str, g.TensorSpec], config: Config, cores: int) -> dict[str, float]:
    """Cycles of a layer on so many cores at least, by what they take of it: ``rows``, ``outputs`` or ``inputs``."""
    (_, height, width, channels), (_, rows, columns, results) = (
        image_shape(tensors[name].shape) for name in (op.inputs[0], op.output)
    )
    taps = op.weight.shape[1] * op.weight.shape[2]
    blocks_in, blocks_out = -(-channels // config.block_in), -(-results // config.block_out)
    image, result, block = height * width * channels, rows * columns * results, config.block_in * config.block_out
    others = (cores - 1) / cores

    def cycles(rows: int, blocks_out: int, blocks_in: int, read: float, exchanged: float = 0.0) -> float:
        blocks = taps * blocks_in * blocks_out
        array = rows * columns * blocks * block / config.array_macs
        loaded = blocks * block * config.weight_bits / 8 + read + exchanged
        return max(array, loaded / config.beat_bytes, (result / cores + exchanged) / config.beat_bytes)

    return {
        "rows": cycles(-(-rows // cores), blocks_out, blocks_in, image / cores),
        "outputs": cycles(rows, -(-blocks_out // cores), blocks_in, image),
        "inputs": cycles(rows, blocks_out, -(-blocks_in // cores), image / cores, SUM_BYTES * result * others),
    }


def main() -> None:
    """Count and print."""
    parser = options_of(__doc__, config="zcu104")
    parser.add_argument("networks", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--cores", type=int, nargs="+", default=[2, 4])
    options = parser.parse_args()
    config, rows = load_config(options.config), []
    for path in options.networks:
        graph = import_model(path).graph
        parts = [simplified(part, config).graph for part in accelerator_graphs(graph, config)]
        convolutions = [(op, part.tensors) for part in parts for op in part.ops if isinstance(op, g.Conv2D)]
        layers = [(op, tensors) for op, tensors in convolutions if op.groups == 1 and not op.transposed]
        for cores in options.cores:
            found = [least(op, tensors, config, cores) for op, tensors in layers]
            there = sum(min(f["rows"], f["outputs"]) for f in found)
            saved = [min(f["rows"], f["outputs"]) - f["inputs"] for f in found]
            wins = [cycles for cycles in saved if cycles > 0]
            rows.append(
                {"network": path.stem, "cores": cores, "cycles": there, "saved": sum(wins), "layers": len(wins)}
            )
            print(
                f"{path.stem}, {cores} cores of {config.name}: {there:,.0f} cycles; {len(wins)} of {len(found)} layers "
                f"could gain {sum(wins):,.0f} together, {sum(wins) / there:.2%}"
            )
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
