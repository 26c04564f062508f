"""A ``.pt2`` file as an archive in which nothing is left that PyTorch's loader would execute.

``torch.export.load`` unpickles example inputs, weights of classes of their own and objects, evaluates expressions of
shapes as Python, looks functions up by any name under ``torch`` and loads libraries that AOTInductor compiled: a file
does with it what its writer likes. So the archive is read here first, what is only data is taken over into another of
the same layout, and that is what PyTorch sees. Needs no PyTorch.
"""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
from pathlib import Path
from typing import Any

from tilewright.files import most_bytes
from tilewright.jit.source.torch_names import refused_name

_MODEL = "models/model.json"
_PAYLOADS = {"data/weights": "model_weights_config.json", "data/constants": "model_constants_config.json"}
_SIGNS = {"archive_format": rb"pt2", "archive_version": rb"\d{1,4}", ".data/version": rb"\d{1,4}\s*"}
_PAYLOAD = re.compile(r"(weight|tensor)_\d+")
_CLASSES = "holds objects of classes of its own, which are code; give tensors alone"


class ArchiveError(ValueError):
    """A ``.pt2`` file is no program, or more than data; says what, and the way out."""


def plain_archive(path: Path) -> io.BytesIO:
    """What ``torch.export.load`` may read of a ``.pt2`` file: graph, weights and constants.

    Example inputs, files of others and guards are left out: no result depends on them. Raises ArchiveError, and
    what ``zipfile`` and ``json`` raise of files that are none.
    """
    made = io.BytesIO()
    with zipfile.ZipFile(path) as archive:
        members = _members(archive)
        program = _program(_read(archive, members, _MODEL))
        with zipfile.ZipFile(made, "w") as plain:

            def write(name: str, content: bytes) -> None:
                plain.writestr(f"archive/{name}", content)

            for name, form in _SIGNS.items():
                content = _read(archive, members, name)
                if not re.fullmatch(form, content):
                    raise ArchiveError(f"has {content[:20]!r} as its {name}; save it with PyTorch 2.8 or later")
                write(name, content)
            write(_MODEL, json.dumps(program).encode())
            write("data/sample_inputs/model.pt", b"")
            for folder, config in _PAYLOADS.items():
                payloads = json.loads(_read(archive, members, f"{folder}/{config}"))
                write(f"{folder}/{config}", json.dumps(payloads).encode())
                for name in _payloads(payloads):
                    write(f"{folder}/{name}", _read(archive, members, f"{folder}/{name}"))
    made.seek(0)
    return made


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The files of an archive without the folder that they are all in."""
    infos = archive.infolist()
    if "serialized_exported_program.json" in {info.filename for info in infos}:
        raise ArchiveError("is a program as PyTorch before 2.8 wrote it; save it again with that of today")
    if sum(info.file_size for info in infos) > most_bytes():
        raise ArchiveError("unpacks to more than half of this machine's memory; give a smaller model")
    members = {info.filename.partition("/")[2]: info for info in infos}
    if any(name.startswith("data/aotinductor/") for name in members):
        raise ArchiveError("holds libraries that AOTInductor compiled; save the program alone with torch.export.save")
    return members


def _read(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], name: str) -> bytes:
    if name not in members:
        raise ArchiveError(f"has no {name} in it; save it with torch.export.save of PyTorch 2.8 or later")
    return archive.read(members[name])


def _program(content: bytes) -> dict[str, Any]:
    """The graph, all of whose names are looked at. Raises ArchiveError."""
    program = json.loads(content)
    if not isinstance(program, dict):
        raise ArchiveError(f"has no graph in {_MODEL}; save it with torch.export.save")
    waiting: list[Any] = [program]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            if value.get("as_custom_obj") or value.get("custom_obj_values") or value.get("custom_obj"):
                raise ArchiveError(_CLASSES)
            for key, name in value.items():
                if isinstance(name, str) and (reason := refused_name(key, name)) is not None:
                    raise ArchiveError(reason)
    return {**program, "guards_code": []}


def _payloads(config: Any) -> list[str]:
    """The names of the files that hold weights or constants, each once. Raises ArchiveError."""
    names: dict[str, None] = {}
    total = 0
    for name, payload in dict(config["config"]).items():
        path, meta = payload["path_name"], payload["tensor_meta"]
        if payload["use_pickle"] or not isinstance(path, str) or not _PAYLOAD.fullmatch(path):
            raise ArchiveError(f"{name}: {_CLASSES}")
        sizes = [size.get("as_int") for size in meta["sizes"]]
        if not all(isinstance(size, int) and size >= 0 for size in sizes):
            raise ArchiveError(f"{name}: a tensor of {sizes} elements, which are no numbers; export the program again")
        total += math.prod(sizes)
        if total > most_bytes():
            raise ArchiveError(
                f"{name}: with it, tensors of {total:,} elements, more than half of this machine's memory"
            )
        names[path] = None
    return list(names)
