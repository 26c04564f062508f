"""Checksums of compiled programs: a change of the compiler's structure must leave them alone.

``python -m tests.campaigns.guard record FILE [--seeds N] [--models ...]`` compiles the architectures of
``bench/networks``, random networks of both formats and the model files given, for each of ``CONFIGS``, and writes
checksums of each artifact. ``python -m tests.campaigns.guard compare FILE`` does it again for what the file names, and
prints what differs: programs, the steps around them, or the place and the reason of an operator. Exit code 1 if any do.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from bench.networks import NETWORKS, build
from tests.fuzz.seeds import DRAWS, draw_network
from tilewright.compiling import Options, compile_artifact
from tilewright.config import load_config
from tilewright.errors import TilewrightError
from tilewright.isa.container import dump as dump_program
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.steps import step_to_dict

CONFIGS = ("tiny", "pynq-z2", "vta-64", "ultra96")
Record = dict[str, str]  #: "programs", "steps" and "operators": a checksum each; or "refused": the message


def checksum(*parts: object) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else repr(part).encode())
    return digest.hexdigest()[:16]


def record_of(path: Path, config: str) -> Record:
    """What a model file compiles to; without the comparison with its interpreter, which takes most of the time."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            artifact = compile_artifact(path, load_config(config), Options(compare=False))
    except TilewrightError as error:
        return {"refused": str(error).replace(str(path.parent), "")}
    return checksums(artifact)


def checksums(artifact: Artifact) -> Record:
    blobs = [bytes(blob) for blob in artifact.blobs.values()]
    return {
        "programs": checksum(*map(dump_program, artifact.programs)),
        "steps": checksum(*map(step_to_dict, artifact.steps), *blobs),
        "operators": checksum(artifact.options["operators"], artifact.options["rejected"], artifact.host_layers),
    }


def networks(names: list[str], folder: Path) -> Iterator[tuple[str, Path]]:
    """Names as in a record's file, and the model files."""
    for name in names:
        kind, _, rest = name.partition(":")
        if kind == "network":
            path = folder / f"{rest}{NETWORKS[rest].suffix}"
            build(path, rest, "small", 0)
            yield name, path
        elif kind in DRAWS:
            yield name, draw_network(kind, int(rest), "small", folder)[1]
        else:
            yield name, Path(rest)


def chosen(seeds: int, models: list[Path]) -> list[str]:
    drawn = [f"{frontend}:{seed}" for frontend in DRAWS for seed in range(7_000_000, 7_000_000 + seeds)]
    return [*(f"network:{name}" for name in sorted(NETWORKS)), *drawn, *(f"file:{m.resolve()}" for m in models)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, default=60, help="random networks of each format (default 60)")
    parser.add_argument("--models", type=Path, nargs="*", default=[], help="model files")
    parser.add_argument("--configs", nargs="*", default=CONFIGS, help="default: %(default)s")
    args = parser.parse_args()
    known: dict[str, dict[str, Record]] = {}
    if args.action == "compare":
        known = json.loads(args.file.read_text())
    found: dict[str, dict[str, Record]] = {}
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, path in networks(list(known) or chosen(args.seeds, args.models), Path(folder)):
            found[name] = {config: record_of(path, config) for config in known.get(name, args.configs)}
            for config, record in known.get(name, {}).items():
                other = found[name][config]
                if other != record:
                    differing += 1
                    parts = [key for key in {*record, *other} if record.get(key) != other.get(key)]
                    print(f"{name} on {config}: {', '.join(sorted(parts))} differ", flush=True)
            if args.action == "record":
                args.file.write_text(json.dumps(found, indent=1))
    print(f"{len(found)} networks, {sum(map(len, found.values()))} artifacts, {differing} differ")
    return differing > 0


if __name__ == "__main__":
    raise SystemExit(main())
