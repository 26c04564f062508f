"""LiteRT's interpreter of a model, with the kernels that its results are compared with."""

from __future__ import annotations

from typing import Any

from tilewright.runtime.litert.model import Malformed, read
from tilewright.runtime.litert.versions import as_known


def prepared(model: bytes, fast: bool, keep_all: bool = False) -> Any:
    """An ``ai_edge_litert`` interpreter of one thread, its tensors allocated.

    ``fast``: all kernels that LiteRT has, not the reference ones alone; ``keep_all``: the tensors in between stay
    after an inference. What LiteRT must not be given is refused before (:mod:`tilewright.runtime.litert.check`).
    Raises ValueError or RuntimeError, LiteRT's own, for what it cannot load.
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


def ends_faster(model: bytes) -> bool:
    """Whether LiteRT's faster kernels would end the process: theirs of DEPTHWISE_CONV_2D reads a bias in any case.

    Not for bytes that are no model, which loading refuses.
    """
    try:
        subgraphs = read(model)
    except Malformed:
        return False
    return any(op.kind == "DEPTHWISE_CONV_2D" and not op.type(2) for each in subgraphs for op in each.operators)
