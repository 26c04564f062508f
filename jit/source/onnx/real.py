"""What ONNX Runtime computes in float32 between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers import elementwise, pool
from tilewright.jit.layers.builder import Operand, Output, Quantisation
from tilewright.jit.source.onnx import elements, integer, quantised, reduce, resize
from tilewright.jit.source.onnx.moves import hand_on
from tilewright.jit.source.onnx.prepared import Node
from tilewright.jit.source.onnx.site import Site
from tilewright.jit.source.onnx.units import is_dequantised
from tilewright.jit.source.operators import onnx_row
from tilewright.jit.source.values import FileTensor


def quantized(value: float, numbers: Quantisation) -> int:
    """A bound as int8: QuantizeLinear never decreases, so clamping ahead of it is clamping behind it."""
    if math.isinf(value):
        return -128 if value < 0 else 127
    with np.errstate(over="ignore"):  # bounds that stand for none
        steps = np.rint(np.float32(value) / np.float32(numbers.scale))
    return int(np.clip(steps + numbers.zero_point, -128, 127))


@dataclass(frozen=True)
class Real:
    """A float32 tensor: 8-bit values under ``numbers``, or what ``finish`` computes; clamped to [low, high].

    ``finish``: (what to clamp and quantise to) -> tensor on the accelerator, with the layer of ``site``; the nodes of
    ``moved`` hand that on in another shape.
    """

    site: Site
    key: object = None
    numbers: Quantisation | None = None
    finish: Callable[[Output], str] | None = None
    low: float = -math.inf
    high: float = math.inf
    moved: tuple[Node, ...] = ()


class Stretch:
    """Lowers the nodes of a unit that are connected by float32 tensors."""

    def __init__(self, site_of: Callable[[Node], Site]) -> None:
        self.site_of = site_of
        self.reals: dict[str, Real] = {}
        self.sums: dict[str, integer.Sums] = {}

    def lower(self, node: Node) -> None:
        """The next node; raises Unsupported."""
        site, row = self.site_of(node), onnx_row(node.kind)
        if is_dequantised(site.prepared, node):
            self._dequantize(site)
        elif node.kind == "QuantizeLinear":
            self._quantize(site)
        elif all(site.prepared.is_eight_bit(t) for t in node.makes):
            quantised.lower(site)
        elif row.is_view and node.inputs[0] in self.reals and len(node.makes) == 1:
            self._hand_on(site)
        elif row.family == "clamp":
            self.reals[node.outputs[0]] = _clamped(self._real(site, 0), site, *_range(site))
        elif node.kind == "MaxPool":
            self._max_pool(site)
        elif row.takes_elements and node.inputs[0] in self.reals and not resize.is_linear(node):
            x = self._held(site)
            keys = [self._declare(site, x, name) for name in node.makes]
            elements.take(site, x.key, keys)
            self.reals |= {name: replace(x, site=site, key=key) for name, key in zip(node.makes, keys, strict=True)}
        elif row.family == "extreme":
            x = self._held(site)
            key = self._declare(site, x, node.outputs[0])
            reduce.extreme(site, x.key, key)
            self.reals[node.outputs[0]] = replace(x, site=site, key=key)
        elif row.sums:
            self._set_sums(node.outputs[0], row.find(row.sums)(site))
        elif node.kind in integer.STEPS and any(name in self.sums for name in node.inputs):
            self._scale_sums(site)
        elif node.kind == "Concat" and self._are_alike(site):
            self._join(site)
        elif row.real:
            real = Real(site, finish=row.find(row.real)(self, site))
            self.reals[node.outputs[0]] = _clamped(real, site, *_activation(site))
        else:
            way = "; tilewright quantize writes that of a float model out" if row.family == "recurrent" else ""
            raise Unsupported(f"{site.kind} has no exact integer form on the accelerator{way}")

    # -- edges of the stretch --------------------------------------------------------------------------

    def _dequantize(self, site: Site) -> None:
        node = site.node
        if node.inputs[0] in site.prepared.constants:
            return  # looked up where it is used
        if node.attribute("block_size", 0):
            raise Unsupported("blocked quantisation")
        dtype = site.prepared.types[node.inputs[0]][0]
        self.reals[node.outputs[0]] = Real(site, node.inputs[0], site.quantisation(1, 2, dtype))

    def _quantize(self, site: Site) -> None:
        node = site.node
        if node.attribute("block_size", 0):
            raise Unsupported("blocked quantisation")
        dtype = site.prepared.types[node.outputs[0]][0]
        numbers = site.quantisation(1, 2, dtype)
        x = self._real(site, 0)
        low, high = (quantized(v, numbers) for v in (x.low, x.high))
        if low > high:
            raise Unsupported(f"an activation that clamps to nothing ({x.low}..{x.high})")
        out = Output(numbers, low, high)
        if x.finish is None:

            def requantised(held: Operand) -> str:
                assert x.numbers is not None
                return elementwise.requantize(x.site, replace(held, quantisation=x.numbers), out)

            site.values.set_function(node.outputs[0], x.key, requantised)
            return
        _require_layout(x.site, x.moved[0].inputs[0] if x.moved else node.inputs[0])
        keys: list[object] = [("quantised", move.inputs[0]) for move in x.moved]
        for key, move in zip(keys, x.moved, strict=True):
            spec = site.values.specs[move.inputs[0]]
            site.values.specs[key] = replace(spec, dtype=dtype, quantisation=numbers)
        keys.append(node.outputs[0])
        site.values.set_result(keys[0], x.finish(out))
        for move, before, after in zip(x.moved, keys, keys[1:], strict=False):
            hand_on(site.builder, site.values, move, before, after)

    # -- float32 tensors -------------------------------------------------------------------------------

    def _real(self, site: Site, position: int) -> Real:
        name = site.input(position)
        if name not in self.reals:
            what = "a constant" if name in site.prepared.constants else "a tensor that is not quantised"
            raise Unsupported(f"{site.kind} of {what}")
        return self.reals[name]

    def _plain(self, site: Site, position: int) -> Real:
        """An operand that is an 8-bit tensor, dequantised and nothing more."""
        x = self._real(site, position)
        if x.finish is not None or x.low != -math.inf or x.high != math.inf:
            raise Unsupported(f"{site.kind} of a float32 result that is not quantised in between")
        return x

    def _operand(self, x: Real) -> Operand:
        assert x.numbers is not None
        return replace(x.site.values.chip(x.key), quantisation=x.numbers)

    def operand(self, site: Site, position: int) -> Operand:
        """An operand on the accelerator."""
        return self._operand(self._plain(site, position))

    def key(self, site: Site, position: int) -> object:
        """The 8-bit tensor that an operand is."""
        return self._plain(site, position).key

    def numbers(self, site: Site, position: int) -> Quantisation:
        """The numbers of an operand."""
        found = self._plain(site, position).numbers
        assert found is not None
        return found

    def _held(self, site: Site) -> Real:
        """The first operand, which is an 8-bit tensor, clamped or not."""
        x = self._real(site, 0)
        if x.finish is not None or x.numbers is None:
            raise Unsupported(f"{site.kind} of a float32 result that is not quantised in between")
        return x

    def _declare(self, site: Site, x: Real, name: str) -> object:
        """A key for a result of the node as an 8-bit tensor with the numbers of ``x``."""
        spec = site.values.specs[name]
        held = FileTensor(spec.name, spec.shape, site.values.specs[x.key].dtype, x.numbers, spec.order)
        site.values.specs["real", name] = held
        return "real", name

    def made(self, site: Site, position: int) -> Callable[[Output], Operand]:
        """An operand of a node that only chooses among elements: an 8-bit tensor, or one that is computed, which is
        quantised ahead of the node instead of behind it."""
        x = self._real(site, position)
        if x.finish is None:
            held = self.operand(site, position)
            return lambda _: held
        if x.moved:
            raise Unsupported(f"{site.kind} of a float32 result that is moved and not quantised in between")

        def computed(out: Output) -> Operand:
            assert x.finish is not None
            low, high = (quantized(v, out.quantisation) for v in (x.low, x.high))
            tensor = x.finish(replace(out, lo=max(out.lo, min(low, out.hi)), hi=min(out.hi, max(high, out.lo))))
            return Operand(tensor, site.builder.tensors[tensor].shape, out.quantisation)

        return computed

    def _scale_sums(self, site: Site) -> None:
        name = next(t for t in site.node.inputs if t in self.sums)
        sums = integer.step(self.sums[name], site, next((t for t in site.node.inputs if t != name), ""))
        self._set_sums(site.node.outputs[0], sums)

    def _set_sums(self, name: str, sums: integer.Sums) -> None:
        self.sums[name] = sums
        if sums.is_float:
            self.reals[name] = Real(sums.site, finish=sums.finish)

    def _hand_on(self, site: Site) -> None:
        """The same elements in another shape or order: of a result that is yet to be quantised, once it is."""
        node, x = site.node, self._real(site, 0)
        if x.finish is not None:
            self.reals[node.outputs[0]] = replace(x, moved=(*x.moved, node))
            return
        x = self._plain(site, 0)
        key = self._declare(site, x, node.outputs[0])
        hand_on(site.builder, site.values, node, x.key, key)
        self.reals[node.outputs[0]] = replace(x, site=site, key=key)

    def _are_alike(self, site: Site) -> bool:
        """Whether all operands are 8-bit tensors with the same numbers, of which something else is made than others."""
        found = [self.reals.get(name) for name in site.node.inputs]
        readers = site.prepared.readers.get(site.node.outputs[0], ())
        return all(node.kind != "QuantizeLinear" for node in readers) and all(
            x is not None and x.finish is None and (x.low, x.high) == (-math.inf, math.inf)
            and found[0] is not None and x.numbers == found[0].numbers
            for x in found
        )  # fmt: skip

    def _join(self, site: Site) -> None:
        x, names = self._real(site, 0), site.node.inputs
        key = self._declare(site, x, site.node.outputs[0])
        parts = [self.operand(site, position) for position in range(len(names))]
        site.values.set_result(key, quantised.joined(site, names, parts, Output(parts[0].quantisation)))
        self.reals[site.node.outputs[0]] = replace(x, site=site, key=key)

    def _max_pool(self, site: Site) -> None:
        """The largest of dequantised values is the dequantised largest, clamped or not; of computed ones, which are
        yet to be quantised, the largest of what QuantizeLinear makes of them: it never decreases."""
        over = quantised.window(site, site.input(0), site.node.outputs[0])
        x = self._real(site, 0)
        if x.finish is not None and not x.moved:
            computed = self.made(site, 0)

            def finish(out: Output) -> str:
                return pool.max_pool(site, computed(out), over, Output(out.quantisation))

            self.reals[site.node.outputs[0]] = Real(site, finish=finish, low=x.low, high=x.high)
            return
        x = self._held(site)
        key = self._declare(site, x, site.node.outputs[0])
        site.values.set_chip(key, pool.max_pool(site, self._operand(x), over, Output(self._operand(x).quantisation)))
        self.reals[site.node.outputs[0]] = replace(x, site=site, key=key)


def _require_layout(site: Site, name: str) -> None:
    """Raises Unsupported unless ``name``, computed with the result of the node, has that one's shape and layout.

    A constant with more axes adds some, of which a result on the accelerator says nothing.
    """
    made, wanted = (site.values.specs[tensor] for tensor in (site.node.outputs[0], name))
    if (made.shape, made.order) != (wanted.shape, wanted.order):
        raise Unsupported(f"a result of shape {made.shape} that is {wanted.shape} where it is quantised")


def _clamped(x: Real, site: Site, low: float, high: float) -> Real:
    layer = x.site if x.finish else site
    return replace(x, site=layer, low=min(max(x.low, low), high), high=max(min(x.high, high), low))


def _range(site: Site) -> tuple[float, float]:
    """What Relu or Clip clamps to."""
    if site.node.kind == "Relu":
        return 0.0, math.inf
    bounds = []
    for position, name, default in ((1, "min", -math.inf), (2, "max", math.inf)):
        value = site.constant(position) if site.has(position) else np.asarray(site.node.attribute(name, default))
        if value.size != 1:
            raise Unsupported("Clip with several bounds")
        bounds.append(float(value.reshape(())))
    return _ordered(bounds[0], bounds[1])


def _ordered(low: float, high: float) -> tuple[float, float]:
    """The bounds of a Clip; raises Unsupported for those between which there is no number."""
    if not low <= high:
        raise Unsupported(f"Clip to {low}..{high}")
    return low, high


def _activation(site: Site) -> tuple[float, float]:
    """The range of an activation that ONNX Runtime fused into the node."""
    kind = site.node.attribute("activation", "") or ""
    parameters = site.node.attribute("activation_params", [])
    if kind == "Relu":
        return 0.0, math.inf
    if kind == "Clip" and len(parameters) == 2:
        return _ordered(float(parameters[0]), float(parameters[1]))
    if kind and kind != "LeakyRelu":  # of which the rule has made a maximum
        raise Unsupported(f"the activation {kind}")
    return -math.inf, math.inf
