"""Loops and branches: what bodies read from around them, and branches that ONNX Runtime takes once and for all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper, numpy_helper

from tests.jit.source.onnx_nets import NetBuilder
from tests.jit.source.onnx_run import interpreted, kinds, run
from tilewright.jit.errors import ModelError
from tilewright.jit.source import Built
from tilewright.jit.source.onnx import validate
from tilewright.jit.source.onnx.bodies import rename_hidden
from tilewright.jit.source.onnx.source import OnnxSource
from tilewright.runtime import interpreters

IMAGE = (1, 4, 6, 6)
F = np.float32


def _value(name: str, shape: tuple[int, ...], kind: int = 1) -> Any:
    return helper.make_tensor_value_info(name, kind, list(shape))


def _exact(path: Path) -> Built:
    """What is built of a model, equal to ONNX Runtime on the file: images, conditions, and counts up to two."""
    source, rng = OnnxSource(path, exact="proven"), np.random.default_rng(0)
    built = source.build({})
    whole = interpreters.load("onnxruntime", path.read_bytes(), "whole")
    for number in range(3):
        given = {
            "float32": rng.normal(0, 1.5, IMAGE).astype(F),
            "bool": np.array(number == 1),
            "int64": np.array(number),
        }
        inputs = [given[built.graph.tensors[name].dtype] for name in built.graph.inputs]
        for got, wanted in zip(run(source, built, inputs), whole(inputs), strict=True):
            np.testing.assert_array_equal(got, wanted, strict=True)
    return built


def _branch(nodes: list[Any], output: str, constants: list[Any] | None = None) -> Any:
    return helper.make_graph(nodes, output, [], [_value(output, IMAGE)], constants or [])


def test_a_dequantised_output_that_a_branch_reads_too(tmp_path: Path) -> None:
    """It and the branch, which reads what was quantised as well, are computed together; the output apart from them."""
    b = NetBuilder(1)
    x = b.real_input(IMAGE)
    y = b.op("Sin", [x.name])
    kept = b.pair(y, IMAGE, 0.01, 0)
    branches = [_branch([helper.make_node(kind, [y, kept.name], [kind])], kind) for kind in ("Sub", "Max")]
    chosen = b.op("If", [b.input((), "bool")], then_branch=branches[0], else_branch=branches[1])
    b.output(kept.name, IMAGE)
    b.output(b.pair(chosen, IMAGE, 0.02, 0).name, IMAGE)
    built = _exact(b.save(tmp_path / "m.onnx"))
    assert interpreted(built)


def _loop(count: str, x: str, result: str, kind: str) -> Any:
    """Nodes that apply a function to x as often as count and one say."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["on"], ["still"]), helper.make_node(kind, ["v"], ["w"])],
        f"{kind}_body",
        [_value("i", (), 7), _value("on", (), 9), _value("v", IMAGE)],
        [_value("still", (), 9), _value("w", IMAGE)],
    )
    return [
        helper.make_node("Add", [count, f"{result}_one"], [f"{result}_count"]),
        helper.make_node("Loop", [f"{result}_count", "", x], [result], body=body),
    ]


