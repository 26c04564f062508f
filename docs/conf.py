"""The documentation site: ``make docs`` builds ``build/docs`` from these pages, the docstrings and the source."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["COLUMNS"] = "100"  # of the commands' help

from docs import generated
from tilewright import __version__

project = "Tilewright"
copyright = "the Tilewright authors; Apache-2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
#: what a reader does not type: of a block with prompts the commands alone are copied
copybutton_prompt_text = r"(?:board|pc)?\$ +|>>> |\.\.\. "
copybutton_prompt_is_regexp = True
myst_heading_anchors = 4  # as where the same pages are read in the repository
exclude_patterns = ["**/.*"]
highlight_language = "none"
default_role = "code"

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
add_module_names = False
#: a class that a docstring names and the reference leaves out stays plain text
nitpicky = False

html_theme = "furo"
html_title = f"Tilewright {release}"
html_copy_source = False
html_static_path: list[str] = []

MADE = {"commands": generated.commands, "errors": generated.errors}


def setup(app: Any) -> None:
    """Pages that are made of the source get the rest of their text as they are read."""

    def add(_: Any, name: str, content: list[str]) -> None:
        if name in MADE:
            content[0] += MADE[name]()

    app.connect("source-read", add)
