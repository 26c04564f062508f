"""Hypothesis strategies: valid configs, instructions with any field values, programs of any bytes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tilewright.config import AXI_BURST_BEATS, KIB, LONGEST_INSTRUCTION, PRESETS, Config
from tilewright.isa.codec import Instruction, encode
from tilewright.isa.program import Program, Segment
from tilewright.isa.spec import FORMAT_OF, HEADER, UOP_FIELDS, Engine, Field, Opcode


def powers(low: int, high: int) -> st.SearchStrategy[int]:
    """Powers of two from ``low`` to ``high``."""
    return st.integers(low.bit_length() - 1, high.bit_length() - 1).map(lambda n: 1 << n)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """Any valid config: dependent parameters are drawn within what the others leave."""
    batch, block_in, block_out = draw(powers(1, 16)), draw(powers(4, 64)), draw(powers(4, 64))
    weight_bits = draw(powers(2, 8))
    lanes, widest = min(block_in, block_out), max(block_in, block_out)
    wgt_entry = block_in * block_out * weight_bits // 8
    axi_bits = draw(powers(32, min(512, 8 * batch * lanes, 8 * wgt_entry)))
    beat = axi_bits // 8
    burst_beats = draw(powers(1, min(256, 4096 // beat)))
    fetch_need = burst_beats - (-LONGEST_INSTRUCTION // beat)
    span = widest // lanes
    act_banks, acc_banks = draw(powers(2, 32)), draw(powers(2, 16))
    return Config(
        name=draw(st.sampled_from(["x", "my board", "ünï"])),
        board="",
        batch=batch,
        block_in=block_in,
        block_out=block_out,
        weight_bits=weight_bits,
        act_bytes=draw(powers(max(KIB, act_banks * max(span, 2) * batch * lanes), 4096 * KIB)),
        act_banks=act_banks,
        wgt_bytes=draw(powers(max(KIB, 2 * wgt_entry), 8192 * KIB)),
        acc_bytes=draw(powers(max(KIB, acc_banks * span * 4 * batch * lanes), 4096 * KIB)),
        acc_banks=acc_banks,
        prm_entries=draw(powers(4, 1024)),
        uop_gemm_bytes=draw(powers(512, 256 * KIB)),
        uop_alu_bytes=draw(powers(512, 256 * KIB)),
        axi_bits=axi_bits,
        axi_version=4 if burst_beats > AXI_BURST_BEATS[3] else draw(st.sampled_from(sorted(AXI_BURST_BEATS))),
        burst_beats=burst_beats,
        outstanding=draw(powers(1, 64)),
        dram_latency=draw(st.integers(1, 1024)),
        clock_mhz=draw(st.integers(1, 1000)),
        queue_depth=draw(powers(2, 256)),
        token_depth=draw(st.integers(1, 1023)),
        fetch_beats=draw(powers(max(2 * burst_beats, 1 << (fetch_need - 1).bit_length()), 512)),
        segments=draw(powers(4, 16)),
        dsp_packing=draw(st.booleans()),
        float32_scaling=draw(st.booleans()),
    )


def any_config() -> st.SearchStrategy[Config]:
    """A preset or a random config."""
    return st.sampled_from(list(PRESETS.values())) | configs()


def values(field: Field, config: Config) -> st.SearchStrategy[int]:
    """Values of a field, its bounds more often."""
    low, high = field.bounds(config)
    return st.sampled_from([low, high]) | st.integers(low, high)


@st.composite
def instructions(draw: st.DrawFn, config: Config, opcode: Opcode | None = None) -> Instruction:
    """An instruction with every field set, of a given or any opcode."""
    chosen = draw(st.sampled_from(list(Opcode))) if opcode is None else opcode
    fields = (*HEADER[1:], *FORMAT_OF[chosen].fields)
    return Instruction(chosen, {f.name: draw(values(f, config)) for f in fields})


@st.composite
def uops(draw: st.DrawFn, config: Config, engine: Engine) -> dict[str, int]:
    """A micro-op with every field set."""
    return {f.name: draw(values(f, config)) for f in UOP_FIELDS[engine]}


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Any encodable program: legal or not, with any segments and meta."""
    config = draw(any_config())
    segments = draw(
        st.lists(
            st.builds(
                Segment,
                st.text(max_size=6) | st.sampled_from(["weights", "x.0", "a/b", "3", "trace", 'q"; }']),
                st.sampled_from(["constant", "input", "output", "scratch"]),
                st.integers(0, 1 << 40),
                st.none() | st.binary(max_size=300) | st.integers(0, 200).map(bytes),
                st.integers(0, 1 << 40),
            ),
            max_size=config.segments,
        )
    )
    code = encode(draw(st.lists(instructions(config), max_size=8)), config)
    return Program(config, code, tuple(segments), draw(_META))


_SCALARS: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | st.text()
_META = st.dictionaries(
    st.text() | st.sampled_from(["layers", "instruction_layer"]),
    st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)),
    max_size=3,
)
