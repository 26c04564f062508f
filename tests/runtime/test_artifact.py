"""Artifact files: whole round trips; damaged, foreign and outdated files are one clear line."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import numpy as np
import pytest

from tests.runtime.network import images, make_artifact
from tilewright.config import PRESETS
from tilewright.files import FileError
from tilewright.runtime import artifact as artifact_module
from tilewright.runtime.artifact import Artifact, ArtifactError, ConfigMismatch, is_artifact
from tilewright.runtime.executable import Executable


@pytest.fixture(scope="module")
def data() -> bytes:
    return make_artifact(keep=True, blobs={"lib": b"\x00\x01", "other": b"abc"}, options={"a": 1}).to_bytes()


def test_everything_survives_a_round_trip(tmp_path: Path) -> None:
    made = make_artifact(keep=True, blobs={"lib": b"\x00\x01", "other": b"abc"}, options={"a": [1, 2]})
    made.save(tmp_path / "a.twa")
    assert Artifact.load(tmp_path / "a.twa") == dataclasses.replace(made, compile_seconds=0.0)
    assert [p.name for p in tmp_path.iterdir()] == ["a.twa"]


def test_outputs_have_the_names_of_the_file(tmp_path: Path) -> None:
    made = make_artifact()
    assert made.named_outputs == made.outputs, "an artifact that says nothing of them"
    named = dataclasses.replace(made, output_names=("Identity",))
    again = Artifact.from_bytes(named.to_bytes())
    assert [tensor.name for tensor in again.named_outputs] == ["Identity"]
    assert again.outputs == made.outputs
    (spec,) = Executable(again).outputs
    assert spec == dataclasses.replace(made.outputs[0], name="Identity")
    x = images(2)
    assert np.array_equal(Executable(again)(x), Executable(made)(x))
    with pytest.raises(ArtifactError, match=r"a\.twa: .*2 names of outputs, 1 outputs"):
        Artifact.from_bytes(dataclasses.replace(made, output_names=("a", "b")).to_bytes(), "a.twa")


def test_every_truncation_is_refused(data: bytes) -> None:
    for size in [*range(64), *range(64, len(data), 97), len(data) - 1]:
        with pytest.raises(ArtifactError, match=r"cut\.twa: (truncated|not a Tilewright artifact)"):
            Artifact.from_bytes(data[:size], "cut.twa")


def test_every_damaged_byte_is_refused(data: bytes) -> None:
    for position in [*range(60), *range(60, len(data), 53)]:
        damaged = bytearray(data)
        damaged[position] ^= 0x41
        with pytest.raises(ArtifactError, match=r"bad\.twa: "):
            Artifact.from_bytes(bytes(damaged), "bad.twa")
    with pytest.raises(ArtifactError, match="corrupt: the checksum does not match"):
        Artifact.from_bytes(data + b"\0", "long.twa")


def test_another_version_is_named(data: bytes) -> None:
    newer = data[:8] + struct.pack("<I", artifact_module.FORMAT_VERSION + 1) + data[12:]
    with pytest.raises(ArtifactError, match=r"new\.twa: artifact format 3, this version of Tilewright reads 2"):
        Artifact.from_bytes(newer, "new.twa")


def test_a_sound_checksum_over_nonsense_is_still_one_line() -> None:
    import hashlib

    for header in (b"[]", b"{}", b'{"name": 3}', b"\xff\xfe"):
        body = struct.pack("<Q", len(header)) + header
        digest = hashlib.sha256(body).digest()
        prefix = struct.pack("<8sIQ32s", artifact_module.MAGIC, artifact_module.FORMAT_VERSION, len(body), digest)
        with pytest.raises(ArtifactError, match=r"x\.twa: not a valid artifact: ") as caught:
            Artifact.from_bytes(prefix + body, "x.twa")
        assert "\n" not in str(caught.value)


def test_a_program_of_another_config_is_refused() -> None:
    made = make_artifact()
    other = dataclasses.replace(made, config=made.config.replace(queue_depth=16))
    with pytest.raises(ArtifactError, match=r"a\.twa: .*program 0 is of another config than the artifact"):
        Artifact.from_bytes(other.to_bytes(), "a.twa")


def test_other_configs_are_told_apart_by_parameter() -> None:
    made = make_artifact()
    made.check_config(PRESETS["tiny"].replace(name="mine"), "the device")
    with pytest.raises(ConfigMismatch) as caught:
        made.check_config(PRESETS["pynq-z2"], "the sim device")
    assert "toy: compiled for config tiny, but the sim device is pynq-z2 (block_in: 4 != 16; " in str(caught.value)


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be written: no such file or directory"):
        make_artifact().save(tmp_path / "missing" / "a.twa")
    (tmp_path / "a.twa").mkdir()
    with pytest.raises(FileError, match=r"a\.twa: cannot be written"):
        make_artifact().save(tmp_path / "a.twa")
    assert [p.name for p in tmp_path.iterdir()] == ["a.twa"]


def test_missing_files_and_other_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"none\.twa: cannot be read: no such file"):
        Artifact.load(tmp_path / "none.twa")
    (tmp_path / "text.twa").write_text("hello")
    with pytest.raises(ArtifactError, match=r"text\.twa: not a Tilewright artifact"):
        Artifact.load(tmp_path / "text.twa")
    assert not is_artifact(b"TFL3")
