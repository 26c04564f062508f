"""Attribution of cycles on made-up and on real events, and the four forms of the report."""

from __future__ import annotations

import io
import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tests.isa.build import ALU, GEMM, LOAD, STORE, TINY, Builder
from tests.runtime.network import images, make_artifact
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Memory
from tilewright.runtime.activity import Activity, count_traffic, layer_of_instruction
from tilewright.runtime.attribution import CAUSES, attribute, bound
from tilewright.runtime.device import Counters, Events
from tilewright.runtime.executable import Executable
from tilewright.runtime.report.console import print_report
from tilewright.runtime.report.html import COLOURS, _joined, render_html, timeline_data
from tilewright.runtime.report.memory import COLUMNS, memory_pictures
from tilewright.runtime.report.report import Report, Timings
from tilewright.runtime.report.roofline import _LETTER, _Dot, _labels, _overlap, roofline_svg
from tilewright.runtime.report.run import ProgramRun
from tilewright.runtime.report.trace import trace_events
from tilewright.sim import simulate_timing


def made_up(
    rows: list[tuple[str, int, int, int, list[Engine], list[Engine]]],
    cycles: int,
    layers: list[int],
    dispatch: list[int] | None = None,
) -> Activity:
    """(opcode, issue, service, retire, pops, pushes) per instruction; dispatched in time where nothing is said."""
    b = Builder(TINY)
    for opcode, _, service, _, pop, push in rows:
        if opcode == "gemm":
            b.gemm(inner=service, pop=pop, push=push)
        elif opcode == "alu":
            b.requantize(inner=service, pop=pop, push=push)
        elif opcode == "load":
            b.load(Memory.ACT, pop=pop, push=push)
        elif opcode == "store":
            b.store(pop=pop, push=push)
        elif opcode == "fill":
            b.fill(Memory.ACT, pop=pop, push=push)
        else:
            b.wait(GEMM, service, pop=pop, push=push)
    program = b.program()
    program.meta["instruction_layer"] = layers
    issue = np.array([row[1] for row in rows], np.int64)
    retire = np.array([row[3] for row in rows], np.int64)
    return Activity(program, Events(np.array(dispatch or [0] * len(rows), np.int64), issue, retire), cycles)


def test_idle_cycles_go_to_the_layer_that_gemm_runs_next_and_name_what_it_waited_for() -> None:
    activity = made_up(
        [
            ("load", 0, 1, 9, [], [GEMM]),
            ("gemm", 10, 20, 41, [LOAD], [ALU]),  # works 10..29, drains to 41
            ("alu", 42, 5, 62, [GEMM], [GEMM, STORE]),  # works 42..46, drains to 62
            ("gemm", 63, 10, 84, [ALU], []),  # works 63..72
            ("store", 63, 1, 90, [ALU], []),
        ],
        cycles=93,
        layers=[0, 0, 0, 1, 1],
    )
    found = attribute(activity, 2)
    causes = [found.causes(0, useful=5), found.causes(1, useful=99)]
    assert causes[0] == dict.fromkeys(CAUSES, 0) | {"compute": 5, "padding": 15, "load": 10}
    # 30..62: drain of GEMM and token 30..41, ALU 42..46, drain and token 47..62; after 72: store to 90, then done
    assert causes[1] == dict.fromkeys(CAUSES, 0) | {"compute": 10, "store": 18, "alu": 5, "latency": 12 + 16 + 2}
    assert found.cycles.sum() == 93
    assert [bound(each) for each in causes] == ["load", "latency"]
    # of layer 0 the LOAD and the GEMM ran in its own cycles; of layer 1 STORE worked for 28 cycles and ALU in none
    # that GEMM had, so it must have had 28 of its 63 if it needs as many of the write channel
    assert found.lower_bound(0, 20, 0, 10, 0) == 20
    assert [found.lower_bound(1, 10, 5, 50, need) for need in (0, 12, 99)] == [10, 12, 28]