def test_a_branch_that_is_always_taken_and_starts_with_what_nothing_else_reads(tmp_path: Path) -> None:
    """Its nodes have no place in the file: they are computed with those of the file that they read, or that read them,
    be it through one another."""
    b = NetBuilder(2)
    x = b.real_input(IMAGE)
    b.output(x.name, IMAGE)
    count = b.input((), "int64")
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in
                 (("looped_one", np.int64(1)), ("scale", F(0.01)), ("zero", b.zero(0)))]  # fmt: skip
    quantised = [
        helper.make_node("QuantizeLinear", ["looped", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    taken = _branch([*_loop(count, x.name, "looped", "Sin"), *quantised], "y", constants)
    other = _branch([helper.make_node("Identity", [x.name], ["z"])], "z")
    y = b.op("If", [b.constant(np.bool_(True))], then_branch=taken, else_branch=other)
    b.output(b.pair(b.op("Relu", [y]), IMAGE, 0.01, 0).name, IMAGE)
    built = _exact(b.save(tmp_path / "m.onnx"))
    assert len(interpreted(built)) == 1
    assert kinds(built)


def test_a_model_that_is_nothing_but_a_branch_that_is_always_taken(tmp_path: Path) -> None:
    """Two results that have nothing to do with one another, and a single place in the file for both."""
    b = NetBuilder(3)
    numbers = [b.constant(F(0.02)), b.constant(b.zero(0))]
    nodes, results = [], []
    for number, kind in enumerate(("Sin", "Cos")):
        x, q, y = b.input(IMAGE), f"q{number}", f"y{number}"
        nodes += [
            helper.make_node("QuantizeLinear", [x, *numbers], [q]),
            helper.make_node("DequantizeLinear", [q, *numbers], [f"d{number}"]),
            helper.make_node(kind, [f"d{number}"], [y]),
        ]
        results.append(_value(y, IMAGE))
        b.output(f"out{number}", IMAGE)
    body = helper.make_graph(nodes, "both", [], results)
    names = ["out0", "out1"]
    condition = b.constant(np.bool_(True))
    b.nodes.append(helper.make_node("If", [condition], names, name="both", then_branch=body, else_branch=body))
    built = _exact(b.save(tmp_path / "m.onnx"))
    assert [op.covers for op in built.graph.ops if op.name in interpreted(built)] == [(0,)]


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("kernel", [6, 7])
def test_averages_over_more_than_the_image_in_a_branch(kernel: int, deep: bool, tmp_path: Path) -> None:
    """ONNX Runtime divides by the number of results, when the branch is taken: the process would end."""
    b = NetBuilder(4)
    x = b.input((1, 6, 6, 4), "uint8")
    numbers = [b.constant(F(0.1)), b.constant(np.uint8(3))]
    pool = helper.make_node(
        "QLinearAveragePool", ["kept", *numbers, *numbers], ["mean"], domain="com.microsoft", channels_last=1,
        kernel_shape=[kernel, kernel],
    )  # fmt: skip
    result = helper.make_tensor_value_info("mean", 2, None)
    taken = helper.make_graph([helper.make_node("Identity", [x], ["kept"]), pool], "taken", [], [result])
    other = helper.make_graph([helper.make_node("Identity", [x], ["same"])], "other", [], [
        helper.make_tensor_value_info("same", 2, None)
    ])  # fmt: skip
    condition = b.input((), "bool")
    if deep:
        inner = helper.make_node("If", [condition], ["mean_"], then_branch=taken, else_branch=other)
        taken = helper.make_graph([inner], "outer", [], [helper.make_tensor_value_info("mean_", 2, None)])
    y = b.op("If", [condition], then_branch=taken, else_branch=other)
    b.outputs.append(helper.make_tensor_value_info(y, 2, None))
    path = b.save(tmp_path / "m.onnx")
    if kernel == 6:
        assert interpreted(OnnxSource(path).build({}))
        return
    with pytest.raises(ModelError, match=r"QLinearAveragePool \(\w+\) with a window larger than its image"):
        OnnxSource(path)


def test_renamed_tensors_are_not_taken_for_those_of_a_body_within(tmp_path: Path) -> None:
    """A body and the graph around it may make tensors of one name; the new name is one that no body within has, either,
    which reads the renamed tensor."""
    one = [helper.make_tensor_value_info("x", 1, [2]), helper.make_tensor_value_info("c", 9, [])]

    def given(name: str) -> list[Any]:
        return [helper.make_tensor_value_info(name, 1, [2])]

    add = [helper.make_node("Neg", ["x"], ["inner@0"]), helper.make_node("Add", ["inner@0", "t"], ["sum"])]
    deep = helper.make_graph(add, "deep", [], given("sum"))
    plain = helper.make_graph([helper.make_node("Neg", ["t"], ["minus"])], "plain", [], given("minus"))
    own = [
        helper.make_node("Add", ["x", "x"], ["t"]),
        helper.make_node("If", ["c"], ["chosen"], then_branch=deep, else_branch=plain),
    ]
    body = helper.make_graph(own, "body", [], given("chosen"))
    other = helper.make_graph([helper.make_node("Identity", ["x"], ["same"])], "other", [], given("same"))
    outer = [
        helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=other),
        helper.make_node("Abs", ["x"], ["t"]),
    ]
    graph = helper.make_graph(outer, "outer", one, [*given("y"), *given("t")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    rename_hidden(model)
    run = interpreters.load("onnxruntime", model.SerializeToString(), "renamed")
    y, t = run([np.array([3, -4], F), np.array(True)])
    assert y.tolist() == [3, -4]
    assert t.tolist() == [3, 4]


def test_a_model_that_ends_onnx_runtime(tmp_path: Path) -> None:
    """It takes the inner branch out of the outer one when it loads them, and loses what a loop in it captures."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 13]>
        g (float[2] x, int64 n, bool p) => (float[2] y) <int8 k = {66}> {
            c = Constant <value: tensor = bool c {1}> ()
            y = If (c) <then_branch: graph = t () => (float[2] a) {
                d = Constant <value: tensor = bool d {0}> ()
                u = If (d) <else_branch: graph = e2 () => (float[2] f) {
                    l = Loop (n, p, x) <body: graph = b (int64 i, bool q, float[2] v) => (bool r, float[2] w)
                    <float s = {0.5}> {
                        o = Identity (x)
                        z = Constant <value: tensor = int8 z {67}> ()
                        m = QuantizeLinear (o, s, z)
                        w = DequantizeLinear (m, s, z)
                        r = Identity (q)
                    }>
                    f = Identity (l)
                }, then_branch: graph = t2 () => (float[2] h) { j = Identity (k) h = Identity (x) }>
                a = Identity (u)
            }, else_branch: graph = e () => (float[2] b) { b = Identity (x) }>
        }"""
    )
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    said = interpreters.fatal(path.read_bytes())
    assert said in ("", "this model ended the process of the kernels, by SIGSEGV")  # "": of a release without the fault
    if said:
        with pytest.raises(ModelError, match=f"^{path}: {said}, where ONNX Runtime loads it; export it"):
            validate.read(path)
    else:
        assert validate.read(path).graph.node


def test_models_with_branches_that_it_loads_or_refuses(tmp_path: Path) -> None:
    """What it says of a model it says where it is asked for it."""
    b = NetBuilder(1, "int8")
    x = b.real_input((1, 4))
    b.output(b.op("Neg", [x.name]), (1, 4))
    sound = b.save(tmp_path / "m.onnx").read_bytes()
    assert interpreters.fatal(sound) == ""
    assert interpreters.fatal(sound[: len(sound) // 2]) == ""
