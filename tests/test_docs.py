"""The documentation site builds without a warning, what it makes of the source is whole, and its prose stays short."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from docs import generated, pictures, tables
from tests.conftest import REPOSITORY
from tests.test_layering import PARTS
from tilewright import pages

DOCS = REPOSITORY / "docs"


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    if missing := [name for name in ("sphinx", "myst_parser", "furo", "sphinx_copybutton") if find_spec(name) is None]:
        pytest.skip(f"needs {', '.join(missing)}: pip install 'tilewright[docs]'")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-d",
        tmp_path / "trees",
        DOCS,
        tmp_path / "site",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "tilewright explore" in (tmp_path / "site" / "commands.html").read_text()


def test_every_page_is_on_the_site() -> None:
    """Sphinx warns of a page that no list names; this says so in a second."""
    named = set(re.findall(r"^([a-z_0-9/]+)$", (DOCS / "index.md").read_text(), re.M))
    assert named == {str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md")} - {"index"}


def test_every_picture_is_shown() -> None:
    shown = set(re.findall(r"pictures/(\w+)\.svg", "".join(path.read_text() for path in DOCS.glob("*.md"))))
    assert shown == {path.stem for path in (DOCS / "pictures").iterdir()}


@pytest.mark.parametrize("draw", [pictures.blocks, pictures.tokens, pictures.ring, pictures.timeline])
def test_pictures_are_what_their_script_draws_today(draw: Callable[[], str]) -> None:
    """The timeline is a run of the digits: what the page reads aloud of it is in the kept picture."""
    kept = (DOCS / "pictures" / f"{draw.__name__}.svg").read_text()
    assert draw() == kept, "python docs/pictures.py"


def test_every_command_has_an_example() -> None:
    parts = generated.commands().split("\n## ")[1:]
    assert {"tilewright run", "tilewright serve", "tilewright models list"} <= {
        part.partition("\n")[0] for part in parts
    }
    assert [part.partition("\n")[0] for part in parts if "Example: tilewright" not in part] == []
    assert all("Usage: tilewright " in part or "usage: tilewright " in part for part in parts)


def test_errors_have_their_way_out() -> None:
    text = generated.errors()
    assert "## ConfigError" in text
    assert r"| ‹path›: is a compiled artifact, not a model | load it with tilewright.load |" in text
    assert "## AssemblyError" in text


def test_tables_are_made_from_what_is_kept_and_declared() -> None:
    for page, made in tables.blocks().items():
        assert pages.filled(page, made) == (DOCS / page).read_text(), f"{page}: run python -m docs.tables"


PAGES = [*sorted(DOCS.rglob("*.md")), *sorted(REPOSITORY.glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Also those of pages that are not on the site, to files and headings of which Sphinx knows nothing."""
    links = [link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())]
    for name, _, heading in links:
        if not name.startswith(("http:", "https:", "mailto:")):
            target = page.parent / name if name else page
            assert target.exists(), name
            assert not heading or heading in headings(target), f"{name}#{heading}"


def headings(page: Path) -> set[str]:
    """What a link may name behind the ``#``: headings as MyST and the hosts of repositories write them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    titles = (re.sub(r"[^\w\- ]", "", title.lower()) for title in re.findall(r"^#+ (.*)$", text, re.M))
    return {title.strip().replace(" ", "-") for title in titles}


#: a file of the project, as pages and docstrings name it
NAMED = re.compile(r"(?<![\w/.-])(?:tests|bench|tilewright|isa|sim|hw|jit|runtime|dse)/[\w/]+\.py\b")


def missing_files(text: str) -> list[str]:
    return sorted({name for name in NAMED.findall(text) if not (REPOSITORY / name).exists()})


def test_files_that_pages_and_docstrings_name_are_there() -> None:
    assert missing_files("`jit/compiler.py`, ``jit/lowering.py`` and (tests/test_docs.py)") == ["jit/lowering.py"]
    parts = [path for part in (*PARTS, "tilewright", "bench") for path in (REPOSITORY / part).glob("**/*.py")]
    texts = [page for page in PAGES if page.name != "CHANGELOG.md"] + parts
    found = {str(path.relative_to(REPOSITORY)): missing_files(path.read_text()) for path in texts}
    assert {path: names for path, names in found.items() if names} == {}


def test_commands_that_the_pages_quote_have_these_options() -> None:
    helps = {part.partition("\n")[0]: part for part in generated.commands().split("\n## ")[1:]}
    text = "".join(page.read_text() for page in PAGES).replace("\\\n", " ").replace("\\|", " ")
    quoted = re.findall(r"tilewright ((?:(?:config|models|hw|cache) )?[a-z]+)\b([^\n`|]*)", text)
    found = {(name, option) for name, rest in quoted for option in re.findall(r"(?<!\S)--[a-z-]+", rest)}
    known = {(name, option) for name, option in found if f"tilewright {name}" in helps}
    assert len(known) > 40
    assert [each for each in sorted(known) if each[1] not in helps[f"tilewright {each[0]}"]] == []
