"""Graph in, programs and host steps out: the compiler's top level.

Operators are placed (accelerator or host), and consecutive accelerator operators become one program each
(:mod:`tilewright.jit.programs`).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.isa.program import Program
from tilewright.jit import graph as g
from tilewright.jit.defects import why_not
from tilewright.jit.errors import NeedsHost, PlaceError
from tilewright.jit.graph import Graph, Op
from tilewright.jit.plan.policy import Policy
from tilewright.jit.programs import POLICIES, ProvenProgram, best_program, is_large
from tilewright.jit.recurrent.program import is_recurrent
from tilewright.jit.sides import accelerator_graphs, stages_and_placement, subgraph
from tilewright.jit.simplify import best_substitutions, simplified
from tilewright.jit.split.steps import Round, Split, cut_steps, join_steps
from tilewright.jit.stages import PartOf
from tilewright.jit.substitute import Substitution, Substitutions
from tilewright.progress import Progress
from tilewright.runtime.steps import (
    InterpreterStep,
    LaunchStep,
    Step,
    TensorSpec,
)
from tilewright.sim import simulate_timing

#: substitutions are compiled whose estimate is at most so many times that of the graph as it was
WORTH = 0.998


@dataclass
class CompiledGraph:
    """What a graph became: ``steps`` in order, the ``programs`` they launch, and where each operator runs.

    ``states``: tensors that steps find as the last inference left them. ``blobs``: the models that interpreter steps
    name. ``placement``: operator -> (place, reason). ``rejected``: why
    schedules were not taken that the verifier or the proof refused, or that could not be made.
    """

    graph: Graph
    config: Config
    programs: list[Program]
    steps: list[Step]
    placement: dict[str, tuple[str, str]] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    rejected: list[str] = field(default_factory=list)
    states: list[TensorSpec] = field(default_factory=list)

    @property
    def host_layers(self) -> tuple[dict[str, str], ...]:
        """What runs on the host and why, as an artifact keeps it (:class:`~tilewright.runtime.artifact.Artifact`)."""
        from_file = any(op.covers for op in self.graph.ops)  # then changes of form are no layers of the user's
        return tuple(
            {"name": op.name, "op": op.source or op.kind, "place": "host", "reason": self.placement[op.name][1]}
            for op in self.graph.ops
            if self.placement[op.name][0] == "host" and (op.covers or not from_file)
        )


@dataclass(frozen=True)
class Options:
    """How to compile: ``keep_intermediates`` stores every operator's output; ``fast_host`` lets the interpreter use
    kernels that may differ from its reference kernels by an LSB; ``substitutions``: None, those that pay."""

    keep_intermediates: bool = False
    fast_host: bool = False
    policies: tuple[Policy, ...] = POLICIES
    substitutions: Substitutions | None = None


Cut = Callable[[list[int], list[str], list[str]], tuple[bytes, str, bool]]


def compile_graph(
    graph: Graph,
    config: Config,
    *,
    keep_intermediates: bool = False,
    policies: tuple[Policy, ...] = POLICIES,
    progress: Progress | None = None,
    fast_host: bool = False,
    cut: Cut | None = None,
    remembered: dict[Hashable, ProvenProgram] | None = None,
    part_of: PartOf | None = None,
    split: Mapping[str, Split] | None = None,
    substitutions: Substitutions | None = None,
) -> CompiledGraph:
    """Compile a graph for a Config.

    With ``keep_intermediates`` every operator's output is stored and unpacked. ``progress(what, done, total)`` is
    called as alternatives are tried. ``cut(operators, inputs, outputs)`` gives the (model, runtime, whether it keeps
    state) of a stretch of :class:`~tilewright.jit.graph.Interpreted` operators. ``remembered`` keeps programs for
    further calls with graphs of the same file. ``part_of`` gives each operator's part: parts run in the order of their
    numbers, each as a stretch of its own; without it stretches are as large as dependencies allow. ``split``: stretches
    that cores compute in pieces at the same time, by the name of their first operator. ``substitutions``: those to
    make where they can be (:mod:`tilewright.jit.substitute`); without it each program gets those that make it faster.
    Raises :class:`NeedsHost` for operators of a model file that must be
    left to its interpreter, :class:`PlaceError` naming an operator that fits neither the accelerator nor a host step.
    """
    result = CompiledGraph(graph, config, [], [])
    options = Options(keep_intermediates, fast_host, policies, substitutions)
    memory = {} if remembered is None else remembered
    found, result.placement = stages_and_placement(graph, config, part_of)
    for stage in found:
        if stage.kind == "numpy":
            result.steps += [op.host_step(graph) for op in stage.ops]
        elif stage.kind == "interpreter":
            _interpret(graph, stage.ops, cut, options, result)
        else:
            whole, how = subgraph(graph, stage.ops, keep_intermediates), (split or {}).get(stage.ops[0].name)
            compiled = partial(_programs, config=config, options=options, memory=memory, progress=progress)
            for made, stretches in _rounds(whole, how, config, compiled):
                result.steps += cut_steps(made.graph, made.pieces)
                if made.pieces and all(map(_is_one, stretches)):
                    _launch([memory[_key(part)] for (part,) in stretches], result)
                else:
                    for part in itertools.chain(*stretches):
                        if _moves_nothing(part):
                            result.steps += [op.host_step(part) for op in part.ops]
                        else:
                            _launch([memory[_key(part)]], result)
                result.steps += join_steps(made.graph, made.pieces)
    return result


def _interpret(graph: Graph, ops: list[Op], cut: Cut | None, options: Options, result: CompiledGraph) -> None:
    """A stretch of the model file as a model of its own."""
    if cut is None:
        raise PlaceError(f"{ops[0].name} ({ops[0].kind}): runs in the interpreter of a model file, and there is none")
    part = subgraph(graph, ops, options.keep_intermediates)
    operators = [index for op in ops for index in op.covers]
    model, runtime, stateful = cut(operators, part.inputs, part.outputs)
    blob = f"host{len(result.blobs)}.{'tflite' if runtime == 'litert' else 'onnx'}"
    result.blobs[blob] = model
    result.steps.append(
        InterpreterStep(
            inputs=tuple(part.inputs), outputs=tuple(part.outputs), model=blob, runtime=runtime,
            operators=tuple(op.name for op in ops), stateful=stateful, fast=options.fast_host,
            shapes=tuple(graph.tensors[name].shape for name in part.outputs),
        )
    )  # fmt: skip


# -- programs of a stage ---------------------------------------------------------------------------------


def _programs(
    part: Graph, config: Config, options: Options, memory: dict[Hashable, ProvenProgram], progress: Progress | None
) -> list[Graph]:
    """The stage as graphs that each became a program (in ``memory``): one, or several where it does not fit as one.

    Raises :class:`NeedsHost` for an operator that fits in no program.
    """
    if _moves_nothing(part):
        return [part]
    try:
        if _key(part) not in memory:
            memory[_key(part)] = _fastest(part, config, options, progress)
        return [part]
    except Exception as error:
        reason = why_not(error, part.ops[0].name if len(part.ops) == 1 else part.name)
        if len(part.ops) == 1:
            (op,) = part.ops
            if not op.covers:
                raise
            raise NeedsHost(dict.fromkeys(op.covers, reason), reason) from error
    middle = len(part.ops) // 2
    whole = Graph(part.name, part.inputs, part.outputs, part.tensors, part.ops)
    halves = (part.ops[:middle], part.ops[middle:])
    return [
        graph
        for ops in halves
        for graph in _programs(subgraph(whole, ops, options.keep_intermediates), config, options, memory, progress)
    ]


def _fastest(part: Graph, config: Config, options: Options, progress: Progress | None) -> ProvenProgram:
    """The part's program with the substitutions asked for, or of those estimated to pay and none the faster; where one
    schedule alone is asked for, or is tried, with none."""
    compiled = partial(_reduced_program, part, config, options.policies, progress)
    if options.substitutions is not None:
        return compiled(options.substitutions)
    tried = options.policies == POLICIES and not is_large(part)
    return _faster(compiled, promising(part, config) if tried else ())


def _faster(compiled: Callable[[Substitutions], ProvenProgram], substitutions: Substitutions) -> ProvenProgram:
    """The faster of a program without substitutions and with them."""
    plain = compiled(())
    if not substitutions:
        return plain
    try:
        changed = compiled(substitutions)
    except Exception as error:  # noqa: BLE001 - why_not() raises or reports all but refusals
        return replace(plain, rejected=(*plain.rejected, why_not(error, "a program with substitutions")))
    return min(plain, changed, key=lambda made: simulate_timing(made.program).cycles)


def promising(part: Graph, config: Config) -> Substitutions:
    """The substitutions that are estimated to make a part's program faster, by as much as is worth compiling it."""
    found = None if is_recurrent(part) else best_substitutions(part, config)
    return found.steps if found is not None and found.cost <= WORTH * found.before else ()


