"""What a sweep leaves behind: whole files, a page that needs no network, reasons and what-ifs for every point."""

from __future__ import annotations

import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import HANG
from tests.dse.networks import small_network
from tilewright.config import PRESETS, Config, load_config
from tilewright.dse import report_data
from tilewright.dse.evaluate import Evaluator
from tilewright.dse.report import write_all
from tilewright.dse.resources import resources
from tilewright.dse.search import Point, Search, front
from tilewright.dse.space import make_space
from tilewright.dse.whatif import advice, what_if

pytest.importorskip("optuna", reason="needs the explore extra: pip install 'tilewright[explore]'")
pytest.importorskip("plotly", reason="needs the explore extra: pip install 'tilewright[explore]'")

NAME = "</script><b>odd"  #: names come from files


def sweep(folder: Path, objectives: tuple[str, ...] = ("latency", "dsp")) -> tuple[Search, list[Point], list[Point]]:
    base = PRESETS["tiny"].replace(wgt_bytes=256 * 1024, acc_bytes=128 * 1024)
    space = make_space(base, {"block_in": [4, 8], "block_out": [4, 8, 64], "compiler.schedule": ["fastest", "deep-8"]})
    search = Search(
        space, Evaluator([small_network(NAME)], "pynq-z2", objectives), f"sqlite:///{folder}/t.db", 1, "grid"
    )
    everything = search.run(12)
    return search, front(everything, objectives), everything


