"""From (front end, seed) to a network and a Config, always the same ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.fuzz.cases import Outcome, case_inputs, check_case
from tests.fuzz.draw import FULL, LARGE, SMALL, Size
from tests.fuzz.draw_onnx import draw_onnx
from tests.fuzz.draw_tflite import draw_tflite
from tests.fuzz.recipe import Recipe, build
from tests.fuzz.tensors import Array, BuildError, Tensor
from tilewright.checking import reference_outputs
from tilewright.config import KIB, PRESETS, Config, ConfigError, load_config
from tilewright.errors import TilewrightError

DRAWS = {"tflite": draw_tflite, "onnx": draw_onnx}
SIZES: dict[str, Size] = {"small": SMALL, "full": FULL, "large": LARGE}
RANDOM = "random"  #: the name that asks for a Config of each seed's own
ATTEMPTS = 50

_VARIED = {
    "block_in": (4, 8, 16, 32), "block_out": (4, 8, 16, 32),
    "act_bytes": tuple(KIB << k for k in range(3, 9)), "act_banks": (2, 4, 8, 16),
    "wgt_bytes": tuple(KIB << k for k in range(3, 10)),
    "acc_bytes": tuple(KIB << k for k in range(3, 9)), "acc_banks": (2, 4, 8),
    "prm_entries": (8, 16, 32, 64, 128), "uop_gemm_bytes": tuple(KIB << k for k in range(5)),
    "uop_alu_bytes": tuple(KIB << k for k in range(5)), "axi_bits": (32, 64, 128), "axi_ports": (1, 2),
    "burst_beats": (4, 8, 16), "outstanding": (1, 2, 4, 8, 16), "dram_latency": (1, 8, 32, 100),
    "queue_depth": (2, 4, 8, 32), "token_depth": (3, 15, 63), "dsp_packing": (False, True),
}  # fmt: skip


#: bits of weights -> share of the networks; a random Config has as many then, or 8
_WEIGHT_BITS = {8: 0.85, 4: 0.12, 2: 0.03}


class SeedError(TilewrightError):
    """No network of a seed is accepted by the reference interpreter."""


def draw_config(rng: np.random.Generator) -> Config:
    """A preset, or one with up to six parameters changed."""
    base = PRESETS[str(rng.choice(list(PRESETS)))]
    if rng.random() < 0.35:
        return base
    while True:
        names = rng.choice(list(_VARIED), size=int(rng.integers(1, 7)), replace=False)
        changes = {str(name): _VARIED[str(name)][int(rng.integers(len(_VARIED[str(name)])))] for name in names}
        try:
            return base.replace(**changes, name=f"{base.name}-varied")
        except ConfigError:  # parameters that contradict each other; draw again
            continue


def seed_bits(frontend: str, seed: int) -> int:
    """Bits of the weights in the network of a seed."""
    rng = np.random.default_rng([list(DRAWS).index(frontend), seed, 1 << 21])
    return int(rng.choice(list(_WEIGHT_BITS), p=list(_WEIGHT_BITS.values())))


def seed_config(name: str, frontend: str, seed: int) -> Config:
    """The Config of a seed: ``random``, or a preset's name or file for all."""
    if name != RANDOM:
        return load_config(name)
    rng = np.random.default_rng([list(DRAWS).index(frontend), seed, 1 << 20])
    config, bits = draw_config(rng), seed_bits(frontend, seed)
    try:
        return config if bits == 8 or rng.random() < 0.2 else config.replace(weight_bits=bits)
    except ConfigError:  # blocks of so few bytes that the bus has none so narrow
        return config


def draw_network(frontend: str, seed: int, size: str | Size, folder: str | Path) -> tuple[Recipe, Path, int]:
    """The network of a seed as a recipe and a file in ``folder``, and how many the reference refused before it."""
    chosen = SIZES[size] if isinstance(size, str) else size
    path = Path(folder) / f"seed{seed}.{frontend}"
    for attempt in range(ATTEMPTS):
        rng = np.random.default_rng([list(DRAWS).index(frontend), seed, attempt])
        try:
            recipe = DRAWS[frontend](rng, chosen, seed_bits(frontend, seed))
            inputs = recipe_inputs(recipe, path)
        except BuildError:
            continue
        if reference_runs(path, inputs):
            return recipe, path, attempt
    raise SeedError(f"{frontend} seed {seed}: the reference refuses {ATTEMPTS} networks")


def recipe_inputs(recipe: Recipe, path: Path) -> list[Array]:
    """Write the file of a recipe, and draw its inputs."""
    return case_inputs(input_tensors(build(recipe, path).net), recipe.seed)


def input_tensors(net: object) -> list[Tensor]:
    """The inputs of a network as its user gives them: those of ONNX networks may be float in front of a pair."""
    kinds = {1: "float32", 2: "uint8", 3: "int8"}
    tensors: list[Tensor] = net.inputs  # type: ignore[attr-defined]
    infos = getattr(net, "graph_inputs", None)
    if infos is None:
        return tensors
    types = (kinds[info.type.tensor_type.elem_type] for info in infos)
    return [Tensor(t.key, t.shape, kind) for t, kind in zip(tensors, types, strict=True)]


def reference_runs(path: Path, inputs: list[Array]) -> bool:
    """Whether the reference interpreter takes the network, and these inputs (on some LiteRT ends the process)."""
    try:
        reference_outputs(path, inputs)
    except Exception:  # noqa: BLE001 - ONNX Runtime's errors share no base class below Exception; drawn again
        return False
    return True


def check_recipe(recipe: Recipe, config: Config, folder: str | Path) -> Outcome:
    """Build a recipe's network and check it. Raises BuildError where the steps do not fit together."""
    path = Path(folder) / f"network.{recipe.frontend}"
    return check_case(path, config, recipe_inputs(recipe, path))


def check_seed(
    frontend: str, seed: int, config: str, size: str, folder: str | Path, drawn: Callable[[Recipe], None] | None = None
) -> tuple[Recipe, Config, Outcome]:
    """Draw and check the network of a seed; ``drawn`` is called with it as soon as the reference has run it."""
    recipe, path, _ = draw_network(frontend, seed, size, folder)
    if drawn is not None:
        drawn(recipe)
    chosen = seed_config(config, frontend, seed)
    try:
        return recipe, chosen, check_case(path, chosen, recipe_inputs(recipe, path))
    finally:
        path.unlink()
