"""Mistakes planted in the compiler: wrong addresses, sizes, constants, orders. Each is one small function replaced.

A mutation gets the function it replaces and gives the broken one. Names say where and what.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tilewright.isa.functions import Rounding
from tilewright.isa.spec import Memory
from tilewright.isa.tokens import hazards
from tilewright.jit import graph
from tilewright.jit.emit import edges, writer
from tilewright.jit.emit.emitter import Emitter
from tilewright.jit.emit.uops import Resident
from tilewright.jit.emit.writer import InstructionWriter
from tilewright.jit.kernels import conv, elementwise, global_pool, window
from tilewright.jit.lower import lowering as lower
from tilewright.jit.lower import patches as lower_patches
from tilewright.jit.lower import tensors
from tilewright.jit.ops import average_pool2d
from tilewright.jit.plan.layout import Buffer
from tilewright.jit.schedule.constants import Constants
from tilewright.jit.schedule.scheduler import Scheduler

Replace = Callable[[Any], Any]


@dataclass(frozen=True)
class Mutation:
    """``change`` makes the broken function out of ``owner.name``."""

    label: str
    owner: Any
    name: str
    change: Replace

    def apply(self, monkeypatch: pytest.MonkeyPatch) -> None:
        original = self.owner.__dict__[self.name]
        broken = property(self.change(original.fget)) if isinstance(original, property) else self.change(original)
        monkeypatch.setattr(self.owner, self.name, broken)


MUTATIONS: list[Mutation] = []


def mutation(owner: Any, name: str, label: str) -> Callable[[Replace], Replace]:
    """Register a change of ``owner.name``."""

    def register(change: Replace) -> Replace:
        where = getattr(owner, "__name__", str(owner)).rpartition(".")[2]
        MUTATIONS.append(Mutation(f"{where}.{name}: {label}", owner, name, change))
        return change

    return register


def result(owner: Any, name: str, label: str, change: Callable[..., Any]) -> None:
    """Register a change of what ``owner.name`` returns: ``change(result, *arguments)``."""
    mutation(owner, name, label)(lambda old: lambda *a, **k: change(old(*a, **k), *a))


def fields(name: str, label: str, change: Callable[[dict[str, int], Any], dict[str, int]]) -> None:
    """Register a change of the fields that a kernel hands to the emitter's ``name``: ``change(fields, config)``."""

    def broken(old: Any) -> Any:
        return lambda self, what, *rest, **given: old(self, what, *rest, **{**given, **change(given, self.config)})

    mutation(Emitter, name, label)(broken)


# -- where tensors lie -----------------------------------------------------------------------------------

