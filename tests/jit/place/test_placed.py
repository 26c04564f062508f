"""Placements of real files: with made-up times of the CPU, where the answer is plain, and with measured ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.networks import build
from tests.conftest import REPOSITORY
from tilewright.cli.app import main
from tilewright.config import PRESETS
from tilewright.jit.compiler import compile_graph
from tilewright.jit.cost.forms import Forms
from tilewright.jit.graph import Graph, Interpreted
from tilewright.jit.place.costs import example, file_times
from tilewright.jit.place.energy import Power
from tilewright.jit.place.execute import compile_placed
from tilewright.jit.place.host_times import HostTimes
from tilewright.jit.place.placed import Placed, place_source
from tilewright.jit.place.problem import PlacementError, members
from tilewright.jit.recurrent.ops import Lstm
from tilewright.jit.source import open_source
from tilewright.runtime.records import OBJECTIVES, Objective
from tilewright.runtime.steps import InterpreterStep, TensorSpec

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
CONFIG = PRESETS["pynq-z2"]


class Fixed(HostTimes):
    """A machine on which operators of the file take ``file`` nanoseconds, and everything else 10."""

    def __init__(self, file: int) -> None:
        super().__init__(Path("/nonexistent/times.json"))
        self.file = file

    def of(self, key: str, prepare: Callable[[], Callable[[], object]]) -> int:
        return self.file if key.startswith("onnxruntime") else 10


def place(file: int, objective: Objective, cores: int = 1) -> Placed:
    power = Power(1.0) if objective == "energy" else None
    return place_source(open_source(DIGITS), CONFIG.replace(cores=cores), objective, Fixed(file), power=power)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_cpu_that_takes_no_time_gets_everything(objective: Objective) -> None:
    placed = place(0, objective)
    assert [part.replicas for part in placed.best.parts] == [0]
    assert placed.best.cost < 100 < placed.greedy.cost


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("cores", [1, 4])
def test_a_slow_cpu_gets_what_it_must(objective: Objective, cores: int) -> None:
    placed = place(10**9, objective, cores)
    assert placed.best == placed.greedy
    (mask,) = (part.operators for part in placed.best.parts if part.replicas)
    names = {placed.costs.graph.ops[k].name for k in members(mask)}
    assert names == {name for name, where in placed.costs.places.items() if where == "accelerator"}
    assert placed.second is not None
    assert placed.second.cost >= placed.best.cost
    whole = placed.costs.core(mask)
    part = placed.costs.part(mask)
    assert whole is not None
    assert part is not None
    assert whole == Forms(part).estimate(CONFIG).cycles + sum(placed.costs.moved(part))
    (program,) = compile_graph(part, CONFIG).programs
    assert program.meta["layers"]
    if objective == "throughput":
        computed = (whole - sum(placed.costs.moved(part))) / cores
        assert placed.best.cost == pytest.approx(max(computed, placed.costs.cpu_time(placed.best.parts[0])), abs=3)


def test_measured_times_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    first = place_source(open_source(DIGITS), CONFIG, "latency")
    (file,) = (tmp_path / "host-times").iterdir()
    kept = file.read_text()
    again = place_source(open_source(DIGITS), CONFIG, "latency")
    assert (again.best, again.second, again.greedy) == (first.best, first.second, first.greedy)
    assert file.read_text() == kept
    assert first.best.cost <= first.greedy.cost
    file.write_text("{damaged")
    assert place_source(open_source(DIGITS), CONFIG, "latency").best.parts


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float32"])
def test_bytes_to_time_operators_on_are_not_all_equal(dtype: str) -> None:
    """LiteRT's softmax of 1,001 equal int8 ends the process."""
    values = example(TensorSpec("x", (1, 1001), dtype))
    assert values.shape == (1, 1001)
    assert values.dtype == dtype
    assert (len(set(values.ravel().tolist())) > 100) == dtype.endswith("int8")


def test_inspect_prints_costs_and_cuts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(DIGITS), "--placement", "--objective", "throughput"]) == 0
    text = capsys.readouterr().out
    for title in ("best", "next best", "greedy", "pipeline"):
        assert re.search(rf"^ +{title}  [\d,]+", text, re.MULTILINE) or f"{title}  there is none" in text
    assert "on 1 core of pynq-z2 and this CPU" in text
    assert main(["inspect", str(DIGITS), "--placement", "--objective", "speed"]) == 2
    assert "--objective speed: must be one of latency, throughput, energy" in capsys.readouterr().err


def number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_the_parts_that_inspect_prints_make_the_cost_of_the_whole(
    objective: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "two.toml"
    config.write_text("cores = 2\n")
    line = ["inspect", str(DIGITS), "--placement", "--objective", objective, "--config", str(config)]
    assert main(line) == 0
    text = capsys.readouterr().out
    found = re.findall(r"^ +([a-z ]+?)  ([\d,]+)(?:, .*)?\n((?: {12}.*\n)+)", text, re.MULTILINE)
    assert len(found) >= 3
    for title, whole, lines in found:
        if objective == "throughput":
            core, cpu = map(number, re.findall(r"(?:together|cores|CPU), ([\d,]+)", lines.splitlines()[-1]))
            assert max(core, cpu) == number(whole), title
        else:
            parts = [line for line in lines.splitlines() if "the host carries" not in line]
            assert sum(number(part.rpartition(", ")[2]) for part in parts) == number(whole), title


def test_inspect_shows_what_is_linked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On several cores compile makes parts that follow one another one launch, with doorbells instead of the host."""
    config = tmp_path / "two.toml"
    config.write_text("cores = 2\n")
    assert main(["inspect", str(DIGITS), "--placement", "--config", str(config)]) == 0
    text = capsys.readouterr().out
    assert "in which cores exchange through memory that they share" in text
    assert len(re.findall("exchange  |barriers  ", text)) == 1
    assert main(["inspect", str(DIGITS), "--placement", "--objective", "throughput", "--config", str(config)]) == 0
    assert "exchange" not in capsys.readouterr().out


def test_an_lstm_is_where_it_is_fastest(tmp_path: Path) -> None:
    """With a program of its own on a core, or in LiteRT with the state that it keeps there."""
    path = tmp_path / "lstm.tflite"
    build(path, "lstm", "small")
    source = open_source(path)
    placed = place_source(source, CONFIG, "latency", Fixed(10))
    lstms = [k for k, op in enumerate(placed.costs.graph.ops) if isinstance(op, Lstm)]
    assert lstms
    cost = placed.costs
    assert all((alone := cost.core(1 << k)) is not None and alone > (cost.cpu(cost.graph.ops[k]) or 0) for k in lstms)
    greedy, best = (compile_placed(source, placed, s).compiled for s in (placed.greedy, placed.best))
    stateful = [sum(isinstance(step, InterpreterStep) and step.stateful for step in c.steps) for c in (greedy, best)]
    assert stateful[0] == 0 < stateful[1]


def test_a_state_that_operators_share_is_refused() -> None:
    op = partial(Interpreted, inputs=[], output="", results=(), reason="r", state=("v",))
    graph = Graph("shared", [], [], {}, [op(name="write", covers=(0,)), op(name="read", covers=(1,))])

    class Made:
        operators = ()

        def build(self, host: object) -> object:
            return SimpleNamespace(graph=graph)

    with pytest.raises(PlacementError, match="write: shares a state with others"):
        file_times(cast(Any, Made()), Fixed(10))
