"""``.pt2`` files of strangers: what PyTorch's loader would execute does not reach it. Needs no PyTorch."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.jit.source import torch_archive
from tilewright.jit.source.torch_archive import ArchiveError, plain_archive

SPEC = '[1, {"type": "builtins.tuple", "context": "null", "children_spec": []}]'
SYMBOL = "Symbol('s77', positive=True, integer=True)"


def files() -> dict[str, Any]:
    """What ``torch.export.save`` writes of a program of one convolution, in its main parts."""
    meta = {"dtype": 7, "sizes": [{"as_int": 4}, {"as_int": 3}], "storage_offset": {"as_int": 0}}
    payload = {"path_name": "weight_0", "is_param": True, "use_pickle": False, "tensor_meta": meta}
    node = {
        "target": "torch.ops.aten.conv2d.default",
        "inputs": [{"name": "input", "arg": {"as_tensor": {"name": "x"}}}],
        "metadata": {"nn_module_stack": "L__self__,,torch.nn.modules.conv.Conv2d"},
    }
    size = {"as_expr": {"expr_str": f"Add(Mul(Integer(-2), {SYMBOL}), Integer(1))", "hint": None}}
    graph = {"nodes": [node], "tensor_values": {"x": {"sizes": [size]}}, "custom_obj_values": {}}
    calls = [{"fqn": "", "signature": {"in_spec": SPEC, "out_spec": SPEC}}]
    model = {"graph_module": {"graph": graph, "module_call_graph": calls}, "guards_code": ["print('guarded')"]}
    return {
        "models/model.json": model,
        "data/weights/model_weights_config.json": {"config": {"w": payload, "same": payload}},
        "data/weights/weight_0": bytes(48),
        "data/constants/model_constants_config.json": {"config": {}},
        "data/sample_inputs/model.pt": pickle.dumps("inputs"),
        "extra/notes.txt": b"notes",
        "archive_format": b"pt2",
        "archive_version": b"0",
        ".data/version": b"6\n",
    }


def written(path: Path, held: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in held.items():
            archive.writestr(f"net/{name}", content if isinstance(content, bytes) else json.dumps(content))
    return path


def node(held: dict[str, Any]) -> Any:
    return held["models/model.json"]["graph_module"]["graph"]["nodes"][0]


def payload(held: dict[str, Any]) -> Any:
    return held["data/weights/model_weights_config.json"]["config"]["w"]


def test_what_is_data_is_taken_over(tmp_path: Path) -> None:
    """Weights and graph as they are; no example inputs to unpickle, no guards to evaluate, nothing else."""
    held = files()
    with zipfile.ZipFile(plain_archive(written(tmp_path / "net.pt2", held))) as archive:
        made = {name.removeprefix("archive/"): archive.read(name) for name in archive.namelist()}
    assert made.pop("data/sample_inputs/model.pt") == b""
    assert json.loads(made.pop("models/model.json")) == held["models/model.json"] | {"guards_code": []}
    for name, content in made.items():
        assert content == held[name] if isinstance(held[name], bytes) else json.loads(content) == held[name]
    assert set(made) == set(held) - {"data/sample_inputs/model.pt", "models/model.json", "extra/notes.txt"}


@pytest.mark.parametrize(
    "name",
    [
        "torch.os.system", "torch.ops.aten.save.default", "torch.ops.aten.from_file.default", "torch.ops.load_library",
        "torch.ops.higher_order.triton_kernel_wrapper_mutation", "_operator.methodcaller", "_operator.call", "os.sys",
        "#namespace:name", "torch.load", "math.sqrt.x", "torch.ops.aten.__class__.mro", "torch.ops.aten.add.out.name",
        "torch.ops.aten.add\n.default",
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["target", "as_operator", "in a branch"])
def test_functions_beyond_operators(name: str, place: str, tmp_path: Path) -> None:
    """As what a node calls, what it is given, and in the graph of a branch that it is given."""
    held = files()
    if place == "target":
        node(held)["target"] = name
    elif place == "as_operator":
        node(held)["inputs"].append({"name": "f", "arg": {"as_operator": name}})
    else:
        node(held)["inputs"].append({"arg": {"as_graph": {"graph": {"nodes": [{"target": name}]}}}})
    with pytest.raises(ArchiveError, match="calls '.*, which is no operator of PyTorch's own"):
        plain_archive(written(tmp_path / "net.pt2", held))


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "Integer('__import__(1)')", "().__class__", "lambdify(1, 2)",
        "s77 if s0 else s1", "Pow(Integer(9), Integer(9))", "Add(*s0)", "9**9", "(" * 500, "Add(" + "1," * 2000 + ")",
        "Symbol.x()", "Pow(s0, s1, evaluate=False)", "eval('s0')",
    ],
)  # fmt: skip
def test_expressions_beyond_sizes(text: str, tmp_path: Path) -> None:
    held = files()
    size = held["models/model.json"]["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0]
    size["as_expr"]["expr_str"] = text
    with pytest.raises(ArchiveError, match="which is no expression of sizes"):
        plain_archive(written(tmp_path / "net.pt2", held))


def test_squares_of_sizes(tmp_path: Path) -> None:
    held = files()
    size = held["models/model.json"]["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0]
    size["as_expr"]["expr_str"] = f"FloorDiv(Pow({SYMBOL}, Integer(2)), s0)"
    plain_archive(written(tmp_path / "net.pt2", held))


def _defaultdict(held: dict[str, Any]) -> None:
    spec = [1, {"type": "collections.defaultdict", "context": {"default_factory_module": "evil"}, "children_spec": []}]
    held["models/model.json"]["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = json.dumps(spec)


def _enumeration(held: dict[str, Any]) -> None:
    inner = {
        "type": "builtins.dict",
        "context": '[{"__enum__": true, "fqn": "evil:E", "name": "A"}]',
        "children_spec": [],
    }
    spec = [1, {"type": "builtins.tuple", "context": "null", "children_spec": [inner]}]
    held["models/model.json"]["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = json.dumps(spec)


def _pickled(held: dict[str, Any]) -> None:
    payload(held)["use_pickle"] = True


def _opaque(held: dict[str, Any]) -> None:
    payload(held)["path_name"] = "opaque_obj_0"


def _outside(held: dict[str, Any]) -> None:
    payload(held)["path_name"] = "../../weight_0"


def _object(held: dict[str, Any]) -> None:
    node(held)["inputs"].append({"arg": {"as_custom_obj": {"name": "o", "class_fqn": "evil.Class"}}})


def _library(held: dict[str, Any]) -> None:
    held["data/aotinductor/model/net.so"] = b"\x7fELF"


def _endless(held: dict[str, Any]) -> None:
    payload(held)["tensor_meta"]["sizes"] = [{"as_int": 1 << 40}, {"as_int": 1 << 20}]


def _negative(held: dict[str, Any]) -> None:
    payload(held)["tensor_meta"]["sizes"] = [{"as_int": -1}]


def _version(held: dict[str, Any]) -> None:
    held["archive_version"] = b"zero"


def _no_graph(held: dict[str, Any]) -> None:
    del held["models/model.json"]


def _no_program(held: dict[str, Any]) -> None:
    held["models/model.json"] = [1]


@pytest.mark.parametrize(
    "change,said",
    [
        (_defaultdict, "takes or gives a collections.defaultdict; only tuples"),
        (_enumeration, "takes or gives a builtins.dict; only"),
        (_pickled, "w: holds objects of classes of its own"),
        (_opaque, "w: holds objects of classes"),
        (_outside, "w: holds objects of classes"),
        (_object, "holds objects of classes"),
        (_library, "holds libraries that AOTInductor compiled"),
        (_endless, "w: with it, tensors of .* elements, more than half of this machine's memory"),
        (_negative, "w: a tensor of .* elements, which are no numbers"),
        (_version, "has b'zero' as its archive_version"),
        (_no_graph, "has no models/model.json in it"),
        (_no_program, "has no graph in models/model.json"),
    ],
)
def test_more_than_data(change: Callable[[dict[str, Any]], None], said: str, tmp_path: Path) -> None:
    held = files()
    change(held)
    with pytest.raises(ArchiveError, match=said):
        plain_archive(written(tmp_path / "net.pt2", held))


def test_programs_of_old(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "net.pt2", "w") as archive:
        archive.writestr("serialized_exported_program.json", "{}")
    with pytest.raises(ArchiveError, match="as PyTorch before 2.8 wrote it; save it again"):
        plain_archive(tmp_path / "net.pt2")


def test_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "net.pt2", files())
    monkeypatch.setattr(torch_archive, "most_bytes", lambda: 1000)
    with pytest.raises(ArchiveError, match="unpacks to more than half of this machine's memory"):
        plain_archive(path)
