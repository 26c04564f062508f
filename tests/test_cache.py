"""``tw.compile`` through the cache: keys, memory, disk, damage."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import tilewright as tw
from tests.jit.source.test_onnx_lenient import convolution
from tests.runtime.network import TINY, images, make_artifact, reference
from tilewright import cache, checking, compiling, model_files, sources
from tilewright.files import CACHE_VARIABLE
from tilewright.jit.errors import ModelError
from tilewright.runtime.device import DeviceError
from tilewright.runtime.random_inputs import random_inputs


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Replaces the compiler by one that always makes the toy network; lists what it compiled."""
    made: list[str] = []

    def compile_artifact(path: Path, config: Any, options: compiling.Options, *_: Any) -> Any:
        made.append(path.name)
        return dataclasses.replace(make_artifact(config, keep=options.keep_intermediates), name=path.stem)

    monkeypatch.setattr(compiling, "compile_artifact", compile_artifact)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    cache.clear_memory()
    return made


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    path.write_bytes(b"TFL3 model")
    return path


def files(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache").rglob("*.twa"))


def test_the_second_compile_comes_from_memory_and_the_third_from_disk(
    compilations: list[str], model: Path, tmp_path: Path
) -> None:
    first = tw.compile(model, "tiny")
    second = tw.compile(model, "tiny")
    cache.clear_memory()
    third = tw.compile(model, TINY)
    assert compilations == ["net.tflite"]
    assert [first.cached, second.cached, third.cached] == [False, True, True]
    assert len(files(tmp_path)) == 1
    x = images(2)
    assert np.array_equal(third(x), reference(x)[1].reshape(2, 32))


def test_what_the_result_depends_on_makes_another_entry(compilations: list[str], model: Path) -> None:
    tw.compile(model, "tiny")
    tw.compile(model, "tiny", keep_intermediates=True)
    tw.compile(model, TINY.replace(dram_latency=50))
    model.write_bytes(b"TFL3 other")
    tw.compile(model, "tiny")
    assert len(compilations) == 4
    assert tw.compile(model, "tiny", jobs=4).cached  # of the device, where nothing is placed
    tw.compile(model, "tiny", objective="latency")
    tw.compile(model, "tiny", objective="latency", jobs=4)
    assert len(compilations) == 6
    renamed = tw.compile(model, TINY.replace(name="mine"))
    assert renamed.cached
    assert renamed.artifact.config.name == "mine"


def test_equal_models_of_other_names_share_an_entry_but_keep_their_name(compilations: list[str], model: Path) -> None:
    tw.compile(model, "tiny")
    twin = model.with_name("twin.tflite")
    twin.write_bytes(model.read_bytes())
    assert tw.compile(twin, "tiny").name == "twin"
    assert compilations == ["net.tflite"]


@pytest.mark.parametrize("damage", [b"", b"TWART", b"x" * 1000])
def test_a_damaged_file_is_compiled_again_and_replaced(
    compilations: list[str], model: Path, tmp_path: Path, damage: bytes
) -> None:
    tw.compile(model, "tiny")
    files(tmp_path)[0].write_bytes(damage)
    cache.clear_memory()
    assert not tw.compile(model, "tiny").cached
    cache.clear_memory()
    assert tw.compile(model, "tiny").cached
    assert len(compilations) == 2


def test_without_cache_nothing_is_read_or_kept(compilations: list[str], model: Path, tmp_path: Path) -> None:
    tw.compile(model, "tiny", cache=False)
    tw.compile(model, "tiny", cache=False)
    assert len(compilations) == 2
    assert files(tmp_path) == []


def test_a_cache_folder_that_cannot_be_made_is_no_obstacle(
    compilations: list[str], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file"))
    assert tw.compile(model, "tiny").name == "net"
    assert compilations == ["net.tflite"]


def test_old_files_go_when_the_folder_is_too_large(
    compilations: list[str], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tw.compile(model, "tiny")
    old = files(tmp_path)[0]
    os.utime(old, (1, 1))
    monkeypatch.setattr(cache, "DISK_BYTES", old.stat().st_size + 10)
    model.write_bytes(b"TFL3 newer")
    tw.compile(model, "tiny")
    assert old not in files(tmp_path)
    assert len(files(tmp_path)) == 1


def test_the_device_is_checked_before_the_work(compilations: list[str], model: Path) -> None:
    with pytest.raises(DeviceError, match="device gpu"):
        tw.compile(model, "tiny", device="gpu")
    assert compilations == []


def test_artifacts_are_not_models(compilations: list[str], tmp_path: Path) -> None:
    make_artifact().save(tmp_path / "a.tflite")
    with pytest.raises(compiling.CompileError, match=r"is a compiled artifact, not a model; load it"):
        tw.compile(tmp_path / "a.tflite", "tiny")
    assert compilations == []


def test_weights_beside_a_model_are_part_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The integers of one file with other weights beside it: those of the first were given once."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    path, beside = convolution(tmp_path / "m.onnx"), tmp_path / "weights.bin"
    onnx.save(onnx.load(str(path)), str(path), save_as_external_data=True, location="weights.bin", size_threshold=1)
    content = path.read_bytes()
    x = random_inputs(tw.compile(path, "tiny").inputs, 0, 3)
    results: list[tuple[Any, str]] = []
    for data in (beside.read_bytes(), bytes(len(beside.read_bytes()))):
        beside.write_bytes(data)
        assert path.read_bytes() == content
        executable = tw.compile(path, "tiny")
        results.append((executable(*x), executable.artifact.options["model_sha256"]))
        assert np.array_equal(results[-1][0], checking.reference_outputs(path, x)[0])
    assert results[0][1] != results[1][1]
    assert not np.array_equal(results[0][0], results[1][0])
    beside.unlink()
    with pytest.raises(ModelError, match=r"weights.bin.*; it belongs beside the model"):
        tw.compile(path, "tiny")


def test_a_model_that_changes_under_the_compiler_is_refused(
    compilations: list[str], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read may be some of both, and would be kept as the first."""
    compile_artifact = compiling.compile_artifact

    def slowly(path: Path, *rest: Any) -> Any:
        path.write_bytes(b"TFL3 model, trained anew")
        return compile_artifact(path, *rest)

    monkeypatch.setattr(compiling, "compile_artifact", slowly)
    with pytest.raises(compiling.CompileError, match=r"net.tflite: changed while it was compiled; compile it again"):
        tw.compile(model, "tiny")
    assert files(tmp_path) == []
    assert not tw.compile(model, "tiny").cached


def test_a_model_of_several_files_needs_onnx(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(helper.make_graph([], "location", [], [])), str(path))
    monkeypatch.setattr(model_files, "find_spec", lambda name: None)
    with pytest.raises(model_files.ModelFilesError, match="m.onnx: may have weights in other files, and onnx"):
        model_files.model_digest(path, path.read_bytes())
    for whole in (b"PK\x03\x04 location", b"\x1c\0\0\0TFL3 location"):
        assert model_files.model_digest(path, whole) == hashlib.sha256(whole).hexdigest()


def test_the_compiler_version_is_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache.cache_key("m", ".onnx", TINY, {})
    assert before != cache.cache_key("m", ".tflite", TINY, {})
    monkeypatch.setattr(cache, "compiler_version", lambda: "another")
    assert cache.cache_key("m", ".onnx", TINY, {}) != before


def test_the_libraries_that_compute_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteRT of another version may fill tables otherwise."""
    before, known = cache.cache_key("m", ".tflite", TINY, {}), sources.library_versions()
    assert sources._version("numpy") == np.__version__ in known
    assert sources._version("no-such-package") == ""
    monkeypatch.setattr(cache, "library_versions", lambda: (*known[:-1], "another"))
    assert cache.cache_key("m", ".tflite", TINY, {}) != before


def test_the_face_has_what_it_promises() -> None:
    assert set(tw.__all__) <= set(dir(tw))
    assert tw.Config is type(TINY)
    assert tw.load_config("tiny") == TINY
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        tw.nonsense  # noqa: B018


def test_compiling_without_its_packages_is_refused_by_name(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(compiling, "find_spec", lambda name: None)
    with pytest.raises(compiling.CompileError, match=r"net\.tflite: .* pip install 'tilewright\[compile\]'"):
        tw.compile(model, "tiny")
