"""What was dropped is told, layer by layer, and the gain on a real network."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console

import tilewright as tw
from tests.conftest import ModelCase
from tests.fuzz import TfliteNet
from tests.jit.builder import GraphBuilder
from tilewright.cli.compile import print_artifact
from tilewright.config import PRESETS
from tilewright.jit import graph as g
from tilewright.jit.relax.region import compile_region
from tilewright.runtime.artifact import Artifact, accelerator_layers, dropped_macs, placed_macs


def shown(artifact: Artifact) -> str:
    text = io.StringIO()
    print_artifact(artifact, Console(file=text, width=200), False)
    return text.getvalue()


def test_inspect_names_what_was_dropped() -> None:
    """Of a region, the other door: there is one way to programs."""
    b = GraphBuilder(3, (4, 4, 5))
    a = b.conv("x", 20)
    graph = b.graph(b.conv(a, 4))
    assert "dropped" not in shown(compile_region(graph, PRESETS["tiny"]))
    second = b.ops[1]
    assert isinstance(second, g.Conv2D)
    second.weight = second.weight.copy()
    second.weight[..., [3, 5, 8]] = 0
    artifact = compile_region(graph, PRESETS["tiny"])
    assert [layer["name"] for layer in accelerator_layers(artifact)] == [op.name for op in b.ops]
    saved = 16 * 9 * 3 * (5 + 4)
    assert dropped_macs(artifact) == saved
    text = shown(artifact)
    assert "channels dropped" in text
    assert "3 unread" in text
    assert f"{saved:,} MACs left out" in text


def test_mobilenet_person_takes_40_thousand_cycles(model_case: Callable[[str], ModelCase]) -> None:
    """62,664 with all channels; 83 % of its weights are zero."""
    case = model_case("mobilenet_person")
    executable = tw.compile(case.model, "pynq-z2", cache=False)
    y, report = executable.run(case.x.reshape(len(case.x), *executable.inputs[0].shape[1:]))
    np.testing.assert_array_equal(np.asarray(y).reshape(case.y.shape), case.y)
    assert report.cycles <= 40_000
    assert report.lower_bound_cycles <= 38_252
    artifact = executable.artifact
    assert placed_macs(artifact) == (7_489_664, 7_489_664)
    assert (report.macs, dropped_macs(artifact)) == (3_727_313, 3_762_351)
    assert any(note.startswith("3,762,351 MACs are left out") for note in report.notes)
    assert "MACs left out" in shown(artifact)
    for layer in report.layers:
        assert set(layer.get("channels_dropped", {})) <= {"unread", "constant", "duplicate"}


def test_a_layer_that_nobody_reads_is_in_no_share(tmp_path: Path) -> None:
    """Exporters leave the last residual of a WaveNet behind, say: it is run nowhere, neither here nor on the CPU."""
    net = TfliteNet(seed=8)
    x = net.input((1, 4, 4, 8))
    kept, _ = net.conv(x, 16, 3), net.conv(x, 8, 1)
    artifact = tw.compile(net.save(tmp_path / "dead.tflite", [kept]), "tiny", cache=False).artifact
    assert [entry["place"] for entry in artifact.options["operators"]] == ["accelerator", "none"]
    assert placed_macs(artifact) == (net.macs - 16 * 8 * 8,) * 2
    assert "100.0% of" in shown(artifact)
