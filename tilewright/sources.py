"""A fingerprint of what makes results: those that were kept by other code are not taken for today's."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable  # since Python 3.11

_CONFIG = ("config.py", "parameters.py")
#: packages that read models, compute constants and fill tables
_LIBRARIES = (
    "ai-edge-litert", "apache-tvm", "numpy", "onnx", "onnxruntime", "onnxscript", "tflite", "torch", "torchao",
)  # fmt: skip


@cache
def source_version(packages: tuple[str, ...]) -> str:
    """16 hex digits over the Python and Verilog source of ``packages`` and the Config; changes whenever any does."""
    digest = hashlib.sha256()
    for package in packages:
        for name, content in sorted(_sources(files(package), package)):
            digest.update(name.encode() + b"\0" + content)
    for name in _CONFIG:
        digest.update((files("tilewright") / name).read_bytes())
    return digest.hexdigest()[:16]


@cache
def library_versions() -> tuple[str, ...]:
    """The version of each package whose computing goes into what the compiler makes; empty for one that is not there.

    LiteRT's kernels fill tables, say: those of another version may round otherwise.
    """
    return tuple(_version(name) for name in _LIBRARIES)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _sources(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _sources(entry, f"{prefix}/{entry.name}")
        elif entry.name.endswith((".py", ".v")):
            found.append((f"{prefix}/{entry.name}", entry.read_bytes()))
    return found
