"""What LiteRT's kernels take without looking is refused by name; what they compute soundly runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.litert_models import SOUND, UNSOUND, Net, edited, numbers, tensor
from tilewright.config import PRESETS
from tilewright.runtime import interpreters
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.executable import Executable
from tilewright.runtime.interpreters import InterpreterError, UnsafeModel
from tilewright.runtime.litert.check import unsound
from tilewright.runtime.litert.model import Operand, Operator
from tilewright.runtime.litert.schema import schema
from tilewright.runtime.litert.signatures import SIGNATURES, mismatch
from tilewright.runtime.litert.table import RULES, RUNNING_RULES
from tilewright.runtime.steps import InterpreterStep, TensorSpec


def _ids(nets: list[Net]) -> list[str]:
    return [f"{net.kind}-{k}" for k, net in enumerate(nets)]


@pytest.mark.parametrize("net", SOUND, ids=_ids(SOUND))
@pytest.mark.parametrize("fast", [False, True])
def test_a_sound_operator_runs(net: Net, fast: bool, tmp_path: Path) -> None:
    model = net.save(tmp_path / "m.tflite")
    given = [t for k, t in enumerate(net.inputs) if t.data is None and not t.variable and k not in net.left_out]
    run = interpreters.load("litert", model, net.kind, fast=fast)
    results = run([np.ones(t.shape, t.dtype) for t in given])
    assert [(y.shape, y.dtype) for y in results] == [(t.shape, t.dtype) for t in net.outputs]


@pytest.mark.parametrize(("net", "said"), UNSOUND, ids=_ids([net for net, _ in UNSOUND]))
def test_what_litert_does_not_check_is_refused_by_name(net: Net, said: str, tmp_path: Path) -> None:
    model = net.save(tmp_path / "m.tflite")
    with pytest.raises(UnsafeModel) as refused:
        interpreters.load("litert", model, "m.tflite")
    message = str(refused.value)
    assert message.startswith(f"m.tflite: operator 0 ({net.kind}): "), message
    assert said in message
    assert message.endswith("convert the model again, or leave the operator out")
    assert "\n" not in message


def test_every_rule_is_met_by_a_model() -> None:
    seldom = {"NumericVerify", "TFLite_Detection_PostProcess", "VAR_HANDLE", "LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"}
    seldom |= {"BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "REDUCE_WINDOW"} | {
        kind for kind in RULES if kind.startswith("STABLEHLO")
    }
    assert set(RULES) - seldom <= {net.kind for net, _ in UNSOUND}
    assert set(RUNNING_RULES) <= set(RULES)


# -- signatures: on operators as the check sees them, no file --------------------------------------------


def _operand(index: int, kind: str) -> Operand:
    return Operand(index, f"t{index}", kind, (1,), None, np.zeros(0, np.float32), 0, None, None, 0, b"")


def _operator(kind: str, inputs: list[str], outputs: list[str]) -> Operator:
    made = [[_operand(k, t) if t else None for k, t in enumerate(types)] for types in (inputs, outputs)]
    return Operator(0, kind, tuple(made[0]), tuple(made[1]), (), None, b"")


def _fitting(slots: Any) -> list[str]:
    first = {"T": "int32", "I": "int32", "W": "float32", "D": "int32", "*": "int32"}
    return [first.get(slot.types[0], slot.types[0]) for slot in slots]


@pytest.mark.parametrize("kind", SIGNATURES)
def test_each_operand_of_each_operator_is_looked_at(kind: str) -> None:
    rows = SIGNATURES[kind]
    for inputs, outputs in rows:
        types = _fitting(inputs), _fitting(outputs)
        assert mismatch(_operator(kind, *types)) == ""
        for side, slots in enumerate((inputs, outputs)):
            for k, slot in enumerate(slots):
                changed = [list(part) for part in types]
                changed[side][k] = "variant"
                alone = sum(part.types == slot.types for part in (*inputs, *outputs)) == 1 and slot.types == ("T",)
                refused = mismatch(_operator(kind, *changed)) != ""
                any_type = slot.types == ("*",) or any("*" in s.types for row in rows for part in row for s in part)
                assert refused or any_type or alone, (kind, side, k)
                if not slot.optional and slot.types != ("*",):
                    changed[side][k] = ""
                    assert "left out" in mismatch(_operator(kind, *changed)) or any_type
        if inputs and not inputs[-1].optional and not inputs[-1].repeated and len(rows) == 1:
            assert "needs" in mismatch(_operator(kind, types[0][:-1], types[1]))
            assert "needs" in mismatch(_operator(kind, [*types[0], "int32"], types[1]))


def test_an_operator_without_a_result_is_refused() -> None:
    assert mismatch(_operator("SIGN", ["float32"], [])) == "it has 0 outputs, and needs 1"


# -- tensors ---------------------------------------------------------------------------------------------

_FOLDER = ""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}._FOLDER", str(tmp_path))


def _sparse(order: list[int], sizes: list[int], segments: list[int], indices: list[int]) -> bytes:
    """DENSIFY of 2 x 4 floats, the second dimension compressed."""

    def edit(model: Any, _: Any) -> None:
        s = schema()
        sparsity = s.SparsityParametersT()
        sparsity.traversalOrder, levels = order, [s.DimensionMetadataT() for _ in range(2)]
        levels[0].denseSize = sizes[0]
        levels[1].format = 1
        for name, values in (("Segments", segments), ("Indices", indices)):
            vector = s.Int32VectorT()
            vector.values = values
            setattr(levels[1], f"array{name}Type", s.SparseIndexVector.Int32Vector)
            setattr(levels[1], f"array{name}", vector)
        sparsity.dimMetadata = levels
        model.subgraphs[0].tensors[0].sparsity = sparsity
        model.subgraphs[0].tensors[0].shape = [2, 4]

    return Net("DENSIFY", [tensor([2], data=[5, 7])], [tensor([2, 4])], edit=edit).save(Path(_FOLDER) / "s.tflite")


def test_a_sparse_constant_runs() -> None:
    run = interpreters.load("litert", _sparse([0, 1], [2], [0, 1, 2], [3, 0]), "sparse")
    assert run([])[0].tolist() == [[0, 0, 0, 5], [7, 0, 0, 0]]


@pytest.mark.parametrize(
    ("order", "sizes", "segments", "indices", "said"),
    [
        ([0, 1], [2], [0, 1, 2], [3, 4], "sparse indices outside the tensor"),
        ([0, 1], [2], [0, 9, 2], [3, 0], "sparse indices outside the tensor"),
        ([0, 1], [2], [0, 2], [3, 0], "sparse indices outside the tensor"),
        ([0, 1], [3], [0, 1, 2], [3, 0], "a dense level of 3 elements along an axis of 2"),
        ([0, 5], [2], [0, 1, 2], [3, 0], "sparse levels"),
        ([0, 1], [2], [0, 2, 4], [0, 1, 2, 3], "4 sparse elements, of which 2 are stored"),
    ],
)
def test_sparse_indices_are_looked_at(order: Any, sizes: Any, segments: Any, indices: Any, said: str) -> None:
    assert said in unsound(_sparse(order, sizes, segments, indices))


def test_what_an_operator_reads_is_made_before() -> None:
    def itself(_: Any, op: Any) -> None:
        op.inputs = [2, 1]

    sound = SOUND[0].save(Path(_FOLDER) / "m.tflite")
    assert "operator 0 (ADD): it reads t2 before operator 0 makes it" in unsound(edited(sound, itself))


def test_strings_are_looked_at() -> None:
    def stored(data: bytes) -> bytes:
        def edit(model: Any, _: Any) -> None:
            s = schema()
            model.subgraphs[0].tensors[0].type = s.TensorType.STRING
            model.subgraphs[0].tensors[2].type = s.TensorType.STRING
            model.buffers[1].data = np.frombuffer(data, np.uint8)

        net = Net("GATHER", [numbers(1), numbers(0)], [tensor([1])], "GatherOptions", edit=edit)
        return net.save(Path(_FOLDER) / "s.tflite")

    sound = np.array([1, 12, 15], np.int32).tobytes() + b"abc"
    assert unsound(stored(sound)) == ""
    for place, value in ((0, 2), (0, -1), (4, 11), (8, 16), (8, 11)):
        changed = bytearray(sound)
        changed[place : place + 4] = np.int32(value).tobytes()
        assert "strings that lie outside the constant" in unsound(stored(bytes(changed)))


def test_variables_and_their_handles_are_looked_at() -> None:
    def variable(assigned: list[int], read: list[int], handle: list[int]) -> bytes:
        def edit(model: Any, op: Any) -> None:
            import copy

            s = schema()
            graph = model.subgraphs[0]
            for kind in ("ASSIGN_VARIABLE", "READ_VARIABLE"):
                code = s.OperatorCodeT()
                code.builtinCode, code.version = getattr(s.BuiltinOperator, kind), 1
                code.deprecatedBuiltinCode = 127
                model.operatorCodes.append(code)
            graph.tensors[0].type, graph.tensors[0].shape = s.TensorType.RESOURCE, handle
            x, y = copy.copy(graph.tensors[0]), copy.copy(graph.tensors[0])
            x.type = y.type = s.TensorType.FLOAT32
            x.shape, y.shape = assigned, read
            graph.tensors += [x, y]
            assign, reading = s.OperatorT(), s.OperatorT()
            assign.inputs, assign.outputs, assign.opcodeIndex = [0, 1], [], 1
            reading.inputs, reading.outputs, reading.opcodeIndex = [0], [2], 2
            graph.operators += [assign, reading]
            graph.inputs, graph.outputs = [1], [2]

        return Net("VAR_HANDLE", [], [tensor([])], "VarHandleOptions", edit=edit).save(Path(_FOLDER) / "v.tflite")

    run = interpreters.load("litert", variable([3], [3], []), "variable")
    assert run([np.ones(3, np.float32)])[0].tolist() == [1, 1, 1]
    with pytest.raises(UnsafeModel, match=r"output 0 has the shape \[9\], and \[3\] is assigned"):
        interpreters.load("litert", variable([3], [9], []), "variable")

    def wide(model: Any, _: Any) -> None:
        model.subgraphs[0].tensors[0].type = schema().TensorType.RESOURCE

    net = Net("VAR_HANDLE", [], [tensor([9])], "VarHandleOptions", edit=wide)
    with pytest.raises(UnsafeModel, match=r"operator 0 \(VAR_HANDLE\): output 0 has the shape \[9\]"):
        interpreters.load("litert", net.save(Path(_FOLDER) / "h.tflite"), "variable")


def test_the_state_of_an_integer_svdf_is_wide_where_it_runs() -> None:
    def quantised(state: str, time: str = "int16") -> bytes:
        net = Net(
            "SVDF",
            [tensor([1, 3], "int8", 1.0), tensor([2, 3], "int8", 1.0, np.ones((2, 3))),
             tensor([2, 4], time, 1.0, np.ones((2, 4))), tensor([2], "int32", 1.0, [0, 0]),
             tensor([1, 8], state, 1.0, variable=True)],
            [tensor([1, 2], "int8", 1.0)], "SVDFOptions", {"rank": 1, "fusedActivationFunction": 1},
        )  # fmt: skip
        return net.save(Path(_FOLDER) / "svdf.tflite")

    assert interpreters.load("litert", quantised("int16"), "svdf")([np.ones((1, 3), np.int8)])[0].shape == (1, 2)
    assert unsound(quantised("int8"), running=False) == ""  # the compiler widens it in the parts that it cuts out
    assert unsound(quantised("int8", "int8"), running=False) == ""
    for time in ("int16", "int8"):
        assert "input 4 is int8; LiteRT's kernel takes int16 there" in unsound(quantised("int8", time))
    for running in (False, True):  # neither LiteRT's kernel nor that of TensorFlow Lite Micro
        assert "int16" in unsound(quantised("int16", "int8"), running=running)


def test_bytes_that_are_no_model_are_refused_in_words() -> None:
    sound = SOUND[0].save(Path(_FOLDER) / "m.tflite")
    for content in (b"", b"TFL3", sound[: len(sound) // 2]):
        with pytest.raises(InterpreterError, match="no sound .tflite model"):
            interpreters.load("litert", content, "x")
    far = edited(sound, lambda model, op: setattr(op, "inputs", [0, 99]))
    assert "no sound .tflite model: IndexError" in unsound(far)


def test_shapes_that_only_litert_knows_are_looked_at_before_it_runs() -> None:
    """The file says that nine dimensions are two."""

    def edit(model: Any, _: Any) -> None:
        import copy

        s = schema()
        graph = model.subgraphs[0]
        code = s.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = s.BuiltinOperator.MAXIMUM
        code.version = 1
        model.operatorCodes.append(code)
        most = s.OperatorT()
        most.inputs, most.outputs, most.opcodeIndex = [2, 3], [4], 1
        graph.tensors += [copy.copy(graph.tensors[0]), copy.copy(graph.tensors[2])]
        graph.tensors[3].shape = [1] * 8 + [4]
        graph.operators.append(most)
        graph.inputs, graph.outputs = [0, 3], [4]

    net = Net("RESHAPE", [tensor([4]), numbers(*[1] * 8, 4)], [tensor([2, 2])], "ReshapeOptions", edit=edit)
    model = net.save(Path(_FOLDER) / "m.tflite")
    assert unsound(model) == ""
    with pytest.raises(UnsafeModel, match=r"operator 1 \(MAXIMUM\): inputs of 9 dimensions"):
        interpreters.load("litert", model, "m")


def test_a_sound_model_is_looked_at_once_and_a_wrong_one_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net("FAKE_QUANT", [tensor([4])], [tensor([4])], "FakeQuantOptions", {"max": 7.0, "numBits": 8})
    sound, wrong = (n.save(Path(_FOLDER) / "m.tflite") for n in (net, net.change(in0=tensor([4], "int8", 1.0))))
    looks: list[bytes] = []

    def look(model: bytes, prepared: Any = None, *, running: bool = True) -> str:
        looks.append(model)
        return unsound(model, prepared, running=running)

    monkeypatch.setattr(interpreters, "unsound", look)
    for _ in range(3):
        interpreters.load("litert", sound, "m")
        with pytest.raises(UnsafeModel):
            interpreters.load("litert", wrong, "m")
    assert looks.count(sound) == 2  # before and after LiteRT has prepared it
    assert looks.count(wrong) == 3


# -- artifacts -------------------------------------------------------------------------------------------


def _artifact(model: bytes) -> Artifact:
    step = InterpreterStep(("x",), ("y",), "part", "litert", ("op000_FAKE_QUANT",))
    x, y = (TensorSpec(name, (4,), "float32") for name in "xy")
    return Artifact("net", PRESETS["tiny"], (), (step,), (x,), (y,), blobs={"part": model})


def test_a_part_in_an_artifact_is_looked_at_before_anything_runs() -> None:
    net = Net("FAKE_QUANT", [tensor([4])], [tensor([4])], "FakeQuantOptions", {"max": 1.0, "numBits": 8})
    sound, wrong = (n.save(Path(_FOLDER) / "m.tflite") for n in (net, net.change(in0=tensor([4], "int8", 1.0))))
    again = Artifact.from_bytes(_artifact(sound).to_bytes())
    assert Executable(again).run(np.ones((1, 4), np.float32))[0].tolist() == [[1.0] * 4]
    with pytest.raises(UnsafeModel, match=r"net: op000_FAKE_QUANT: operator 0 \(FAKE_QUANT\): input 0 \(t0\) is int8"):
        Executable(Artifact.from_bytes(_artifact(wrong).to_bytes()))


def test_a_state_that_is_computed_is_one_of_a_recurrent_operator() -> None:
    """LiteRT ended the process at another one, in a batch, which had no memory."""

    def state(model: Any, op: Any) -> None:
        model.subgraphs[0].tensors[op.outputs[0]].isVariable = True

    called = edited(SOUND[0].save(Path(_FOLDER) / "m.tflite"), state)
    assert "operator 0 (ADD): it makes t2, which the file calls a state" in unsound(called)
    assert unsound(called, running=False) == ""  # parts that the compiler cuts out do not call it one
