"""What is proven, what is refused and how that reads, and what becomes of a program that cannot be followed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ModelCase
from tests.jit.proof.cases import (
    CASES,
    SMALL,
    Part,
    compiled_parts,
    flattened,
    inverted_residuals,
    joined,
    mixed,
    wide_middle,
)
from tests.jit.test_compiler import random_graph
from tilewright.config import PRESETS, Config
from tilewright.isa.codec import Instruction, decode, encode
from tilewright.isa.functions import AluOp
from tilewright.isa.program import Program, Segment
from tilewright.isa.spec import Engine, Memory, Opcode
from tilewright.isa.verifier import verify
from tilewright.jit import programs
from tilewright.jit.emit.writer import OUTPUT
from tilewright.jit.errors import PlaceError, ProofError
from tilewright.jit.graph import Graph
from tilewright.jit.importer import import_model

NAMES = ("tiny", "pynq-z2", "vta-64", "vta-256", "ultra96", "zcu104")
NETWORKS = ["autoencoder_toycar", "dscnn_keywords", "resnet8_cifar10", "mobilenet_person"]
DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits.onnx"


def assert_proven(graph: Graph, config: Config, keep: bool) -> None:
    for part in compiled_parts(graph, config, keep):
        proof = part.prove()
        assert proof.followed
        assert proof.elements == sum(int(np.prod(graph.tensors[t].shape)) for t in part.graph.outputs)
        assert proof.reason == ""


@pytest.mark.parametrize("keep", [False, True], ids=["outputs", "everything"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("build", [mixed, joined, flattened, inverted_residuals, wide_middle])
def test_every_operator_on_presets(build: Callable[[Config], Graph], name: str, keep: bool) -> None:
    assert_proven(build(PRESETS[name]), PRESETS[name], keep)


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int) -> None:
    b = random_graph(seed)
    assert_proven(b.graph(b.ops[-1].output), PRESETS[NAMES[seed % len(NAMES)]], bool(seed % 2))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 132))
def test_many_random_graphs(seed: int) -> None:
    b = random_graph(seed)
    assert_proven(b.graph(b.ops[-1].output), PRESETS[NAMES[seed % len(NAMES)]], bool(seed % 4 < 2))


def network(path: Path) -> Graph:
    return import_model(path).graph


@pytest.mark.parametrize("name", NAMES)
def test_digits(name: str) -> None:
    graph = network(DIGITS)
    for keep in (False, True):
        assert_proven(graph, PRESETS[name], keep)


@pytest.mark.parametrize("network_name", NETWORKS)
def test_real_networks(network_name: str, model_case: Callable[[str], ModelCase]) -> None:
    graph = network(model_case(network_name).model)
    for keep in (False, True):
        assert_proven(graph, PRESETS["pynq-z2"], keep)


@pytest.mark.slow
@pytest.mark.parametrize("network_name", [*NETWORKS, "mobilenet_v2_imagenet"])
@pytest.mark.parametrize("name", NAMES)
def test_real_networks_on_presets(name: str, network_name: str, model_case: Callable[[str], ModelCase]) -> None:
    graph = network(model_case(network_name).model)
    for keep in (False, True):
        assert_proven(graph, PRESETS[name], keep)


# -- refusals --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def part() -> Part:
    (found,) = compiled_parts(joined(PRESETS["tiny"]), PRESETS["tiny"])
    return found


def changed(part: Part, change: Callable[[list[Instruction]], object]) -> Part:
    instructions = decode(part.program.instructions, part.program.config)
    change(instructions)
    return replace(part, program=replace(part.program, instructions=encode(instructions, part.program.config)))


def with_fields(instruction: Instruction, **fields: int) -> Instruction:
    return Instruction(instruction.opcode, {**instruction.fields, **fields})


def last(instructions: list[Instruction], opcode: Opcode) -> int:
    return max(k for k, i in enumerate(instructions) if i.opcode == opcode)


def test_a_wrong_value_is_named_with_its_layer(part: Part) -> None:
    found = []

    def change(instructions: list[Instruction]) -> None:
        found.append(last(instructions, Opcode.REQUANTIZE))
        instructions[found[0]] = with_fields(instructions[found[0]], hi=126)

    with pytest.raises(ProofError) as error:
        changed(part, change).prove()
    message = str(error.value)
    name = part.program.meta["layers"][part.program.meta["instruction_layer"][found[0]]]["name"]
    assert f"instruction {found[0]} (REQUANTIZE) of layer {name} is the first to write" in message
    assert "elements wrong, the first at row " in message
    assert ", stored by instruction " in message


def test_a_wrong_place_is_named(part: Part) -> None:
    def change(instructions: list[Instruction]) -> None:
        stores = [k for k, i in enumerate(instructions) if i.opcode == Opcode.STORE and i["segment"] == OUTPUT]
        one, two = (instructions[k]["offset"] for k in stores[:2])
        instructions[stores[0]] = with_fields(instructions[stores[0]], offset=two)
        instructions[stores[1]] = with_fields(instructions[stores[1]], offset=one)

    with pytest.raises(ProofError, match="in the wrong place"):
        changed(part, change).prove()


def test_what_is_stored_twice_or_never_is_refused(part: Part) -> None:
    def twice(instructions: list[Instruction]) -> None:
        k = last(instructions, Opcode.STORE)
        instructions.insert(k, with_fields(instructions[k], pop=0, push=0))

    with pytest.raises(ProofError, match=r"not stored exactly once, the first at row \d+.*, stored by instruction"):
        changed(part, twice).prove()
    with pytest.raises(ProofError, match="not stored exactly once, the first at row .*, never stored"):
        changed(part, lambda instructions: instructions.pop(last(instructions, Opcode.STORE))).prove()


def test_steps_that_do_not_fit_are_refused(part: Part) -> None:
    unpacks, pack = part.unpacks, part.packs[0]
    room = [part.program.segments[step.segment].size - step.size for step in (unpacks[0], pack)]
    cases = [
        (replace(part, unpacks=unpacks[:1]), "unpacked are"),
        (replace(part, unpacks=[*unpacks, unpacks[0]]), "unpacked are"),
        (replace(part, unpacks=[replace(unpacks[0], offset=room[0] + 1), *unpacks[1:]]), "reach outside its segment"),
        (replace(part, packs=[replace(pack, offset=room[1] + 1)]), "reach outside its segment"),
        (replace(part, unpacks=[replace(unpacks[0], value_offset=1), *unpacks[1:]]), "elements wrong"),
        (replace(part, packs=[replace(pack, value_offset=1)]), "elements wrong"),
        (replace(part, unpacks=[replace(unpacks[0], segment=1), *unpacks[1:]]), "is no output segment"),
        (replace(part, unpacks=[replace(unpacks[0], offset=1 << 20), *unpacks[1:]]), "reach outside its segment"),
        (replace(part, packs=[replace(part.packs[0], tensor="z")]), "no input of the graph"),
        (replace(part, packs=[replace(part.packs[0], segment=0)]), "is no input segment"),
        (replace(part, packs=[replace(part.packs[0], segment=9)]), "is no input segment"),
        (replace(part, packs=[]), "elements wrong"),
    ]
    for broken, message in cases:
        with pytest.raises(ProofError, match=message):
            broken.prove()


def test_a_graph_that_differs_in_one_weight_is_refused(part: Part) -> None:
    graph = joined(PRESETS["tiny"])
    replace(part, graph=graph).prove()
    graph.ops[1].weight[0, 0, 0, 0] ^= 1  # type: ignore[attr-defined]
    with pytest.raises(ProofError):
        replace(part, graph=graph).prove()


# -- what cannot be followed -----------------------------------------------------------------------------


def with_alu(part: Part, **fields: int) -> Part:
    """An ALU instruction ahead of everything, on accumulators that nothing reads before they are written."""
    segment = Segment("uops", "constant", 64, bytes(64))
    number = len(part.program.segments)
    load = {"memory": int(Memory.UOP_ALU), "sram_col": 1, "cols": 8, "segment": number}
    fill = {"memory": int(Memory.ACC), "sram_col": 1, "cols": 8, "value": 3, "push": 0b010}
    ahead = [
        Instruction(Opcode.LOAD, load),
        Instruction(Opcode.FILL, fill),
        Instruction(Opcode.ALU, {"pop": 0b001, "push": 0b001, **fields}),
        Instruction(Opcode.WAIT, {"engine": int(Engine.LOAD), "pop": 0b010}),
    ]
    instructions = [*ahead, *decode(part.program.instructions, part.program.config)]
    program = Program(part.program.config, encode(instructions, part.program.config), (*part.program.segments, segment))
    return replace(part, program=program)


@pytest.mark.parametrize("function", [AluOp.MAX, AluOp.MIN, AluOp.SHR])
def test_nonlinear_alu_leaves_the_check_of_values(part: Part, function: AluOp) -> None:
    found = with_alu(part, function=int(function), use_imm=1, imm=2)
    verify(found.program)
    proof = found.prove()
    assert (proof.method, proof.followed) == ("values", False)
    assert "instruction 2 (ALU): ALU's MAX, MIN, SHR" in proof.reason
    assert proof.elements == 11 * sum(u.size // u.units // u.lanes * u.shape[3] for u in found.unpacks)


@pytest.mark.parametrize("function", [AluOp.ADD, AluOp.MOV, AluOp.MUL])
def test_linear_alu_can_be_followed(part: Part, function: AluOp) -> None:
    assert with_alu(part, function=int(function), use_imm=1, imm=2).prove().followed


def test_the_check_of_values_refuses_too(part: Part) -> None:
    def change(instructions: list[Instruction]) -> None:
        k = last(instructions, Opcode.REQUANTIZE)
        instructions[k] = with_fields(instructions[k], zero_point=instructions[k]["zero_point"] + 5)

    found = with_alu(changed(part, change), function=int(AluOp.MAX), use_imm=1, imm=2)
    with pytest.raises(ProofError, match=r"output t\d+: \d+ of \d+ elements wrong"):
        found.prove()


def test_only_verified_programs_can_be_proven(part: Part) -> None:
    def change(instructions: list[Instruction]) -> None:
        k = last(instructions, Opcode.STORE)
        instructions[k] = with_fields(instructions[k], offset=(1 << 20))

    with pytest.raises(ProofError, match="reaches outside segment"):
        changed(part, change).prove()


def test_cases_reach_every_way_through_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As mistakes are planted: with no tiles, which would be faster."""

    def no_tiles(*given: object) -> None:
        raise PlaceError("left out")

    monkeypatch.setattr(programs, "_tiled", no_tiles)
    kinds = {s.kind for p in compiled_parts(wide_middle(SMALL), SMALL, keep=True) for s in p.program.segments}
    assert kinds == {"constant", "input", "output", "scratch"}
    assert {case.config.batch for case in CASES} == {1, 2}
