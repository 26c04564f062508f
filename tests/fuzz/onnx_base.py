"""What every part of :class:`OnnxNet` shares: nodes, constants, and QuantizeLinear/DequantizeLinear pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.tensors import Array, Builder, BuildError, Range, Tensor, choose_quantisation, clipped

CONTRIB = "com.microsoft"
_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}


class OnnxBase(Builder):
    """Nodes by name. ``dtype``: int8 or uint8, that of activations; ``dedicated_pairs`` gives each consumer of a
    tensor a DequantizeLinear of its own, as some exporters do. ``weight_bits``: 8, or 4 (opset 21), then with
    ``weight_cast`` behind a Cast to 8 bits.

    Every operator that computes ends in a QuantizeLinear and DequantizeLinear pair whose ``scale`` and
    ``zero_point`` are chosen where they are not given (times ``gain``); ``pair=False`` leaves the pair out.
    """

    def __init__(
        self,
        seed: int = 0,
        dtype: str = "int8",
        power_of_two: bool = False,
        opset: int = 17,
        dedicated_pairs: bool = False,
        weight_bits: int = 8,
        weight_cast: bool = False,
    ) -> None:
        super().__init__(seed, dtype, power_of_two, weight_bits)
        self.opset, self.dedicated_pairs, self.weight_cast = opset, dedicated_pairs, weight_cast
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.graph_inputs: list[Any] = []
        self._count = 0
        self._contrib = False

    # -- tensors -----------------------------------------------------------------------------------

    def input(
        self, shape: Sequence[int], dtype: str | None = None, scale: float = 0.02, zero_point: int | None = None
    ) -> Tensor:
        """An input of the network (batch, channels, height, width): float32 with a pair behind it, or quantised."""
        from onnx import helper

        kind = dtype or self.dtype
        stored = self.dtype if kind == "float32" else kind
        zero, values = self._spread(stored, scale, zero_point)
        name = self._name("x")
        self.graph_inputs.append(helper.make_tensor_value_info(name, _TYPES[kind], list(shape)))
        if kind == "float32":
            source = Tensor(name, tuple(shape), kind, None, 0, 0.0, 1.5)
            x = self.quantised(source, values, scale=scale, zero_point=zero)
        else:
            x = self._dequantised(name, tuple(shape), stored, values, scale, zero)
        self.inputs.append(x)
        return x

    def constant(self, value: Any) -> str:
        """An initializer, by name."""
        from onnx import numpy_helper

        name = self._name("c")
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def constant_tensor(
        self, shape: Sequence[int], scale: float = 0.02, zero_point: int = 0, dtype: str | None = None
    ) -> Tensor:
        """A quantised constant of random values behind a DequantizeLinear."""
        kind = dtype or self.dtype
        data, values = self._random_constant(shape, scale, zero_point, kind)
        return self._dequantised(self.constant(data), tuple(shape), kind, values, scale, zero_point)

    def quantised(
        self,
        x: Tensor,
        values: Range | None = None,
        scale: float | None = None,
        zero_point: int | None = None,
        gain: float = 1.0,
        dtype: str | None = None,
        then_scale: float | None = None,
        then_zero_point: int | None = None,
    ) -> Tensor:
        """A pair behind ``x``. ``then_scale`` and ``then_zero_point`` make the DequantizeLinear read other numbers."""
        kind = dtype or self.dtype
        found = values or Range(x.mean, x.std)
        chosen, zero = choose_quantisation(found, kind, gain, zero_point, self.power_of_two)
        scale = float(np.float32(chosen if scale is None else scale))
        arguments = [self.constant(np.float32(scale)), self.constant(np.array(zero, kind))]
        stored = self.node("QuantizeLinear", [x.key, *arguments])
        after = scale if then_scale is None else then_scale
        return self._dequantised(
            stored, x.shape, kind, found, after, zero if then_zero_point is None else then_zero_point
        )

    def _dequantised(
        self, stored: str, shape: tuple[int, ...], dtype: str, values: Range, scale: float, zero_point: int
    ) -> Tensor:
        scale = float(np.float32(scale))
        arguments = [self.constant(np.float32(scale)), self.constant(np.array(zero_point, dtype))]
        name = self.node("DequantizeLinear", [stored, *arguments])
        mean, std = clipped(values, scale, zero_point, dtype)
        return Tensor(name, shape, dtype, scale, zero_point, mean, std, stored)

    def _name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    # -- nodes -------------------------------------------------------------------------------------

    def node(self, kind: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; returns the name of its output, or a list of names where it has several."""
        from onnx import helper

        names = [self._name(kind.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        return names[0] if outputs == 1 else names

    def contrib(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """A node of ONNX Runtime's own operators."""
        self._contrib = True
        name: str = self.node(kind, inputs, domain=CONTRIB, **attributes)
        return name

    def read(self, x: Tensor) -> str:
        """The float name that an operator reads ``x`` by; a new DequantizeLinear with ``dedicated_pairs``."""
        if self.dedicated_pairs and x.stored is not None and x.scale is not None:
            return str(self._dequantised(x.stored, x.shape, x.dtype, Range(x.mean, x.std), x.scale, x.zero_point).key)
        return str(x.key)

    def numbers(self, x: Tensor) -> list[str]:
        """Stored tensor, scale and zero point, as the QLinear operators take them."""
        if x.stored is None or x.scale is None:
            raise BuildError(f"a QLinear operator: tensor of shape {x.shape} is not quantised")
        return [x.stored, self.constant(np.float32(x.scale)), self.constant(np.array(x.zero_point, x.dtype))]

    def chosen(
        self, values: Range, scale: float | None = None, zero_point: int | None = None, gain: float = 1.0
    ) -> tuple[float, int, list[str]]:
        """Numbers of a QLinear operator's output: scale, zero point, and both as constants."""
        picked, zero = choose_quantisation(values, self.dtype, gain, zero_point, self.power_of_two)
        scale = float(np.float32(picked if scale is None else scale))
        return scale, zero, [self.constant(np.float32(scale)), self.constant(np.array(zero, self.dtype))]

    def finish(
        self,
        name: str,
        shape: tuple[int, ...],
        values: Range,
        pair: bool = True,
        keep: Tensor | None = None,
        **out: Any,
    ) -> Tensor:
        """The result of a float node, with a pair behind it unless ``pair`` is False; ``keep``: with its numbers.

        Without a pair the values of ``keep`` are still on its grid, so its scale and zero point stay known.
        """
        if any(d < 1 for d in shape):
            raise BuildError(f"shape {shape}: has no elements")
        mean, std = clipped(values, None, 0, self.dtype)
        plain = Tensor(name, shape, "float32", None, 0, mean, std)
        if not pair and keep is not None:
            return Tensor(name, shape, keep.dtype, keep.scale, keep.zero_point, mean, std)
        if not pair:
            return plain
        if keep is not None and keep.scale is not None and not out:
            out = {"scale": keep.scale, "zero_point": keep.zero_point, "dtype": keep.dtype}
        return self.quantised(plain, values, **out)

    def save(self, path: str | Path, outputs: Sequence[Tensor], stored: bool | Sequence[bool] = False) -> Path:
        """Write the network; ``stored`` (one for all, or one each) gives an output as integers instead of floats."""
        import onnx
        from onnx import helper

        flags = [stored] * len(outputs) if isinstance(stored, bool) else list(stored)
        infos = []
        for y, integer in zip(outputs, flags, strict=True):
            name, kind = (y.stored, y.dtype) if integer and y.stored is not None else (str(y.key), "float32")
            infos.append(helper.make_tensor_value_info(name, _TYPES[kind], list(y.shape)))
        names = {info.name for info in infos}
        if len(names) != len(infos) or names & {info.name for info in self.graph_inputs}:
            raise BuildError("an output stands twice, or is an input")
        graph = helper.make_graph(self._used_nodes(names), "network", self.graph_inputs, infos, self.constants)
        opsets = [helper.make_opsetid("", self.opset), *([helper.make_opsetid(CONTRIB, 1)] if self._contrib else [])]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="tilewright")
        model.ir_version = 8 if self.opset < 21 else 10
        onnx.save(model, str(path))
        return Path(path)

    def _used_nodes(self, names: set[str]) -> list[Any]:
        """The nodes without DequantizeLinear that nothing reads."""
        read = names | {name for node in self.nodes for name in node.input}
        return [n for n in self.nodes if n.op_type != "DequantizeLinear" or n.output[0] in read]

    def narrows(self, dequantise: bool) -> bool:
        """Whether weights have 4 bits; operators that take integers have kernels for 8 alone."""
        return self.weight_bits == 4 and (dequantise or self.weight_cast)

    def _weight(
        self, data: Array, scales: Array, zero_point: int, axis: int | None, dequantise: bool = True
    ) -> list[str]:
        """A weight behind a DequantizeLinear, or its three names for a QLinear operator; ``data``: int8 or uint8."""
        one = scales.size == 1 and axis is None
        scale = np.float32(scales.ravel()[0]) if one else scales.astype(np.float32)
        zero = np.array(zero_point, data.dtype) if one else np.full(scales.shape, zero_point, data.dtype)
        if self.narrows(dequantise):
            data = data.astype(data.dtype.name.replace("8", "4"))  # types that onnx brings
            zero = zero if self.weight_cast else zero.astype(data.dtype)
        stored = self.constant(data)
        if self.narrows(dequantise) and self.weight_cast:
            stored = self.node("Cast", [stored], to=_TYPES[zero.dtype.name])
        names = [stored, self.constant(scale), self.constant(zero)]
        if not dequantise:
            return names
        attributes: dict[str, Any] = {} if one else {"axis": axis}
        return [self.node("DequantizeLinear", names, **attributes)]
