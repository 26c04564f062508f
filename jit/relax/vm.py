"""Regions as programs inside a Relax module: one ``relax.VirtualMachine`` runs accelerator and CPU parts together.

Two lines in an existing script::

    mod = tilewright_pipeline("pynq-z2")(mod)     # partition, compile each region, call it
    executable = relax.build(mod, "llvm")         # export_library() keeps the programs as constants

At run time each call arrives at the packed function ``tilewright.run``, which ``import tilewright`` registers. It runs
on the device that the module was compiled for, or on that of ``tilewright.runtime.use_device``;
``tilewright.runtime.collect_reports`` gives the reports of the runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.config import Config, load_config
from tilewright.jit.graph import Graph
from tilewright.jit.relax import compat, compat_passes
from tilewright.jit.relax.compat import Binding, Expr
from tilewright.jit.relax.compat_passes import Rewriter
from tilewright.jit.relax.partition import partition_for_tilewright, region_to_graph, regions
from tilewright.jit.relax.placement import Placement, placement
from tilewright.jit.relax.region import compile_region
from tilewright.runtime.device import check_device
from tilewright.runtime.tvm_call import RUN, register_runner

RegionCompiler = Callable[[Graph, Config], bytes]
Report = Callable[[Placement], object]


def _artifact(graph: Graph, config: Config) -> bytes:
    return compile_region(graph, config).to_bytes()


def compile_regions(
    mod: Any,
    config: Config,
    compiler: RegionCompiler = _artifact,
    *,
    device: str = "sim",
    report: Report | None = None,
) -> Any:
    """A partitioned module with every region call replaced by a call of ``tilewright.run``.

    ``device``, ``report`` as in :func:`tilewright_pipeline`. ``compiler(graph, config)`` gives the artifact of a
    region, which the module keeps as a uint8 constant. Its inputs and outputs are the region's, in order. The region
    functions are dropped.
    """
    found = regions(mod)
    check_device(device)
    graphs = {name: region_to_graph(function, name) for name, function in found.items()}
    if report is not None:
        report(placement(mod, graphs, config.name, device))
    artifacts = {name: compiler(graph, config) for name, graph in graphs.items()}
    where = compat.constant(np.frombuffer(device.encode(), np.uint8))

    def visit(rewriter: Rewriter, binding: Binding) -> Expr:
        target = compat.callee(binding.value)
        name = str(target.name_hint) if target is not None and compat.is_global(target) else ""
        if name not in found:
            return rewriter.emit(rewriter.rebuild(binding.value), binding.name)
        artifact = compat.constant(np.frombuffer(artifacts[name], np.uint8))
        args = [rewriter.lookup(arg) for arg in compat.arguments(binding.value)]
        count = compat.constant(np.array(len(args), np.int64))
        return rewriter.emit(
            compat_passes.packed_call(RUN, [artifact, where, count, *args], binding.value), binding.name
        )

    dropped = [gv for gv, _ in compat.functions(mod) if str(gv.name_hint) in found]
    return Rewriter(mod, dropped).run(visit)


def tilewright_pipeline(
    config: Config | str = "pynq-z2",
    compiler: RegionCompiler = _artifact,
    semantics: str | None = None,
    *,
    device: str = "sim",
    report: Report | None = None,
) -> Any:
    """A TVM pass: partition, compile each region for ``config``, put calls of ``tilewright.run`` in their place.

    ``config``: an object, a preset's name or a TOML file; ``semantics`` as in :func:`partition_for_tilewright`.
    ``device``: the name of what runs the regions: sim, rtl, hls, pynq or pynq://HOST. ``report`` is called with the
    :class:`Placement` (``print`` will do). Warns with FloatModule of a module that is not quantised.
    """
    chosen = load_config(config)
    check_device(device)

    def transform(mod: Any) -> Any:
        partitioned = partition_for_tilewright(mod, chosen, semantics)
        return compile_regions(partitioned, chosen, compiler, device=device, report=report)

    return compat_passes.module_pass(transform, "Tilewright")


def relax_pipeline(
    config: Config | str = "pynq-z2",
    compiler: RegionCompiler = _artifact,
    semantics: str | None = None,
    *,
    device: str = "sim",
    report: Report | None = None,
) -> Any:
    """For ``relax.build(mod, target, relax_pipeline=...)``: :func:`tilewright_pipeline`, then TVM's default one."""
    return compat_passes.before_default_pipeline(
        tilewright_pipeline(config, compiler, semantics, device=device, report=report)
    )


__all__ = [
    "RUN",
    "Placement",
    "RegionCompiler",
    "compile_regions",
    "register_runner",
    "relax_pipeline",
    "tilewright_pipeline",
]
