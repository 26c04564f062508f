"""What an installation of the project's extras brings: a lock for CI, and a software bill of materials.

``python .ci/inventory.py``, in an environment with the ``test`` extra, writes ``.ci/constraints.txt`` (exact versions,
for ``pip install -c``) and ``.ci/sbom.json`` (CycloneDX 1.5: names, versions, licences). Only what the extra asks for,
directly or through others, is in them; what else lies in the environment is not.
"""

from __future__ import annotations

import json
import re
from email.message import Message
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, cast

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).resolve().parent
ROOT = "tilewright"
#: of packages whose metadata name no licence: read in the files that they install
KNOWN = {"cocotb-bus": "BSD-3-Clause"}


def closure(root: str, extra: str) -> dict[str, Distribution]:
    """All installed distributions that an extra of ``root`` needs here, by canonical name; without ``root``."""
    found: dict[str, Distribution] = {}
    waiting, seen = [(root, extra)], set()
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        try:
            there = distribution(name)
        except PackageNotFoundError as error:
            raise SystemExit(f"{name} is not installed: pip install '.[test]' first") from error
        found[name] = there
        for text in there.requires or []:
            asked = Requirement(text)
            if asked.marker is None or asked.marker.evaluate({"extra": wanted}):
                waiting += [(canonicalize_name(asked.name), part) for part in ("", *asked.extras)]
    del found[root]
    return dict(sorted(found.items()))


def licence(there: Distribution) -> str:
    """The licence that a distribution's metadata names; empty if none."""
    metadata = cast(Message, there.metadata)
    classified = [
        value.rpartition(" :: ")[2] for value in metadata.get_all("Classifier", []) if value.startswith("License ::")
    ]
    stated = str(metadata.get("License") or "")
    short = stated if stated and len(stated) < 80 and "\n" not in stated else ""
    expression = metadata.get("License-Expression")
    name = canonicalize_name(str(metadata["Name"]))
    return str(expression or short or " and ".join(classified) or KNOWN.get(name, ""))


def constraints(found: dict[str, Distribution]) -> str:
    """Exact versions, local parts (``+cpu``) left out."""
    pinned = (f"{name}=={re.sub(r'[+].*', '', there.version)}" for name, there in found.items())
    return "# Made by .ci/inventory.py: pip install -c .ci/constraints.txt '.[test]'\n" + "\n".join(pinned) + "\n"


def bill(found: dict[str, Distribution]) -> dict[str, Any]:
    """The bill of materials as CycloneDX 1.5."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "library", "name": ROOT, "licenses": [{"expression": "Apache-2.0"}]}},
        "components": [
            {
                "type": "library", "name": name, "version": there.version,
                "purl": f"pkg:pypi/{name}@{there.version}", "licenses": [{"license": {"name": licence(there)}}],
            }
            for name, there in found.items()
        ],
    }  # fmt: skip


def main() -> None:
    """Write both files."""
    found = closure(ROOT, "test")
    if unknown := [name for name, there in found.items() if not licence(there)]:
        raise SystemExit(f"no licence is named by {', '.join(unknown)}: look, and enter it in KNOWN")
    (HERE / "constraints.txt").write_text(constraints(found))
    (HERE / "sbom.json").write_text(json.dumps(bill(found), indent=1) + "\n")


if __name__ == "__main__":
    main()
