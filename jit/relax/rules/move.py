"""Operators that move values without computing: reshape and its kin, spatial padding."""

from __future__ import annotations

from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import Pad, Reshape
from tilewright.jit.relax import compat
from tilewright.jit.relax.rules.common import Rule, quantize, tensor
from tilewright.jit.relax.site import Operand, Quantisation, Site, nhwc
from tilewright.jit.source.operators import RELAX

_RESHAPES = tuple(f"relax.{name}" for name, row in RELAX.items() if row.family == "view")


def _operand(site: Site) -> tuple[compat.Expr, Operand]:
    """(the moving call, its operand) of ``move(x)`` or ``quantize(move(dequantize(x)))`` with one scale."""
    call = site.value(site.root)
    if compat.op_name(call) != "relax.quantize":
        return call, site.tensor(call.args[0])
    out = site.output_quantisation(call)
    call = site.argument(call)
    x = site.dequantised(call.args[0])
    if x.quantisation != out:
        raise Unsupported("a change of scale within a reshape, pad or transpose")
    return call, x


def lower_reshape(site: Site) -> str:
    """A reshape; nothing at all where the NHWC shape stays the same."""
    call, x = _operand(site)
    shape = nhwc(site.builder.element(compat.shape(call)))
    if shape == x.shape:
        return x.name
    return site.emit(Reshape, [x.name], shape, x.quantisation, shape=shape)


def lower_pad(site: Site) -> str:
    """Constant padding of height and width."""
    call, x = _operand(site)
    if str(call.attrs.pad_mode) != "constant":
        raise Unsupported(f"padding mode {call.attrs.pad_mode}")
    width = compat.ints(call.attrs.pad_width)
    if len(width) != 8 or any(width[:2]) or any(width[6:]):
        raise Unsupported(f"padding {width}; only height and width of a 4-D tensor can be padded")
    shape = site.builder.element(compat.shape(call))
    root, value = site.value(site.root), float(call.attrs.pad_value)
    if compat.op_name(root) == "relax.quantize":
        number = _pad_value(value, x.quantisation)
    else:
        number = _pad_integer(value, 128 if compat.dtype(root) == "uint8" else 0)
    padding = (width[2], width[4], width[3], width[5])
    return site.emit(Pad, [x.name], shape, x.quantisation, padding=padding, pad_value=number)


def _pad_integer(value: float, moved: int) -> int:
    """A number of the operand's own type, held as int8."""
    if not -129 < value - moved < 128:
        raise Unsupported(f"padding of integers with {value}")
    return int(value) - moved


def _pad_value(value: float, quantisation: Quantisation) -> int:
    if value != 0.0:
        raise Unsupported(f"padding with {value}")
    return quantisation.zero_point


def _forms(name: str, operands: int) -> tuple[compat.Pattern, ...]:
    op = compat.is_op(name)
    rest = [compat.wildcard() for _ in range(operands - 1)]
    return quantize(op(tensor(), *rest)), op(compat.wildcard(), *rest)


RULES = (
    *(
        Rule("tilewright.reshape", _forms(name, 2 if name == "relax.reshape" else 1), lower_reshape)
        for name in _RESHAPES
    ),
    Rule("tilewright.pad", _forms("relax.nn.pad", 1), lower_pad),
)
