"""Random programs with an instruction changed: what the verifier accepts must be equal on simulator and RTL.

``python -m tests.campaigns.mutants [--minutes M] [--configs N] [--seed S]``. Bits, order, number of instructions
and bytes of constants change, one to three at a time. Exit code 1 if an accepted program differs in a byte or a time.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections import Counter

import numpy as np

from tests.verification.differential import Bench, seeded_config, seeded_program
from tilewright.errors import TilewrightError
from tilewright.isa.program import Program
from tilewright.isa.spec import instruction_width
from tilewright.isa.verifier import verify

SIZE = 16  #: instructions asked of the generator
MUTANTS = 12  #: of each program


def mutated(program: Program, rng: np.random.Generator) -> Program:
    """The program with one to three changes."""
    width = instruction_width(program.config) // 8
    code = [bytearray(program.instructions[k : k + width]) for k in range(0, len(program.instructions), width)]
    segments = list(program.segments)
    for _ in range(rng.integers(1, 4)):
        at, other = (int(k) for k in rng.integers(0, len(code), 2))
        kind = int(rng.integers(0, 8))
        if kind == 0 and len(code) > 2:
            del code[at]
        elif kind == 1:
            code.insert(other, bytearray(code[at]))
        elif kind == 2:
            code[at], code[other] = code[other], code[at]
        elif kind == 3:
            held = [k for k, segment in enumerate(segments) if segment.data]
            if held:
                k = int(rng.choice(held))
                data = bytearray(segments[k].data or b"")
                data[int(rng.integers(0, len(data)))] ^= 1 << int(rng.integers(0, 8))
                segments[k] = dataclasses.replace(segments[k], data=bytes(data))
        else:
            bit = int(rng.integers(0, 8 * width))
            code[at][bit // 8] ^= 1 << bit % 8
    return dataclasses.replace(program, instructions=b"".join(map(bytes, code)), segments=tuple(segments))


def main() -> int:
    """Run the campaign; the exit code is described above."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--configs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    wrong = 0
    for config_seed in range(options.seed, options.seed + options.configs):
        bench = Bench(seeded_config(config_seed))
        until = time.monotonic() + 60 * options.minutes / options.configs
        number = 0
        try:
            while time.monotonic() < until:
                program, segments = seeded_program(bench.config, number, SIZE)
                for k in range(MUTANTS):
                    mutant = mutated(program, np.random.default_rng((config_seed, number, k)))
                    counts["mutants"] += 1
                    try:
                        verify(mutant)
                    except TilewrightError:
                        counts["refused"] += 1
                        continue
                    counts["accepted"] += 1
                    filled = [
                        segment if new.data is None else np.frombuffer(new.data.ljust(new.size, b"\0"), np.uint8).copy()
                        for segment, new in zip(segments, mutant.segments, strict=True)
                    ]
                    if (text := bench.compare(mutant, filled)) is not None:
                        wrong += 1
                        print(f"config {config_seed}, program {number}, mutant {k}: {text}", flush=True)
                number += 1
        finally:
            bench.close()
        counts["programs"] += number
    print(", ".join(f"{count:,} {what}" for what, count in counts.items()), f"{wrong} differ", sep="; ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
