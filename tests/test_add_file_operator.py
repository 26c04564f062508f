"""Operators of model files that existing graph operators compute, added on a copy of the repository: a row each.

BitwiseNot of ONNX is a function of single elements, GATHER_ND of TFLite moves elements. Both run on their interpreter
as long as the table of operators has no such row.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from tests.conftest import REPOSITORY
from tests.jit.source.onnx_nets import NetBuilder
from tests.jit.source.test_tflite_source import conv
from tests.jit.tflite_models import TfliteBuilder
from tests.test_add_alu_function import NOT_COPIED, run

TABLE = "jit/source/operators.py"
_ABS = '    _function("ABS", "Abs", "abs"),\n'
ROWS = (
    (_ABS, f'{_ABS}    _function("", "BitwiseNot"),\n'),
    (
        '    _op("gather", "GATHER_ND", "GatherND"),\n',
        '    _op("move", "GATHER_ND(x indices)", rule="moves:take", says="by constant indices"),\n'
        '    _op("gather", "", "GatherND"),\n',
    ),
)
COMPILED = """
import json, sys
import tilewright as tw
from tilewright.checking import reference_outputs
from tilewright.runtime.random_inputs import random_inputs

for path in sys.argv[1:]:
    exe = tw.compile(path, "tiny")
    x = random_inputs(exe.inputs, 0, 4)
    y, _ = exe.run(x)
    wanted, = reference_outputs(path, x)
    places = {o["op"]: o["place"] for o in exe.artifact.options["operators"]}
    print(json.dumps([places, int((y != wanted).sum()), y.size]))
"""


def bitwise(path: Path) -> Path:
    b = NetBuilder(3, "int8", opset=18)
    x = b.input((1, 4, 6, 6), "int8")
    b.output(b.dequantise(b.op("BitwiseNot", [x]), 0.02, np.int8(3)), (1, 4, 6, 6))
    return b.save(path)


def gathered(path: Path) -> Path:
    b = TfliteBuilder(seed=3)
    x = b.tensor([1, 6, 8, 4], 0.04, -3)
    y = conv(b, x, 8, [1, 6, 8])
    rows = b.constant(np.array([[0, 4], [0, 1], [0, 1]], np.int32))
    like = b.tensors[y]
    z = b.tensor([3, 8, 8], like["scale"], like["zero_point"])
    return b.save(path, [x], [b.op("GATHER_ND", [y, rows], z, "GatherNdOptions")])


def compiled(root: Path, models: list[Path]) -> list[Any]:
    """Of each model where its operators run, how many elements of its results differ from its interpreter's, and how
    many there are."""
    script = root.parent / "compiled.py"
    script.write_text(COMPILED)
    return [json.loads(line) for line in run(root, f"python {script} {' '.join(map(str, models))}").splitlines()[-2:]]


def test_an_operator_is_a_row_and_a_page_that_follows_from_it(tmp_path: Path) -> None:
    copy = tmp_path / "tilewright"
    shutil.copytree(REPOSITORY, copy, symlinks=True, ignore=NOT_COPIED)
    models = [bitwise(tmp_path / "m.onnx"), gathered(tmp_path / "m.tflite")]

    def places() -> list[str]:
        found = compiled(copy, models)
        assert all(differing == 0 and elements > 100 for _, differing, elements in found)
        return [found[0][0]["BitwiseNot"], found[1][0]["GATHER_ND"]]

    assert places() == ["interpreter", "interpreter"]
    content = (copy / TABLE).read_text()
    for row, rows in ROWS:
        assert content.count(row) == 1
        content = content.replace(row, rows)
    (copy / TABLE).write_text(content)
    run(copy, "python -m tilewright.jit.source.operators_page")
    assert places() == ["accelerator", "accelerator"]
    texts = {path.resolve().relative_to(copy) for kind in ("*.py", "*.md") for path in copy.rglob(kind)}
    changed = {str(path) for path in texts if (copy / path).read_bytes() != (REPOSITORY / path).read_bytes()}
    assert changed == {TABLE, "docs/operators.md"}
    assert re.search(
        r"^[|] GATHER_ND [|] .* [|] by constant indices [|]$", (copy / "docs/operators.md").read_text(), re.M
    )
    assert " passed" in run(copy, "python -m pytest -q tests/jit/source/test_operators.py")
