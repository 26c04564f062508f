"""What ``pyproject.toml`` cannot say: where the project is hosted, which is where this copy was cloned from.

``project.urls`` of a package are made of the clone's ``origin``, without a user's name or token in it; of an archive
of the sources without a history they are those that it was made with.
"""

from __future__ import annotations

import re
import subprocess
from email.parser import HeaderParser
from pathlib import Path

#: of a server: https://host/path, ssh://git@host:22/path, git@host:path
_ORIGIN = re.compile(
    r"(?:(?:https|ssh|git)://(?:[^@/]+@)?|[^@/:]+@)(?P<host>[\w-]+(?:\.[\w-]+)+)(?::\d+/|[:/])"
    r"(?P<path>[\w./~+-]+?)(?:\.git)?/?"
)


def hosted(origin: str) -> str | None:
    """The address for a browser of what ``git clone`` calls ``origin``; None for a folder of this machine."""
    found = _ORIGIN.fullmatch(origin.strip())
    return f"https://{found['host']}/{found['path']}" if found else None


def addresses(folder: Path) -> dict[str, str]:
    """``project.urls`` of the sources in a folder; none where nothing says where they are from."""
    packed = folder / "PKG-INFO"
    if packed.exists():
        lines = HeaderParser().parsestr(packed.read_text()).get_all("Project-URL", [])
        return {label: url for label, _, url in (line.partition(", ") for line in lines)}
    if not (folder / ".git").exists():  # what git says there is of a repository around it
        return {}
    try:
        asked = ["git", "config", "--get", "remote.origin.url"]
        origin = subprocess.run(asked, cwd=folder, capture_output=True, text=True).stdout
    except OSError:  # no git
        return {}
    place = hosted(origin)
    return {"Source": place, "Issues": f"{place}/issues"} if place else {}


if __name__ == "__main__":
    from setuptools import setup

    setup(project_urls=addresses(Path(__file__).resolve().parent))
