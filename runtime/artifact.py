"""The artifact: one file (``.twa``) that holds all it takes to run a network.

Layout, little-endian::

    magic    8 bytes   b"TWART\\r\\n\\x1a"
    version  u32       FORMAT_VERSION
    length   u64       bytes of the body
    sha256   32 bytes  of the body
    body:    u64 header length, header (JSON, UTF-8), then the blobs one after another

The header describes everything; blobs are the program containers and the models of host operators, in
the order the header lists them. Nothing in it is executed on loading.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.files import read_bytes, write_atomic
from tilewright.isa.container import dump as dump_program
from tilewright.isa.container import load as load_program
from tilewright.isa.program import Program
from tilewright.kinds import instance
from tilewright.runtime.records import CompileOptions, Layer, check_meta
from tilewright.runtime.steps import InterpreterStep, Step, TensorSpec, step_from_dict, step_to_dict
from tilewright.schema import Count, Range, parse, read_json

MAGIC = b"TWART\r\n\x1a"
FORMAT_VERSION = 2
_PREFIX = struct.Struct("<8sIQ32s")
_LENGTH = struct.Struct("<Q")
_CHECKSUM = "_checksum"


class ArtifactError(TilewrightError):
    """The bytes are no artifact, are damaged, or are of another version; names the file and what is wrong."""


class ConfigMismatch(TilewrightError):
    """An artifact meets a device of another Config; names the parameters that differ."""


@dataclass(frozen=True)
class Intermediate:
    """One operator's output that the steps leave in the environment under the name of ``tensor.name``."""

    operator: str
    tensor: TensorSpec


