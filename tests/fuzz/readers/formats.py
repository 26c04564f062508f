"""The formats: a sound file to begin with, damage that keeps it plausible, and what reads it.

A reader returns for what it accepts and raises a :class:`TilewrightError` for what it refuses. Everything else is a
defect, an accepted file that means something else included.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import socket
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.cases import FAILURES, REFERENCE_REFUSED, REFUSED, check_case
from tests.fuzz.hostile import open_artifact, open_program, seal_artifact, seal_program
from tests.fuzz.readers.mutate import damage, hostile, rewrite
from tests.fuzz.readers.tflite_damage import damaged_tflite
from tests.fuzz.seeds import draw_network
from tilewright.agreement import UNSTEADY, Misread
from tilewright.arrays import load_array, load_arrays
from tilewright.compiling import compile
from tilewright.config import PRESETS, Config
from tilewright.isa.assembler import assemble
from tilewright.isa.container import dump, load
from tilewright.isa.disassembler import disassemble
from tilewright.isa.program import Program
from tilewright.isa.verifier import verify
from tilewright.jit.source import open_source
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.executable import Executable
from tilewright.runtime.random_inputs import random_inputs
from tilewright.runtime.remote.frames import MAGIC as FRAME
from tilewright.runtime.remote.frames import PREFIX, Channel
from tilewright.runtime.remote.session import Programs, Session
from tilewright.runtime.report.html import render_html
from tilewright.runtime.sim_device import SimDevice

TINY = PRESETS["tiny"]
MEMORY = 64 << 20  #: bytes that the session under attack gives


class Defect(Exception):
    """A damaged file was accepted and means something else than it says; or a defect that another check reports."""


@dataclass(frozen=True)
class Format:
    """``make`` a damaged file, ``read`` it."""

    suffix: str
    make: Callable[[random.Random], bytes]
    read: Callable[[Path], None]


# -- models ----------------------------------------------------------------------------------------------


def _model(kind: str) -> Callable[[random.Random], bytes]:
    def make(rng: random.Random) -> bytes:
        data = _sound_model(kind, rng.randrange(40))
        if rng.random() >= 0.7:
            return damage(data, rng)
        return _damaged_onnx(data, rng) if kind == "onnx" else damaged_tflite(data, rng)

    return make


@cache
def _sound_model(kind: str, seed: int) -> bytes:
    """A small random network that the reference runs."""
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        return draw_network(kind, seed, "small", folder)[1].read_bytes()


def _damaged_onnx(data: bytes, rng: random.Random) -> bytes:
    """One field of one message set to something hostile, dropped or doubled: still well-formed protobuf."""
    import onnx

    model = onnx.load_from_string(data)
    message: Any = model
    while True:
        fields = [f for f, _ in message.ListFields()]
        field = rng.choice(fields)
        value = getattr(message, field.name)
        repeated = not isinstance(value, (int, float, str, bytes)) and hasattr(value, "__len__")
        item = rng.choice(list(value)) if repeated and len(value) else value
        if hasattr(item, "ListFields") and item.ListFields() and rng.random() < 0.85:
            message = item
            continue
        if repeated and len(value) and not hasattr(item, "ListFields") and rng.random() < 0.6:
            value[rng.randrange(len(value))] = _other(item, rng)
        elif repeated and len(value) and rng.random() < 0.5:
            value.append(item) if not hasattr(item, "CopyFrom") else value.add().CopyFrom(item)
        elif isinstance(value, (int, float, str, bytes)) and not repeated:
            try:
                setattr(message, field.name, _other(value, rng))
            except (ValueError, TypeError):  # a number that the field does not hold
                message.ClearField(field.name)
        else:
            message.ClearField(field.name)
        return bytes(model.SerializeToString())


def _other(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bytes):
        return damage(value, rng)
    if isinstance(value, str):
        return rng.choice(["", "x", value * 2, "é" * 100])
    if isinstance(value, float):
        return rng.choice([0.0, -1.0, 1e-45, 1e38, float("inf"), float("nan")])
    return rng.choice([value + 1, value - 1, -value, 0, 1, -1, 2, 255, 65536, (1 << 31) - 1, -(1 << 31)])


def _read_model(path: Path) -> None:
    """A model that the reference runs gives the reference's integers; one that it refuses is refused in words."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", Misread)  # what is mended there is a defect all the same
        executable = compile(path, TINY, cache=False)
    if UNSTEADY in executable.artifact.options.get("uncompared", "") and not _draws(path):
        raise Defect("the interpreter gives other values each time, of what it leaves unwritten")
    x = random_inputs(executable.inputs, 3, 2)
    outcome = check_case(path, TINY, x, executable)
    if outcome.kind in FAILURES and outcome.kind != REFUSED:
        raise Defect(f"{outcome.kind}: {outcome.message} {outcome.where}")
    if outcome.kind == REFERENCE_REFUSED:
        executable.run(x)