class Links(html.parser.HTMLParser):
    """Collects what a page would fetch, and its embedded data."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.data = ""
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.fetched += [str(given[k]) for k in ("src", "href", "data", "srcset") if k in given]
        self._inside = given.get("id") == "explorer-data"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.data += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = False


def test_results_are_written_whole_and_the_page_needs_no_network(tmp_path: Path) -> None:
    search, best, everything = sweep(tmp_path)
    seen: list[tuple[str, int, int]] = []
    written = write_all(tmp_path, search, best, everything, lambda *step: seen.append(step))
    assert {p.name for p in written} == {
        "front.json", "front.csv", "report.html", "front.png", "history.png", "best.toml",
    }  # fmt: skip
    assert seen[-1] == ("explaining the front", len(best) - 1, len(best))
    for picture in ("front.png", "history.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    assert load_config(tmp_path / "best.toml") == search.config(best[0])
    lines = (tmp_path / "front.csv").read_text().splitlines()
    assert lines[0].startswith("trial,fidelity,latency,dsp,")
    assert len(lines) == len(best) + 1
    text = (tmp_path / "report.html").read_text()
    assert NAME not in text, "names of models cannot break the page"
    assert len(re.findall(r"</script>", text)) == len(re.findall(r"<script[ >]", text))
    page = Links()
    page.feed(text)
    assert page.fetched == []
    shown = json.loads(page.data)
    assert [row["trial"] for row in shown["rows"]] == [p.number for p in best]
    assert len(shown["rows"]) + len(shown["others"]) == sum(bool(p.values) for p in everything)
    assert NAME in shown["head"]["networks"]
    assert "Plotly" in text
    assert any(row["reason"] and "DSP slices" in row["reason"] for row in shown["others"])


def test_every_point_of_the_front_explains_itself(tmp_path: Path) -> None:
    search, best, everything = sweep(tmp_path, ("throughput", "area"))
    write_all(tmp_path, search, best, everything)
    data: dict[str, Any] = json.loads((tmp_path / "front.json").read_text())
    assert data["trials"] == 12
    assert data["clock"] == "config"
    assert sum(data["infeasible"].values()) == sum(not p.feasible for p in everything)
    row = data["front"][0]
    assert {layer["bound"] for layer in row["layers"][NAME]} <= {"array", "alu", "bus"}
    assert row["metrics"].keys() >= {"latency", "throughput", "energy", "area", "dsp", "bram", "lut", "ff"}
    assert sum(m.get("dsp", 0) for m in row["modules"].values()) == row["metrics"]["dsp"]
    assert all(type(n) is int for m in row["modules"].values() for kind, n in m.items() if kind != "bram36")
    assert sum(row["energy"][NAME].values()) == pytest.approx(row["metrics"]["energy"], rel=1e-3)
    assert row["clock_model"]["low"] <= row["clock_model"]["mhz"] <= row["clock_model"]["high"]
    assert {w["parameter"] for w in row["what_if"]} >= {"act_bytes", "wgt_bytes", "axi_bits", "block_in", "dsp_packing"}
    assert data["front"] == sorted(data["front"], key=lambda r: -r["values"]["throughput"])


def test_what_if_gives_gain_and_cost_or_the_reason() -> None:
    evaluator = Evaluator([small_network()], "pynq-z2", ("latency", "dsp"))
    found = {(w["parameter"], w["to"]): w for w in what_if(evaluator, Config())}
    halved = found["block_in", 8]
    base, narrow = (evaluator.layers(Config().replace(block_in=n))["small"].cycles for n in (16, 8))
    assert halved["change"]["latency"] == pytest.approx((narrow - base) / Config().clock_mhz, abs=1e-3)
    assert halved["relative"]["latency"] == pytest.approx(narrow / base - 1, abs=1e-4)
    assert halved["change"]["dsp"] == resources(Config().replace(block_in=8)).dsp - resources(Config()).dsp
    assert "36 Kbit block RAMs are needed" in found["wgt_bytes", 1 << 20 >> 1]["over"]
    assert "must be at most 128" not in found["axi_bits", 128].get("reason", "")
    assert "its weights need 8 bits" in found["weight_bits", 4]["reason"]
    assert "must be a power of two from 2 to 8" in found["weight_bits", 16]["reason"]
    assert found["queue_depth", 64]["unseen"]
    assert found["dsp_packing", False]["change"]["dsp"] == 128
    assert all(("reason" in w) != ("change" in w) for w in found.values())


def test_advice_is_the_best_step_that_fits_and_what_is_saved_for_nothing() -> None:
    entries: list[dict[str, Any]] = [
        {
            "parameter": "block_in",
            "from": 16,
            "to": 32,
            "change": {"throughput": 9.0, "bram": 4.0},
            "over": "too large",
        },
        {"parameter": "axi_bits", "from": 64, "to": 128, "change": {"throughput": 5.0, "bram": 1.0}},
        {"parameter": "act_bytes", "from": 64, "to": 32, "change": {"throughput": 0.0, "bram": -8.0}},
        {"parameter": "acc_bytes", "from": 64, "to": 32, "change": {"throughput": -1.0, "bram": -8.0}},
        {"parameter": "wgt_bytes", "from": 64, "to": 1, "reason": "no room"},
        {"parameter": "outstanding", "change": {"throughput": 9.0, "bram": 0.0}, "relative": {"throughput": 0.0004}},
    ]
    found = advice(entries, "throughput")
    assert found["step"]["parameter"] == "axi_bits"
    assert [e["parameter"] for e in found["free"]] == ["act_bytes"]
    assert advice(entries[3:], "throughput") == {"step": None, "free": []}


def test_of_very_many_points_the_page_holds_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_data, "MOST_POINTS", 10)
    points = [Point(k, {"block_in": 8}, {"latency": float(k)}) for k in range(101)]
    shown, count = report_data.other_points(points, points[:1])
    assert count == 100
    assert len(shown) == 10
    assert len({p["trial"] for p in shown}) == 10


def test_reasons_that_differ_in_numbers_are_counted_together() -> None:
    texts = ["a: 10 DSP slices are needed", "b: no room", "a: 12.5 DSP slices are needed", "a: 7 DSP slices are needed"]
    points = [Point(k, {}, reason=text) for k, text in enumerate(texts)]
    points.append(Point(9, {}, {"latency": 1.0}, simulated={"reason": "b: no room"}))
    assert report_data.reasons(points) == {"a: 10 DSP slices are needed": 3, "b: no room": 2}


@pytest.mark.slow
def test_a_browser_draws_the_page(tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine: apt install chromium")
    search, best, everything = sweep(tmp_path)
    write_all(tmp_path, search, best, everything)
    page = (tmp_path / "report.html").read_text()
    # what a user does: another axis, a value left out, another row
    clicks = """<script>
    const change = (id, value) => { byId(id).value = value; byId(id).dispatchEvent(new Event("change")); };
    change("axis-x", "energy" in data.rows[0].metrics ? "lut" : "dsp");
    document.querySelector("#filters input").click();
    const rows = document.querySelectorAll("tr[data-trial]"); rows[rows.length - 1].cells[0].click();
    document.querySelector("#detail th").click();
    document.title = "drawn";
    </script>"""
    (tmp_path / "page.html").write_text(page.replace("</body>", clicks + "</body>"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [browser, *flags, profile, "--virtual-time-budget=8000", "--dump-dom", f"file://{tmp_path}/page.html"]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=True).stdout
    assert "<title>drawn</title>" in dom
    assert f"Trial {best[-1].number}: {search.config(best[-1]).name}" in dom
    assert 'class="main-svg"' in dom
    left = sum(p.params["block_in"] != 4 for p in everything if p.values)
    assert re.search(rf"{left - _beyond(everything)} of \d+ points shown", dom)
    assert "cannot be: " in dom
    assert "its weights need 8 bits" in dom


def _beyond(everything: list[Point]) -> int:
    """Points past the board among those that the browser test leaves: not shown unless asked for."""
    return sum(p.params["block_in"] != 4 and bool(p.values) and not p.feasible for p in everything)
