"""PyTorch programs as ONNX models: what ``torch.export`` gives, float or quantised by PT2E.

``torch`` is optional (``pip install 'tilewright[torch]'``) and loaded when first needed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import logging
import re
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tilewright.jit.errors import ModelError
from tilewright.jit.source.kinds import described
from tilewright.jit.source.onnx.means import pool_means
from tilewright.jit.source.onnx.pools import settle_pools
from tilewright.jit.source.onnx.unsigned import make_unsigned
from tilewright.jit.source.torch_archive import ArchiveError, plain_archive
from tilewright.jit.source.torch_checks import unrepeatable
from tilewright.jit.source.torch_operators import translations
from tilewright.runtime.interpreters import first_line

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")  #: of the exporter's messages
_NEEDED = {"torch": "torch", "torchao": "torchao", "onnxscript": "onnxscript"}


class TorchError(ModelError):
    """A PyTorch model cannot be read, exported or quantised; names it, what is wrong and the way out."""


def require_torch(what: str) -> None:
    """Raise TorchError unless PyTorch and what its exporter and quantiser need are installed."""
    missing = [package for module, package in _NEEDED.items() if find_spec(module) is None]
    if missing:
        raise TorchError(f"{what}: PyTorch models need {', '.join(missing)}: pip install 'tilewright[torch]'")


def read_program(path: Path) -> Any:
    """The ``ExportedProgram`` of a file that ``torch.export.save`` wrote. Raises TorchError."""
    require_torch(str(path))
    with quiet():
        _register_quantised()
        try:
            return _loaded(plain_archive(path))
        except ArchiveError as error:
            raise TorchError(f"{path}: {described(path) or error}") from error
        except Exception as error:  # PyTorch's loader raises kinds of many modules
            known = described(path) or (
                f"not a program that torch.export.save wrote: {first_line(error)}; save it with "
                "torch.export.save(torch.export.export(module.eval(), (example,)), path)"
            )
            raise TorchError(f"{path}: {known}") from error


def _loaded(archive: io.BytesIO) -> Any:
    """Of ``torch.export.load``, which logs why it cannot read an archive, and raises that it does not know."""
    import torch

    try:
        return torch.export.load(archive)
    except RuntimeError:
        with contextlib.suppress(ImportError):
            from torch.export.pt2_archive._package import load_pt2

            archive.seek(0)
            load_pt2(archive)  # raises what was logged
        raise


def file_to_onnx(path: Path) -> bytes:
    """What ``program_to_onnx`` makes of a ``.pt2`` file, kept until another is read. Raises TorchError and OSError."""
    with path.open("rb") as file:
        return _file_to_onnx(path, hashlib.file_digest(file, "sha256").digest())


@functools.lru_cache(maxsize=1)
def _file_to_onnx(path: Path, digest: bytes) -> bytes:
    return program_to_onnx(read_program(path), str(path))


def is_quantised(program: Any) -> bool:
    """Whether an ``ExportedProgram`` has operators of PT2E's in it."""
    return any(str(node.target).startswith("quantized_decomposed.") for node in program.graph.nodes)


def program_to_onnx(program: Any, what: str) -> bytes:
    """An ``ExportedProgram`` as an ONNX model. Raises TorchError, which names ``what``."""
    require_torch(what)
    import torch

    with quiet():
        _register_quantised()
        if (reason := unrepeatable(program)) is not None:
            raise TorchError(f"{what}: {reason}")
        try:
            exported = torch.onnx.export(
                program, (), dynamo=True, verbose=False, custom_translation_table=translations()
            )
            assert exported is not None
            model = exported.model_proto
            pool_means(model)
            settle_pools(model)
            make_unsigned(model)
            return bytes(model.SerializeToString())
        except Exception as error:  # PyTorch's exporter raises kinds of many modules
            cause: BaseException = error
            while cause.__cause__ is not None:  # the last names the operator
                cause = cause.__cause__
            said = _COLOURS.sub("", first_line(cause))
            raise TorchError(f"{what}: PyTorch cannot write it as ONNX: {said}") from error


def _register_quantised() -> None:
    """PT2E's operators, which programs of its making need."""
    import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what PyTorch says about its own parts while it exports."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