def _draws(path: Path) -> bool:
    """Whether a model has operators that draw their results."""
    return any(op.kind.upper().startswith("RANDOM") for op in open_source(path).operators)


# -- programs and artifacts ------------------------------------------------------------------------------


@cache
def _sound_artifact() -> Artifact:
    """A small network's."""
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        path = Path(folder) / "sound.tflite"
        path.write_bytes(_sound_model("tflite", 4))
        return compile(path, TINY, cache=False, keep_intermediates=True).artifact


@cache
def _sound_program() -> Program:
    return _sound_artifact().programs[0]


def _make_program(rng: random.Random) -> bytes:
    header, blobs = open_program(dump(_sound_program()))
    if rng.random() < 0.7:
        hostile(header, rng)
    else:
        blobs = damage(blobs, rng)
    return seal_program(header, blobs)


def _read_program(path: Path) -> None:
    program = load(path.read_bytes(), str(path))
    text = disassemble(program)
    if assemble(text, "again").table().tolist() != program.table().tolist():
        raise Defect("its text is another program")
    verify(program)


def _make_artifact(rng: random.Random) -> bytes:
    header, blobs = open_artifact(_sound_artifact().to_bytes())
    kind = rng.random()
    if kind < 0.6:
        part = header["steps"] if rng.random() < 0.5 else header
        hostile(part, rng)
    elif kind < 0.9:
        program = _make_program(rng)
        rest = blobs[header["programs"][0] :]
        header["programs"][0], blobs = len(program), program + rest
    else:
        blobs = damage(blobs, rng)
    return seal_artifact(header, blobs)


def _read_artifact(path: Path) -> None:
    executable = Executable(Artifact.load(path))
    x = random_inputs(executable.inputs, 3, 3)
    y, report = executable.run(x)
    alone, _ = executable.run([value[1:2] for value in x])
    for together, single in zip(*(z if isinstance(z, list) else [z] for z in (y, alone))):
        if not np.array_equal(together[1:2], single, equal_nan=together.dtype.kind == "f"):
            raise Defect("an inference gives other values beside others than alone")
    render_html(report.to_dict(), report.runs)


# -- text ------------------------------------------------------------------------------------------------


@cache
def _sound_text() -> str:
    return disassemble(_sound_program())


def _make_assembly(rng: random.Random) -> bytes:
    lines = _sound_text().splitlines(keepends=True)
    begin = rng.randrange(len(lines))
    kept = lines if rng.random() < 0.3 else [*lines[:60], *lines[begin : begin + 60]]
    return rewrite("".join(kept), rng).encode()


def _read_assembly(path: Path) -> None:
    program = assemble(path.read_bytes().decode(errors="replace"), str(path))
    again = assemble(disassemble(program), "again")
    if (again.instructions, again.segments, again.meta) != (program.instructions, program.segments, program.meta):
        raise Defect("its text is another program")
    verify(program)


