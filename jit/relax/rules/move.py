"""Operators that move values without computing: reshape and its kin, spatial padding."""

from __future__ import annotations

from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import Pad, Reshape
from tilewright.jit.relax import compat
from tilewright.jit.relax.rules.common import Rule, quantize, tensor
from tilewright.jit.relax.site import Operand, Quantisation, Site, nhwc

_RESHAPES = ("relax.reshape", "relax.squeeze", "relax.flatten", "relax.expand_dims")


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
    quantised = compat.op_name(site.value(site.root)) == "relax.quantize"
    value = _pad_value(float(call.attrs.pad_value), x.quantisation, quantised)
    if compat.dtype(site.value(site.root)) == "uint8" and not quantised:
        value -= 128
    padding = (width[2], width[4], width[3], width[5])
    return site.emit(Pad, [x.name], shape, x.quantisation, padding=padding, pad_value=value)


def _pad_value(value: float, quantisation: Quantisation, real: bool) -> int:
    if not real:
        return int(value)
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