def paying(graph: Graph, config: Config) -> Substitutions:
    """The substitutions that :func:`compile_graph` makes in a graph whose stretches are as large as can be."""
    found: Substitutions = ()
    for part in accelerator_graphs(graph, config):
        steps = () if _moves_nothing(part) else promising(part, config)
        if not steps:
            continue
        try:
            best = _faster(partial(_reduced_program, part, config, POLICIES, None), steps)
        except Exception as error:  # noqa: BLE001 - why_not() raises or reports all but refusals
            why_not(error, part.name)  # it becomes several programs, if any
        else:
            found += tuple(Substitution(*names) for names in best.program.meta["substitutions"])
    return found


def _reduced_program(
    part: Graph, config: Config, policies: tuple[Policy, ...], progress: Progress | None, substitutions: Substitutions
) -> ProvenProgram:
    """The program of what the part's outputs need of it; its layers say what of each was dropped."""
    small = simplified(part, config, substitutions)
    best = best_program(small.graph, config, policies, progress)
    here = {op.name for op in part.ops}
    best.program.meta["substitutions"] = [list(made) for made in substitutions if made.operator in here]
    for layer, before, after in zip(best.program.meta["layers"], small.whole.ops, small.graph.ops, strict=True):
        saved = before.macs(small.whole) - after.macs(small.graph)
        layer |= {"macs_dropped": saved, "channels_dropped": small.dropped.get(before.name, {})}
        layer |= {"pads": small.pads[before.name]} if before.name in small.pads else {}
    return best