mutation(Buffer, "offset", "the row after")(lambda old: lambda b, row, *rest: old(b, row + (row > 0), *rest))
mutation(Buffer, "offset", "the column after")(
    lambda old: lambda b, row, column=0, unit=0: old(b, row, column + (column == 0), unit)
)
mutation(Buffer, "offset", "always the first channels")(
    lambda old: lambda b, row, column=0, unit=0: old(b, row, column)
)
mutation(Buffer, "offset", "padding above not counted")(
    lambda old: lambda b, row, column=0, unit=0: old(b, row - b.pad[0], column, unit)
)
mutation(Buffer, "wrap", "a row short")(lambda old: lambda b: {**old(b), "wrap_size": max(b.stride, b.size - b.stride)})
mutation(Buffer, "wrap", "a row on")(lambda old: lambda b: {**old(b), "wrap_base": b.base + b.stride})
mutation(Emitter, "_row_in_dram", "the row after")(lambda old: lambda e, b, t, row: old(e, b, t, row + (row > 1)))
mutation(Emitter, "_row_in_dram", "every second row")(lambda old: lambda e, b, t, row: old(e, b, t, row // 2 * 2))
mutation(edges, "Image", "a unit on")(lambda old: lambda offset, units: old(offset + (offset > 0) * 4, units))
mutation(edges, "Image", "slices as wide as the tensor")(
    lambda old: lambda offset, units: old(offset // 64 * 64, units)
)

# -- constants -------------------------------------------------------------------------------------------

result(Emitter, "weight_base", "the entry after", lambda base, e, chunk: base + 1)
result(Emitter, "prm_base", "the entry after", lambda base, e, chunk: base + 1)
mutation(Emitter, "weight_base", "of the first chunk")(lambda old: lambda e, chunk: old(e, 0))
mutation(Emitter, "prm_base", "of the first chunk")(lambda old: lambda e, chunk: old(e, 0))
result(writer, "pack_weights", "an entry late", lambda data, w, bits, name: data[-w[0].size :] + data[: -w[0].size])
mutation(writer, "pack_weights", "blocks transposed")(
    lambda old: lambda w, bits, name: old(np.ascontiguousarray(w.transpose(0, 2, 1)).reshape(w.shape), bits, name)
)
mutation(InstructionWriter, "load_weights", "the first half alone")(
    lambda old: lambda w, base, weights: old(w, base, weights[: -(-len(weights) // 2)])
)
result(conv, "prm_entries", "the next channel's bias", lambda p, *_: np.dstack([np.roll(p[..., :1], 1, 1), p[..., 1:]]))
result(conv, "prm_entries", "vectors exchanged", lambda p, *_: p[::-1])
result(window, "prm_entries", "vectors exchanged", lambda p, *_: p[::-1])
result(elementwise, "prm_entries", "another shift", lambda p, *_: p + np.array([0, 0, 0, 1], np.int32))
result(graph.Requant, "of", "the first slice's", lambda r, q, _: replace(r, bias=q.bias[: len(r.bias)]))
result(graph.Conv2D, "expanded", "groups exchanged", lambda w, op: np.roll(w, op.weight.shape[3], 3))
result(conv.ConvNode, "weight_blocks", "kernel upside down", lambda blocks, node: _flipped(blocks, node))
result(window.WindowNode, "_weight_entries", "taps backwards", lambda w, node: _backwards(w, node.taps.shape))
result(global_pool.GlobalPoolNode, "_identity", "lanes rolled", lambda blocks, node: np.roll(blocks, 1, 1))


def _flipped(blocks: Any, node: Any) -> Any:
    kh = node.weight.shape[1]
    return np.ascontiguousarray(
        blocks.reshape(-1, kh, blocks.shape[0] // _vectors(node) // kh, *blocks.shape[1:])[:, ::-1]
    ).reshape(blocks.shape)


def _vectors(node: Any) -> int:
    return int(node.out_units // node.config.out_units)


def _backwards(entries: Any, shape: tuple[int, ...]) -> Any:
    used = shape[0] * shape[1]
    return np.concatenate([entries[..., :used][..., ::-1], entries[..., used:]], axis=-1)


@mutation(InstructionWriter, "_load", "blobs of one size taken for equal")
def _load_by_size(old: Any) -> Any:
    def broken(w: Any, memory: Any, base: int, count: int, data: bytes) -> None:
        same = next((blob for blob in w._blobs if len(blob) == len(data)), data)
        old(w, memory, base, count, same if memory == Memory.WGT else data)

    return broken


@mutation(elementwise.ElementwiseNode, "emit", "the first term's scale for all")
def _first_scale(old: Any) -> Any:
    def broken(node: Any, *rest: Any) -> None:
        node._scale_entry = dict.fromkeys(node._scale_entry, 0)
        old(node, *rest)

    return broken


# -- micro-ops -------------------------------------------------------------------------------------------

result(conv.ConvNode, "_uops", "columns before rows", lambda uops, node, *_: _columns_first(uops, node))
result(conv.ConvNode, "_uops", "first one accumulates", lambda uops, *_: [(d, s, w, 1) for d, s, w, _ in uops])
result(conv.ConvNode, "_uops", "last one overwrites", lambda uops, *_: [*uops[:-1], (*uops[-1][:3], 0)])
result(
    conv.ConvNode,
    "_uops",
    "last weights twice",
    lambda uops, *_: [(d, s, min(w, len(uops) - 2), a) for d, s, w, a in uops],
)
result(window.WindowNode, "_uops", "rows exchanged", lambda uops, *_: [*_swapped(uops)])
result(
    window.WindowNode,
    "_uops",
    "emit one early",
    lambda uops, *_: [(0 if k == len(uops) - 2 else -1, *u[1:]) for k, u in enumerate(uops)],
)
result(
    global_pool.GlobalPoolNode,
    "_uops",
    "the last pixel left out",
    lambda uops, node, *_: uops[: -node.config.out_units],
)
result(InstructionWriter, "resident", "one too far", lambda begin, w, uops: begin + (len(uops) > 1))


def _columns_first(uops: Any, node: Any) -> Any:
    _, kh, kw, _ = node.weight.shape
    if len(uops) % (kh * kw):
        return uops
    order = (
        np.arange(len(uops)).reshape(kh, kw, -1).transpose(1, 0, 2).ravel().tolist() if kh == kw else range(len(uops))
    )
    return [(u[0], uops[k][1], u[2], u[3]) for u, k in zip(uops, order, strict=True)]


def _swapped(uops: Any) -> Any:
    sources = [u[1] for u in uops]
    sources[:2] = sources[:2][::-1]
    return [(u[0], s, *u[2:]) for u, s in zip(uops, sources, strict=True)]


@mutation(Resident, "find", "any sequence as long")
def _find_by_length(old: Any) -> Any:
    def broken(cache: Any, uops: Any) -> int | None:
        return next((at for known, at in cache._resident.items() if len(known) == len(uops)), None)

    return broken


# -- the kernels' instructions ---------------------------------------------------------------------------

fields("gemm", "a unit more from pixel to pixel", lambda f, c: {"src_inner": f.get("src_inner", 0) + c.in_units})
fields("gemm", "source a vector on", lambda f, c: {"src": f["src"] + c.in_units})
fields("gemm", "the first vector's weights for all", lambda f, c: {"wgt_outer": 0})
fields("gemm", "weights an entry on", lambda f, c: {"wgt": f["wgt"] + 1})
fields("gemm", "a column less", lambda f, c: {"inner": max(1, f["inner"] - 1)})
fields("gemm", "results of vectors exchanged", lambda f, c: {"dst_outer": f["dst_inner"], "dst_inner": f["dst_outer"]})
fields("requantize", "the first vector's constants for all", lambda f, c: {"prm_outer": 0, "prm_inner": 0})
fields("requantize", "constants an entry on", lambda f, c: {"prm": f["prm"] + 1})
fields(
    "requantize",
    "loops exchanged at the source",
    lambda f, c: {"src_outer": f.get("src_inner", 0), "src_inner": f.get("src_outer", 0)},
)
fields("requantize", "a column less", lambda f, c: {"inner": max(1, f.get("inner", 1) - 1)})
fields("requantize", "destination a vector on", lambda f, c: {"dst": f["dst"] + c.out_units})
mutation(Emitter, "scale", "a power of two more")(lambda old: lambda e, factor, **f: old(e, 2 * factor, **f))
fields("scale", "the first vector alone", lambda f, c: {"outer": 1})
mutation(Emitter, "add", "another accumulator")(
    lambda old: lambda e, **f: old(e, **{**f, "src": f["src"] + f["dst_outer"]})
)
fields("rescale", "terms written, not joined", lambda f, c: {"combine": 0})
fields("rescale", "terms added, whatever the join", lambda f, c: {"combine": min(1, f["combine"])})
fields("rescale", "another rounding", lambda f, c: {"rounding": 2})
fields("rescale", "source a pixel on", lambda f, c: {"src": f["src"] + f["src_outer"]})
fields("rescale", "scale an entry on", lambda f, c: {"prm": f["prm"] + 1})


def requant(label: str, change: Callable[[Any], Any]) -> None:
    """Register a change of the requantisation that a kernel hands to the emitter."""
    mutation(Emitter, "requantize", label)(lambda old: lambda e, r, out, **f: old(e, change(r), out, **f))


requant(
    "another rounding",
    lambda r: replace(r, rounding=Rounding.SINGLE if r.rounding == Rounding.DOUBLE else Rounding.DOUBLE),
)
requant("no lower clamp", lambda r: replace(r, lo=-128))
requant("zero point one up", lambda r: replace(r, zero_point=min(127, r.zero_point + 1)))


# -- padding ---------------------------------------------------------------------------------------------


mutation(InstructionWriter, "constant", "padding one up")(
    lambda old: lambda w, value, **f: old(w, min(127, value + 1), **f)
)
mutation(Emitter, "_fill_columns", "none at the sides")(
    lambda old: lambda e, out: e._fill_rows(out, -out.pad[0], out.pad[0])
)
mutation(Emitter, "_fill_rows", "one row less")(lambda old: lambda e, out, first, count: old(e, out, first, count - 1))
mutation(Emitter, "_fill_rows", "one row further")(
    lambda old: lambda e, out, first, count: old(e, out, first + 1, count)
)
result(elementwise.ElementwiseNode, "pad_value", "one up", lambda v, *_: None if v is None else v + 1)
mutation(lower.Lowering, "_separate_pads", "one copy for two padding values")(lambda old: lambda self: None)
result(average_pool2d, "valid_counts", "of the row before", lambda counts, *_: np.roll(counts, 1))

# -- the schedule ----------------------------------------------------------------------------------------


result(Scheduler, "_lowest_needed", "a row too early", lambda row, *_: row + 1)
mutation(Scheduler, "_has_room", "always")(lambda old: lambda self, state, row: True)


@mutation(Constants, "done", "frees the first entries")
def _frees_the_first(old: Any) -> Any:
    def done(self: Constants, node: int, task: int) -> None:
        self._at[node, self._nodes[node].tasks[task].chunk] = (0, 0)
        old(self, node, task)

    return done


mutation(Scheduler, "_waits", "earlier tenants not waited for")(lambda old: staticmethod(lambda before: False))


def no_tokens(label: str, *memories: Memory) -> None:
    """Register accesses to ``memories`` that order nothing."""
    result(
        hazards, "effects", f"no tokens for {label}",
        lambda accesses, *_: [access for access in accesses if access.memory not in memories],
    )  # fmt: skip


no_tokens("constants", Memory.WGT, Memory.PRM)
no_tokens("act", Memory.ACT)

# -- what the host packs and unpacks ---------------------------------------------------------------------

mutation(lower_patches, "PackStep", "another padding")(
    lambda old: lambda **f: old(**{**f, "pad_value": f["pad_value"] ^ 1})
)
mutation(lower_patches, "PackStep", "padding turned")(
    lambda old: lambda **f: old(**{**f, "padding": (f["padding"][2], f["padding"][3], *f["padding"][:2])})
)
mutation(lower_patches, "PackStep", "lanes beyond the patch hold 1")(
    lambda old: lambda **f: old(**{**f, "channel_pad": 1})
)
mutation(tensors, "PackStep", "lanes beyond the channels hold 1")(
    lambda old: lambda **f: old(**{**f, "channel_pad": 1})
)
mutation(tensors, "PackStep", "another padding")(lambda old: lambda **f: old(**{**f, "pad_value": f["pad_value"] ^ 1}))
mutation(edges, "UnpackStep", "a page on")(lambda old: lambda **f: old(**{**f, "offset": 0 if f["offset"] else 64}))
mutation(edges, "UnpackStep", "turned")(
    lambda old: lambda **f: old(**{**f, "shape": (1, f["shape"][2], f["shape"][1], f["shape"][3])})
)
