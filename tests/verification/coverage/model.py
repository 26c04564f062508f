"""What functional coverage means here, declared as data: groups of axes, and the combinations that cannot be.

A *bin* is one combination of a group's axis values. A bin that the instruction set forbids is excluded by an
:class:`Exclusion`, with its reason; every other bin counts, whether a generator reaches it or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from tilewright.isa.functions import RESCALING, AluOp, Combine, Rounding
from tilewright.isa.spec import Engine, Memory, Opcode

__all__ = ["GROUPS", "Axis", "Bin", "Exclusion", "Group"]

Bin = tuple[str, ...]  #: a value of every axis, in order


@dataclass(frozen=True)
class Axis:
    """One property of an instruction and its values."""

    name: str
    values: tuple[str, ...]
    doc: str = ""


@dataclass(frozen=True)
class Exclusion:
    """Combinations that no legal program has, and why. ``matches`` takes axis values by axis name."""

    reason: str
    matches: Callable[[Mapping[str, str]], bool]


@dataclass(frozen=True)
class Group:
    """A cross of axes. ``title`` says of what."""

    name: str
    title: str
    axes: tuple[Axis, ...]
    excluded: tuple[Exclusion, ...] = ()

    def _values(self, found: Bin) -> dict[str, str]:
        return {axis.name: value for axis, value in zip(self.axes, found)}

    @cached_property
    def bins(self) -> tuple[Bin, ...]:
        """Every combination that counts, in order of the axes."""
        crossed = product(*(axis.values for axis in self.axes))
        return tuple(b for b in crossed if not any(e.matches(self._values(b)) for e in self.excluded))

    @cached_property
    def combinations(self) -> int:
        """How many combinations there are, excluded ones too."""
        count = 1
        for axis in self.axes:
            count *= len(axis.values)
        return count


def _names(enum: type[Memory] | type[AluOp] | type[Combine] | type[Engine] | type[Opcode]) -> tuple[str, ...]:
    return tuple(member.name for member in enum)


def _reads_both(function: str) -> bool:
    return AluOp[function].reads_dst and AluOp[function].reads_operand


STALL = Axis(
    "stall", ("none", "engine", "token", "paused"),
    "`none`: issued the cycle after its dispatch; `engine`: waited for its engine; `token`: issued as soon as a token "
    "was there; `paused`: ran while every bus channel paused at random",
)  # fmt: skip
PADDING = Axis(
    "padding", ("packed", "bordered", "scattered"),
    "`packed`: the tile's units are neighbours; `bordered`: units between its rows are left as they are, which is how "
    "a padded border stays; `scattered`: a column step other than 1, or rows that overlap",
)  # fmt: skip
ALIGNMENT = Axis(
    "alignment", ("burst", "inside", "split", "page"),
    "of its DRAM rows: `burst`: each begins at a multiple of the longest burst and fits in one; `inside`: one begins "
    "elsewhere, and none is cut; `split`: one is cut into several bursts; `page`: one goes over a 4 KiB boundary",
)  # fmt: skip
WRAP = Axis("wrap", ("straight", "wraps"), "whether an act operand passes the end of its wrap region")
TOKENS = ("none", "one", "several")
PACE = Axis("pace", ("1", "2"), "cycles a micro-op")
_MATRIX = ("none", "some", "all")

_UOPS = (Memory.UOP_GEMM.name, Memory.UOP_ALU.name)

GROUPS: tuple[Group, ...] = (
    Group(
        "load", "LOAD: memory x padding x alignment x stall",
        (Axis("memory", _names(Memory), "destination"), PADDING, ALIGNMENT, STALL),
        (Exclusion(
            "`alignment` rule: where a beat holds several micro-ops, their LOAD has a column step of 1 and whole beats",
            lambda v: v["memory"] in _UOPS and v["padding"] == "scattered",
        ),),
    ),
    Group(
        "fill", "FILL: memory x value x padding x stall",
        (Axis("memory", (Memory.ACT.name, Memory.ACC.name), "destination"),
         Axis("value", ("zero", "other"), "the constant"), PADDING, STALL),
    ),
    Group(
        "store", "STORE: segment x padding x alignment x stall",
        (Axis("segment", ("output", "scratch"), "kind of its segment"), PADDING, ALIGNMENT, STALL),
    ),
    Group(
        "gemm", "GEMM: mode x accumulate x pace x reuse x stall",
        (Axis("mode", ("dense", "window", "pair"), "window and pair flags"),
         Axis("accumulate", _MATRIX, "micro-ops that accumulate, of those that emit"), PACE,
         Axis("reuse", ("next", "near", "no"),
              "closest return to one acc address: the next micro-op, within the pipeline's depth, neither"), STALL),
    ),
    Group(
        "array", "GEMM: mode x multipliers x pace x shape x emits x pushed",
        (Axis("mode", ("dense", "window", "pair"), "window and pair flags"),
         Axis("multipliers", ("plain", "packed"), "two multiplies to a DSP or not"), PACE,
         Axis("shape", ("square", "wide", "tall"), "BLOCK_IN equal to, greater, less than BLOCK_OUT"),
         Axis("emits", ("all", "some"), "whether every micro-op emits, or some only push"),
         Axis("pushed", ("one", "two"), "units that a micro-op pushes: twin flag")),
        (
            Exclusion("only windows are pushed into", lambda v: v["mode"] == "dense" and v["pushed"] == "two"),
            Exclusion(
                "`twin` rule: two units are for packed multipliers",
                lambda v: v["pushed"] == "two" and v["multipliers"] == "plain",
            ),
            Exclusion("a dense micro-op always emits", lambda v: v["mode"] == "dense" and v["emits"] == "some"),
            Exclusion(
                "`pair` rule: pairs are for packed multipliers",
                lambda v: v["mode"] == "pair" and v["multipliers"] == "plain",
            ),
            Exclusion(
                "`emit-distance` rule: on packed multipliers emits are two cycles apart; only a lone micro-op may "
                "emit alone, and shows no more than one behind a push",
                lambda v: v["mode"] != "dense" and (v["multipliers"], v["pace"], v["emits"]) == ("packed", "1", "all"),
            ),
        ),
    ),
    Group(
        "alu", "ALU: function x operand x pace x stall",
        (Axis("function", _names(AluOp), ""),
         Axis("operand", ("immediate", "other bank", "same bank"), "immediate, or acc and in which bank"), PACE, STALL),
        (Exclusion(
            "`alu-bank` rule: at one vector a cycle the operands of a function that reads two lie in different banks",
            lambda v: v["operand"] == "same bank" and v["pace"] == "1" and _reads_both(v["function"]),
        ),),
    ),
    Group(
        "requantize", "REQUANTIZE: rounding x clamp x stall",
        (Axis("rounding", tuple(r.name for r in Rounding), ""),
         Axis("clamp", ("full", "narrow"), "lo and hi at the ends of int8, or not"), WRAP, STALL),
    ),
    Group(
        "rescale", "RESCALE: rounding x combine x input x stall",
        (Axis("rounding", tuple(r.name for r in Rounding), ""), Axis("combine", _names(Combine), ""),
         Axis("input", ("itself", "looked up"), "act as it is, or behind a table"), STALL),
        (Exclusion(
            "`rounding` rule: CONSTANT and FLOAT32 are for REQUANTIZE",
            lambda v: Rounding[v["rounding"]] not in RESCALING,
        ),),
    ),
    Group(
        "wrap", "act operands: opcode x wrap x stall",
        (Axis("operand", ("LOAD", "FILL", "STORE", "GEMM", "REQUANTIZE", "RESCALE"), "opcode of the instruction"),
         WRAP, STALL),
    ),
    Group(
        "flags", "every opcode: pop x push x trace",
        (Axis("opcode", _names(Opcode), ""), Axis("pop", TOKENS, "engines whose token it waits for"),
         Axis("push", TOKENS, "engines it sends a token to"), Axis("trace", ("0", "1"), "trace flag")),
    ),
    Group(
        "tokens", "token queues: source x sink x arrival x count",
        (Axis("source", _names(Engine), ""), Axis("sink", _names(Engine), ""),
         Axis("arrival", ("late", "early"), "the pop issued as soon as the token was there, or the token waited"),
         Axis("count", ("one", "several", "depth"), "tokens in the queue after the push, in program order")),
        (Exclusion("an engine has no queue to itself", lambda v: v["source"] == v["sink"]),),
    ),
    Group(
        "dispatch", "dispatch: opcode x what held it",
        (Axis("opcode", _names(Opcode), ""),
         Axis("held", ("nothing", "fetch", "queue"), "dispatched the cycle after the one before; late because its bits "
              "were still to come; late because its engine's queue was full")),
    ),
)  # fmt: skip
