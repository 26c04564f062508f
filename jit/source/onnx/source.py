"""A quantised ``.onnx`` file as a :class:`~tilewright.jit.source.base.Source`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.files import name_of
from tilewright.jit.defects import why_not
from tilewright.jit.errors import ModelError, Unsupported
from tilewright.jit.exactness import LayerDifference, LayerExactness
from tilewright.jit.graph import Conv2D, DepthwiseConv2D, DequantizeFloat, Interpreted, QuantizeFloat
from tilewright.jit.layers import elementwise, per_channel
from tilewright.jit.layers.builder import ONNX_RUNTIME, GraphBuilder, Output, Quantisation
from tilewright.jit.source.base import Built, Source, SourceOperator
from tilewright.jit.source.onnx import foreign, functions, quantised, validate
from tilewright.jit.source.onnx.batch import one_image
from tilewright.jit.source.onnx.cut import cut
from tilewright.jit.source.onnx.indices import limits
from tilewright.jit.source.onnx.layerwise import differing
from tilewright.jit.source.onnx.layout import orders
from tilewright.jit.source.onnx.pairs import Pair, add_pairs
from tilewright.jit.source.onnx.prepared import Node, Prepared, computed_types
from tilewright.jit.source.onnx.real import Stretch
from tilewright.jit.source.onnx.site import Site, quantisation
from tilewright.jit.source.onnx.sums import Sums
from tilewright.jit.source.onnx.turned import refuse_turned
from tilewright.jit.source.onnx.units import Unit, assign, find_units, is_dequantised, otherwise_quantised
from tilewright.jit.source.onnx.values import PreparedValues
from tilewright.jit.source.onnx.zero_points import complete_zero_points, unshare_zero_points
from tilewright.jit.source.operators import onnx_row
from tilewright.jit.source.sizes import refuse_huge
from tilewright.jit.source.values import FileTensor, by_name, without_dead
from tilewright.runtime.records import Exact

_ORDER = "sums in float32, whose order may depend on the batch"
_MOVED = "sums in float32, which ONNX Runtime orders otherwise within the whole model"
_PAIRED = "close: reads or gives 8 bits where the file has float32"
#: what the user's own names stand for where he gave none, or gave one twice
_PLACEHOLDER = "op{index:03d}_{kind}"


class OnnxSource(Source):
    """The main graph of an ``.onnx`` file; ONNX Runtime without saturating products is its meaning.

    Layers that are not proven equal to it for every input fall back to it if ``exact`` is ``proven``. If it is
    ``default``, those of them do that are known to differ or have no weights; if it is ``close``, none for that reason.
    """

    runtime = "onnxruntime"

    def __init__(
        self,
        path: Path,
        exact: Exact = "default",
        content: bytes | None = None,
        pairs: Mapping[str, Pair] | None = None,
    ) -> None:
        """``content``: of a model that is not in the file, but was made from it. ``pairs``: what quantises float32
        tensors of the file, which its interpreter does not."""
        super().__init__(path)
        self.exact, self._content = exact, content
        whole = validate.read(path, content)
        validate.refuse_float(path, whole)
        opened = validate.fix_batch(whole)
        validate.refuse_shapes(path, whole)
        complete_zero_points(whole)
        unshare_zero_points(whole)
        for node, name in zip(whole.graph.node, _names(whole), strict=True):
            node.name = name  # ONNX Runtime refuses names that stand twice
        self._whole = whole.SerializeToString()
        self._shapes = list(validate.input_shapes(whole).values())
        self._reference: bytes | None = None
        with validate.leading_dimension_named(opened):
            model, self.batch = one_image(path, whole)
            shapes = _shapes(model)
            refuse_huge(path, shapes.items())
            if exact == "proven" and self.batch > 1 and _adds_rows(Prepared(path, model)):
                model, self.batch, shapes = whole, 1, _shapes(whole)
            shapes = _with_computed(path, model, shapes)
            self.operators = _operators(model, shapes)
            self.index_limits = limits(model, shapes)
            self.operators += add_pairs(model, pairs or {})
            self.prepared = Prepared(path, model)
            refuse_turned(path, self.prepared.model, self.prepared.file)
        self._added = {operator.index for operator in self.operators if operator.added}
        self._sums = Sums(self.prepared)
        self._names = {v.name for v in (*model.graph.input, *model.graph.output)}
        self._names |= {t for node in model.graph.node for t in node.output}
        self.units = find_units(self.prepared)
        self._unit_of = assign(self.prepared, model, self.units)
        self._orders = orders(self.prepared)
        self._numbers = _numbers(self.prepared)
        self._keys: dict[str, str] = {}
        self._same: dict[str, str] = {}

    def build(self, host: Mapping[int, str]) -> Built:
        builder = GraphBuilder(ONNX_RUNTIME)
        values = PreparedValues(builder, {name: self._spec(name) for name in self.prepared.types})
        inputs = [values.declare_file(name) for name in self.prepared.inputs]
        built = Built(builder.finish(name_of(self.path), inputs, []))
        for unit in self.units:
            self._place(unit, host, values, built)
        for position in range(len(self.operators)):
            if position not in self._unit_of:
                built.notes[position] = "depends on constants alone, or changes nothing"
        built.graph.outputs = [self._output(name, values) for name in self.prepared.outputs]
        built.output_names = tuple(self.prepared.outputs)
        built.graph = without_dead(built.graph)
        built.exactness = builder.exactness
        self._keys, self._same = by_name({k: name for k, name in values.files.items() if isinstance(k, str)})
        return built

    def cut(self, operators: Sequence[int], inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
        wanted = set(operators)
        nodes = {n.index: n for unit in self.units if unit.covers & wanted for n in unit.nodes}
        ordered = [nodes[i] for i in sorted(nodes)]
        given, taken = [self._keys[t] for t in inputs], [self._keys[t] for t in outputs]
        return cut(self.prepared, ordered, given, taken, self._same)

    def unproven(self, part: bytes) -> list[LayerExactness]:
        names = [self.operators[position].name for position in sorted(self._sums.moved(part))]
        return [LayerExactness(name, ONNX_RUNTIME, 1, 0, bound=1, worst=1.0, method=_MOVED) for name in names]

    def differing(self, inputs: Sequence[NDArray[Any]]) -> list[LayerDifference]:
        return [] if self.batch > 1 else differing(self, inputs)

    def key(self, tensor: str) -> str | None:
        """The tensor of the prepared graph that one of the last :meth:`build` holds in the file's own form."""
        return self._keys.get(tensor)

    def is_stateful(self, operators: Sequence[int]) -> bool:
        return False  # ONNX has no operator that remembers an inference

    def reference(self) -> tuple[bytes, bool, list[tuple[int, ...]]]:
        if self._reference is None:
            self._reference = validate.untouched(self.path, self._content, self._whole)
        return self._reference, False, self._shapes

    # -- one unit --------------------------------------------------------------------------------------

    def _place(self, unit: Unit, host: Mapping[int, str], values: PreparedValues, built: Built) -> None:
        builder, name = values.builder, self._name(unit)
        if not unit.outputs:
            built.notes |= dict.fromkeys(unit.covers, "nothing reads its result")
            return
        for position in unit.covers - {unit.lead}:
            built.notes[position] = f"part of {name}"
        reason = next((host[p] for p in sorted(unit.covers) if p in host), None)
        if reason is None:
            count, noted = len(builder.ops), len(builder.exactness)
            try:
                self._lower(unit, values)
                builder.exactness[noted:] = _by_layer(builder.exactness[noted:])
                weighted = any(onnx_row(node.kind).is_weighted for node in unit.nodes) and any(
                    isinstance(op, (Conv2D, DepthwiseConv2D)) for op in builder.ops[count:]
                )
                self._refuse_doubtful(builder.exactness[noted:], weighted, built)
                if unit.covers & self._added:
                    builder.exactness[noted:] = [LayerExactness(name, ONNX_RUNTIME, 1, 0, worst=1.0, method=_PAIRED)]
            except Exception as error:  # noqa: BLE001 - why_not() raises or reports all but refusals
                reason = why_not(error, name)
                del builder.exactness[noted:]
                for forms in (values.files, values.chips, values.reshaped, values.rearranged):
                    for key in [k for k in forms if _stands_for(k) in unit.outputs]:
                        del forms[key]
            else:
                if len(builder.ops) == count:
                    built.notes[unit.lead] = "no arithmetic; the same elements"
                result = _held(unit, values)
                if result is not None:
                    built.sources[name] = result
                return
        self._interpret(unit, name, reason, values)
        if unit.covers & self._added:
            builder.exactness.append(LayerExactness(name, ONNX_RUNTIME, 1, 0, worst=1.0, method=_PAIRED))
        if unit.outputs:
            built.sources[name] = values.files[unit.outputs[0]]

    def _refuse_doubtful(self, layers: Sequence[LayerExactness], weighted: bool, built: Built) -> None:
        """Raise Unsupported for a layer that is not proven equal to ONNX Runtime's, where the policy wants that.

        Layers without weights cost the CPU little, so a single sum in doubt is enough.
        """
        wanted = {"proven": True, "default": not weighted, "close": False}[self.exact]
        for layer in layers:
            if not layer.proven and (wanted or (self.exact == "default" and layer.compared)):
                built.doubtful.append(layer)
                share = f"for {100 * layer.worst:.2g} % of the sums that a channel can reach"
                share = "for some sums" if layer.compared else share
                raise Unsupported(f"would not always give ONNX Runtime's own integers ({share}; {layer.method})")

    def _lower(self, unit: Unit, values: PreparedValues) -> None:
        first, *others = unit.nodes
        handed = all(onnx_row(n.kind).is_view and all(self.prepared.is_eight_bit(t) for t in n.makes) for n in others)
        if handed and self._edge(first, unit, values):
            for node in others:
                quantised.lower(self._site(node, unit, values))
            return
        for tensor in (*unit.inputs, *unit.outputs):
            if not self.prepared.is_eight_bit(tensor):
                plain = f"{self.operators[unit.lead].kind} with a tensor of type {self.prepared.types[tensor][0]}"
                raise Unsupported(otherwise_quantised(self.prepared, unit) or plain)
        if len(unit.inputs) == 1 and functions.takes(self.prepared, unit, self._channel_axis(unit.inputs[0], values)):
            self._look_up(unit, values)
            return
        if len(unit.nodes) == 1:
            quantised.lower(self._site(unit.nodes[0], unit, values))
            return
        stretch = Stretch(lambda node: self._site(node, unit, values))
        for node in unit.nodes:
            stretch.lower(node)

    def _look_up(self, unit: Unit, values: PreparedValues) -> None:
        """A function of single elements, by a table, or another one in each channel."""
        (source,), (result,) = unit.inputs, unit.outputs
        site = self._site(unit.nodes[0], unit, values)
        numbers = values.specs[result].quantisation
        assert numbers is not None
        out = Output(numbers)
        table = functions.tables(self.prepared, unit, self._name(unit), self._channel_axis(source, values))
        if values.specs[source].order != values.specs[result].order:
            raise Unsupported("a function between different layouts")
        if table.shape[1] == 1:
            values.set_function(result, source, lambda x: elementwise.looked_up(site, x, out, table))
        else:
            wanted = np.roll(table, 128, axis=0).astype(np.int64)
            values.set_chip(result, per_channel.function(site, values.chip(source), wanted, out))

    def _channel_axis(self, name: str, values: PreparedValues) -> int:
        order = values.specs[name].order
        return len(self.prepared.types[name][1]) - 1 if order is None else order[-1]

    def _site(self, node: Node, unit: Unit, values: PreparedValues) -> Site:
        own = [p for p in node.origin if p in unit.covers]
        quiet = node.kind in ("QuantizeLinear", "DequantizeLinear")
        position = own[0] if own and not quiet else unit.lead
        return Site(
            builder=values.builder, name=self.operators[position].name, source=_shown(self.operators[position]),
            covers=tuple(sorted(unit.covers)), prepared=self.prepared, values=values, node=node,
            kind=self._kind(node, unit),
        )  # fmt: skip

    def _kind(self, node: Node, unit: Unit) -> str:
        """The file's own kind of a node; of one that ONNX Runtime made anew those of the operators that it, or another
        one that it made with it, replaces."""
        kinds = {p: self.operators[p].kind for p in sorted(unit.covers)}
        own = [p for p in node.origin if p in kinds]
        if node.kind in (kinds[p] for p in own):
            return node.kind
        gone = unit.covers - {p for other in unit.nodes for p in other.origin}
        replaced = [k for p, k in kinds.items() if p in {*own, *gone} and not onnx_row(k).is_quiet]
        return " + ".join(replaced) or self.operators[unit.lead].kind

    def _edge(self, node: Node, unit: Unit, values: PreparedValues) -> bool:
        """QuantizeLinear of float32, DequantizeLinear to float32: NumPy steps. False for other nodes."""
        if node.attribute("block_size", 0):
            return False
        site = self._site(node, unit, values)
        if node.kind == "QuantizeLinear" and self.prepared.types.get(node.inputs[0], ("",))[0] == "float32":
            spec = values.specs[node.outputs[0]]
            q = site.quantisation(1, 2, spec.dtype)
            tensor = values.builder.append(
                QuantizeFloat, spec.name, [values.file(node.inputs[0])], spec.shape, like=q, dtype="int8",
                rounding="even", source=site.source, covers=site.covers, scale=q.scale, zero_point=q.zero_point,
            )  # fmt: skip
            values.set_signed(node.outputs[0], tensor)
        elif is_dequantised(self.prepared, node) and self.prepared.is_eight_bit(node.inputs[0]):
            q = site.quantisation(1, 2, values.specs[node.inputs[0]].dtype)
            spec = values.specs[node.outputs[0]]
            values.files[node.outputs[0]] = values.builder.append(
                DequantizeFloat, spec.name, [values.signed(node.inputs[0])], spec.shape, "float32",
                source=site.source, covers=site.covers, scale=q.scale, zero_point=q.zero_point,
            )  # fmt: skip
        else:
            return False
        values.builder.exactness.append(LayerExactness(site.name, ONNX_RUNTIME, 1, 1))
        return True

    def _interpret(self, unit: Unit, name: str, reason: str, values: PreparedValues) -> None:
        if self.batch > 1 and any(onnx_row(node.kind).adds_rows for node in unit.nodes):
            values.builder.exactness.append(LayerExactness(name, ONNX_RUNTIME, 1, 0, method=_ORDER))
        inputs = [values.file(t) for t in unit.inputs]
        results = tuple(values.declare_file(t) for t in unit.outputs)
        source, covers = _shown(self.operators[unit.lead]), tuple(sorted(unit.covers))
        if any(name in other.outputs for other in self.units if other is not unit):
            name = f"{name}_node"  # a file keeps names of tensors and operators apart, the graph does not
        values.builder.ops.append(
            Interpreted(
                name=name, inputs=inputs, output=results[0] if results else "", source=source, covers=covers,
                results=results, reason=reason,
            )
        )  # fmt: skip

    def _output(self, name: str, values: PreparedValues) -> str:
        if name in self.prepared.constants:
            value = self.prepared.array(name)
            return self.constant_output(FileTensor(name, value.shape, value.dtype.name), value, values)
        return values.file(name)

    def _name(self, unit: Unit) -> str:
        return self.operators[unit.lead].name

    def _spec(self, name: str) -> FileTensor:
        """Tensors that ONNX Runtime has renamed bear the name of the operator that makes them."""
        dtype, shape = self.prepared.types[name]
        shown = name
        if name not in self._names:
            producer = self.prepared.producers.get(name)
            shown = f"{self.operators[producer.origin[0]].name}_out" if producer and producer.origin else name
        numbers = None
        if dtype in ("int8", "uint8"):
            numbers = self._numbers.get(name, Quantisation(1.0, -128 if dtype == "uint8" else 0))
        return FileTensor(shown, shape, foreign.GIVEN.get(dtype, dtype), numbers, self._orders[name])


