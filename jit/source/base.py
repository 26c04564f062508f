"""What a model file offers the compiler, whatever its format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from tilewright.jit.errors import ModelError, Unsupported
from tilewright.jit.exactness import LayerDifference, LayerExactness
from tilewright.jit.graph import Graph
from tilewright.runtime.records import Exact

if TYPE_CHECKING:
    from tilewright.jit.source.values import FileTensor, Values


@dataclass(frozen=True)
class SourceOperator:
    """One operator of the file: its position, its own name (or ``opNNN_KIND`` where it has none), its kind, and the
    multiply-accumulates of one inference. ``title``: what the file calls its result, where that says more. ``added``:
    that it is none of the file's."""

    index: int
    name: str
    kind: str
    macs: int = 0
    title: str = ""
    added: bool = False


@dataclass
class Built:
    """A graph over the user's own tensors, and what became of each operator of the file.

    ``sources``: operator name -> graph tensor that holds its result. ``notes``: for operators that need no work of
    their own (constants, part of another operator), by position, why. ``exactness``: by name of the lowered layer;
    ``doubtful``: of those that were left to the interpreter because it is not proven. ``output_names``: what the file
    calls the graph's outputs.
    """

    graph: Graph
    sources: dict[str, str] = field(default_factory=dict)
    notes: dict[int, str] = field(default_factory=dict)
    exactness: list[LayerExactness] = field(default_factory=list)
    doubtful: list[LayerExactness] = field(default_factory=list)
    output_names: tuple[str, ...] = ()


class Source(ABC):
    """A parsed and validated model file."""

    runtime: str  #: the interpreter it came from: ``litert`` or ``onnxruntime``
    exact: Exact = "default"  #: how sure it must be that a layer gives the interpreter's integers
    #: inputs that are indices, by the name of their tensor -> entries of the table that they look up in
    index_limits: Mapping[str, int] = MappingProxyType({})
    left_out: tuple[str, ...] = ()  #: other networks of the file by their signatures, which are not compiled
    batch: int = 1  #: images that one inference of the file takes; the graph is that of one of them

    def __init__(self, path: Path) -> None:
        self.path = path
        self.operators: list[SourceOperator] = []

    @abstractmethod
    def build(self, host: Mapping[int, str]) -> Built:
        """The integer graph; the operators at the positions in ``host`` are left to the interpreter, for the reasons
        given there."""

    @abstractmethod
    def cut(self, operators: Sequence[int], inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
        """A model of its own from some operators of the file.

        ``inputs``, ``outputs``: names of tensors in the graph of the last :meth:`build`, in the order in which the
        model takes and gives them.
        """

    def constant_output(self, spec: FileTensor, value: NDArray[Any], values: Values) -> str:
        """The graph tensor of an output that no operator computes. Raises ModelError where there can be none."""
        try:
            if self.batch > 1:
                raise Unsupported(f"an inference takes {self.batch} images, each of which would give it again")
            return values.constant(spec, value)
        except Unsupported as error:
            raise ModelError(
                f"{self.path}: output {spec.name!r} is a constant ({error}); remove it from the model's outputs"
            ) from error

    def unproven(self, part: bytes) -> list[LayerExactness]:
        """What of a part that :meth:`cut` gave may compute otherwise than within the whole."""
        return []

    def differing(self, inputs: Sequence[NDArray[Any]]) -> list[LayerDifference]:
        """The layers that are not proven and give other integers than the interpreter, on stacks of inputs."""
        return []

    @abstractmethod
    def is_stateful(self, operators: Sequence[int]) -> bool:
        """Whether a model of these operators keeps something from one inference to the next."""

    @abstractmethod
    def reference(self) -> tuple[bytes, bool, list[tuple[int, ...]]]:
        """The whole model as its interpreter runs it, whether it keeps state, and the shapes of its inputs."""
