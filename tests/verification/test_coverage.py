"""Functional coverage: the model is sound, the sampler sees what is there, the quick run covers what it must, and
``docs/coverage.md`` is what was kept."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.isa.build import ALU, GEMM, LOAD, STORE, Builder
from tests.verification.coverage import page as pages
from tests.verification.coverage.collect import main, quick_hits
from tests.verification.coverage.model import GROUPS, Bin
from tests.verification.coverage.page import PAGE, Coverage, CoverageError, Hits, covered, holes, page
from tests.verification.coverage.sample import sample
from tests.verification.random_program import DENSE, LATE, Style, random_program, random_segments
from tilewright.config import PRESETS
from tilewright.isa.functions import AluOp
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Memory, Opcode
from tilewright.sim import simulate

TINY = PRESETS["tiny"]
BY_NAME = {group.name: group for group in GROUPS}
ROW = 4096 // TINY.beat_bytes  #: beats of a page


def seen(program: Program, paused: bool = False) -> dict[str, Counter[Bin]]:
    """Bins of a program with the simulator's times, by group."""
    timing = simulate(program, random_segments(np.random.default_rng(0), program)).timing
    assert timing is not None
    assert timing.fault is None
    found: dict[str, Counter[Bin]] = {group.name: Counter() for group in GROUPS}
    for (name, what), count in sample(program, timing, paused).items():
        found[name][what] += count
    return found


# -- the model -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_groups_are_sound(group: pages.Group) -> None:
    assert group.bins
    assert all(len(set(axis.values)) == len(axis.values) for axis in group.axes)
    assert all(exclusion.reason for exclusion in group.excluded)
    for exclusion in group.excluded:
        rest = tuple(other for other in group.excluded if other is not exclusion)
        assert len(dataclasses.replace(group, excluded=rest).bins) > len(group.bins), exclusion.reason


def test_every_opcode_is_covered_by_name() -> None:
    assert set(BY_NAME) > {op.name.lower() for op in Opcode} - {"wait"}
    assert BY_NAME["flags"].axes[0].values == tuple(op.name for op in Opcode)


# -- the sampler -----------------------------------------------------------------------------------------


def test_tiles_are_told_apart() -> None:
    b = Builder(TINY)
    b.load(Memory.ACT, count=8)
    b.load(Memory.ACT, count=8, offset=3)
    b.load(Memory.ACT, count=TINY.burst_beats + 1)
    b.load(Memory.ACT, count=4, offset=ROW - 1)
    b.load(Memory.ACT, count=2, rows=2, sram_row=4, stride=16)
    b.load(Memory.ACT, count=2, rows=2, sram_row=2, stride=16, sram_col=3)
    b.fill(Memory.ACC, count=2, value=0)
    b.fill(Memory.ACT, count=3, value=9, wrap_base=40, wrap_size=2, push=[STORE])
    b.store(count=4, pop=[LOAD], offset=1)
    found = seen(b.program())
    tiles = {(padding, alignment) for _, padding, alignment, _ in found["load"]}
    assert tiles == {
        ("packed", "burst"), ("packed", "inside"), ("packed", "split"), ("packed", "page"), ("bordered", "burst"),
        ("scattered", "burst"),
    }  # fmt: skip
    assert {what[:3] for what in found["fill"]} == {("ACC", "zero", "packed"), ("ACT", "other", "packed")}
    assert set(found["store"]) == {("output", "packed", "inside", "token")}
    assert {what[:2] for what in found["wrap"]} == {("LOAD", "straight"), ("FILL", "wraps"), ("STORE", "straight")}
    assert found["tokens"] == Counter({("LOAD", "STORE", "late", "one"): 1})
    assert found["flags"]["FILL", "none", "one", "0"] == 1
    assert found["flags"]["STORE", "one", "none", "0"] == 1


