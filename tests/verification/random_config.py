"""Seeded random Configs: small, valid, every parameter varied."""

from __future__ import annotations

import numpy as np

from tilewright.config import KIB, LONGEST_INSTRUCTION, Config, ConfigError

VERSIONS_AND_PORTS = ((3, 1), (3, 2), (4, 1), (4, 2))


def random_config(rng: np.random.Generator) -> Config:
    """A small valid Config with random shape, memories, bus and queues."""

    def pick(*values: int) -> int:
        return int(rng.choice(values))

    while True:
        block_in, block_out, batch = pick(4, 4, 8, 16, 32), pick(4, 4, 8, 16, 32), pick(1, 1, 1, 2, 4)
        lanes, wide = min(block_in, block_out), max(block_in, block_out)
        weight_bits, burst = pick(8, 8, 4, 2), pick(1, 2, 4, 16)
        entry = block_in * block_out * weight_bits // 8
        beat_bits = min(pick(32, 64, 128, 256), 8 * batch * lanes)
        instruction_beats = -(-LONGEST_INSTRUCTION * 8 // beat_bits)
        try:
            config = Config(
                name="random", board="", batch=batch, block_in=block_in, block_out=block_out, weight_bits=weight_bits,
                act_bytes=max(KIB, batch * wide * pick(16, 64, 128)), act_banks=pick(2, 4, 8),
                wgt_bytes=max(KIB, entry * pick(2, 16, 64)),
                acc_bytes=max(KIB, 4 * batch * wide * pick(16, 64, 128)), acc_banks=pick(2, 4, 8),
                prm_entries=pick(4, 8, 64), uop_gemm_bytes=pick(512, 1024), uop_alu_bytes=pick(512, 2048),
                axi_bits=beat_bits, burst_beats=burst, outstanding=pick(1, 2, 4, 8, 16),
                dram_latency=pick(1, 2, 7, 32, int(rng.integers(1, 200))), queue_depth=pick(2, 4, 32),
                token_depth=pick(1, 3, 63), segments=pick(4, 8), dsp_packing=bool(rng.integers(2)),
                fetch_beats=max(pick(16, 32, 64), 1 << (max(burst + instruction_beats, 2 * burst) - 1).bit_length()),
            )  # fmt: skip
        except ConfigError:  # a combination that the rules exclude; draw again
            continue
        # drawn last: bursts are short enough for both versions, and programs the same on two ports of half the width
        version, ports = VERSIONS_AND_PORTS[int(rng.integers(len(VERSIONS_AND_PORTS)))]
        config = config.replace(axi_version=version, float32_scaling=bool(pick(0, 1, 1)))
        try:
            return config.replace(axi_ports=ports, axi_bits=beat_bits // ports)
        except ConfigError:  # too narrow, or too much in flight
            return config