def _adds_rows(prepared: Prepared) -> bool:
    """Whether ONNX Runtime multiplies rows by a matrix in float32."""
    return any(onnx_row(node.kind).adds_rows for node in prepared.nodes)


def _by_layer(entries: list[LayerExactness]) -> list[LayerExactness]:
    """One entry a layer, of several that say something about parts of it."""
    found: dict[str, LayerExactness] = {}
    for entry in entries:
        old = found.get(entry.name)
        worse = entry if old is None or entry.worst > old.worst else old
        channels, exact = (
            (entry.channels, entry.exact)
            if old is None
            else (
                old.channels + entry.channels,
                old.exact + entry.exact,
            )
        )
        bound = max(entry.bound, old.bound if old else 0)
        found[entry.name] = replace(worse, channels=channels, exact=exact, bound=bound)
    return list(found.values())


def _names(model: Any) -> list[str]:
    """Of every operator: its own where no other has it."""
    count = Counter(node.name for node in model.graph.node)
    return [
        node.name if node.name and count[node.name] == 1 else _PLACEHOLDER.format(index=index, kind=node.op_type)
        for index, node in enumerate(model.graph.node)
    ]


def _operators(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> list[SourceOperator]:
    result = []
    for index, (name, node) in enumerate(zip(_names(model), model.graph.node, strict=True)):
        inputs = [shapes.get(t) if t else () for t in node.input]
        macs = onnx_row(node.op_type).count_macs(inputs, shapes.get(node.output[0]))
        result.append(SourceOperator(index, name, node.op_type, macs))
    return result


def _shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """Of every tensor whose shape the file says or implies."""
    import onnx

    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except (onnx.shape_inference.InferenceError, ValueError):  # the latter from a file of 2 GB
        graph = model.graph
    found = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim):
            found[value.name] = tuple(d.dim_value for d in kind.shape.dim)
    return found


