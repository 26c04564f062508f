"""The files that :mod:`tests.campaigns.command_lines` names: good, damaged, devices, pipes, links, folders."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import numpy as np

from tests.fuzz.seeds import draw_network
from tests.isa.test_assembler import LEGAL
from tests.runtime.network import images, make_artifact
from tilewright.config import PRESETS
from tilewright.isa.assembler import assemble
from tilewright.isa.container import dump
from tilewright.runtime.executable import Executable

_NASTY = ["\x1b[31m.tflite", "\u202e.onnx", "\udcff.twa", "x" * 200 + ".tflite", "two\nlines.npy", "-o", "a=2"]
_GOOD = ["toy.twa", "net.tflite", "net.onnx", "float.onnx", "x.npy", "f.npy", "r.json", "p.s", "p.twp", "c.toml",
         "space.toml", "energy.toml"]  # fmt: skip


def make_files(folder: Path, stock: Path | None = None) -> list[str]:
    """Fill a folder, from another that was filled so; returns the names of what is there, and of what is elsewhere."""
    if stock is None:
        folder.mkdir(parents=True)
        _good(folder)
        _bad(folder)
    else:
        shutil.copytree(stock, folder, symlinks=True, copy_function=_copied, ignore=lambda *_: ["pipe", "pipe.tflite"])
    for name in ("pipe", "pipe.tflite"):
        os.mkfifo(folder / name)
    here = [os.fsdecode(os.fsencode(path.name)) for path in sorted(folder.iterdir())]
    return [*here, "/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/stdin", "/dev/tty", "/proc/self/mem",
            "/proc/cpuinfo", "/", ".", "..", "nothing", "y" * 300, "folder/", "x.npy/"]  # fmt: skip


def _copied(source: str, target: str) -> str:
    if os.stat(source).st_size > 1 << 30:
        with open(target, "wb") as file:
            file.truncate(os.stat(source).st_size)
        return target
    return str(shutil.copy2(source, target))


def _good(folder: Path) -> None:
    artifact = make_artifact()
    artifact.save(folder / "toy.twa")
    _, report = Executable(artifact, "sim").run(images(2))
    report.save_json(folder / "r.json")
    for kind in ("tflite", "onnx"):
        shutil.move(draw_network(kind, 7, "small", folder)[1], folder / f"net.{kind}")
    np.save(folder / "x.npy", images(2))
    np.save(folder / "f.npy", np.zeros((2, 1, 4), np.float32))
    _float_model(folder / "float.onnx")
    (folder / "p.s").write_text(LEGAL)
    (folder / "p.twp").write_bytes(dump(assemble(LEGAL, "p.s")))
    (folder / "c.toml").write_text(PRESETS["tiny"].to_toml())
    (folder / "space.toml").write_text("block_in = [8, 16]\n")
    (folder / "energy.toml").write_text("")


def _float_model(path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    weight = helper.make_tensor("w", TensorProto.FLOAT, [4, 4], np.eye(4, dtype=np.float32).ravel())
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])], [weight],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def _bad(folder: Path) -> None:
    rng = random.Random(0)
    for name in _GOOD:
        content = (folder / name).read_bytes()
        (folder / f"cut.{name}").write_bytes(content[: len(content) // 2])
        spot = rng.randrange(max(1, len(content)))
        (folder / f"bit.{name}").write_bytes(content[:spot] + bytes([rng.randrange(256)]) + content[spot + 1 :])
    for name in _NASTY:
        path = folder / name
        path.write_bytes((folder / f"net{path.suffix}").read_bytes() if path.suffix in (".tflite", ".onnx") else b"x")
    for suffix in ("tflite", "onnx", "pt2", "twa", "npy", "npz", "toml", "json", "s", "twp"):
        (folder / f"empty.{suffix}").touch()
        (folder / f"noise.{suffix}").write_bytes(rng.randbytes(300))
        (folder / f"zero.{suffix}").symlink_to("/dev/zero")
    (folder / "deep.toml").write_text("a = " + "[" * 20_000)
    (folder / "deep.json").write_text("[" * 200_000)
    for name in ("huge.tflite", "huge.npy"):
        with (folder / name).open("wb") as file:
            file.truncate(1 << 42)
    (folder / "folder").mkdir()
    (folder / "folder" / "a.npy").write_bytes((folder / "f.npy").read_bytes())
    (folder / "folder.tflite").mkdir()
    (folder / "dangling").symlink_to("not there")
    (folder / "loop").symlink_to("loop")
    (folder / "link.tflite").symlink_to("net.tflite")
    (folder / "hard.tflite").hardlink_to(folder / "net.tflite")
    (folder / "link.json").symlink_to("r.json")
