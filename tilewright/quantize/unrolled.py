"""Recurrent layers of a float ONNX model written out step by step.

ONNX Runtime computes LSTM, GRU and RNN in float32, and its quantiser has no integers for them. A layer of few steps is
written as the products, sums and functions that it consists of (ONNX operators LSTM-22, GRU-22, RNN-22): these it
quantises, and the accelerator has all of them. The products with the inputs of all steps are one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

MOST_STEPS = 64  #: of a layer that is written out: each costs some ten operators
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_FUNCTIONS = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}
_DEFAULTS = {"clip": 0.0, "input_forget": 0, "layout": 0}  #: options that are not written out otherwise
_STATES = ("h", "c")
_INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")


class Unrolled(NamedTuple):
    """``alike``: tensors that stand for the same at each step, and so want the same scale. Then the steps' integers
    mean the same, and the products with weights that all steps share are proven once. ``stay``: the layers that are not
    written out, each with the reason, as a sentence."""

    alike: list[list[str]]
    stay: list[str]


class _StaysError(Exception):
    """Why a layer is not written out."""


def unroll(model: Any) -> Unrolled:
    """Writes out the recurrent layers of a float model whose shapes are known.

    Other layers stay: those of more than :data:`MOST_STEPS` steps, of sequences of several lengths, with peepholes or
    functions of their own, or with weights that are no constants.
    """
    import onnx

    if not any(node.op_type in _GATES for node in model.graph.node):
        return Unrolled([], [])
    inferred = onnx.shape_inference.infer_shapes(model).graph
    shapes = {
        value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        for value in (*inferred.input, *inferred.value_info)
    }
    constants = {t.name: t for t in model.graph.initializer}
    nodes: list[Any] = []
    alike: list[list[str]] = []
    stay: list[str] = []
    for node in model.graph.node:
        if node.op_type not in _GATES or node.domain not in ("", "ai.onnx"):
            nodes.append(node)
            continue
        name = node.name or next(filter(None, node.output))
        try:
            layer = _read(node, shapes, constants)
        except _StaysError as why:
            nodes.append(node)
            stay.append(f"{node.op_type} {name!r} stays in float32 on the CPU: {why}")
            continue
        writer = _Writer(model.graph, name)
        _write(layer, writer)
        nodes += writer.nodes
        alike += filter(None, writer.alike.values())
    if alike:
        del model.graph.node[:]
        model.graph.node.extend(nodes)
    return Unrolled(alike, stay)


@dataclass(frozen=True)
class _Layer:
    """A recurrent layer of T steps, D directions, B rows, I inputs and H units."""

    kind: str  #: LSTM, GRU or RNN
    x: str  #: (T, B, I)
    shape: tuple[int, int, int]
    w: Array  #: (D, gates * H, I)
    r: Array  #: (D, gates * H, H)
    b: Array  #: (D, 2 * gates * H)
    states: tuple[str, ...]  #: (D, B, H) each: of an LSTM h and c; "" for zeros
    backwards: tuple[bool, ...]  #: for each direction
    linear_before_reset: bool
    function: str  #: of an RNN's sums
    results: tuple[str, ...]  #: all steps' h (T, D, B, H), the last h and c (D, B, H); "" where nobody reads them

    @property
    def units(self) -> int:
        return self.r.shape[-1]


def _read(node: Any, shapes: Mapping[str, tuple[int, ...]], constants: Mapping[str, Any]) -> _Layer:
    from onnx import helper, numpy_helper

    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    for name, usual in _DEFAULTS.items():
        if given.get(name, usual) != usual:
            raise _StaysError(f"its {name} is {given[name]}, not {usual}")
    direction = given.get("direction", b"forward").decode()
    directions = 2 if direction == "bidirectional" else 1
    functions = [f.decode().lower() for f in given.get("activations", [])]
    rectified = node.op_type == "RNN" and functions == ["relu"] * directions
    if functions and not rectified and functions != _FUNCTIONS[node.op_type] * directions:
        raise _StaysError(f"its functions are {', '.join(functions)}, not {', '.join(_FUNCTIONS[node.op_type])}")
    ins = dict(zip(_INPUTS, node.input, strict=False))
    shape = shapes.get(ins["X"], ())
    if len(shape) != 3 or not all(shape):
        raise _StaysError("the shape of its input is not known; export the model with fixed sizes")
    if shape[0] > MOST_STEPS:
        raise _StaysError(f"{shape[0]} steps, more than {MOST_STEPS}; export the model for shorter sequences")
    if ins.get("P"):
        raise _StaysError("it has peepholes")
    for name in ("W", "R", "B", "sequence_lens"):
        if ins.get(name) and ins[name] not in constants:
            raise _StaysError(f"its {name}, {ins[name]!r}, is no constant")
    value = {name: numpy_helper.to_array(constants[t]) for name, t in ins.items() if t in constants}
    if any(value[name].dtype != np.float32 for name in ("W", "R")):
        raise _StaysError(f"its weights are {value['W'].dtype} and {value['R'].dtype}, not float32")
    if "sequence_lens" in value and (value["sequence_lens"] != shape[0]).any():
        raise _StaysError("its sequences have several lengths")
    units = value["R"].shape[-1]
    states = [ins.get(name, "") for name in ("initial_h", "initial_c")[: 2 if node.op_type == "LSTM" else 1]]
    zeros = {t for name, t in ins.items() if name in value and not value[name].any()}
    return _Layer(
        node.op_type, ins["X"], shape, value["W"], value["R"],
        value.get("B", np.zeros((directions, 2 * _GATES[node.op_type] * units), np.float32)),
        tuple("" if t in zeros else t for t in states),
        {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction],
        bool(given.get("linear_before_reset", 0)), "Relu" if rectified else "Tanh", (*node.output, "", "", "")[:3],
    )  # fmt: skip


class _Writer:
    """Operators and constants of one layer, named after it; ``alike``: results of one role, over the steps."""

    def __init__(self, graph: Any, prefix: str) -> None:
        self._graph, self._prefix = graph, prefix
        self._step = (0, 0)
        self.nodes: list[Any] = []
        self.alike: defaultdict[tuple[int, str], list[str]] = defaultdict(list)

    def enter(self, direction: int, step: int) -> None:
        """What is added next is of this step."""
        self._step = (direction, step)

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"{self._prefix}/constant{len(self._graph.initializer)}"
        self._graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def __call__(self, kind: str, *inputs: str, to: str = "", role: str = "", **attributes: Any) -> str:
        name = self._name(kind, role)
        return self._add(kind, name, inputs, [to or name], role, attributes)[0]

    def split(self, x: str, sizes: list[int], axis: int, role: str = "") -> list[str]:
        if len(sizes) == 1:
            return [x]
        name = self._name("Split", role)
        parts = [f"{name}.{k}" for k in range(len(sizes))]
        return self._add("Split", name, (x, self.constant(np.array(sizes))), parts, role, {"axis": axis})

    def joined(self, parts: list[str], axis: int) -> str:
        return parts[0] if len(parts) == 1 else self("Concat", *parts, axis=axis)

    def shaped(self, x: str, *shape: int, to: str = "") -> str:
        return self("Reshape", x, self.constant(np.array(shape)), to=to)

    def _name(self, kind: str, role: str) -> str:
        direction, step = self._step
        last = f"{direction}.{step}/{role}" if role else f"{kind}{len(self.nodes)}"
        return f"{self._prefix}/{last}"

    def _add(
        self, kind: str, name: str, inputs: tuple[str, ...], outputs: list[str], role: str, attributes: dict[str, Any]
    ) -> list[str]:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, list(inputs), outputs, name, **attributes))
        for k, output in enumerate(outputs if role else []):
            self.alike[self._step[0], f"{role}.{k}"].append(output)
        return outputs


#: the inputs' share of the gates' sums for a step, and the states before it -> the states after it
_Step = Callable[[list[str], list[str]], list[str]]


def _write(layer: _Layer, op: _Writer) -> None:
    steps, rows, inputs = layer.shape
    x = op.shaped(layer.x, steps * rows, inputs)
    firsts, histories, lasts = [], [], []
    for d, backwards in enumerate(layer.backwards):
        sums, step = _CELLS[layer.kind](layer, d, op)
        parts = [op.split(one, [rows] * steps, 0) for one in sums(x)]
        states = [_initial(layer, op, state, d) for state in layer.states]
        firsts.append(states)
        history = [""] * steps
        for t in reversed(range(steps)) if backwards else range(steps):
            op.enter(d, t)
            states = step([part[t] for part in parts], states)
            history[t] = states[0]
        histories.append(history)
        lasts.append(states)
    directions, units = len(layer.backwards), layer.units
    for state, read, role in zip(layer.states, zip(*firsts, strict=True), _STATES, strict=False):
        if state:  # it may be one that the model has made
            op.alike[0, f"{role}.0"] += [*op.alike.pop((1, f"{role}.0"), []), state, *read]
    everything, *finals = layer.results
    if everything:
        h = op.joined([op.joined([history[t] for history in histories], 1) for t in range(steps)], 0)
        if directions == 1:
            op.shaped(h, steps, 1, rows, units, to=everything)
        else:
            op("Transpose", op.shaped(h, steps, rows, directions, units), perm=[0, 2, 1, 3], to=everything)
    for result, last in zip(finals, zip(*lasts, strict=True), strict=False):
        if result:
            op.shaped(op.joined(list(last), 0), directions, rows, units, to=result)


def _initial(layer: _Layer, op: _Writer, state: str, d: int) -> str:
    if not state:
        return ""
    part = op.split(state, [1] * len(layer.backwards), 0)[d]
    return op.shaped(part, layer.shape[1], layer.units)


def _of_inputs(layer: _Layer, d: int, op: _Writer, x: str, bias: Array | None = None) -> str:
    """The inputs' share of all steps' sums, with ``bias`` or both of the layer's."""
    both = layer.b[d].reshape(2, -1).sum(0) if bias is None else bias
    return op("Gemm", x, op.constant(layer.w[d].T), op.constant(both))


