"""What a row of the table of operators (:mod:`~tilewright.jit.source.operators`) says."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from operator import attrgetter
from typing import Any, TypeVar

from tilewright.jit.source import macs as counts

_T = TypeVar("_T")
_NAME = re.compile(r"(\w+)(?:\((.*?)\))?")


def _of(*families: str) -> Any:
    """A trait of operators of these families."""
    return property(lambda row: row.family in families)


@dataclass(frozen=True, kw_only=True)
class OperatorRow:
    """One operator of model files, or several that are alike in everything that is said here.

    Where TFLite and ONNX differ, a text has both, as in ``first/reshape``. Rules are ``module:function`` in the folder
    of the format, and are looked up when they are asked for.

    ``tflite``, ``onnx``, ``relax``: names, with their operands in brackets where something depends on them: ``x`` and
    ``o`` are activations, ``w`` weights (``w*2`` two of them), ``b`` a bias, ``y`` the result; ``sx`` and ``zx`` are
    the scale and the zero point of ``x``.
    ``family``: how it is computed, which decides what it costs (``operators_page.COSTS``) and most traits below.
    ``elementwise``: each element of the result follows from one of each operand: 1 of one operand, 2 of several.
    ``rule``: TFLite's lowering, and ``says`` what it takes, where its docstring does not. ``int8``, ``real``, ``sums``:
    ONNX's, of a kernel on 8-bit tensors, of float32 between DequantizeLinear and QuantizeLinear, and of int32 sums that
    float32 nodes scale.
    ``batch``: the function of ``batch.py`` that tells whether images of a batch stay apart. Element-wise operators and
    those with the layout ``image`` have one; without any, they may not.
    ``layout``: where the channels of its tensors are: ``alike`` (as element-wise operators, at the same place in all),
    ``image`` (ONNX's second axis) or ``matrix`` (the last axis).
    ``macs``: the function of ``macs.py`` that counts its multiply-accumulates.
    ``axis``: the default of ONNX's attribute.
    ``float_sum``: ONNX Runtime adds float32 in an order of its own. ``integers``: it has kernels of int32 and int64.
    ``quantised``: a file with it is no float model. ``masks``: a mask ``meets`` the scores of a softmax here, or
    ``passes`` on its way there. ``scores``: gives numbers from 0 to 1, most of which may be near 0.
    """

    tflite: str = ""
    onnx: str = ""
    relax: str = ""
    family: str = ""
    elementwise: int = 0
    rule: str = ""
    says: str = ""
    int8: str = ""
    real: str = ""
    sums: str = ""
    batch: str = ""
    layout: str = ""
    macs: str = ""
    axis: int = 0
    float_sum: bool = False
    integers: bool = False
    quantised: bool = False
    masks: str = ""
    scores: bool = False
    # of one name in one format
    format: str = ""
    name: str = ""
    operands: tuple[str, ...] = ("x",)

    def named(self, format: str) -> Iterator[OperatorRow]:
        """The row for each of its names in ``tflite`` or ``onnx``."""
        own: dict[str, Any] = {}
        for each in fields(self):
            text = getattr(self, each.name)
            if isinstance(text, str) and "/" in text:
                own[each.name] = text.split("/")[format == "onnx"]
        for name, operands in _NAME.findall(getattr(self, format)):
            given = [part.partition("*") for part in (operands or "x").split()]
            repeated = tuple(operand for operand, _, count in given for _ in range(int(count or 1)))
            yield replace(self, **own, format=format, name=name, operands=repeated)._completed()

    def _completed(self) -> OperatorRow:
        """With what follows for element-wise operators, those on images, and those that move elements."""
        alike = self.elementwise > 0 or self.family in ("move", "resample", "concatenation", "pad")
        batch = "joined" if self.elementwise > 1 else "first" if self.elementwise or self.layout == "image" else ""
        return replace(self, batch=self.batch or batch, layout=self.layout or ("alike" if alike else ""))

    def at(self, operand: str) -> int | None:
        """The position of an operand; None where it has none."""
        return self.operands.index(operand) if operand in self.operands else None

    @property
    def activations(self) -> list[int]:
        """The positions of its activations."""
        return [k for k, name in enumerate(self.operands) if name in ("x", "o")]

    def handed_on(self, inputs: tuple[_T, ...]) -> tuple[_T, ...]:
        """Of its inputs those whose elements it hands on, each as it is but for its type."""
        if self.family == "concatenation":
            return inputs
        x = self.operands.index("x") if "x" in self.operands else len(inputs)
        return inputs[x : x + 1] if self.is_moving or self.family in ("cast", "resample") else ()

    @property
    def dequantised(self) -> list[int]:
        """The positions of activations that have their own scale and zero point behind them."""
        return [k for k in self.activations if self.operands[k + 1 : k + 2] == (f"s{self.operands[k]}",)]

    @property
    def tables(self) -> list[tuple[int, int]]:
        """The positions of tables and of the indices into them."""
        found = ((name.replace("indices", "table"), k) for k, name in enumerate(self.operands) if "indices" in name)
        return [(self.operands.index(table if table in self.operands else "x"), k) for table, k in found]

    def find(self, rule: str) -> Any:
        """What a rule of this operator names."""
        return _found(f"tilewright.jit.source.{self.format}.{rule}")

    def count_macs(self, inputs: Sequence[counts.Shape | None], output: counts.Shape | None) -> int:
        """Of an operator with these shapes; 0 for one that multiplies no weights, or one of whose shapes is None:
        unknown. An input that is left out has the shape ()."""
        known = [shape for shape in inputs if shape is not None]
        if not self.macs or output is None or len(known) < len(inputs):
            return 0
        weights = [shape for shape, name in zip(known, self.operands) if name == "w"]
        try:
            return int(getattr(counts, self.macs)(known[self.operands.index("x")], weights, output))
        except (IndexError, ZeroDivisionError):
            return 0

    @property
    def forms(self) -> list[str]:
        """In what forms the accelerator takes it, as ``docs/operators.md`` says it; none for what takes no cycles."""
        if self.format == "tflite":
            return ["8-bit tensors"] if self.rule or self.family == "joined" else []
        chosen = self.takes_elements or self.family == "extreme"
        forms = {
            "8-bit tensors": chosen or self.int8,
            "between Q/DQ pairs": chosen or self.real,
            "int32 sums, scaled": self.sums,
            "of one tensor and numbers": self.is_function,
        }
        return [form for form, taken in forms.items() if taken]

    # -- what follows from the family ----------------------------------------------------------------------------

    is_view = _of("view", "transpose")  #: the same elements in another shape, or with axes in another order
    is_free = _of("view", "transpose", "clamp", "quantisation")  #: part of the operators around it
    is_quiet = _of("view", "transpose", "clamp", "quantisation", "cast", "constant")  #: says little of a unit
    is_moving = _of("view", "transpose", "move", "block", "gather")  #: results are elements of what it reads
    takes_elements = _of("move", "block", "resample")  #: of its first operand, at places that follow from constants
    #: over rows and columns: its rule takes one image at a time, unless it is one of rows
    by_image = _of("convolution", "depthwise", "transposed", "window", "average", "extreme", "resample")
    #: results are values that it reads, none of them computed
    keeps_values = _of("view", "transpose", "move", "block", "resample", "extreme", "window")

    @property
    def is_function(self) -> bool:
        """Of single elements, and not merely a change of their form or range."""
        return self.elementwise > 0 and not self.is_free

    @property
    def is_weighted(self) -> bool:
        """A layer with weights: the accelerator's even where a float32 sum may differ."""
        return bool(self.macs) and self.family in ("convolution", "products", "transposed")

    @property
    def adds_rows(self) -> bool:
        """A product of float32 rows, which ONNX Runtime adds in another order for one row than for several."""
        return self.float_sum and self.macs == "matrices"


UNKNOWN = OperatorRow()


@functools.cache
def _found(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return attrgetter(name)(import_module(module))
