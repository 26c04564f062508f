"""The interpreters that model files come from, for the operators that stay on the host.

LiteRT runs its reference kernels on one thread, ONNX Runtime with ``session.x64quantprecision=1``: these are the
references whose integers the whole network must equal, so what runs here is exact by construction.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.errors import TilewrightError
from tilewright.runtime.apart import Apart, Ended
from tilewright.runtime.litert.beyond import has_beyond
from tilewright.runtime.litert.kernels import Kernels, kernels
from tilewright.runtime.shared_constants import REFUSAL, separated

Array = NDArray[Any]

#: runtime -> (module, package to install)
PACKAGES = {"litert": ("ai_edge_litert", "ai-edge-litert"), "onnxruntime": ("onnxruntime", "onnxruntime")}

#: producer of parts of models that ONNX Runtime has optimised as a whole already: done again it would do other things
PREPARED = "tilewright, from an optimised whole"
_LINE = 500  #: characters of an interpreter's words that are handed on
_HEADER = 256  #: bytes of a serialised model within which its producer stands
#: its optimisers that choose other arithmetic, by their own names; those that choose layouts are not among them
_ARITHMETIC = [
    "Avx2WeightS8ToU8Transformer", "BiasGeluFusion", "BiasSoftmaxFusion", "CastElimination",
    "CommonSubexpressionElimination", "ConstantFolding", "ConvActivationFusion",
    "DQMatMulNBitsFusion", "DoubleQDQPairsRemover", "DynamicQuantizeMatMulFusion", "EnsureUniqueDQForNodeUnit",
    "FastGeluFusion", "GeluFusionL1", "GeluFusionL2", "GemmActivationFusion", "LayerNormFusionL1",
    "LayerNormFusionL2", "Level1_RuleBasedTransformer", "Level2_RuleBasedTransformer", "MatMulActivationFusion",
    "MatMulAddFusion", "MatMulIntegerToFloatFusion", "MatMulScaleFusion", "MatmulTransposeFusion",
    "QDQFinalCleanupTransformer", "QDQPropagationTransformer", "QDQS8ToU8Transformer",
    "QDQSelectorActionTransformer", "QuickGeluFusion", "SimplifiedLayerNormFusion", "WeightBiasQuantization",
    "WhereDummyDq",
]  # fmt: skip


class InterpreterError(TilewrightError):
    """An interpreter is not installed, or cannot load or run its part of a model."""


class Interpreter(Protocol):
    """A loaded model: all inputs of one inference in, all outputs out."""

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Run one inference."""


def is_installed(runtime: str) -> bool:
    """Whether the package behind a runtime can be imported."""
    return find_spec(PACKAGES[runtime][0]) is not None


def load(runtime: str, model: bytes, what: str, *, fast: bool = False) -> Interpreter:
    """An interpreter with fresh state. ``what`` names the operators in errors.

    ``fast``: the optimised kernels, whose integers may differ from the reference by an LSB; the reference ones where
    those would end the process. LiteRT's kernels trust the file: they run in a process of their own, whose end is an
    error here. Raises InterpreterError. So does the interpreter, for inputs that it cannot run.
    """
    with _loading(runtime, what):
        return _Named(_OnnxRuntime(model, fast) if runtime != "litert" else Apart(kernels, model, fast), what)


@dataclass(frozen=True)
class _Named:
    """An interpreter whose errors name ``what`` it runs."""

    run: Interpreter
    what: str

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        with named_failures(self.what):
            return self.run(inputs)


@contextlib.contextmanager
def _loading(runtime: str, what: str) -> Iterator[None]:
    package = PACKAGES[runtime][1]
    if not is_installed(runtime):
        raise InterpreterError(f"{what}: need {package}, which is not installed: pip install {package}")
    with named_failures(f"{what}: {package} cannot load them"):
        yield


@contextlib.contextmanager
def named_failures(what: str) -> Iterator[None]:
    """Whatever an interpreter, or NumPy before it, says about a model or its data, as an InterpreterError."""
    try:
        yield
    except Exception as error:
        named = isinstance(error, (ValueError, RuntimeError, TypeError, MemoryError, OverflowError))
        if named or type(error).__module__.startswith("onnxruntime"):  # its errors have no common public base
            raise InterpreterError(f"{what}: {first_line(error)}") from error
        raise


def litert_shapes(model: bytes, what: str) -> dict[int, tuple[int, ...]]:
    """Shapes of the main subgraph's tensors as LiteRT prepares them, whatever the file says.

    Raises InterpreterError.
    """
    with _loading("litert", what):
        shapes: dict[int, tuple[int, ...]] = Apart(Kernels, model, has_beyond(model)).about
        return shapes


class _OnnxRuntime:
    def __init__(self, model: bytes, fast: bool) -> None:
        self._session = onnxruntime_session(model, lambda relaxed: onnxruntime_options(fast or relaxed))
        self._names = [value.name for value in self._session.get_inputs()]

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        _check_count(len(self._names), inputs)
        return [np.asarray(y) for y in self._session.run(None, dict(zip(self._names, map(np.asarray, inputs))))]


def fatal(model: bytes) -> str:
    """How the process ends in which ONNX Runtime loads a model, in words; empty where it survives."""
    try:
        Apart(_OnnxRuntime, model, False)
    except Ended as error:
        return str(error)
    except RuntimeError:  # it says so again, where it is asked for the model
        return ""
    return ""


def _check_count(takes: int, inputs: Sequence[Array]) -> None:
    if len(inputs) != takes:
        raise ValueError(f"takes {takes} inputs, {len(inputs)} given")


def onnxruntime_session(model: bytes, options: Callable[[bool], Any]) -> Any:
    """A session with ``options(False)``, or ``options(True)`` for models that ONNX Runtime cannot load so.

    The argument is whether saturating products are allowed (``fast`` of :func:`onnxruntime_options`). Without them
    ONNX Runtime turns int8 weights of integer operators into uint8 even where the activations are int8, for which it
    then has no kernel; its kernels for int8 with int8 do not saturate where the CPU has VNNI. A constant that this
    change would make twice is separated first.
    """
    import onnxruntime

    start = functools.partial(
        onnxruntime.InferenceSession,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=_ARITHMETIC if PREPARED.encode() in model[:_HEADER] else None,
    )
    relaxed = apart = False
    while True:
        try:
            return start(model, options(relaxed))
        except Exception as error:  # its errors have no common public base
            if not type(error).__module__.startswith("onnxruntime"):
                raise
            if type(error).__name__ == "NotImplemented" and not relaxed:
                relaxed = True
            elif REFUSAL in str(error) and not apart and find_spec("onnx"):  # a board has parts, which are prepared
                model, apart = separated(model), True
            else:
                raise


def onnxruntime_options(fast: bool = False) -> Any:
    """Session options of the reference: one thread, and no saturating products on CPUs without VNNI."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    if not fast:
        options.add_session_config_entry("session.x64quantprecision", "1")
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return options


def first_line(error: BaseException) -> str:
    """What an error says, in one line; LiteRT may say the same of every tensor."""
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return said if len(said) <= _LINE else f"{said[:_LINE]} ..."
