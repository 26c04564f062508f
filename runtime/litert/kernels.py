"""LiteRT's interpreter of a model, with the kernels that its results are compared with.

What is made here belongs into a process of its own (:mod:`tilewright.runtime.apart`): kernels trust the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.runtime.litert.beyond import Chain, has_beyond, parts
from tilewright.runtime.litert.schema import kinds, read_model, vector
from tilewright.runtime.litert.unwritten import may_leave, unwritten
from tilewright.runtime.litert.versions import as_known

Array = NDArray[Any]


def prepared(model: bytes, fast: bool, keep_all: bool = False) -> Any:
    """An ``ai_edge_litert`` interpreter of one thread, its tensors allocated.

    ``fast``: all kernels that LiteRT has, not the reference ones alone; ``keep_all``: the tensors in between stay
    after an inference. Raises ValueError or RuntimeError, LiteRT's own, for what it cannot load.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    made = Interpreter(
        model_content=model if fast else as_known(model),
        experimental_op_resolver_type=(
            OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if fast else OpResolverType.BUILTIN_REF
        ),
        num_threads=1,
        experimental_preserve_all_tensors=keep_all,
    )
    made.allocate_tensors()
    return made


class Kernels:
    """A model and its kernels; ``about``: the shapes of the main subgraph's tensors as LiteRT has prepared them."""

    def __init__(self, model: bytes, fast: bool) -> None:
        self._interpreter = prepared(model, fast)
        self._unwritten = unwritten(model)
        self._inputs = self._interpreter.get_input_details()
        self._outputs = [detail["index"] for detail in self._interpreter.get_output_details()]
        details = self._interpreter.get_tensor_details(0)
        self.about = {detail["index"]: tuple(int(d) for d in detail["shape"]) for detail in details}

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        if len(inputs) != len(self._inputs):
            raise ValueError(f"takes {len(self._inputs)} inputs, {len(inputs)} given")
        for detail, value in zip(self._inputs, inputs):
            self._interpreter.set_tensor(detail["index"], np.ascontiguousarray(value).reshape(detail["shape"]))
        self._interpreter.invoke()
        results = {index: self._interpreter.get_tensor(index) for index in self._outputs}
        for rows in self._unwritten:
            rows.clear(self._interpreter, results)
        return [results[index] for index in self._outputs]


def kernels(model: bytes, fast: bool) -> Callable[[Sequence[Array]], list[Array]]:
    """The reference kernels, and those that there are where operators have none; or all of them if it is to be
    ``fast``, and they do not end the process."""
    fast = fast and not _ends_faster(model)
    if fast or not (has_beyond(model) or may_leave(model)):
        return Kernels(model, fast)
    steps, inputs, outputs = parts(model)
    return Chain([(part, Kernels(part.content, part.beyond)) for part in steps], inputs, outputs)


def _ends_faster(content: bytes) -> bool:
    """Whether LiteRT's faster kernels would end the process: theirs of DEPTHWISE_CONV_2D reads a bias in any case."""
    model = read_model(content)
    names = kinds(model)
    return any(
        names[op.opcodeIndex] == "DEPTHWISE_CONV_2D" and (len(op.inputs) < 3 or op.inputs[2] < 0)
        for subgraph in vector(model.subgraphs)
        for op in vector(subgraph.operators)
    )
