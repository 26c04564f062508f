"""A function without branches as a line of operators, cut into what the accelerator takes and what TVM keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from tilewright.jit.relax import compat
from tilewright.jit.relax.compat import Binding, Expr, Var


@dataclass(frozen=True)
class Stretch:
    """Operators that one side runs together: ``members`` in order, what they read and what others read of theirs.

    ``free``: what is repeated with them, see :class:`Line`.
    """

    accelerated: bool
    members: list[Var]
    free: list[Var]
    inputs: list[Var]
    outputs: list[Var]

    @property
    def all(self) -> set[Var]:
        return {*self.members, *self.free}


class Line:
    """The bindings of a function.

    Some are *free*: dequantizes, what depends on constants alone, tuples and their elements. Each side repeats those
    that it reads, so that none of them has to be handed over.
    """

    def __init__(self, inputs: Iterable[Var], bindings: Iterable[Binding], result: Expr) -> None:
        self.inputs, self.result = list(inputs), result
        self.bindings = list(bindings)
        self.bound = {b.var: b.value for b in self.bindings}
        self._constant: set[Var] = set()
        self._free: set[Var] = set()
        self._reads: dict[Var, list[Var]] = {}
        for binding in self.bindings:
            self._classify(binding.var, binding.value)
        self.results = list(dict.fromkeys(self._carriers(compat.operands(result), through=False)))
        self.solid = [b.var for b in self.bindings if b.var not in self._free or self._is_sink(b.var)]

    @classmethod
    def of(cls, function: Expr) -> Line:
        return cls(function.params, compat.bindings(function), compat.result(function))

    def _classify(self, var: Var, value: Expr) -> None:
        operands = list(compat.operands(value))
        name = compat.op_name(value)
        constant = all(not compat.is_var(o) or o in self._constant for o in operands)
        if name == "relax.shape_of" or (constant and (name or not compat.is_call(value))):
            self._constant.add(var)
        dequantized = name == "relax.dequantize" and all(
            not compat.is_var(o) or o in self._constant for o in operands[1:]
        )
        if var in self._constant or dequantized or not compat.is_call(value):
            self._free.add(var)

    def _is_sink(self, var: Var) -> bool:
        """Whether a dequantize gives a result of the function, so that one side must run it."""
        return var in self.results and var not in self._constant and compat.op_name(self.bound[var]) != ""

    @cached_property
    def users(self) -> Counter[Var]:
        found = Counter(o for b in self.bindings for o in compat.operands(b.value) if compat.is_var(o))
        found.update(o for o in compat.operands(self.result) if compat.is_var(o))
        return found

    def owner(self, var: Var) -> Var:
        """The operator that gives a tensor: of an element of a tuple, what gives the tuple."""
        value: Expr = self.bound.get(var)
        return value.tuple_value if compat.is_tuple_item(value) else var

    def reads(self, var: Var) -> list[Var]:
        """The tensors that an operator reads, through free ones."""
        if var not in self._reads:
            self._reads[var] = list(dict.fromkeys(self._carriers(compat.operands(self.bound[var]))))
        return self._reads[var]

    def _carriers(self, exprs: Iterable[Expr], through: bool = True) -> Iterable[Var]:
        """``through`` dequantizes; of tuples and other names always."""
        for expr in exprs:
            if not compat.is_var(expr):
                continue
            value, owner = self.bound.get(expr), self.owner(expr)
            if expr not in self._free or (owner is not expr and compat.is_call(self.bound.get(owner))):
                yield expr
            elif expr not in self._constant and (through or not compat.is_call(value)):
                yield from self._carriers(compat.operands(value), through)
            elif not through:
                yield expr

    def stretches(self, left: Collection[Var]) -> list[Stretch]:
        """In an order in which they can run, each as large as dependencies allow; ``left``: what TVM keeps."""
        phase: dict[Var, int] = {}
        for var in self.solid:
            side = int(var not in left)
            before = [phase[self.owner(t)] for t in self.reads(var) if self.owner(t) in phase]
            phase[var] = max((p if p % 2 == side else p + 1 for p in before), default=side)
        return [
            self.stretch([var for var in self.solid if phase[var] == number], number % 2 == 1)
            for number in range(max(phase.values(), default=0) + 1)
            if number in phase.values()
        ]

    def stretch(self, members: list[Var], accelerated: bool = True) -> Stretch:
        """Operators with what they read and what others read of them."""
        inside = set(members)
        wanted = [t for var in self.solid if var not in inside for t in self.reads(var)] + self.results
        reads = [t for var in members for t in self.reads(var)]
        inputs = list(dict.fromkeys(t for t in reads if self.owner(t) not in inside))
        return Stretch(
            accelerated, members, [b.var for b in self.ahead(members) if b.var not in inputs], inputs,
            outputs=list(dict.fromkeys(t for t in wanted if self.owner(t) in inside)),
        )  # fmt: skip

    def handed_over(self, stretch: Stretch) -> dict[Var, Expr]:
        """The int8 inputs that another stretch makes and dequantizes alone read, each with the first of these.

        ONNX Runtime makes uint8 of the int8 tensors that a model quantises itself, and its integer kernels want one
        type: a stretch has the same kernels as the whole if it reads uint8 too.
        """
        found: dict[Var, Expr] = {}
        for tensor in stretch.inputs:
            inside = (b.value for b in self.bindings if b.var in stretch.all)
            calls = [value for value in inside if tensor in filter(compat.is_var, compat.operands(value))]
            alone = all(compat.op_name(c) == "relax.dequantize" and compat.is_constant(c.args[2]) for c in calls)
            if tensor in self.bound and compat.dtype(tensor) == "int8" and calls and alone:
                found[tensor] = calls[0]
        return found

    def ahead(self, members: Iterable[Var]) -> list[Binding]:
        """The free bindings that these read, with those of their own elements, in order; ``members`` themselves not."""
        inside, found = set(members), set()
        waiting = [o for var in inside for o in compat.operands(self.bound.get(var, var))]
        while waiting:
            var = waiting.pop()
            if var in self._free and var not in found:
                found.add(var)
                waiting += compat.operands(self.bound[var])
        found |= {var for var in self.bound if self.owner(var) in inside}
        return [b for b in self.bindings if b.var in found and b.var not in inside]

    def bindings_of_result(self) -> list[Binding]:
        """The free bindings that the function's result needs."""
        wanted = {b.var for var in compat.operands(self.result) if var in self._free for b in self.ahead([var])}
        wanted |= {var for var in compat.operands(self.result) if var in self._free}
        return [b for b in self.bindings if b.var in wanted]