def _rounds(
    whole: Graph, how: Split | None, config: Config, compiled: Callable[[Graph], list[Graph]]
) -> list[tuple[Round, list[list[Graph]]]]:
    """What of a stage runs one after another, each with the graphs that its pieces became, as :func:`_programs` has
    them. A stage in several rounds that are not a program each is one."""
    rounds = [Round(whole, [])] if how is None else how.rounds(whole, config)
    if len(rounds) > 1:
        with contextlib.suppress(NeedsHost, TilewrightError):
            made = [(each, [compiled(part) for part in each.graphs]) for each in rounds]
            if all(_is_one(parts) for _, stretches in made for parts in stretches):
                return made
        rounds = [Round(whole, [])]
    return [(each, [compiled(part) for part in each.graphs]) for each in rounds]


def _is_one(parts: list[Graph]) -> bool:
    """Whether a graph became a program, and no more than that."""
    return len(parts) == 1 and not _moves_nothing(parts[0])


def _moves_nothing(part: Graph) -> bool:
    """Whether a piece of a stage holds nothing but reshapes, for which there is no program."""
    return all(isinstance(op, g.Reshape) for op in part.ops)


def _key(part: Graph) -> Hashable:
    return tuple(op.name for op in part.ops), tuple(part.inputs), tuple(part.outputs)


def _launch(together: list[ProvenProgram], result: CompiledGraph) -> None:
    """The steps that pack the inputs of programs, launch them, and unpack their outputs."""
    numbers = range(len(result.programs), len(result.programs) + len(together))
    result.programs += [best.program for best in together]
    result.steps += [replace(pack, program=n) for n, best in zip(numbers, together) for pack in best.packs]
    result.steps.append(LaunchStep(numbers[0], tuple(numbers[1:])))
    result.steps += [replace(unpack, program=n) for n, best in zip(numbers, together) for unpack in best.unpacks]
    result.rejected += [reason for best in together for reason in best.rejected]
    result.states += [state for best in together for state in best.states]
