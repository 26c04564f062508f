"""A ``.tflite`` file as a :class:`~tilewright.jit.source.base.Source`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.files import name_of, read_bytes
from tilewright.jit.defects import why_not
from tilewright.jit.errors import ModelError, Unsupported
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.graph import DequantizeFloat, Interpreted, QuantizeFloat
from tilewright.jit.layers.builder import LITERT, GraphBuilder, Quantisation
from tilewright.jit.source.base import Built, Source, SourceOperator
from tilewright.jit.source.operators import tflite_row
from tilewright.jit.source.sizes import refuse_huge
from tilewright.jit.source.tflite import dilation
from tilewright.jit.source.tflite.batch import take_one_image
from tilewright.jit.source.tflite.cut import cut, is_initial
from tilewright.jit.source.tflite.file import File, Operator, Tensor
from tilewright.jit.source.tflite.fold import fold
from tilewright.jit.source.tflite.images import by_image, listed
from tilewright.jit.source.tflite.indices import limits
from tilewright.jit.source.tflite.site import Site
from tilewright.jit.source.tflite.state import states_of
from tilewright.jit.source.values import FileTensor, Rearranged, Values, View, by_name, without_dead
from tilewright.runtime import interpreters
from tilewright.runtime.apart import Ended
from tilewright.runtime.litert.foreign import way_out_of_foreign
from tilewright.runtime.litert.schema import text, vector


class TfliteSource(Source):
    """Main subgraph of a ``.tflite`` file; LiteRT's reference kernels are its meaning."""

    runtime = "litert"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.file = File(path)
        try:
            prepared = interpreters.litert_shapes(read_bytes(path), str(path))
            # no axes, or one of none, may also say that it is not known before it runs
            self._prepared = {t: shape for t, shape in prepared.items() if shape and all(d > 0 for d in shape)}
            self.file.take_shapes(self._prepared)
            self._shapes = [self._tensor(i).shape for i in self.file.inputs]
            self.left_out = _other_signatures(self.file)
            self.batch = take_one_image(self.file)
            refuse_huge(path, ((t.name or f"tensor{t.index}", t.shape) for t in self.file.tensors))
            self.folded = fold(self.file)
            self.file.take_shapes(self._run_shapes())
        except (interpreters.InterpreterError, ValueError, RuntimeError) as error:
            cause = error.__cause__ or error
            said, count = interpreters.first_line(cause).rstrip("."), len(self.file.operators)
            way_out = f" (it has {count} operators)" if isinstance(cause, Ended) else way_out_of_foreign(said)
            raise ModelError(f"{path}: LiteRT cannot run it: {said}{way_out}") from error
        self.operators = [self._source_operator(op) for op in self.file.operators]
        self.index_limits = limits(self.file)
        self._keys: dict[str, int] = {}
        self._same: dict[int, int] = {}

    def build(self, host: Mapping[int, str]) -> Built:
        builder = GraphBuilder(LITERT)
        values = Values(builder, {t.index: self._spec(t) for t in self.file.tensors})
        inputs = [values.declare_file(i) for i in self.file.inputs]
        built = Built(builder.finish(name_of(self.path), inputs, []))
        together = dilation.find(self.file, host)
        done: set[int] = set()
        for op in self.file.operators:
            if op.index in self.folded.operators:
                built.notes[op.index] = "depends on constants alone"
            elif op.index in done:
                continue
            elif op.index in together and self._place_dilated(together[op.index], values, built):
                done.update(together[op.index].covers)
            elif is_initial(op.kind):
                built.notes[op.index] = "goes with the operators that use it"
            else:
                self._place(op, host.get(op.index), values, built)
        graph = built.graph
        graph.outputs = [self._output(i, values) for i in self.file.outputs]
        built.output_names = tuple(self._spec(self._tensor(i)).name for i in self.file.outputs)
        built.graph = without_dead(graph)
        built.exactness = builder.exactness
        self._keys, self._same = by_name({k: name for k, name in values.files.items() if isinstance(k, int)})
        return built

    def cut(self, operators: Sequence[int], inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
        keys = self._keys
        given, taken = [keys[n] for n in inputs], [keys[n] for n in outputs]
        return cut(self.file, operators, given, taken, self.folded.values, self._same)

    def is_stateful(self, operators: Sequence[int]) -> bool:
        return any(states_of(self.file, self.file.operators[i]) for i in operators)

    def reference(self) -> tuple[bytes, bool, list[tuple[int, ...]]]:
        everything = [op.index for op in self.file.operators]
        model = read_bytes(self.path)
        if any(op.kind == "SVDF" for op in self.file.operators):  # see cut: its state is mended there
            model = cut(self.file, everything, self.file.inputs, self.file.outputs, {}, {})
        return model, self.is_stateful(everything), self._shapes

    def _source_operator(self, op: Operator) -> SourceOperator:
        shapes = [self.file.tensors[i].shape if i >= 0 else () for i in (*op.inputs, *op.outputs[:1])]
        macs = tflite_row(op.kind).count_macs(shapes[: len(op.inputs)], shapes[-1] if op.outputs else None)
        title = self.file.tensors[op.outputs[0]].name if op.outputs else ""
        return SourceOperator(op.index, f"op{op.index:03d}_{op.kind}", op.kind, macs, title)

    # -- one operator ----------------------------------------------------------------------------------

    def _place(self, op: Operator, refused: str | None, values: Values, built: Built) -> None:
        builder, name = values.builder, self.operators[op.index].name
        reason = refused
        if reason is None:
            count, noted = len(builder.ops), len(builder.exactness)
            try:
                built.sources[name] = self._lower(op, name, values)
                if len(builder.ops) == count:
                    built.notes[op.index] = "no arithmetic; the same elements"
                return
            except Exception as error:  # noqa: BLE001 - why_not() raises or reports all but refusals
                reason = why_not(error, name)
                del builder.exactness[noted:]
                for index in op.outputs:
                    values.forget(index)
        self._interpret(op, name, reason, values)
        if op.outputs and op.outputs[0] in values.files:
            built.sources[name] = values.files[op.outputs[0]]

    def _place_dilated(self, found: dilation.Dilated, values: Values, built: Built) -> bool:
        """Several operators as one layer; False where each goes by itself."""
        name, noted = self.operators[found.layer.index].name, len(values.builder.exactness)
        result = found.gather.outputs[0]
        try:
            tensor = found.lower(self._site(found.layer, name, values, found.covers))
            values.set_chip(result, tensor)
        except Exception as error:  # noqa: BLE001 - why_not() raises or reports all but refusals
            why_not(error, name)  # as each by itself says why, too
            del values.builder.exactness[noted:]
            values.forget(result)
            return False
        built.sources[self.operators[found.gather.index].name] = tensor
        built.notes |= dict.fromkeys((i for i in found.covers if i != found.layer.index), f"part of {name}")
        return True

    def _site(self, op: Operator, name: str, values: Values, covers: tuple[int, ...]) -> Site:
        return Site(
            builder=values.builder, name=name, source=name.replace("_", " ", 1), covers=covers, file=self.file,
            op=op, values=values, folded=self.folded.values,
        )  # fmt: skip

    def _lower(self, op: Operator, name: str, values: Values) -> str:
        if op.kind in ("QUANTIZE", "DEQUANTIZE") and (tensor := self._edge(op, name, values)) is not None:
            return tensor
        row = tflite_row(op.kind)
        if not row.rule:
            raise Unsupported(f"{op.custom or op.kind} has no exact integer form on the accelerator")
        rule, site = row.find(row.rule), self._site(op, name, values, (op.index,))
        noted = len(values.builder.exactness)
        try:
            made = listed(rule(site))
        except Exception as error:
            why_not(error, name)
            del values.builder.exactness[noted:]
            joined = by_image(site, rule)
            if joined is None:
                raise
            made = [joined]
        for index, each in zip(op.outputs, made, strict=True):
            if isinstance(each, Rearranged):
                values.rearranged[index] = each
            elif isinstance(each, View):
                values.set_view(index, each)
            else:
                values.set_chip(index, each)
        return made[0] if isinstance(made[0], str) else made[0].tensor

    def _edge(self, op: Operator, name: str, values: Values) -> str | None:
        """QUANTIZE of float32, DEQUANTIZE to float32: NumPy steps; None for other forms."""
        source, result = self._tensor(op.inputs[0]), self._tensor(op.outputs[0])
        if source.held:
            return None
        quantised = result if op.kind == "QUANTIZE" else source
        real = source if op.kind == "QUANTIZE" else result
        if real.dtype != "float32" or quantised.dtype not in ("int8", "uint8"):
            return None
        q = quantised.quantisation()
        stored = Quantisation(q.scale, q.zero_point + (128 if quantised.dtype == "uint8" else 0))
        numbers = {"scale": stored.scale, "zero_point": stored.zero_point}
        spec = values.specs[result.index]
        label = name.replace("_", " ", 1)
        fields: dict[str, Any] = {"source": label, "covers": (op.index,), **numbers}
        if op.kind == "QUANTIZE":
            out = values.builder.append(
                QuantizeFloat, spec.name, [values.file(source.index)], spec.shape, spec.dtype, like=stored,
                dtype=spec.dtype, rounding="away", **fields,
            )  # fmt: skip
        else:
            out = values.builder.append(
                DequantizeFloat, spec.name, [values.file(source.index)], spec.shape, "float32", **fields
            )
        values.files[result.index] = out
        values.builder.exactness.append(LayerExactness(name, LITERT, 1, 1))
        return out

    def _interpret(self, op: Operator, name: str, reason: str, values: Values) -> None:
        known = self.folded.values
        inputs = [
            values.file(t)
            for t in dict.fromkeys(op.inputs)
            if t >= 0 and not self._tensor(t).held and t not in known and not self._is_internal(t)
        ]
        made = [t for t in op.outputs if not self._is_internal(t)]
        results = tuple(values.declare_file(t) for t in (*made, *self._shown_states(op)))
        values.builder.ops.append(
            Interpreted(
                name=name, inputs=inputs, output=results[0] if results else "", source=name.replace("_", " ", 1),
                covers=(op.index,), results=results, reason=reason, state=states_of(self.file, op),
            )
        )  # fmt: skip

    def _shown_states(self, op: Operator) -> list[int]:
        """States that are outputs of the network, and that no operator behind this one changes."""
        later = {t for other in self.file.operators[op.index + 1 :] for t in other.inputs}
        shown = {t for t in self.file.outputs if self._tensor(t).variable and self._tensor(t).dtype} - later
        return [t for t in dict.fromkeys(op.inputs) if t in shown]

    def _is_internal(self, index: int) -> bool:
        """Whether a tensor never leaves the interpreter: a handle, or the state of a recurrent operator."""
        tensor = self._tensor(index)
        return tensor.variable or not tensor.dtype

    def _output(self, index: int, values: Values) -> str:
        tensor = self._tensor(index)
        value = self.folded.values.get(index, tensor.data)
        if value is not None and index not in values.files:
            return self.constant_output(values.specs[index], value, values)
        if all(index not in forms for forms in (values.files, values.chips, values.views, values.rearranged)):
            what = "is a constant (sparse); remove it from the model's outputs" if tensor.sparse else ""
            raise ModelError(f"{self.path}: output {tensor.name!r} {what or 'is computed by no operator'}")
        return values.file(index)

    # -- tensors ---------------------------------------------------------------------------------------

    def _tensor(self, index: int) -> Tensor:
        return self.file.tensors[index]

    def _spec(self, tensor: Tensor) -> FileTensor:
        try:
            quantisation = tensor.quantisation()
        except Unsupported:
            quantisation = None
        name, dtype = tensor.name or f"tensor{tensor.index}", tensor.dtype or "object"
        return FileTensor(name, tensor.shape, dtype, quantisation, wider=tensor.wider_quantisation())

    def _run_shapes(self) -> dict[int, tuple[int, ...]]:
        """Shapes that are known when it runs, because an operator decides them then: found by running."""
        made = [t for op in self.file.operators if op.index not in self.folded.operators for t in op.outputs]
        # what the file says behind a shape that is computed in it is a guess of its converter
        guessed = bool(self.folded.operators)
        unknown = [t for t in made if self._tensor(t).dtype and (guessed or not self._is_known(t))]
        if not unknown:
            return {}
        everything = [op.index for op in self.file.operators]
        model = cut(self.file, everything, self.file.inputs, unknown, {}, {})
        run = interpreters.load("litert", model, str(self.path), fast=True)
        values = run([np.zeros(self._tensor(i).shape, self._tensor(i).dtype) for i in self.file.inputs])
        return {t: value.shape for t, value in zip(unknown, values, strict=True)}

    def _is_known(self, index: int) -> bool:
        signature = self.file.model.subgraphs[0].tensors[index].shapeSignature
        return index in self._prepared and (signature is None or all(int(d) >= 0 for d in list(signature)[1:]))


def _other_signatures(file: File) -> tuple[str, ...]:
    """The names of signatures that run another subgraph than the first, which alone is the network here."""
    found = (s for s in vector(file.model.signatureDefs) if s.subgraphIndex)
    return tuple(text(signature.signatureKey) for signature in found)