def test_a_layer_without_gemm_gets_the_idle_cycles_in_which_alu_works_for_it() -> None:
    activity = made_up(
        [
            ("gemm", 0, 10, 22, [], []),
            ("alu", 5, 15, 36, [], [GEMM]),  # layer 1 works 5..19, of which GEMM idles from 10 on
            ("gemm", 37, 5, 54, [ALU], []),
        ],
        cycles=57,
        layers=[0, 1, 2],
    )
    found = attribute(activity, 3)
    assert found.cycles.tolist() == [10, 10, 37]
    assert bound(found.causes(1, 0)) == "alu"
    assert found.lower_bound(1, 0, 15, 0, 0) == 10  # the other 5 passes ran in cycles of layer 0
    assert found.spans() == [(0, 10, 0), (10, 20, 1), (20, 57, 2)]


def test_a_busy_array_is_compute_bound_and_a_wait_is_latency() -> None:
    activity = made_up([("gemm", 1, 90, 103, [], []), ("wait", 91, 30, 133, [], [])], cycles=136, layers=[0, 1])
    found = attribute(activity, 2)
    # no later GEMM work: the tail belongs to the instruction that retires last
    causes = [found.causes(0, useful=60), found.causes(1, useful=0)]
    assert causes[0] == dict.fromkeys(CAUSES, 0) | {"compute": 60, "padding": 30, "fetch": 1}
    assert causes[1] == dict.fromkeys(CAUSES, 0) | {"latency": 45}
    assert [bound(each) for each in causes] == ["compute", "latency"]
    assert bound(found.causes(0, useful=40)) == "padding"


def test_programs_without_gemm_or_instructions_are_attributed_too() -> None:
    activity = made_up([("load", 2, 1, 40, [], [STORE]), ("store", 41, 1, 60, [LOAD], [])], cycles=63, layers=[0, 1])
    found = attribute(activity, 2)
    assert found.causes(0, 0) == dict.fromkeys(CAUSES, 0)
    assert found.causes(1, 0) == dict.fromkeys(CAUSES, 0) | {"load": 39, "store": 20, "fetch": 2, "latency": 2}
    empty = Activity(Program(TINY, b"", ()), Events(*(np.zeros(0, np.int64),) * 3), 2)
    assert attribute(empty, 1).causes(0, 0) == dict.fromkeys(CAUSES, 0) | {"latency": 2}


def test_instructions_of_no_layer_belong_to_the_next_that_has_one() -> None:
    program = Builder(TINY)
    for _ in range(5):
        program.wait(ALU)
    made = program.program()
    made.meta["instruction_layer"] = [-1, 0, -1, 1, -1]
    assert layer_of_instruction(made).tolist() == [0, 0, 1, 1, 1]
    made.meta.clear()
    assert layer_of_instruction(made).tolist() == [0] * 5


