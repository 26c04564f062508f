"""All that a model consists of: its file, and what lies beside it that the file names (external data of ONNX)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.files import keep_input, read_bytes

_LOCATION = b"location"  #: the key of a file's name, in the bytes of every model that has tensors in another
_OTHERS = (b"PK\x03\x04", b"TFL3")  #: what .pt2 begins with, and .tflite four bytes later: they are whole


class ModelFilesError(TilewrightError):
    """A model of several files, and no package that says which."""


def model_digest(path: Path, content: bytes) -> str:
    """SHA-256 of a model's file, and of the files beside it, if there are any: equal for equal models.

    Those are inputs from here on, as the file is. ``content``: of the file. Raises :class:`ModelFilesError`,
    :class:`~tilewright.files.FileError`.
    """
    digest = hashlib.sha256(content)
    names = sorted(_locations(path, content))
    if not names:
        return digest.hexdigest()
    for name in names:
        beside = path.parent / name
        keep_input(beside)  # whoever reads the model refuses what is no file
        own = hashlib.sha256(read_bytes(beside)).hexdigest() if beside.is_file() else None
        digest.update(json.dumps([name, own]).encode())
    return digest.hexdigest()


def _locations(path: Path, content: bytes) -> set[str]:
    if _LOCATION not in content or content.startswith(_OTHERS[0]) or content[4:8] == _OTHERS[1]:
        return set()
    if find_spec("onnx") is None:
        raise ModelFilesError(
            f"{path}: may have weights in other files, and onnx, which says where, is not installed: "
            "pip install 'tilewright[compile]'"
        )
    import onnx

    try:
        model = onnx.load_from_string(content)
    except Exception:  # noqa: BLE001  # protobuf raises kinds of its own; who reads the model says so
        return set()
    return set(locations(model))


def locations(model: Any) -> Iterator[str]:
    """The files, relative to its own, in which an ``onnx.ModelProto`` has tensors."""
    yield from _of_graph(model.graph)
    for function in model.functions:
        yield from _of_graph(function)


def subgraphs(attribute: Any) -> list[Any]:
    """The graphs that an attribute of an ``onnx.NodeProto`` has: branches, or the body of a loop."""
    return [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def bodies(node: Any) -> Iterator[Any]:
    """The graphs that an ``onnx.NodeProto`` has in its attributes."""
    return (body for attribute in node.attribute for body in subgraphs(attribute))


def every_node(nodes: Iterable[Any]) -> Iterator[Any]:
    """``onnx.NodeProto`` nodes, and behind each those of the branches and bodies in it."""
    for node in nodes:
        yield node
        for body in bodies(node):
            yield from every_node(body.node)


def _of_graph(graph: Any) -> Iterator[str]:
    tensors = [*getattr(graph, "initializer", [])]
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        tensors += [attribute.t, *attribute.tensors]
        for inner in subgraphs(attribute):
            yield from _of_graph(inner)
    for tensor in tensors:
        yield from (entry.value for entry in tensor.external_data if entry.key == "location")
