"""Points: objectives by weights, clocks and boards; what cannot be is named; all of it picklable."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.dse.networks import residual_network, small_network
from tests.fuzz import TfliteNet
from tests.jit.onnx_models import QdqBuilder
from tests.jit.substitute.drawn import side_by_side
from tests.jit.test_large_networks import SMALL, inverted_residuals
from tests.test_compiling import mixed_model
from tilewright.config import PRESETS, Config
from tilewright.dse import clock, synthesis
from tilewright.dse.built import built
from tilewright.dse.evaluate import OBJECTIVES, Evaluator, ObjectiveError, cost
from tilewright.dse.networks import Network, NetworkError, load_networks, parse_weight, split_weight
from tilewright.dse.options import CompilerOptions
from tilewright.dse.space import make_space
from tilewright.jit.cost.estimate import estimate
from tilewright.jit.errors import PlaceError

ALL = tuple(OBJECTIVES)


def test_objectives_are_what_their_names_say() -> None:
    networks = [Network.of(residual_network(), "large"), small_network(weight=3.0)]
    evaluator, space = Evaluator(networks, "pynq-z2", ALL), make_space(Config(), {"block_in": 16})
    found = evaluator(space, {})
    assert found.reason is None
    assert set(found.values) == set(OBJECTIVES)
    cycles = found.cycles["large"] + 3 * found.cycles["small"]
    used = built(Config(), "pynq-z2")
    assert found.values["latency"] == pytest.approx(cycles / Config().clock_mhz, abs=1e-3)
    assert found.values["throughput"] == pytest.approx(4e6 * Config().clock_mhz / cycles, rel=1e-5)
    assert found.values["dsp"] == used.dsp
    assert found.values["lut"] == used.lut
    shares = (used.dsp / 220, used.bram36 / 140, used.lut / 53200, used.ff / 106400)
    assert found.values["area"] == pytest.approx(100 * max(shares), abs=0.01)
    layers = evaluator.layers(Config())
    spent = evaluator.spent(Config(), layers)
    assert found.values["energy"] == pytest.approx(spent["large"].total + 3 * spent["small"].total, rel=1e-4)


def test_a_network_that_fits_in_slices_alone_is_feasible() -> None:
    """The compiler cuts wide tensors by channels where the network does not stream whole."""
    network, config = Network.of(inverted_residuals(wide=96), "wide"), SMALL
    with pytest.raises(PlaceError, match="raise act_bytes"):
        estimate(network.tables(config), config)
    evaluator = Evaluator([network], None, ("latency", "energy"))
    estimated, confirmed = evaluator(make_space(config, {"block_in": 4}), {}), evaluator.confirm(config)
    assert estimated.reason is None
    for name in ("latency", "energy"):
        assert estimated.values[name] == pytest.approx(confirmed.values[name], rel=0.25)
    assert network.forms.sliced(Config()) is None


def test_the_simulator_gives_the_same_objectives_from_the_compiled_network() -> None:
    evaluator = Evaluator([small_network()], "pynq-z2", ("latency", "energy", "dsp"))
    estimated, confirmed = evaluator(make_space(Config(), {"block_in": 16}), {}), evaluator.confirm(Config())
    assert confirmed.values["latency"] == pytest.approx(confirmed.cycles["small"] / Config().clock_mhz, abs=1e-3)
    for name in ("latency", "energy"):
        assert estimated.values[name] == pytest.approx(confirmed.values[name], rel=0.25)
    assert estimated.values["dsp"] == confirmed.values["dsp"]


def test_keeping_intermediates_costs_bus_time_in_both_fidelities() -> None:
    evaluator = Evaluator([Network.of(residual_network())], None, ("latency",))
    narrow = Config().replace(axi_bits=32)
    kept, usual = CompilerOptions("wide-4", keep_intermediates=True), CompilerOptions("wide-4")
    assert evaluator.layers(narrow, kept)["random"].busy["STORE"] > evaluator.layers(narrow)["random"].busy["STORE"]
    assert evaluator.confirm(narrow, kept).values["latency"] > evaluator.confirm(narrow, usual).values["latency"]


def test_one_schedule_is_never_faster_than_the_fastest_of_all() -> None:
    evaluator = Evaluator([small_network()], None, ("latency",))
    fastest = evaluator.confirm(PRESETS["tiny"]).values["latency"]
    assert fastest <= evaluator.confirm(PRESETS["tiny"], CompilerOptions("deep-8")).values["latency"]
    network = Network.of(residual_network(), "large")
    space = make_space(PRESETS["tiny"], {"compiler.schedule": "all"})
    found = {p["compiler.schedule"]: Evaluator([network], None, ("latency",))(space, p).values for p in space.points()}
    assert len({values["latency"] for values in found.values()}) > 1
    assert found["fastest"]["latency"] == min(
        found[name]["latency"] for name in ("fastest", "wide-2", "wide-8", "deep-8")
    )


def test_the_clock_model_sets_the_clock_of_a_point() -> None:
    space = make_space(PRESETS["pynq-z2"], {"block_in": [16, 64]})
    networks = [small_network()]
    for point in space.points():
        by_model = Evaluator(networks, "pynq-z2", ("latency",), "model").config(space, point)
        assert by_model.clock_mhz == int(clock.estimate(space.config(point), "pynq-z2").mhz)
        assert Evaluator(networks, "pynq-z2", ("latency",)).config(space, point).clock_mhz == space.base.clock_mhz


@pytest.mark.parametrize(
    "changes,reason",
    [
        ({"weight_bits": 4}, "small: op000 conv: its weights need 8 bits, wgt holds 4; raise weight_bits"),
        ({"acc_bytes": 1024, "acc_banks": 16}, "pynq-z2: 225 36 Kbit block RAMs are needed, there are 140; acc alone"),
        ({"block_in": 64, "block_out": 64}, "pynq-z2: 2306 DSP slices are needed, there are 220"),
        ({"axi_bits": 512}, "axi_bits = 512: must be at most 128"),
    ],
)
def test_points_that_cannot_be_say_why(changes: dict[str, int], reason: str) -> None:
    base = Config()
    space = make_space(base, {name: [value, getattr(base, name)] for name, value in changes.items()})
    found = Evaluator([small_network()], "pynq-z2", ("latency",))(space, changes)
    assert found.reason is not None
    assert reason in found.reason


def test_a_bus_that_the_board_has_not_is_a_reason() -> None:
    evaluator, space = (
        Evaluator([small_network()], "pynq-z2", ("latency",)),
        make_space(Config(), {"axi_bits": [64, 128]}),
    )
    assert evaluator(space, {"axi_bits": 64}).reason is None
    found = evaluator(space, {"axi_bits": 128})
    assert found.reason == "pynq-z2: axi_bits = 128: the board's memory ports have 64; lower axi_bits"
    assert found.excess == 1.0


def test_two_ports_are_taken_where_the_board_has_them_and_they_pay() -> None:
    evaluator = Evaluator([small_network()], "pynq-z2", ("latency", "lut"))
    space = make_space(Config(), {"axi_ports": "all", "cores": [1, 3]})
    one, two = (evaluator(space, {"axi_ports": ports, "cores": 1}) for ports in (1, 2))
    assert (one.reason, two.reason) == (None, None)
    assert two.values["latency"] < one.values["latency"]
    many = evaluator(space, {"axi_ports": 2, "cores": 3})
    assert many.reason == ("pynq-z2: cores = 3, axi_ports = 2: there are 4 memory ports; lower cores or axi_ports")
    assert many.excess >= 0.5


def test_cores_multiply_the_rate_and_the_resources_and_no_latency() -> None:
    evaluator = Evaluator([small_network()], "zcu104", ALL)
    base = PRESETS["zcu104"].replace(
        block_in=8, block_out=8, axi_bits=64, wgt_bytes=65536, act_bytes=32768, acc_bytes=65536
    )
    base = base.replace(act_banks=4, acc_banks=2)
    space = make_space(base, {"cores": [1, 2, 4, 7]})
    one, two, four, seven = (evaluator(space, {"cores": cores}) for cores in (1, 2, 4, 7))
    assert one.values["latency"] == two.values["latency"] == four.values["latency"]
    assert one.values["energy"] == four.values["energy"]
    for found, times in ((two, 2), (four, 4)):
        assert found.reason is None
        assert found.values["throughput"] == pytest.approx(times * one.values["throughput"], rel=1e-6)
        assert found.values["dsp"] == times * one.values["dsp"]
        confirmed = evaluator.confirm(evaluator.config(space, {"cores": times}))
        alone = evaluator.confirm(evaluator.config(space, {"cores": 1}))
        assert confirmed.values["throughput"] == pytest.approx(times * alone.values["throughput"], rel=1e-6)
    assert seven.reason == "zcu104: cores = 7: there are 6 memory ports; lower cores"
    assert seven.excess >= 1 / 6


def test_a_limit_of_the_dram_is_seen_by_both_fidelities() -> None:
    evaluator = Evaluator([small_network()], "zcu104", ("throughput",))
    base = PRESETS["zcu104"].replace(block_in=8, block_out=8, axi_bits=64, cores=4, dram_bandwidth=16)
    space = make_space(base, {"block_in": 8})
    found, confirmed = evaluator(space, {}), evaluator.confirm(evaluator.config(space, {}))
    free = evaluator.confirm(base.replace(dram_bandwidth=0))
    assert confirmed.values["throughput"] < 0.9 * free.values["throughput"]
    assert found.values["throughput"] == pytest.approx(confirmed.values["throughput"], rel=0.2)


def test_wrong_evaluators_are_named() -> None:
    for arguments, message in (
        ((None, ("area",)), "area: is a share of a board's resources; name a board"),
        ((None, ("latency",), "model"), "model: depends on the board's part; name a board"),
        (("pynq-z2", ()), "one or more"),
    ):
        with pytest.raises(ObjectiveError, match=message):
            Evaluator([], *arguments)


def test_throughput_is_maximised() -> None:
    evaluator = Evaluator([], "pynq-z2", ("throughput", "dsp"))
    assert evaluator.directions == ["maximize", "minimize"]
    assert cost("throughput", 5.0) == -5.0
    assert cost("dsp", 5.0) == 5.0


def test_evaluators_travel_and_tell_themselves_apart() -> None:
    evaluator = Evaluator([small_network()], "pynq-z2", ALL, "model")
    space = make_space(Config(), {"block_in": [8, 16]})
    there = pickle.loads(pickle.dumps(evaluator))
    assert there(space, {"block_in": 8}).values == evaluator(space, {"block_in": 8}).values
    assert there.identity() == evaluator.identity()
    assert evaluator.identity() != Evaluator([], "pynq-z2", ALL).identity()
    assert json.loads(json.dumps(evaluator.identity())) == evaluator.identity()


def test_synthesis_runs_once_per_verilog_and_replaces_the_models_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthesis, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(synthesis, "sources_key", lambda config: config.fingerprint)
    runs: list[str] = []

    def yosys(config: Config) -> dict[str, Any]:
        runs.append(config.name)
        return {"used": {"LUT": 60000.0, "FF": 10.0, "DSP": 194.0, "BRAM": 118.0}, "tool": "Yosys 1"}

    first = synthesis.synthesised(Config(), yosys)
    assert synthesis.synthesised(Config(), yosys) == first
    assert runs == [Config().name]
    synthesis.report_path(Config()).write_text("{damaged")
    synthesis.synthesised(Config(), yosys)
    assert len(runs) == 2
    found = Evaluator([], "pynq-z2", ("latency", "lut", "area")).synthesise(Config())
    assert found.values == {"lut": 60470.0, "area": 113.67}
    assert found.reason == "pynq-z2: 60470 LUTs are needed by Yosys 1, there are 53200"


def test_weights_of_the_command_line(tmp_path: Path) -> None:
    assert split_weight("a.tflite") == ("a.tflite", 1.0)
    assert split_weight("a.tflite=2.5") == ("a.tflite", 2.5)
    odd = tmp_path / "a=2"
    odd.write_text("")
    assert split_weight(str(odd)) == (str(odd), 1.0)
    for weight in ("0", "-1", "nan", "inf", "two"):
        with pytest.raises(NetworkError, match="positive number"):
            parse_weight(f"a={weight}", weight)


def test_a_model_partly_on_the_cpu_is_explored_part_by_part(tmp_path: Path) -> None:
    parts = load_networks(mixed_model(tmp_path / "mixed.onnx"), 2.0)
    assert [(p.name, p.weight, p.images) for p in parts] == [("mixed:1", 2.0, 1.0), ("mixed:2", 2.0, 0.0)]
    assert any("oftmax" in name for name, _ in parts[0].host_ops)
    evaluator = Evaluator(parts, None, ("latency", "throughput"))
    found = evaluator(make_space(PRESETS["tiny"], {"prm_entries": 32}), {})
    cycles = sum(found.cycles.values())
    assert found.values["latency"] == pytest.approx(2 * cycles / PRESETS["tiny"].clock_mhz, abs=1e-3)
    assert found.values["throughput"] == pytest.approx(1e6 * PRESETS["tiny"].clock_mhz / cycles, rel=1e-4)


def test_a_model_that_is_all_the_cpus_is_refused_with_its_operators(tmp_path: Path) -> None:
    b = QdqBuilder(seed=3)
    path = b.save(tmp_path / "sigmoid.onnx", b.node("Sigmoid", [b.input([1, 4, 6, 6])]), [1, 4, 6, 6])
    with pytest.raises(NetworkError, match=r"sigmoid.onnx: no operator can run on the accelerator.*igmoid"):
        load_networks(path)


def test_lstms_cut_a_model_and_are_not_explored(tmp_path: Path) -> None:
    net = TfliteNet(seed=3)
    y = net.lstm(net.input((1, 6, 8)), 8)
    path = net.save(tmp_path / "alone.tflite", [y])
    with pytest.raises(NetworkError, match="recurrent layers aside.*op000_UNIDIRECTIONAL_SEQUENCE_LSTM: a recurrent"):
        load_networks(path)
    (part,) = load_networks(net.save(tmp_path / "more.tflite", [net.fully_connected(y, 4)]))
    assert [name for name, _ in part.host_ops] == ["op000_UNIDIRECTIONAL_SEQUENCE_LSTM"]
    assert Evaluator([part], None, ("latency",))(make_space(PRESETS["tiny"], {"prm_entries": 32}), {}).cycles


def test_substitutions_are_seen_by_both_fidelities_where_they_are_opened() -> None:
    space = make_space(Config(), {"compiler.substitutions": "all"})
    evaluator = Evaluator([Network.of(side_by_side(), "two")], None, ("latency",))
    points = {point["compiler.substitutions"]: point for point in space.points()}
    for fidelity in (
        lambda point: evaluator(space, point),
        lambda point: evaluator.confirm(space.config(point), space.options(point)),
    ):
        assert fidelity(points[True]).values["latency"] < 0.95 * fidelity(points[False]).values["latency"]
