"""Regions as programs inside a Relax module: one ``relax.VirtualMachine`` runs accelerator and CPU parts together.

Two lines in an existing script::

    mod = tilewright_pipeline(compile_region, config)(mod)   # partition, compile each region, call it
    executable = relax.build(mod, "llvm")                    # export_library() keeps the programs as constants

At run time each call arrives at the packed function ``tilewright.run``, which importing this module registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit import compat, compat_passes
from tilewright.jit.compat import Binding, Expr
from tilewright.jit.compat_passes import Rewriter
from tilewright.jit.graph import Graph
from tilewright.jit.partition import partition_for_tilewright, region_to_graph, regions

RUN = "tilewright.run"  #: the packed function behind every region

RegionCompiler = Callable[[Graph, Any], bytes]
RegionRunner = Callable[[bytes, list[NDArray[Any]]], list[NDArray[Any]]]


def compile_regions(mod: Any, compile_region: RegionCompiler, config: Any = None) -> Any:
    """A partitioned module with every region call replaced by a call of ``tilewright.run``.

    ``compile_region(graph, config)`` gives the artifact of a region, which the module keeps as a uint8 constant. Its
    inputs and outputs are the region's, in order. The region functions are dropped.
    """
    found = regions(mod)
    artifacts = {name: compile_region(region_to_graph(function, name), config) for name, function in found.items()}

    def visit(rewriter: Rewriter, binding: Binding) -> Expr:
        target = compat.callee(binding.value)
        name = str(target.name_hint) if target is not None and compat.is_global(target) else ""
        if name not in found:
            return rewriter.emit(rewriter.rebuild(binding.value), binding.name)
        artifact = compat.constant(np.frombuffer(artifacts[name], np.uint8))
        args = [rewriter.lookup(arg) for arg in compat.arguments(binding.value)]
        count = compat.constant(np.array(len(args), np.int64))
        return rewriter.emit(compat_passes.packed_call(RUN, [artifact, count, *args], binding.value), binding.name)

    dropped = [gv for gv, _ in compat.functions(mod) if str(gv.name_hint) in found]
    return Rewriter(mod, dropped).run(visit)


def tilewright_pipeline(compile_region: RegionCompiler, config: Any = None) -> Any:
    """A TVM pass: partition, compile each region for ``config``, put calls of ``tilewright.run`` in their place."""

    def transform(mod: Any) -> Any:
        return compile_regions(partition_for_tilewright(mod, config), compile_region, config)

    return compat_passes.module_pass(transform, "Tilewright")


def relax_pipeline(compile_region: RegionCompiler, config: Any = None) -> Any:
    """For ``relax.build(mod, target, relax_pipeline=...)``: :func:`tilewright_pipeline`, then TVM's default one."""
    return compat_passes.before_default_pipeline(tilewright_pipeline(compile_region, config))


def register_runner(runner: RegionRunner | None = None) -> None:
    """Makes ``tilewright.run`` hand artifacts to ``runner`` (by default the runtime's ``run_bytes``)."""
    compat_passes.register_packed(RUN, _packed(runner or _run_on_runtime))


def _run_on_runtime(artifact: bytes, inputs: list[NDArray[Any]]) -> list[NDArray[Any]]:
    from tilewright.runtime import run_bytes

    return run_bytes(artifact, inputs)


def _packed(runner: RegionRunner) -> Callable[..., None]:
    def run(artifact: Any, inputs: Any, *tensors: Any) -> None:
        """Destination-passing style: artifact, number of inputs, the inputs, then the outputs to fill."""
        count = int(inputs.numpy())
        results = runner(artifact.numpy().tobytes(), [tensor.numpy() for tensor in tensors[:count]])
        for tensor, result in zip(tensors[count:], results, strict=True):
            tensor.copyfrom(np.ascontiguousarray(result).reshape(tuple(tensor.shape)))

    return run


register_runner()
