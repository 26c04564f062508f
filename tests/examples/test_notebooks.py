"""The notebooks for PYNQ users, executed on the simulator."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

NOTEBOOKS = REPOSITORY / "examples" / "notebooks"
MISSING = [name for name in ("nbclient", "ipykernel") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}: pip install 'tilewright[test]'")


@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    folder = tmp_path / "notebooks"
    folder.mkdir()
    shutil.copytree(REPOSITORY / "examples" / "digits", tmp_path / "digits")
    for name in ("TILEWRIGHT_OVERLAY", "TILEWRIGHT_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    book = nbformat.read(notebook, as_version=4)
    assert all(not cell.get("outputs") for cell in book.cells), "results belong to the reader's own run"
    NotebookClient(book, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    shown = [len(str(output)) for cell in book.cells for output in cell.get("outputs", [])]
    assert shown
    assert max(shown) < 20_000
