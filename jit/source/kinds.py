"""What a file is that cannot be read as the model that its name says: recognised by its content, and the way out."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

from tilewright.files import is_special, most_bytes
from tilewright.jit.errors import ModelError

_HEAD = 512  #: bytes that are looked at
_KERAS = "convert it with tf.lite.TFLiteConverter.from_keras_model(keras.models.load_model(path))"
_SAVED_MODEL = "convert its folder with tf.lite.TFLiteConverter.from_saved_model"
_TORCH = "export the module: torch.export.save(torch.export.export(module.eval(), (example,)), 'net.pt2')"
_ONNX_SECOND = b"\x12\x1a\x22\x2a\x32\x3a\x42"  #: tags of the fields that may follow an ONNX file's version
#: (where in the file, what stands there, what the file is, the way out)
_MAGIC = (
    (4, b"TFL3", "a .tflite model", "name it .tflite"),
    (4, b"ORTM", "ONNX Runtime's own .ort format", "give the .onnx file that it was made from"),
    (4, b"ET1", "an ExecuTorch program", "give the .pt2 file that it was made from"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes models and weights", _KERAS),
    (0, b"\x1f\x8b", "compressed by gzip", "unpack it first"),
    (0, b"BZh", "compressed by bzip2", "unpack it first"),
    (0, b"\xfd7zXZ", "compressed by xz", "unpack it first"),
    (0, b"7z\xbc\xaf", "a 7z archive", "unpack it first"),
    (0, b"GGUF", "a GGUF file of weights", "export the network itself"),
    (0, b"LITERTLM", "a LiteRT-LM bundle", "give the .tflite model in it"),
    (0, b"\x93NUMPY", "a NumPy array", "give the model; arrays go with --input or --data"),
    (0, b"version https://git-lfs", "a pointer of Git LFS, not the file", "fetch that with `git lfs pull`"),
    (0, b"\x80\x02", "a pickle, as torch.save writes it", _TORCH),
)


def check_model_file(path: Path) -> None:
    """Raise :class:`ModelError` for what is no file to read a model from, more than once: said before it is read."""
    try:
        if path.is_dir():
            raise ModelError(f"{path}: {described(path)}")
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise ModelError(f"{path}: no such file") from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:  # a zero in the name
        raise ModelError(f"{str(path)!r}: cannot be read: {error}") from error
    if is_special(path):
        raise ModelError(f"{path}: is a device or a pipe, and a model is read more than once; give a file")
    if not size:
        raise ModelError(f"{path}: the file is empty; download or export it again")
    if size > most_bytes():
        raise ModelError(f"{path}: has {size:,} bytes, more than half of this machine's memory; give a smaller model")


def described(path: Path) -> str | None:
    """What a file or folder is, and the way out, as an error message has it; None for a file that nobody knows."""
    if path.is_dir():
        saved = (path / "saved_model.pb").exists()
        return f"is a SavedModel folder; {_SAVED_MODEL}" if saved else "is a folder; give the model file in it"
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
        said = next((said for rule in _RULES if (said := rule(path, head)) is not None), None)
    except (OSError, zipfile.BadZipFile, ValueError):
        return None
    named = said is not None and said[1] == f"name it {path.suffix.lower()}"  # what else is wrong, others know
    return None if said is None or named else f"is {said[0]}; {said[1]}"


def _magic(path: Path, head: bytes) -> tuple[str, str] | None:
    return next(((what, way) for at, magic, what, way in _MAGIC if head[at : at + len(magic)] == magic), None)


def _archive(path: Path, head: bytes) -> tuple[str, str] | None:
    """A zip archive, by the names in it."""
    if not head.startswith(b"PK\x03\x04"):
        return None
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    last = {name.rsplit("/", 1)[-1] for name in names}
    if "model.weights.h5" in last:
        return "a Keras model", _KERAS
    if "archive_format" in last or "serialized_exported_program.json" in last:
        return "a program that torch.export.save wrote", "name it .pt2"
    if "constants.pkl" in last:
        return "a TorchScript module", _TORCH
    if "data.pkl" in last:
        return "what torch.save wrote: weights, or a pickled module", _TORCH
    models = [name for name in names if name.lower().endswith((".tflite", ".onnx", ".pt2"))]
    return f"a zip archive{f' with {models[0]} in it' if models else ''}", "unpack it and give the model"


def _protobuf(path: Path, head: bytes) -> tuple[str, str] | None:
    """ONNX begins with its version, of 3 or more, and who wrote it; a SavedModel with its own, 1."""
    if head[:3] == b"\x08\x01\x12":
        return "a SavedModel's graph", _SAVED_MODEL
    onnx = len(head) > 2 and head[0] == 8 and 3 <= head[1] < 64 and head[2:3] in {bytes([c]) for c in _ONNX_SECOND}
    return ("an .onnx model", "name it .onnx") if onnx else None


def _text(path: Path, head: bytes) -> tuple[str, str] | None:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "a web page", "download the model itself"
    if start.startswith((b"<?xml", b"<net")):
        return "XML, as OpenVINO writes networks", "give the .onnx or .tflite model that it was made from"
    return None


def _weights(path: Path, head: bytes) -> tuple[str, str] | None:
    """Safetensors: the length of a header in JSON, and the header."""
    length = int.from_bytes(head[:8], "little")
    if head[8:9] != b"{" or not 2 <= length <= path.stat().st_size - 8:
        return None
    return "weights alone (safetensors)", f"load them into their module and {_TORCH}"


_RULES: tuple[Callable[[Path, bytes], tuple[str, str] | None], ...] = (_magic, _archive, _protobuf, _weights, _text)
