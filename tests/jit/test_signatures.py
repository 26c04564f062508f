"""Files of several networks: the first is compiled, and a note names the others."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np

import tilewright as tw
from tests.fuzz.flatbuffer import StoredOperator, StoredTensor, write_tflite
from tests.jit.source.onnx_nets import F
from tilewright.checking import reference_outputs
from tilewright.runtime.litert.schema import read_model, schema, written


def test_other_signatures_are_named(tmp_path: Path) -> None:
    numbers = (np.array([0.05], F), np.array([-3], np.int64))
    tensors = [StoredTensor(name, (1, 6, 6, 4), "int8", *numbers) for name in ("x", "y")]
    path = write_tflite(tmp_path / "net.tflite", tensors, [StoredOperator("RELU", [0], [1])], [0], [1])
    x = np.random.default_rng(0).integers(-128, 128, (3, 6, 6, 4)).astype(np.int8)
    _, report = tw.compile(path, "tiny", cache=False).run(x)
    assert not any("signatures" in note for note in report.notes)
    model = read_model(path.read_bytes())
    model.subgraphs.append(copy.deepcopy(model.subgraphs[0]))
    model.signatureDefs = []
    for index, name in enumerate(("encode", "decode")):
        signature, entry = schema().SignatureDefT(), schema().TensorMapT()
        signature.signatureKey, signature.subgraphIndex = name, index
        entry.name, entry.tensorIndex = "x", 0
        signature.inputs, signature.outputs = [entry], []
        model.signatureDefs.append(signature)
    path.write_bytes(written(model))
    exe = tw.compile(path, "tiny", cache=False)
    y, report = exe.run(x)
    np.testing.assert_array_equal(y, reference_outputs(path, [x])[0])
    assert "the file's first network alone was compiled, not its signatures decode" in report.notes
    exe.save(tmp_path / "net.twa")
    assert "signatures decode" in " ".join(tw.load(tmp_path / "net.twa").run(x)[1].notes)
