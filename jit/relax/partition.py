"""Partitioning: which parts of a Relax module Tilewright takes, as functions of their own."""

from __future__ import annotations

import json
import warnings
from functools import partial
from typing import Any

from tilewright.config import Config, load_config
from tilewright.jit.errors import FloatModule
from tilewright.jit.graph import Graph
from tilewright.jit.relax import compat, compat_passes
from tilewright.jit.relax.accepted import check_module
from tilewright.jit.relax.claims import Claims, read
from tilewright.jit.relax.extract import batch_of, extract
from tilewright.jit.relax.passes import unshare_dequantize
from tilewright.jit.relax.patterns import table
from tilewright.jit.relax.placement import REASONS_ATTRIBUTE
from tilewright.jit.relax.region import refusal
from tilewright.jit.relax.site import BATCH_ATTRIBUTE, LITERT, ONNX_RUNTIME, SEMANTICS_ATTRIBUTE

_QUANTISED = ("relax.quantize", "relax.dequantize")
CODEGEN = "tilewright"  #: the ``Codegen`` attribute of regions, and the prefix of composites


def fuse(mod: Any, config: Config | None = None) -> Any:
    """``mod`` with every form of the pattern table grouped into a composite.

    With a ``config``, operators that its memories cannot hold are left out.
    """
    refuse = None if config is None else partial(refusal, config=config)
    return compat_passes.fuse_by_pattern(unshare_dequantize(mod), table(refuse, batch_of(mod["main"])))


def merge(fused: Any) -> Any:
    """Neighbouring composites merged into regions, each a function with ``Codegen`` = ``tilewright``."""
    mod = compat_passes.merge_composites(fused)
    called = (compat.callee(b.value) for b in compat.bindings(mod["main"]))
    found = regions(mod)
    order = [str(gv.name_hint) for gv in called if gv is not None and compat.is_global(gv)]
    names = {old: f"{CODEGEN}_{i}" for i, old in enumerate(name for name in order if name in found)}
    mod = compat_passes.rename_functions(mod, names)
    for gv, function in compat.functions(mod):
        if compat.attribute(function, "Codegen") == CODEGEN:
            function = compat.with_attribute(function, BATCH_ATTRIBUTE, str(batch_of(fused["main"])))
            mod[gv] = compat.with_attribute(function, SEMANTICS_ATTRIBUTE, LITERT)
    return mod


def partition_for_tilewright(mod: Any, config: Config | str | None = None, semantics: str | None = None) -> Any:
    """The module with what Tilewright can compute exactly moved into region functions.

    ``mod``: a Relax module with quantised (QDQ) operators, as the importers give it, before FoldConstant or
    LegalizeOps. Functions that ``main`` calls are written out in it. Operators that no pattern claims stay there, and
    with a ``config`` (object, preset name or TOML file) those that its memories cannot hold.
    ``semantics``: whose integers to reproduce, ``litert`` or ``onnxruntime``; by default those of ONNX Runtime for a
    module with NCHW convolutions, as it is imported from ONNX, and LiteRT's for others. With ``onnxruntime`` the
    accelerator takes what it takes of the same model as an ``.onnx`` file; LiteRT has no NCHW.
    Warns with :class:`FloatModule` of a module without quantised operators, of which there is nothing to move.
    Raises :class:`ModelError` for what is no Relax module with a ``main`` of static shapes and without branches.
    """
    check_module(mod)
    if semantics not in (None, LITERT, ONNX_RUNTIME):
        raise ValueError(f"semantics {semantics!r}; {LITERT!r} or {ONNX_RUNTIME!r}")
    mod = compat_passes.inline_into_main(mod)
    chosen = semantics or compat.attribute(mod["main"], SEMANTICS_ATTRIBUTE) or _default_semantics(mod)
    mod = compat.with_main_attribute(mod, SEMANTICS_ATTRIBUTE, chosen)
    if not any(compat.op_name(b.value) in _QUANTISED for b in compat.bindings(mod["main"])):
        warnings.warn(
            "the module is not quantised: all of it stays with TVM on the CPU; quantise the model first, for instance "
            "with `tilewright quantize`, and import the result",
            FloatModule,
            stacklevel=2,
        )
    memories = None if config is None else load_config(config)
    if chosen == ONNX_RUNTIME:
        return outline(mod, Claims(mod["main"], memories, {"Codegen": CODEGEN, SEMANTICS_ATTRIBUTE: ONNX_RUNTIME}))
    return merge(fuse(compat.with_main_attribute(mod, BATCH_ATTRIBUTE, str(_batch(mod))), memories))


def outline(mod: Any, claims: Claims) -> Any:
    """The module with each stretch of the accelerator as a function that ``main`` calls."""
    rewriter, line = compat_passes.Rewriter(mod), claims.line

    def write() -> None:
        accelerated = 0
        for stretch in claims.stretches:
            if not stretch.accelerated:
                rewriter.repeat(binding for binding in line.bindings if binding.var in stretch.all)
                continue
            name = f"{CODEGEN}_{accelerated}"
            rewriter.call(claims.function(stretch), name, stretch.inputs, stretch.outputs)
            accelerated += 1
        rewriter.repeat(line.bindings_of_result())

    reasons = json.dumps(claims.reasons())
    return compat.with_main_attribute(rewriter.write(write), REASONS_ATTRIBUTE, reasons)


def regions(mod: Any) -> dict[str, Any]:
    """The region functions of a partitioned module by name."""
    return {
        str(gv.name_hint): function
        for gv, function in compat.functions(mod)
        if compat.attribute(function, "Codegen") == CODEGEN
    }


def region_to_graph(function: Any, name: str = "region") -> Graph:
    """The integer graph of a region function of :func:`partition_for_tilewright`; of a batch, that of one image."""
    if compat.attribute(function, SEMANTICS_ATTRIBUTE) == ONNX_RUNTIME:
        return read(function, name)[1]
    return extract(function, name, batch_of(function))


def _default_semantics(mod: Any) -> str:
    calls = (b.value for b in compat.bindings(mod["main"]) if "conv" in compat.op_name(b.value))
    return ONNX_RUNTIME if any(str(call.attrs.data_layout) in ("NCW", "NCHW") for call in calls) else LITERT


def _batch(mod: Any) -> int:
    """The leading dimension that all of main's inputs have, of which one is an image; 1 where there is none."""
    shapes = [compat.shape(var) for var in mod["main"].params if compat.is_tensor(var)]
    sizes = {shape[0] if shape else 1 for shape in shapes}
    return sizes.pop() if len(sizes) == 1 and any(len(shape) == 4 for shape in shapes) else 1
