"""Real networks: every operator and every output equals LiteRT's reference kernels, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.conftest import ModelCase
from tilewright.jit.importer import ImportedModel, import_model
from tilewright.jit.reference import evaluate

#: network, number of inputs checked, number of operators in the file
NETWORKS = [
    ("resnet8_cifar10", 20, 16),
    ("dscnn_keywords", 60, 13),
    ("mobilenet_person", 8, 31),
    ("autoencoder_toycar", 50, 10),
]


def check_outputs(case: ModelCase, model: ImportedModel, count: int) -> None:
    assert not model.host_ops
    assert all(layer.proven for layer in model.exactness)
    for x, y in zip(case.x[:count], case.y[:count], strict=True):
        given = {model.inputs[0].name: x.reshape(model.inputs[0].shape)}
        out = evaluate(model.graph, given)[model.outputs[0].name]
        np.testing.assert_array_equal(out.reshape(y.shape), y)


@pytest.mark.parametrize("name,count,operators", NETWORKS)
def test_network_is_exact(name: str, count: int, operators: int, model_case: Callable[[str], ModelCase]) -> None:
    case = model_case(name)
    model = import_model(case.model)
    check_outputs(case, model, count)
    assert case.layers is not None
    assert len(case.meta) == operators
    values = evaluate(model.graph, {model.inputs[0].name: case.layers["input"]}, keep=True)
    for entry in case.meta:
        label = f"op{entry['op']:03d}_{entry['name']}"
        wanted = case.layers[f"op{entry['op']:03d}_out"]
        np.testing.assert_array_equal(values[model.sources[label]].reshape(wanted.shape), wanted, err_msg=label)
        scale, zero_point = entry["q"]
        spec = model.graph.tensors[model.sources[label]]
        assert (spec.scale, spec.zero_point) == (scale, zero_point), label


@pytest.mark.slow
def test_mobilenet_v2_is_exact(model_case: Callable[[str], ModelCase]) -> None:
    """uint8 in and out, MEAN, and every operator against the interpreter itself."""
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    case = model_case("mobilenet_v2_imagenet")
    model = import_model(case.model)
    check_outputs(case, model, 8)
    interpreter = litert.Interpreter(
        str(case.model),
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], case.x[:1])
    interpreter.invoke()
    values = evaluate(model.graph, {model.inputs[0].name: case.x[:1]}, keep=True)
    operators = interpreter._get_ops_details()
    for op in operators:
        label = f"op{op['index']:03d}_{op['op_name']}"
        if label not in model.sources:
            assert op["op_name"] in ("DELEGATE",), label
            continue
        wanted = interpreter.get_tensor(op["outputs"][0])
        got = values[model.sources[label]].astype(np.int64)
        moved = 128 if wanted.dtype == np.uint8 and values[model.sources[label]].dtype == np.int8 else 0
        np.testing.assert_array_equal(got.reshape(wanted.shape) + moved, wanted, err_msg=label)
    assert len(model.sources) == 68


def test_graph_is_in_file_order(model_case: Callable[[str], ModelCase]) -> None:
    model = import_model(model_case("resnet8_cifar10").model)
    sources = [op.source for op in model.graph.ops if op.source]
    assert sources == sorted(sources)
    assert sources[3] == "op003 ADD"