def test_micro_ops_are_told_apart() -> None:
    b, far = Builder(TINY), TINY.acc_units // 2
    b.load(Memory.ACT, count=8)
    b.load(Memory.WGT, count=2)
    b.fill(Memory.ACC, count=8)
    b.fill(Memory.ACC, sram=far, count=8)
    push_only = (1 << (TINY.acc_units - 1).bit_length()) - 1
    uops = [{"dst": 0, "accumulate": 1}, {"dst": 0, "accumulate": 1}, {"dst": 1}, {"dst": push_only}]
    b.uops(GEMM, uops, push=[GEMM])
    b.uops(ALU, [{"dst": 0, "src": 0}], push=[ALU])
    b.gemm(count=2, pop=[LOAD])
    b.gemm(uop_begin=1, count=2, pace=1)
    b.gemm(uop_begin=2, count=2, window=1, inner=2, push=[ALU])
    b.alu(src=far, function=AluOp.MAX, pop=[LOAD, GEMM])
    b.wait(ALU, 16)
    b.alu(src=1, function=AluOp.ADD, pace=1)
    b.wait(ALU, 16)
    b.alu(use_imm=1, function=AluOp.SHR, imm=3)
    found = seen(b.program())
    assert {what[:4] for what in found["gemm"]} == {
        ("dense", "all", "1", "next"), ("dense", "some", "2", "no"), ("window", "none", "1", "near"),
    }  # fmt: skip
    assert {what[:3] for what in found["alu"]} == {
        ("MAX", "other bank", "1"), ("ADD", "same bank", "2"), ("SHR", "immediate", "1"),
    }  # fmt: skip
    assert ("window", "plain", "1", "square", "some", "one") in found["array"]
    assert found["flags"]["ALU", "several", "none", "0"] == 1


def test_waiting_is_told_apart() -> None:
    b = Builder(TINY.replace(queue_depth=2))
    b.wait(LOAD, 300, push=[GEMM])
    b.load(Memory.ACT, count=4)
    b.wait(GEMM, 1, pop=[LOAD])
    for _ in range(3):
        b.wait(GEMM, 1)
    b.load(Memory.ACC, count=4)
    calm, paused = seen(b.program()), seen(b.program(), paused=True)
    assert calm["tokens"] == Counter({("LOAD", "GEMM", "late", "one"): 1})
    assert calm["dispatch"]["WAIT", "queue"] == 1
    assert {(what[0], what[3]) for what in calm["load"]} == {("ACT", "engine"), ("ACC", "none")}
    assert {what[3] for what in paused["load"]} == {"paused"}


def test_late_programs_find_engines_idle_and_tokens_waiting() -> None:
    def idle(style: Style) -> float:
        stalls = Counter[str]()
        for seed in range(4):
            found = seen(random_program(np.random.default_rng(seed), TINY, 24, style))
            for name in ("load", "fill", "store", "gemm", "alu", "requantize", "rescale"):
                for what, count in found[name].items():
                    stalls[what[-1]] += count
        return stalls["none"] / stalls.total()

    assert idle(LATE) > 2 * idle(DENSE)


# -- what was kept ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept() -> Coverage:
    return Coverage.load()


def test_the_page_is_current_and_lists_every_hole(kept: Coverage) -> None:
    text = page(kept)
    assert PAGE.read_text() == text, "run: python -m tests.verification.coverage.collect"
    listed = dict(re.findall(r"^- (.*) \(\d+\): (.*)$", text.partition("\n## Holes\n")[2], re.M))
    for group in GROUPS:
        found = [tuple(bin_.split(" / ")) for bin_ in listed.pop(group.title, "").split("; ") if bin_]
        assert found == holes(group, kept)
        assert len(found) < len(group.bins) / 2, "most of a group is never shown"
        assert all(f"\n- {exclusion.reason}\n" in text for exclusion in group.excluded)
    assert listed == {}


def test_coverage_of_another_model_is_refused(kept: Coverage, tmp_path: Path) -> None:
    short = dataclasses.replace(kept, counts={**kept.counts, "load": [1, 2, 3]})
    short.save(tmp_path / "kept.json")
    with pytest.raises(CoverageError, match="group load has other bins"):
        Coverage.load(tmp_path / "kept.json")


def test_the_quick_run_covers_what_it_must(toolchain: None, kept: Coverage) -> None:
    hits: Hits = quick_hits(lambda what, done, total: None)
    assert all(what in BY_NAME[name].bins for name, what in hits), "what is excluded does not happen"
    found = {group.name: covered(group, hits) for group in GROUPS}
    low = {name: (count, kept.levels[name]) for name, count in found.items() if count < kept.levels[name]}
    assert not low, f"bins hit, and the level: {low}"


def test_a_difference_ends_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.verification.coverage import collect

    class Wrong:
        def __init__(self, config: object) -> None: ...
        def close(self) -> None: ...
        def observe(self, *run: object) -> tuple[str, None]:
            return "segment output: 1 byte differs", None

    monkeypatch.setattr(collect, "Bench", Wrong)
    assert main(["--quick"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: config random-11, dense program of seed 0: segment output")
    assert len(said.splitlines()) == 1


def test_engines_have_a_queue_to_every_other() -> None:
    assert len(BY_NAME["tokens"].bins) == len(Engine) * (len(Engine) - 1) * 6
