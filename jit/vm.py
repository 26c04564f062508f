"""Regions as programs inside a Relax module: one ``relax.VirtualMachine`` runs accelerator and CPU parts together.

Two lines in an existing script::

    mod = tilewright_pipeline("pynq-z2")(mod)     # partition, compile each region, call it
    executable = relax.build(mod, "llvm")         # export_library() keeps the programs as constants

At run time each call arrives at the packed function ``tilewright.run``, which importing this module registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.config import Config, load_config
from tilewright.jit import compat, compat_passes
from tilewright.jit.compat import Binding, Expr
from tilewright.jit.compat_passes import Rewriter
from tilewright.jit.graph import Graph
from tilewright.jit.partition import partition_for_tilewright, region_to_graph, regions
from tilewright.jit.region import compile_region
from tilewright.runtime.tvm_call import RUN, register_runner

RegionCompiler = Callable[[Graph, Config], bytes]


def _artifact(graph: Graph, config: Config) -> bytes:
    return compile_region(graph, config).to_bytes()


def compile_regions(mod: Any, config: Config, compiler: RegionCompiler = _artifact) -> Any:
    """A partitioned module with every region call replaced by a call of ``tilewright.run``.

    ``compiler(graph, config)`` gives the artifact of a region, which the module keeps as a uint8 constant. Its
    inputs and outputs are the region's, in order. The region functions are dropped.
    """
    found = regions(mod)
    artifacts = {name: compiler(region_to_graph(function, name), config) for name, function in found.items()}

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


def tilewright_pipeline(
    config: Config | str = "pynq-z2", compiler: RegionCompiler = _artifact, semantics: str | None = None
) -> Any:
    """A TVM pass: partition, compile each region for ``config``, put calls of ``tilewright.run`` in their place.

    ``config``: an object, a preset's name or a TOML file; ``semantics`` as in :func:`partition_for_tilewright`.
    """
    chosen = load_config(config)

    def transform(mod: Any) -> Any:
        return compile_regions(partition_for_tilewright(mod, chosen, semantics), chosen, compiler)

    return compat_passes.module_pass(transform, "Tilewright")


def relax_pipeline(
    config: Config | str = "pynq-z2", compiler: RegionCompiler = _artifact, semantics: str | None = None
) -> Any:
    """For ``relax.build(mod, target, relax_pipeline=...)``: :func:`tilewright_pipeline`, then TVM's default one."""
    return compat_passes.before_default_pipeline(tilewright_pipeline(config, compiler, semantics))


register_runner()

__all__ = ["RUN", "RegionCompiler", "compile_regions", "register_runner", "relax_pipeline", "tilewright_pipeline"]
