"""Every key of a report has its meaning in :mod:`tilewright.runtime.report.keys`, and no other key has one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.runtime.network import images, make_artifact
from tilewright.config import PRESETS
from tilewright.runtime.attribution import CAUSES
from tilewright.runtime.executable import Executable
from tilewright.runtime.report import keys
from tilewright.runtime.report.host_work import on_board


def names(*tables: Mapping[tuple[str, ...], str]) -> list[str]:
    return [name for table in tables for together in table for name in together]


def test_every_key_has_a_meaning() -> None:
    artifact = make_artifact()
    report = Executable(artifact).run(images(1))[1].to_dict()
    assert sorted(names(keys.REPORT)) == sorted(report)
    for layer in report["layers"]:
        assert set(layer) <= set(names(keys.LAYER, keys.SOME_LAYERS))
        assert layer["place"] != "accelerator" or set(names(keys.LAYER)) <= set(layer)
    assert tuple(names(keys.CAUSES)) == CAUSES


def test_every_key_of_the_board_has_a_meaning() -> None:
    estimate = on_board(make_artifact(PRESETS["pynq-z2"]), 1.0)
    assert estimate is not None
    assert sorted(names(keys.BOARD)) == sorted(estimate)


@pytest.mark.parametrize("table", [keys.REPORT, keys.BOARD, keys.CAUSES])
def test_no_key_has_two(table: Mapping[tuple[str, ...], str]) -> None:
    assert len(names(table)) == len(set(names(table)))
