"""``tilewright cache``: one folder holds all that is kept, and nothing else is ever removed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tilewright.cli.app import main
from tilewright.cli.caches import PARTS


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    for part, size in (("artifacts", 3_000_000), ("kernels", 1_500_000), ("of somebody else", 7)):
        (tmp_path / part).mkdir()
        (tmp_path / part / "file").write_bytes(bytes(size))
    return tmp_path


def test_sizes_are_of_what_is_there(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "info"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{root} (")
    assert re.search(r"^ artifacts +3\.0 MB", shown, re.M)
    assert re.search(r"^ +native +0\.0 MB", shown, re.M)
    assert re.search(r"^ +all +4\.5 MB$", shown, re.M)


def test_a_part_or_all_that_is_ours_goes(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "clear", "kernels"]) == 0
    assert sorted(path.name for path in root.iterdir()) == ["artifacts", "of somebody else"]
    assert main(["cache", "clear"]) == 0
    assert [path.name for path in root.iterdir()] == ["of somebody else"]
    assert main(["cache", "clear"]) == 0
    assert main(["cache", "clear", "../artifacts"]) == 2
    assert "../artifacts: no part of the cache; there are artifacts, " in capsys.readouterr().err


def test_every_folder_of_the_cache_has_its_line() -> None:
    used = set()
    for part in ("tilewright", "isa", "runtime", "jit", "sim", "hw", "dse"):
        for path in (REPOSITORY / part).glob("**/*.py"):
            used |= set(re.findall(r"cache_root\(\) / (\S+?)[,\s\]]", path.read_text()))
    assert {name.strip('"') for name in used} == (PARTS.keys() - {"verified"}) | {"FOLDER"}