def test_cycles_of_layers_add_up_on_a_large_program() -> None:
    from tests.isa.synthetic import resnet_sized

    program = resnet_sized(40)
    program.meta["instruction_layer"] = [i * 9 // program.instruction_count for i in range(program.instruction_count)]
    timing = simulate_timing(program)
    activity = Activity(program, Events(timing.dispatch, timing.issue, timing.retire), timing.cycles)
    found = attribute(activity, 9)
    assert found.cycles.sum() == timing.cycles
    assert found.served[GEMM].sum() == activity.busy(Engine.GEMM) == timing.engines[GEMM].busy - 2  # less the two WAITs
    traffic = count_traffic(program)
    assert (traffic.read_bytes, traffic.write_bytes) == (timing.dram_read_bytes, timing.store_bytes)


@pytest.fixture(scope="module")
def report() -> Report:
    return Executable(make_artifact()).run(images(2))[1]


def test_json_holds_what_the_issue_asks_for(report: Report, tmp_path: Path) -> None:
    report.save_json(tmp_path / "r.json")
    data = json.loads((tmp_path / "r.json").read_text())
    wanted = (
        "model config device inferences cycles lower_bound_cycles macs array_macs_per_cycle utilization "
        "dram_read_bytes dram_write_bytes instructions uops clock_mhz latency_ms compile_s simulate_s layers"
    )
    assert set(wanted.split()) <= set(data)
    assert (data["model"], data["config"], data["device"], data["inferences"]) == ("toy", "tiny", "sim", 2)
    assert (data["macs"], data["array_macs_per_cycle"], data["instructions"]) == (128, 16, 13)
    assert data["lower_bound_cycles"] == 58  # 232 bytes over 4, above 8 array cycles
    assert data["latency_ms"] == pytest.approx(data["cycles"] / data["clock_mhz"] / 1e3)
    beside = [data[key] for key in ("pack_ms", "unpack_ms", "cpu_ms")]
    assert min(beside) > 0
    assert data["with_host_ms"] == pytest.approx(data["latency_ms"] + sum(beside))
    assert data["with_host_per_second"] == pytest.approx(1e3 / data["with_host_ms"])  # of one core
    assert sum(beside) * data["inferences"] == pytest.approx(
        1e3 * sum(data["host"][key] for key in ("pack_s", "unpack_s", "host_s"))
    )
    assert data["utilization"] == pytest.approx(128 / (16 * data["cycles"]))
    layers = {layer["name"]: layer for layer in data["layers"]}
    assert list(layers) == ["conv", "scale", "flatten"]
    for layer in layers.values():
        assert {"name", "op", "place", "cycles", "lower_bound_cycles", "macs", "utilization", "bound"} <= set(layer)
    assert layers["conv"]["cycles"] + layers["scale"]["cycles"] == data["cycles"]
    assert layers["flatten"] | {"bound": None} == layers["flatten"]
    assert layers["scale"]["bound"] in CAUSES
    assert layers["flatten"]["place"] == "host"


def test_the_trace_has_one_track_per_engine_without_overlaps(report: Report, tmp_path: Path) -> None:
    report.save_trace(tmp_path / "t.json")
    trace = json.loads((tmp_path / "t.json").read_text())
    events: list[dict[str, Any]] = trace["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert names == {0: "LOAD", 1: "GEMM", 2: "ALU", 3: "STORE", 4: "layer"}
    for track in names:
        spans = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X" and e["tid"] == track]
        assert spans
        assert all(end <= begin + 1e-9 for (_, end), (begin, _) in itertools.pairwise(spans))
    work = [e for e in events if e["ph"] == "X" and e["tid"] < 4]
    assert len(work) == 13
    assert {e["name"] for e in work} == {"conv", "scale"}
    assert sum(e["dur"] for e in events if e["ph"] == "X" and e["tid"] == 4) == pytest.approx(
        report.cycles / report.artifact.config.clock_mhz
    )


def test_the_html_is_one_file_and_escapes_names(report: Report, tmp_path: Path) -> None:
    page = render_html(report.to_dict(), report.runs)
    assert not re.search(r"""(src|href)\s*=|url\(|@import|https?://""", page)
    assert page.count("<svg") == 1
    assert page.count("<canvas") == 2
    payload = re.search(r'<script type="application/json" id="timeline-data">(.*?)</script>', page, re.DOTALL)
    assert payload is not None
    assert json.loads(payload[1]) == timeline_data(report.to_dict(), report.runs)
    evil = make_artifact(name="</script><b>&")
    page = render_html(Report(evil, "sim", 1, report.runs, report.timings).to_dict(), report.runs)
    assert "<b>&<" not in page
    assert page.count("</script>") == 2


def test_the_page_names_layers_as_the_model_does_with_shapes_reasons_and_bars_to_scale(report: Report) -> None:
    data = report.to_dict()
    conv, scale = (layer for layer in data["layers"] if layer["place"] == "accelerator")
    conv |= {"title": "net/block_1/conv/Relu;net/block_1/bn", "shape": [1, 2, 4, 4], "input_shapes": [[1, 2, 4, 3]]}
    conv["weight_shape"] = [4, 1, 1, 3]
    reason = "a reason that goes on and on, " * 20
    data["operators"] = [
        {"name": "op9", "op": "FLATTEN", "place": "interpreter", "macs": 5, "reason": reason, "exact": ""}
    ]
    page = render_html(data, report.runs)
    assert ">conv/<wbr>Relu<br><small>conv CONV_<wbr>2D</small>" in page
    assert "2x4x3 &rarr; 2x4x4<br><small>weights 4x1x1x3</small>" in page
    assert reason in page
    # under its layer, as wide as the table: a last column of sentences left windows of 1300 pixels
    for layer in (conv, scale):
        assert f'</tr><tr class="why"><td colspan="9">{layer["why"]}</td></tr>' in page
    assert page.count("<th", page.index("<th>layer"), page.index("</tr>", page.index("<th>layer"))) == 9
    widths = [float(width) for width in re.findall(r'class="bar"><div style="width:([\d.]+)%', page)]
    most = max(conv["cycles"], scale["cycles"])
    assert widths == pytest.approx([100, 100 * conv["cycles"] / most, 100 * scale["cycles"] / most], abs=0.01)
    for cause, colour in COLOURS.items():
        assert f'style="background:{colour}"></span><b>{cause}</b>' in page


def test_the_memories_show_who_holds_them_from_writing_to_last_use(report: Report) -> None:
    act, wgt, acc, prm = memory_pictures(report.runs)
    assert [memory["name"] for memory in (act, wgt, acc, prm)] == ["act", "wgt", "acc", "prm"]
    assert [memory["bytes"] for memory in (act, acc)] == [TINY.act_bytes, TINY.acc_bytes]
    held = {layer for memory in (act, acc) for part in memory["parts"] for _, _, layer in part}
    assert held == {0, 1}
    for memory in (act, wgt, acc, prm):
        for part in memory["parts"]:
            assert all(0 <= begin < end <= COLUMNS + 1 for begin, end, _ in part)
            assert all(before[0] <= after[0] for before, after in itertools.pairwise(part))
    assert not any(part for part in wgt["parts"][1:])  # one block of weights
    assert memory_pictures([ProgramRun(report.runs[0].program, Counters(500, 1, 2))]) == []


def test_long_timelines_join_what_nobody_could_tell_apart(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    data = report.to_dict()
    whole = timeline_data(data, report.runs)["tracks"]
    monkeypatch.setattr("tilewright.runtime.report.html.MOST_SPANS", 2)
    joined = timeline_data(data, report.runs)["tracks"]
    assert sum(len(track["spans"]) for track in joined) < sum(len(track["spans"]) for track in whole)
    for before, after in zip(whole, joined, strict=True):
        assert (before["spans"][0][0], before["spans"][-1][1]) == (after["spans"][0][0], after["spans"][-1][1])
        assert {span[2] for span in before["spans"]} == {span[2] for span in after["spans"]}


def test_joined_spans_are_those_of_a_layer_with_nothing_between() -> None:
    track = [[0, 2, 0, 7, "GEMM"], [2, 5, 0, 8, "GEMM"], [9, 10, 0, 9, "GEMM"], [10, 12, 1, 10, "GEMM"]]
    assert _joined(track, 1) == [[0, 5, 0, -1, ""], [9, 10, 0, 9, "GEMM"], [10, 12, 1, 10, "GEMM"]]


def test_no_name_in_the_roofline_lies_over_another_or_a_dot() -> None:
    rng = np.random.default_rng(0)
    xs, ys = rng.uniform(80, 900, 60), rng.uniform(60, 330, 60)
    dots = [
        _Dot(float(x), float(y), float(r), f"op{k:03d}_CONV_2D") for k, (x, y, r) in enumerate(zip(xs, ys, xs / 80))
    ]
    placed = [(x, y - 10, x + _LETTER * len(dot.name), y + 2) for dot, (x, y) in _labels(dots, [])]
    assert 10 < len(placed) < 60
    circles = [(d.x - d.radius, d.y - d.radius, d.x + d.radius, d.y + d.radius) for d in dots]
    for k, box in enumerate(placed):
        assert not any(_overlap(box, other) for other in placed[:k] + circles)


def test_the_roofline_stays_inside_its_frame(report: Report) -> None:
    svg = roofline_svg(report.to_dict(), COLOURS)
    circles = re.findall(r'<circle cx="([\d.-]+)" cy="([\d.-]+)"', svg)
    assert len(circles) == 1  # only conv has MACs
    points = [pair.split(",") for pair in re.findall(r'points="([^"]+)"', svg)[0].split()]
    for x, y in [*circles, *points]:
        assert 56 <= float(x) <= 940
        assert 28 <= float(y) <= 360
    assert float(points[0][0]) == 56 or float(points[0][1]) == 360  # the roof begins at the frame
    assert float(points[-1][0]) == 940
    without_work = Report(make_artifact(programs=()), "sim", 1, ())
    assert "<circle" not in roofline_svg(without_work.to_dict(), COLOURS)


def test_the_table_names_every_layer(report: Report) -> None:
    for width in (80, 120):
        console = Console(file=io.StringIO(), width=width)
        print_report(report, console)
        text = console.file.getvalue()  # type: ignore[attr-defined]
        assert all(name in text for name in ("conv", "scale", "flatten", "host", f"{report.cycles:,}"))
        assert "…" not in text


def test_the_accelerator_and_the_board_lead_and_this_machine_stands_apart() -> None:
    report = Executable(make_artifact(TINY.replace(name="toy", board="ultra96"))).run(images(2))[1]
    data, page = report.to_dict(), render_html(report.to_dict(), report.runs)
    tiles = re.findall(r'<div class="tile"><b>([^<]*)</b><span>([^<]*)</span>', page)
    board = data["board"]
    assert len(tiles) == 5
    assert tiles[:3] == [
        (f"{data['latency_ms']:.3f} ms", "an inference on the accelerator"),
        (f"{data['inferences_per_second']:,.0f}", "a second on the accelerator, 1 core"),
        (f"{board['inferences_per_second']:,.0f}", "a second on ultra96 with host work, estimated"),
    ]
    assert f"{board['latency_ms']:.3f} ms from input to output" in page
    assert not [text for _, text in tiles if "CPU" in text or "packing" in text]
    assert f"The machine that ran this took {data['pack_ms'] + data['unpack_ms']:.3f} ms" in page
    console = Console(file=io.StringIO(), width=200)
    print_report(report, console)
    lines = {line[:8].strip(): line[10:] for line in console.file.getvalue().splitlines()}  # type: ignore[attr-defined]
    assert lines["rate"] == f"{data['inferences_per_second']:,.0f}/s on 1 core, the accelerator alone"
    assert lines["board"].startswith(f"{board['inferences_per_second']:,.0f}/s on ultra96 with host work, ")
    assert "(estimate: " in lines["board"]
    assert f"packing {data['pack_ms']:.2f} ms each" in lines["here"]


def test_devices_without_events_still_get_a_report() -> None:
    artifact = make_artifact()
    run = ProgramRun(artifact.programs[0], Counters(500, 1, 2))
    report = Report(artifact, "pynq", 1, (run,), Timings())
    data = report.to_dict()
    assert data["cycles"] == 500
    assert data["layers"][0]["cycles"] is None
    assert data["engines"] == {}
    assert "pynq" in render_html(data, report.runs)
    assert len([e for e in trace_events(data, report.runs)["traceEvents"] if e["ph"] == "X"]) == 0
    console = Console(file=io.StringIO(), width=80)
    print_report(report, console)


def test_the_roofline_has_a_line_and_a_number_for_every_power_of_ten(report: Report) -> None:
    svg = roofline_svg(report.to_dict(), COLOURS)
    lines = re.findall(r'class="axis" x1="([\d.]+)" x2="([\d.]+)" y1="([\d.]+)" y2="([\d.]+)"', svg)
    upright = sorted(float(x1) for x1, x2, _, _ in lines if x1 == x2)
    level = sorted(float(y1) for _, _, y1, y2 in lines if y1 == y2)
    assert (upright[0], upright[-1]) == (56, 940)
    assert (level[0], level[-1]) == (28, 360)
    for places in (upright, level):
        assert len({round(b - a) for a, b in itertools.pairwise(places)}) == 1
    numbers = re.findall(r">([\d.e+-]+)</text>", svg)
    assert len(numbers) == len(lines)


def test_a_report_of_no_program_is_that_of_one_core() -> None:
    without = Report(make_artifact(programs=()), "sim", 1, ())
    assert (without.cores, without.interval_cycles, without.cycles) == (1, 0, 0)
