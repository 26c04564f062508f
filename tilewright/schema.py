"""Values from a file, checked against the annotations of the class that they become.

A field's annotation says all that its value may be: its type, how many of them, and with ``Annotated[int, Range(...)]``
its least and largest value. So what a reader accepts stands where the field is declared, and nowhere else.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, Union

from tilewright.errors import TilewrightError

T = TypeVar("T")


class SchemaError(TilewrightError):
    """A value is not of the type, the length or the range that its field declares; names the field."""


@dataclass(frozen=True)
class Range:
    """The least and the largest value of a number, both included."""

    low: float
    high: float

    def check(self, value: Any, where: str) -> None:
        """Raise :class:`SchemaError` for a number outside."""
        if not self.low <= value <= self.high:
            raise SchemaError(f"{where}: {shown(value)} is not from {self.low} to {self.high}")


@dataclass(frozen=True)
class OneOf:
    """The texts that a value may be."""

    texts: tuple[str, ...]

    def check(self, value: Any, where: str) -> None:
        """Raise :class:`SchemaError` for another one."""
        if value not in self.texts:
            raise SchemaError(f"{where}: {shown(value)} is none of {', '.join(self.texts)}")


@dataclass(frozen=True)
class Holds:
    """What a mapping holds: the fields of a ``TypedDict``, and any others."""

    kind: Any

    def check(self, value: Any, where: str) -> None:
        """Raise :class:`SchemaError` where a field is missing, or not what its annotation declares."""
        _require(self.kind.__required_keys__, value, where)
        for name, hint in _hints(self.kind).items():
            if name in value:
                conform(hint, value[name], f"{where}: {name}")


Count = Annotated[int, Range(0, 1 << 48)]  #: bytes, cycles, operations


def parse(cls: type[T], values: Any, where: str) -> T:
    """The dataclass ``cls`` of a mapping, as JSON gives it; ``where`` names it in errors.

    Raises :class:`SchemaError` for a field that is unknown, missing, or not what its annotation declares.
    """
    if not isinstance(values, Mapping):
        raise SchemaError(f"{where}: {shown(values)} is not an object")
    hints, required = _fields(typing.cast(Any, cls))
    for name in values:
        if name not in hints:
            raise SchemaError(f"{where}: there is no field {shown(name)}; the fields are {', '.join(hints)}")
    _require(required, values, where)
    return cls(**{name: conform(hints[name], value, f"{where}: {name}") for name, value in values.items()})


def read_json(text: str | bytes) -> Any:
    """The value of a JSON text; NaN and infinities, which Python reads and JSON has not, are refused.

    Raises ValueError, and RecursionError for one that is nested too deeply.
    """
    return json.loads(text, parse_constant=_refuse)


def read_toml(text: str) -> dict[str, Any]:
    """The values of a TOML text. Raises ValueError, also for one that is nested too deeply."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib  # type: ignore[no-redef]
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


_SCALARS = (int, str, float, bool)


def conform(hint: Any, value: Any, where: str) -> Any:
    """``value`` as an annotation wants it (lists become tuples). Raises :class:`SchemaError`."""
    if hint in _SCALARS:
        return _scalar(hint, value, where)
    if hint is Any:
        return value
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        conformed = conform(arguments[0], value, where)
        for limits in arguments[1:]:
            limits.check(conformed, where)
        return conformed
    if origin is Literal:
        OneOf(arguments).check(conform(str, value, where), where)
        return value
    if origin in (Union, types.UnionType):  # only "or None" occurs
        return None if value is None else conform(next(a for a in arguments if a is not type(None)), value, where)
    if origin is tuple:
        return _items(arguments, value, where)
    if origin is dict:
        if not isinstance(value, dict):
            raise SchemaError(f"{where}: {shown(value)} is not an object")
        return {conform(arguments[0], k, where): conform(arguments[1], v, f"{where}: {k}") for k, v in value.items()}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return parse(hint, value, where)
    return _scalar(hint, value, where)


def _scalar(kind: type, value: Any, where: str) -> Any:
    allowed = (int, float) if kind is float else kind
    if not isinstance(value, allowed) or (kind is not bool and isinstance(value, bool)):
        raise SchemaError(f"{where}: {shown(value)} is not of type {kind.__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise SchemaError(f"{where}: {value} is not finite")
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise SchemaError(f"{where}: {shown(value)} is not Unicode text")
    return value


def _items(arguments: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise SchemaError(f"{where}: {shown(value)} is not a list")
    if arguments[-1] is Ellipsis:
        if _whole_numbers(arguments[0], value):
            return tuple(value)
        return tuple(conform(arguments[0], item, where) for item in value)
    if len(value) != len(arguments):
        raise SchemaError(f"{where}: {len(value)} values, {len(arguments)} belong here")
    return tuple(conform(hint, item, where) for hint, item in zip(arguments, value))


def _whole_numbers(hint: Any, values: list[Any] | tuple[Any, ...]) -> bool:
    """Whether all values are such whole numbers as ``hint`` wants: long lists are looked at as a whole."""
    kind, *limits = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
    if kind is not int or set(map(type, values)) != {int} or not all(isinstance(limit, Range) for limit in limits):
        return False
    return all(limit.low <= min(values) and max(values) <= limit.high for limit in limits)


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """The annotations of a class, which take long to work out."""
    return typing.get_type_hints(kind, include_extras=True)


@functools.cache
def _fields(cls: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The annotations of a dataclass's fields, and the names of those without a default."""
    hints = _hints(cls)
    fields = dataclasses.fields(cls)
    missing = dataclasses.MISSING
    required = tuple(f.name for f in fields if f.default is missing and f.default_factory is missing)
    return {f.name: hints[f.name] for f in fields}, required


def _require(names: Any, values: Mapping[str, Any], where: str) -> None:
    for name in sorted(set(names) - set(values)):
        raise SchemaError(f"{where}: {name} is missing")


def shown(value: Any) -> str:
    """A value as errors show it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
