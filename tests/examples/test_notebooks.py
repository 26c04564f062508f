"""The notebooks for PYNQ users, executed on the simulator; the repository keeps them with results and a picture."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

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
    kept = forms(book)
    NotebookClient(book, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    assert forms(book) == kept, "execute it anew, and keep the results without paths of a machine"


@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_has_results_and_a_picture(notebook: Path) -> None:
    import nbformat

    book = nbformat.read(notebook, as_version=4)
    assert "image/png" in {kind for cell in forms(book) for kind in cell}
    assert max(len(str(output)) for cell in book.cells for output in cell.get("outputs", [])) < 25_000
    assert not [place for place in ("/home/", "/root/", "/tmp/", "/usr/") if place in notebook.read_text()]


def forms(book: Any) -> list[set[str]]:
    """What kinds of results each cell has; what a server says beside them comes as it may."""
    return [
        {kind for output in cell.get("outputs", []) for kind in (output.get("data") or {output.get("name"): None})}
        - {"stderr"}
        for cell in book.cells
    ]
