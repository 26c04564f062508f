"""Why a layer takes the cycles that it takes: one sentence or two from its numbers, for readers of a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.config import Config
from tilewright.isa.timing import ALU_DEPTH, GEMM_DEPTH
from tilewright.runtime.attribution import ARRAY_CAUSES

Layer = Mapping[str, Any]

_LANES_WORTH_NAMING = 0.95  #: of lanes of a block that hold channels; from there on they explain nothing


def why(layer: Layer, config: Config) -> str:
    """Why a layer of a report, with its measured cycles, needs and shapes, takes the time that it takes."""
    cycles, causes, bound = layer["cycles"], layer["cycles_by_cause"], layer["bound"]
    if cycles == 0:
        return "All of its work ran while other layers had the array."
    if bound in ARRAY_CAUSES:
        return _array(layer, causes, config)
    waits = f"{_percent(causes[bound], cycles)} of these cycles"
    said = f"It waits for {_AWAITED[bound]} {waits}. {_NEEDS[bound](layer, config)}"
    if layer["array_cycles"]:
        return f"{_at_work(layer, causes)}. {said}"
    if bound == "alu":
        return f"ALU works for it {waits}, while the array idles. {_NEEDS[bound](layer, config)}"
    return said


def _at_work(layer: Layer, causes: Mapping[str, int]) -> str:
    works = sum(causes[name] for name in ARRAY_CAUSES)
    useful = f"{_percent(causes['compute'], works)} of its multipliers at work for this layer"
    return f"The array works {_percent(works, layer['cycles'])} of these cycles, with {useful}"


def _array(layer: Layer, causes: Mapping[str, int], config: Config) -> str:
    cycles, works = layer["cycles"], sum(causes[name] for name in ARRAY_CAUSES)
    reasons = []
    if causes["half-pace"] > 0.02 * cycles:
        reasons.append(
            f"{_percent(causes['half-pace'], cycles)} of the cycles are second halves of results: two multiplies share "
            "a DSP slice, and window mode takes two cycles a result"
        )
    if causes["padding"] > 0.02 * cycles:
        reasons += _idle_lanes(layer, config)
        spare = works - causes["half-pace"] - layer["array_cycles"]
        if (empty := min(spare, _empty_vectors(layer, config))) > 0:
            reasons.append(
                f"{empty:,} cycles go to output channels that are not there: {layer['weight_shape'][0]} are stored as "
                f"whole blocks of block_in = {config.block_in}, and all of those are computed"
            )
            spare -= empty
        if spare > 0.02 * cycles:
            reasons.append(f"{spare:,} cycles are more than the layer needs: filling windows, or rows done twice")
    return f"{_at_work(layer, causes)}{': ' if reasons else ''}{'; '.join(reasons)}."


def _idle_lanes(layer: Layer, config: Config) -> list[str]:
    """Which multipliers of a block have nothing to multiply."""
    weight, found = list(layer.get("weight_shape", ())), []
    if config.batch > 1:
        found.append(f"one of {config.batch} rows of a batch is filled (batch = {config.batch})")
    if len(weight) == 4:
        outputs, kh, kw, inputs = weight
        blocks = -(-kh * kw * inputs // config.block_in) * -(-outputs // config.block_out)
        packed = (
            layer["array_cycles"] <= math.prod(layer.get("shape", ())[:-1]) * blocks
        )  # a pixel's patch lies in one piece
        for count, block, name, what in (
            (kh * kw * inputs if packed else inputs, config.block_in, "block_in", "input"),
            (outputs, config.block_out, "block_out", "output"),
        ):  # fmt: skip
            if _share(count, block) < _LANES_WORTH_NAMING:
                found.append(
                    f"{count} {what} values fill {_percent_of(_share(count, block))} of {name} = {block} lanes"
                )
    elif len(weight) == 3:
        taps = weight[0] * weight[1]
        found.append(
            f"a depthwise layer multiplies no channel with another: of block_in = {config.block_in} multipliers for a "
            f"channel, its {weight[0]} x {weight[1]} kernel has work for {min(taps, config.block_in)}"
        )
    elif layer.get("useful", 0):
        found.append("it adds values up, each by one multiplication by 1")
    else:
        found.append("it moves values, and computes nothing with them")
    return found


def _empty_vectors(layer: Layer, config: Config) -> int:
    """Array cycles of a dense layer's output vectors that hold no channel: tensors are stored in whole blocks of both
    BLOCK_IN and BLOCK_OUT."""
    weight = layer.get("weight_shape", ())
    if len(weight) != 4:
        return 0
    block, needed = config.widest_block, -(-weight[0] // config.block_out)
    return int(layer["array_cycles"] * (-(-weight[0] // block) * block // config.block_out - needed) // needed)


def _share(count: int, block: int) -> float:
    return count / max(1, -(-count // block) * block)


def _bytes(layer: Layer, config: Config, key: str, verb: str) -> str:
    size = layer[key]
    if not size:
        return (
            f"It has nothing of its own to {verb}: it waits for what other layers share with it, or for a tensor that "
            "goes through DRAM because the chip cannot hold it until it is used last."
        )
    return (
        f"It must {verb} {size:,} bytes, {-(-size // config.beat_bytes):,} cycles of a bus of {config.beat_bytes} "
        f"bytes; its array work takes {layer['array_cycles']:,} cycles."
    )


_AWAITED = {
    "load": "data from DRAM",
    "store": "data to reach DRAM",
    "alu": "ALU",
    "fetch": "the instruction itself",
    "latency": "pipelines to drain and for tokens",
}
_NEEDS: dict[str, Callable[[Layer, Config], str]] = {
    "load": lambda layer, config: _bytes(layer, config, "read_bytes", "read"),
    "store": lambda layer, config: _bytes(layer, config, "write_bytes", "write"),
    "alu": lambda layer, _: (
        f"It takes {layer.get('alu_cycles', 0):,} passes of ALU over a vector, and {layer['array_cycles']:,} cycles of "
        "the array."
    ),
    "fetch": lambda layer, config: "The program is read over the same bus, and its instructions are short of work.",
    "latency": lambda layer, config: (
        f"Its steps are short beside the pipelines ({GEMM_DEPTH} cycles of GEMM, {ALU_DEPTH} of ALU), and each needs "
        "what the one before made."
    ),
}


def _percent(part: float, whole: float) -> str:
    return _percent_of(part / whole if whole else 0.0)


def _percent_of(share: float) -> str:
    return f"{share:.0%}"
