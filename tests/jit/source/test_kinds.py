"""Files that are something else than their name says, or than a model: named, with the way out."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.fuzz.flatbuffer import StoredOperator, StoredTensor, write_tflite
from tests.jit.source.onnx_nets import NetBuilder
from tilewright.errors import TilewrightError
from tilewright.jit.source.kinds import described
from tilewright.quantize.files import open_quantiser


def archive(*names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as made:
        for name in names:
            made.writestr(name, "x")
    return content.getvalue()


def tflite(folder: Path) -> bytes:
    tensors = [StoredTensor("x", (1, 4), "float32"), StoredTensor("y", (1, 4), "float32")]
    return write_tflite(folder / "made.bin", tensors, [StoredOperator("RELU", [0], [1])], [0], [1]).read_bytes()


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(4)


KERAS = "from_keras_model"
TORCH = "torch.export.save"
CASES = {
    "archive of Keras": (archive("config.json", "model.weights.h5"), "is a Keras model; .*" + KERAS),
    "HDF5": (b"\x89HDF\r\n\x1a\n" + bytes(64), "is an HDF5 file.*" + KERAS),
    "SavedModel": (b"\x08\x01\x12\x90\x01" + bytes(64), "is a SavedModel's graph; .*from_saved_model"),
    "state_dict": (archive("w/data.pkl", "w/data/0"), "is what torch.save wrote.*" + TORCH),
    "TorchScript": (archive("w/data.pkl", "w/constants.pkl"), "is a TorchScript module.*" + TORCH),
    "pickle": (b"\x80\x02}q\x00.", "is a pickle.*" + TORCH),
    "safetensors": (safetensors(), "is weights alone.*" + TORCH),
    "archive": (archive("a/net.tflite", "labels.txt"), "is a zip archive with a/net.tflite in it; unpack it"),
    "gzip": (gzip.compress(b"model"), "is compressed by gzip; unpack it first"),
    "Git LFS": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a pointer of Git LFS.*git lfs pull"),
    "page": (b"\n<!DOCTYPE html><html>", "is a web page; download the model itself"),
    "XML": (b'<?xml version="1.0"?><net/>', "is XML.*OpenVINO"),
    "array": (b"\x93NUMPY\x01\x00", "is a NumPy array; .*--input or --data"),
    "GGUF": (b"GGUF\x03\x00\x00\x00", "is a GGUF file"),
    "ORT": (b"\x18\x00\x00\x00ORTM" + bytes(64), r"is ONNX Runtime's own .ort format; give the .onnx"),
}  # fmt: skip


@pytest.mark.parametrize("suffix", [".tflite", ".onnx", ".h5", ".bin"])
@pytest.mark.parametrize("kind", CASES)
def test_what_a_file_is(kind: str, suffix: str, tmp_path: Path) -> None:
    content, said = CASES[kind]
    path = tmp_path / f"net{suffix}"
    path.write_bytes(content)
    with pytest.raises(TilewrightError, match=f"^{path}: {said}"):
        tw.compile(path, "tiny", cache=False)
    with pytest.raises(TilewrightError, match=f"^{path}: {said}"):
        open_quantiser(path, 8)


def test_models_by_another_name(tmp_path: Path) -> None:
    onnx = NetBuilder()
    x = onnx.real_input((1, 4))
    onnx.output(x.name, (1, 4))
    contents = {
        ".tflite": tflite(tmp_path), ".onnx": onnx.save(tmp_path / "made.onnx").read_bytes(),
        ".pt2": archive("net/archive_format", "net/models/model.json"),
    }  # fmt: skip
    for own, content in contents.items():
        for suffix in (".tflite", ".onnx", ".model"):
            path = tmp_path / f"net{suffix}"
            path.write_bytes(content)
            if suffix == own:
                assert described(path) is None
                continue
            with pytest.raises(TilewrightError, match=f"; name it {own}$"):
                tw.compile(path, "tiny", cache=False)


def test_folders(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    with pytest.raises(TilewrightError, match="saved: is a folder; give the model file in it"):
        tw.compile(tmp_path / "saved", "tiny")
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"\x08\x01")
    with pytest.raises(TilewrightError, match="saved: is a SavedModel folder; convert"):
        tw.compile(tmp_path / "saved", "tiny")


def test_unknown_and_broken_files(tmp_path: Path) -> None:
    """Nothing is said of what is not recognised; an archive that ends early is none of its kinds."""
    path = tmp_path / "net.bin"
    for content in (b"", b"x", np.random.default_rng(0).bytes(600), b"PK\x03\x04 no archive", archive("a")[:20]):
        path.write_bytes(content)
        assert described(path) is None
    assert described(tmp_path / "gone") is None