def _with_computed(path: Path, model: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The shapes together with those that operators with multiply-accumulates need and onnx does not infer.

    It infers none behind an operator of ONNX Runtime's own domain, nor behind a Reshape to a computed shape. These are
    found by running the file once on zeros. Where it runs only after ONNX Runtime's optimiser, they stay unknown.
    """
    counted = [node for node in model.graph.node if onnx_row(node.op_type).macs]
    wanted = {t for node in counted for t in (*node.input, node.output[0]) if t} - set(shapes)
    if not wanted:
        return dict(shapes)
    try:
        computed = computed_types(path, model, sorted(wanted))
    except ModelError:
        return dict(shapes)
    return {**shapes, **{name: shape for name, (_, shape) in computed.items()}}


def _shown(operator: SourceOperator) -> str:
    """An operator as reports show it, beside its name."""
    return f"op{operator.index:03d} {operator.kind}"


def _stands_for(key: object) -> object:
    return key[0] if isinstance(key, tuple) else key


def _held(unit: Unit, values: PreparedValues) -> str | None:
    """The graph tensor with the unit's first result; None where nobody has asked for it in a form of its own."""
    for key in unit.outputs[:1]:
        return values.chips.get(key) or values.files.get(key) or values.files.get((key, "int8"))
    return None


def _numbers(prepared: Prepared) -> dict[str, Quantisation]:
    """Scale and zero point of the 8-bit tensors for which some node states them, its producer's before its readers'.

    They describe the tensor to its user; what is computed with it follows each node's own numbers.
    """
    found: dict[str, Quantisation] = {}

    def note(name: str, scale: str, zero_point: str) -> None:
        if name in prepared.constants or not name or prepared.types[name][0] not in ("int8", "uint8"):
            return
        dtype = prepared.types[name][0]
        try:
            zero = prepared.array(zero_point) if zero_point else np.zeros((), dtype)
            found.setdefault(name, quantisation(prepared.array(scale), zero, dtype))
        except Unsupported:
            return  # no single pair of numbers: the layers that use it say so

    for node in prepared.nodes:
        inputs, at = [*node.inputs, "", "", ""], onnx_row(node.kind).at("sy")
        if at is not None and len(node.inputs) > at:
            note(node.outputs[0], inputs[at], inputs[at + 1])
    for node in prepared.nodes:
        inputs = [*node.inputs, "", "", ""]
        for at in onnx_row(node.kind).dequantised:
            note(inputs[at], inputs[at + 1], inputs[at + 2])
    return found