@dataclass(frozen=True, repr=False)
class Artifact:
    """Programs, host steps and tensor specs of one compiled network.

    ``batch``: images that one inference of the model takes; programs, steps and tensor specs are those of one image.
    ``output_names``: what the model's file calls the outputs; the steps' own names for them where it is empty, as
    earlier versions left it. ``states``: tensors that steps find as the last inference left them, or all zero point.
    ``blobs`` holds the models that interpreter steps name. ``host_layers`` are the report's entries
    (``name``, ``op``, ``reason``) for operators outside the programs. ``options`` records how it was compiled;
    ``compile_seconds``, how long that took, is no part of a file, which depends on what was compiled alone.
    """

    name: str
    config: Config
    programs: tuple[Program, ...]
    steps: tuple[Step, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    intermediates: tuple[Intermediate, ...] = ()
    blobs: dict[str, bytes] = field(default_factory=dict)
    host_layers: tuple[dict[str, Any], ...] = ()
    compile_seconds: float = 0.0
    options: dict[str, Any] = field(default_factory=dict)
    batch: int = 1
    states: tuple[TensorSpec, ...] = ()
    output_names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Artifact {self.name} for {self.config.name}: {len(self.programs)} programs, {len(self.steps)} steps>"

    def to_bytes(self) -> bytes:
        """The whole file as bytes."""
        programs = [dump_program(program) for program in self.programs]
        header = {
            "name": self.name,
            "config": self.config.to_dict(),
            "fingerprint": self.config.fingerprint,
            "inputs": [dataclasses.asdict(t) for t in self.inputs],
            "outputs": [dataclasses.asdict(t) for t in self.outputs],
            "steps": [step_to_dict(step) for step in self.steps],
            "intermediates": [dataclasses.asdict(i) for i in self.intermediates],
            "host_layers": list(self.host_layers),
            "compile_seconds": 0.0,  # earlier versions ask for it
            "options": self.options,
            "batch": self.batch,
            "states": [dataclasses.asdict(t) for t in self.states],
            "output_names": list(self.output_names),
            "programs": [len(data) for data in programs],
            "blobs": {name: len(data) for name, data in self.blobs.items()},
        }
        text = json.dumps(header).encode()
        body = b"".join([_LENGTH.pack(len(text)), text, *programs, *self.blobs.values()])
        return _PREFIX.pack(MAGIC, FORMAT_VERSION, len(body), hashlib.sha256(body).digest()) + body

    @classmethod
    def from_bytes(cls, data: bytes, source: str = "artifact") -> Artifact:
        """Parse :meth:`to_bytes`; ``source`` names the file in errors. Raises :class:`ArtifactError`."""
        instance(f"{source}: data", data, bytes, "the bytes of an artifact's file", error=ArtifactError)
        body = _checked_body(data, source)
        (length,) = _LENGTH.unpack_from(body)
        try:
            header = parse(_Header, read_json(bytes(body[8 : 8 + length])), "header")
            return cls._from_header(header, body[8 + length :])
        except (ValueError, RecursionError, TilewrightError) as error:
            raise ArtifactError(f"{source}: not a valid artifact: {error}; compile the model again") from error

    @classmethod
    def _from_header(cls, header: _Header, payload: memoryview) -> Artifact:
        sizes = [*header.programs, *header.blobs.values()]
        if sum(sizes) != len(payload):
            raise ValueError(f"{len(payload)} bytes follow the header, which lists {sum(sizes)}")
        ends = list(itertools.accumulate(sizes))
        blobs = [payload[end - size : end] for end, size in zip(ends, sizes)]
        stored = blobs[: len(header.programs)]
        programs = tuple(load_program(data, f"program {k}", intact=True) for k, data in enumerate(stored))
        config = Config.from_dict(header.config)
        for index, program in enumerate(programs):
            if program.config.fingerprint != config.fingerprint:
                raise ValueError(f"program {index} is of another config than the artifact")
            check_meta(program, f"program {index}")
        if header.output_names and len(header.output_names) != len(header.outputs):
            raise ValueError(f"{len(header.output_names)} names of outputs, {len(header.outputs)} outputs")
        return cls(
            name=header.name,
            config=config,
            programs=programs,
            steps=tuple(step_from_dict(values) for values in header.steps),
            inputs=header.inputs,
            outputs=header.outputs,
            intermediates=header.intermediates,
            blobs={name: bytes(data) for name, data in zip(header.blobs, blobs[len(header.programs) :])},
            host_layers=header.host_layers,
            options=header.options,
            batch=header.batch,
            states=header.states,
            output_names=header.output_names,
        )

    @property
    def named_outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs under the names that the model's file has for them."""
        names = self.output_names or tuple(tensor.name for tensor in self.outputs)
        return tuple(dataclasses.replace(tensor, name=name) for tensor, name in zip(self.outputs, names, strict=True))

    @property
    def checksum(self) -> str | None:
        """The SHA-256 of the body of the file that it was read from or saved to, in hex digits; None without one."""
        return vars(self).get(_CHECKSUM)

    def save(self, path: str | Path) -> None:
        """Write the file; it appears whole or not at all."""
        data = self.to_bytes()
        write_atomic(path, data)
        self._note_checksum(data)

    @classmethod
    def load(cls, path: str | Path) -> Artifact:
        """Read a file. Raises :class:`ArtifactError` if it is truncated, corrupt or of another version."""
        data = read_bytes(path)
        artifact = cls.from_bytes(data, str(path))
        artifact._note_checksum(data)
        return artifact

    def _note_checksum(self, data: bytes) -> None:
        """Take the checksum out of the file's bytes. It is no field: what dataclasses.replace() makes has none."""
        vars(self)[_CHECKSUM] = _PREFIX.unpack_from(data)[3].hex()

    def check_config(self, config: Config, owner: str) -> None:
        """Raise :class:`ConfigMismatch` unless ``config``, that of ``owner``, is the artifact's own."""
        instance(f"{self.name}: config", config, Config, "a Config", error=ConfigMismatch)
        if self.config.fingerprint == config.fingerprint:
            return
        differing = "; ".join(self.config.differences(config))
        raise ConfigMismatch(
            f"{self.name}: compiled for config {self.config.name}, but {owner} is {config.name} ({differing}); "
            f"compile the model for {config.name}"
        )


def is_artifact(data: bytes) -> bool:
    """Whether the bytes begin like an artifact of any version."""
    return data[: len(MAGIC)] == MAGIC


def accelerator_layers(artifact: Artifact) -> list[dict[str, Any]]:
    """What the compiler recorded of the layers in the programs."""
    return [layer for program in artifact.programs for layer in program.meta.get("layers", [])]


def is_stateful(artifact: Artifact) -> bool:
    """Whether an inference depends on those before it in a stream."""
    return bool(artifact.states) or any(isinstance(s, InterpreterStep) and s.stateful for s in artifact.steps)


def placed_macs(artifact: Artifact) -> tuple[int, int]:
    """Multiply-accumulates of the model file's operators: on the accelerator, and of all that an inference runs.

    An operator whose result nobody reads, or that is part of another, is run nowhere: a share says nothing of it.
    """
    operators = [entry for entry in artifact.options.get("operators", []) if entry["place"] != "none"]
    here = sum(entry["macs"] for entry in operators if entry["place"] == "accelerator")
    return here, sum(entry["macs"] for entry in operators)


def dropped_macs(artifact: Artifact) -> int:
    """Multiply-accumulates of the programs' layers that the compiler left out with the channels they belong to."""
    return sum(layer.get("macs_dropped", 0) for layer in accelerator_layers(artifact))


def unproven(artifact: Artifact) -> list[dict[str, Any]]:
    """The operators whose integers are not proven equal to the reference's: their ``name`` and ``exact`` statement."""
    operators = artifact.options.get("operators", [])
    return [entry for entry in operators if entry["exact"] not in ("proven", "by construction")]


@dataclass(frozen=True)
class _Header:
    """What the header holds, field by field; the numbers of ``programs`` and ``blobs`` are their bytes."""

    name: str
    config: dict[str, Any]
    fingerprint: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    steps: tuple[dict[str, Any], ...]
    intermediates: tuple[Intermediate, ...]
    host_layers: tuple[Layer, ...]
    compile_seconds: Annotated[float, Range(0, 1e9)]
    options: CompileOptions
    programs: tuple[Count, ...]
    blobs: dict[str, Count]
    batch: Annotated[int, Range(1, 1 << 20)] = 1
    states: tuple[TensorSpec, ...] = ()
    output_names: tuple[str, ...] = ()


def _checked_body(data: bytes, source: str) -> memoryview:
    if not is_artifact(data):
        raise ArtifactError(f"{source}: not a Tilewright artifact (.twa); make one with tilewright compile")
    if len(data) < _PREFIX.size:
        raise ArtifactError(
            f"{source}: truncated: {len(data)} bytes, the prefix alone has {_PREFIX.size}; "
            "copy it again or compile the model again"
        )
    _, version, length, digest = _PREFIX.unpack_from(data)
    if version != FORMAT_VERSION:
        raise ArtifactError(
            f"{source}: artifact format {version}, this version of Tilewright reads {FORMAT_VERSION}; "
            "compile the model again"
        )
    body = memoryview(data)[_PREFIX.size :]
    if len(body) < length:
        raise ArtifactError(
            f"{source}: truncated: {len(data)} of {_PREFIX.size + length} bytes; "
            "copy it again or compile the model again"
        )
    if len(body) > length or len(body) < _LENGTH.size or hashlib.sha256(body).digest() != digest:
        raise ArtifactError(f"{source}: corrupt: the checksum does not match; compile the model again")
    return body
