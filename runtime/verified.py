"""Which artifact files have been verified on this machine: verifying takes a board far longer than reading a file.

A mark is an empty file in the cache. Its name is a SHA-256 over the checksum of the file, which reading it has
confirmed, and the source of the verifier, so that neither another file nor another verifier is taken for it. Whoever
can write marks can write the user's files anyway.
"""

from __future__ import annotations

import contextlib
import hashlib

from tilewright.errors import TilewrightError
from tilewright.files import cache_root, prune, write_atomic
from tilewright.runtime.artifact import Artifact
from tilewright.sources import source_version

FOLDER = "verified"  #: in the cache
_MARK = b"verified\n"
_MOST_BYTES = 4096 * len(_MARK)  #: of all marks


def is_verified(artifact: Artifact) -> bool:
    """Whether the programs of an artifact, read from a file, have passed this verifier here."""
    if artifact.checksum is None:
        return False
    try:
        return (cache_root() / FOLDER / _name(artifact.checksum)).is_file()
    except (OSError, TilewrightError):
        return False


def mark_verified(artifact: Artifact) -> None:
    """Note that the programs have passed. Where the cache cannot be written they are verified again next time."""
    if artifact.checksum is None:
        return
    with contextlib.suppress(OSError, TilewrightError):
        path = cache_root() / FOLDER / _name(artifact.checksum)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, _MARK)
        prune(path.parent, "*", _MOST_BYTES)


def _name(checksum: str) -> str:
    return hashlib.sha256(f"{checksum} {source_version(('tilewright.isa',))}".encode()).hexdigest()