def _with_state(op: _Writer, given: str, h: str, r: str) -> str:
    """A step's sums: the inputs' share and the state's, if there is one yet."""
    return op("Add", op("Gemm", h, r, role="recurrent"), given, role="sum") if h else given


def _lstm(layer: _Layer, d: int, op: _Writer) -> tuple[Callable[[str], list[str]], _Step]:
    units = layer.units
    r = op.constant(layer.r[d].T)

    def sums(x: str) -> list[str]:
        return [_of_inputs(layer, d, op, x)]

    def step(given: list[str], states: list[str]) -> list[str]:
        h, c = states
        gates, candidate = op.split(_with_state(op, given[0], h, r), [3 * units, units], 1, "parts")
        i, o, f = op.split(op("Sigmoid", gates, role="gates"), [units] * 3, 1, "gate")
        new = op("Mul", i, op("Tanh", candidate, role="candidate"), role="new")
        c = op("Add", op("Mul", f, c, role="kept"), new, role="c") if c else new
        return [op("Mul", o, op("Tanh", c, role="tanh"), role="h"), c]

    return sums, step


def _gru(layer: _Layer, d: int, op: _Writer) -> tuple[Callable[[str], list[str]], _Step]:
    units, late = layer.units, layer.linear_before_reset
    ahead, behind = layer.b[d].reshape(2, -1)
    inner = behind[2 * units :]  #: the bias of the candidate's product with h
    bias = ahead + np.concatenate([behind[: 2 * units], np.zeros_like(inner) if late else inner])
    r = op.constant((layer.r[d] if late else layer.r[d][: 2 * units]).T)
    r_bias = op.constant(np.concatenate([np.zeros(2 * units, np.float32), inner]))
    r_candidate, inner_row = op.constant(layer.r[d][2 * units :].T), op.constant(inner[None])

    def sums(x: str) -> list[str]:
        return op.split(_of_inputs(layer, d, op, x, bias), [2 * units, units], 1)

    def step(given: list[str], states: list[str]) -> list[str]:
        (h,) = states
        gates, total = given
        recurrent = inner_row if late and inner.any() else ""
        if h and late:
            product = op("Gemm", h, r, r_bias, role="recurrent")
            both, recurrent = op.split(product, [2 * units, units], 1, "parts")
            gates = op("Add", both, gates, role="sum")
        else:
            gates = _with_state(op, gates, h, r)
        z, reset = op.split(op("Sigmoid", gates, role="gates"), [units] * 2, 1, "gate")
        if recurrent:
            total = op("Add", op("Mul", reset, recurrent, role="reset"), total, role="total")
        elif h:
            product = op("Gemm", op("Mul", reset, h, role="reset"), r_candidate, role="product")
            total = op("Add", product, total, role="total")
        new = op("Tanh", total, role="new")
        if not h:
            return [op("Sub", new, op("Mul", z, new, role="kept"), role="h")]
        return [op("Add", new, op("Mul", z, op("Sub", h, new, role="change"), role="kept"), role="h")]

    return sums, step


def _rnn(layer: _Layer, d: int, op: _Writer) -> tuple[Callable[[str], list[str]], _Step]:
    r = op.constant(layer.r[d].T)

    def sums(x: str) -> list[str]:
        return [_of_inputs(layer, d, op, x)]

    def step(given: list[str], states: list[str]) -> list[str]:
        (h,) = states
        return [op(layer.function, _with_state(op, given[0], h, r), role="h")]

    return sums, step


_CELLS = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}
