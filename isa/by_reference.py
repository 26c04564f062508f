"""Named tuples that compiled kernels hand on by their address.

Numba hands a tuple on number by number, and an array is seven of them: a call with thirty arrays has two hundred
arguments, and every function that takes them gets as many variables. Of the seconds that a kernel took to compile most
went there. By address it is one argument, and a field is read where it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from llvmlite import ir
from numba.core import types
from numba.core.datamodel import register_default
from numba.core.datamodel.models import OpaqueModel
from numba.core.imputils import impl_ret_borrowed
from numba.core.pythonapi import NativeValue, unbox
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.core.typing.typeof import typeof_impl
from numba.extending import lower_getattr_generic

T = TypeVar("T", bound=type)

_BYTE, _OFFSET = ir.IntType(8), ir.IntType(64)
_ALIGNMENT = 8
_kinds: set[type] = set()  #: the named tuples
_known: dict[Any, tuple[dict[str, int], int]] = {}  #: what :func:`_places` has worked out


class Reference(types.Type):
    """Numba's type of the address of a named tuple."""

    def __init__(self, kind: type, members: Sequence[Any]) -> None:
        fields: tuple[str, ...] = vars(kind)["_fields"]
        self.members = dict(zip(fields, members, strict=True))
        listed = ", ".join(f"{name}: {member}" for name, member in self.members.items())
        self._mangled = f"{kind.__module__}.{kind.__qualname__}"
        super().__init__(name=f"Reference({self._mangled}: {listed})")

    @property
    def mangling_args(self) -> tuple[str, tuple[()]]:
        """Of a symbol's name, which is unique without its fields."""
        return self._mangled, ()


register_default(Reference)(OpaqueModel)


def by_reference(kind: T) -> T:
    """A decorator of a NamedTuple of numbers, arrays and such tuples: kernels take it by its address.

    They cannot make one, nor put another value into a field.
    """

    @typeof_impl.register(kind)
    def typed(value: Any, context: Any) -> Any:
        return Reference(kind, [typeof_impl(field, context) for field in value])

    _kinds.add(kind)
    return kind


def is_by_reference(value: object) -> bool:
    """Whether kernels take it by its address."""
    return type(value) in _kinds


def _places(context: Any, reference: Reference) -> tuple[dict[str, int], int]:
    """Where the fields are, in bytes, and how many bytes there are in all."""
    if reference not in _known:
        places, end = {}, 0
        for name, member in reference.members.items():
            places[name] = end
            end += -(-context.get_abi_sizeof(context.get_value_type(member)) // _ALIGNMENT) * _ALIGNMENT
        _known[reference] = places, end
    return _known[reference]


def _pointer(context: Any, builder: Any, address: Any, place: int, member: Any) -> Any:
    at = builder.gep(address, [ir.Constant(_OFFSET, place)])
    return builder.bitcast(at, context.get_value_type(member).as_pointer())


@unbox(Reference)
def _unbox(reference: Reference, value: Any, c: Any) -> Any:
    """Write the fields of Python's tuple side by side."""
    context, builder = c.context, c.builder
    places, size = _places(context, reference)
    with builder.goto_entry_block():
        memory = builder.alloca(ir.ArrayType(_BYTE, size))
        memory.align = _ALIGNMENT
    address = builder.bitcast(memory, _BYTE.as_pointer())
    failed, natives = ir.Constant(ir.IntType(1), 0), []
    for number, (name, member) in enumerate(reference.members.items()):
        native = c.unbox(member, c.pyapi.tuple_getitem(value, number))
        builder.store(native.value, _pointer(context, builder, address, places[name], member))
        failed = builder.or_(failed, native.is_error)
        natives.append((member, native))

    def cleanup() -> None:
        for member, native in natives:
            if native.cleanup is not None:
                native.cleanup()
            if context.enable_nrt:
                context.nrt.decref(builder, member, native.value)

    return NativeValue(address, failed, cleanup)


@infer_getattr
class _Fields(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference: Any, name: str) -> Any:
        return reference.members.get(name)


@lower_getattr_generic(Reference)
def _field(context: Any, builder: Any, reference: Reference, address: Any, name: str) -> Any:
    member = reference.members[name]
    value = builder.load(_pointer(context, builder, address, _places(context, reference)[0][name], member))
    value.set_metadata("invariant.load", builder.module.add_metadata([]))  # no need to read it again in a loop
    return impl_ret_borrowed(context, builder, member, value)