def _make_toml(rng: random.Random) -> bytes:
    return rewrite(PRESETS[rng.choice(list(PRESETS))].to_toml(), rng).encode()


def _read_toml(path: Path) -> None:
    config = Config.from_toml(path.read_bytes().decode(errors="replace"), str(path))
    if Config.from_toml(config.to_toml()) != config:
        raise Defect("its TOML is another Config")


# -- arrays and frames -----------------------------------------------------------------------------------


def _make_array(rng: random.Random) -> bytes:
    stream, x = io.BytesIO(), np.arange(24).reshape(2, 3, 4).astype(rng.choice(["i1", ">i4", "f2", "b1"]))
    np.save(stream, np.asfortranarray(x) if rng.random() < 0.3 else x)
    return damage(stream.getvalue(), rng)


def _read_array(path: Path) -> None:
    load_array(path)


def _read_arrays(path: Path) -> None:
    load_arrays(path)


def _make_arrays(rng: random.Random) -> bytes:
    stream, x = io.BytesIO(), np.arange(24, dtype=np.int16)
    (np.savez_compressed if rng.random() < 0.5 else np.savez)(stream, x=x, y=x)
    return damage(stream.getvalue(), rng)


def _make_frames(rng: random.Random) -> bytes:
    """The requests of a sound session, one or two of them changed."""
    container = dump(_sound_program())
    size = next(s.size for s in _sound_program().segments if s.kind == "input")
    on = {"handle": 1, "segment": 1, "first": 0, "rows": 1, "offset": 0}
    requests: list[tuple[Any, bytes]] = [
        ({"do": "program"}, container),
        ({"do": "allocate", "program": hashlib.sha256(container).hexdigest(), "inferences": 2}, b""),
        ({"do": "write", **on}, bytes(size)), ({"do": "launch", "handle": 1, "inferences": 1}, b""),
        ({"do": "wait", "handle": 1}, b""), ({"do": "read", **on, "size": 16}, b""),
        ({"do": "counters", "handle": 1}, b""), ({"do": "release", "handle": 1}, b""), ({"do": "bye"}, b""),
    ]  # fmt: skip
    sent = bytearray()
    changed = rng.randrange(len(requests))
    for k, (request, payload) in enumerate(requests):
        if k == changed:
            hostile(request, rng)
            payload = _make_program(rng) if k == 0 else payload[: rng.randrange(len(payload) + 1)]
        text = json.dumps(request).encode()
        frame = PREFIX.pack(FRAME, len(text), len(payload)) + text + payload
        sent += damage(frame, rng) if k == changed and rng.random() < 0.3 else frame
    return bytes(sent)


def _read_frames(path: Path) -> None:
    """What a session makes of the bytes; the device can be used afterwards."""
    ours, theirs = socket.socketpair()
    device = SimDevice(TINY)
    with ours, theirs, path.open("rb") as stored:
        data = stored.read()
        for side in (ours, theirs):
            side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
        theirs.setblocking(False)
        theirs.send(data)
        theirs.shutdown(socket.SHUT_WR)
        Session(Channel(ours, "stranger", 1 << 20, seconds=20), device, Programs(MEMORY), MEMORY).serve()


FORMATS: dict[str, Format] = {
    "tflite": Format(".tflite", _model("tflite"), _read_model),
    "onnx": Format(".onnx", _model("onnx"), _read_model),
    "twa": Format(".twa", _make_artifact, _read_artifact),
    "twp": Format(".twp", _make_program, _read_program),
    "assembly": Format(".s", _make_assembly, _read_assembly),
    "toml": Format(".toml", _make_toml, _read_toml),
    "npy": Format(".npy", _make_array, _read_array),
    "npz": Format(".npz", _make_arrays, _read_arrays),
    "frames": Format(".frames", _make_frames, _read_frames),
}
