"""The space of Configs: every parameter with its legal values, narrowed to what a sweep shall vary.

A space file is TOML. A number or boolean fixes a parameter, a list gives the values to try::

    base = "pynq-z2"          # preset or .toml file that everything not named here comes from
    block_in = [8, 16, 32]
    act_bytes = [65536, 131072]
    dsp_packing = true
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.config import KIB, RANGES, Config, ConfigError, load_config
from tilewright.errors import TilewrightError

Value = int | bool

#: what a sweep varies if it is not told otherwise
DEFAULT_VARIED: dict[str, tuple[Value, ...]] = {
    "block_in": (8, 16, 32),
    "block_out": (8, 16, 32),
    "act_bytes": tuple(KIB << k for k in range(4, 9)),
    "act_banks": (4, 8, 16),
    "wgt_bytes": tuple(KIB << k for k in range(5, 10)),
    "acc_bytes": tuple(KIB << k for k in range(4, 9)),
    "acc_banks": (2, 4, 8),
    "prm_entries": (32, 64, 128, 256),
    "uop_gemm_bytes": (4 * KIB, 8 * KIB, 16 * KIB),
    "uop_alu_bytes": (1 * KIB, 4 * KIB, 16 * KIB),
    "dsp_packing": (False, True),
}


class SpaceError(TilewrightError):
    """A space file or flag names an unknown parameter or an illegal value."""


@dataclass(frozen=True)
class Space:
    """``base`` with the parameters of ``varied`` replaced by any of their values."""

    base: Config
    varied: dict[str, tuple[Value, ...]]

    @property
    def size(self) -> int:
        """Points, those that break a relation between parameters included."""
        return math.prod(len(values) for values in self.varied.values())

    def config(self, point: Mapping[str, Value]) -> Config:
        """The Config of a point. Raises :class:`ConfigError` if parameters contradict each other."""
        return self.base.replace(**{**point, "name": point_name(self.base, point)})

    def points(self) -> Iterator[dict[str, Value]]:
        """All points, in a fixed order."""
        for values in itertools.product(*self.varied.values()):
            yield dict(zip(self.varied, values, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain values; equal spaces give equal dictionaries."""
        return {"base": self.base.to_dict(), "varied": {k: list(v) for k, v in self.varied.items()}}


def point_name(base: Config, point: Mapping[str, Value]) -> str:
    """A name that tells a point's shape, e.g. ``pynq-z2-16x32``."""
    values = {**base.to_dict(), **point}
    return f"{base.board or base.name}-{values['batch']}x{values['block_in']}x{values['block_out']}"


def legal_values(parameter: str) -> list[Value]:
    """All values of a parameter; those that need not be powers of two as every integer of the range."""
    if parameter == "dsp_packing":
        return [False, True]
    if parameter not in RANGES:
        known = ", ".join([*RANGES, "dsp_packing"])
        raise SpaceError(f"{parameter}: no such parameter; the parameters of a space are {known}")
    low, high, power = RANGES[parameter]
    if not power:
        return list(range(low, high + 1))
    return [1 << k for k in range(low.bit_length() - 1, high.bit_length()) if low <= 1 << k <= high]


def make_space(base: Config, narrowed: Mapping[str, Any] | None = None) -> Space:
    """The default space around ``base``, narrowed: a value fixes a parameter, a list says what to try.

    Where ``narrowed`` has lists, only those parameters vary; where it only fixes values, the others of the default
    space do. Raises :class:`SpaceError`.
    """
    narrowed = dict(narrowed or {})
    fixed, lists = {}, {}
    for name, value in narrowed.items():
        legal = legal_values(name)
        values = value if isinstance(value, list) else [value]
        if not values:
            raise SpaceError(f"{name} = []: no value to try; give one or more")
        for v in values:
            if not any(v == known and type(v) is type(known) for known in legal):
                shown = ", ".join(map(str, legal)) if len(legal) <= 16 else f"{legal[0]} to {legal[-1]}"
                raise SpaceError(f"{name} = {v!r}: must be one of {shown}")
        if len(values) == 1:
            fixed[name] = values[0]
        else:
            lists[name] = tuple(dict.fromkeys(values))
    if fixed:
        # relations are checked point by point: a fixed value may only be legal beside another varied one
        base = _replace_lenient(base, fixed, lists)
    varied = lists or {k: v for k, v in DEFAULT_VARIED.items() if k not in fixed}
    return Space(base, {name: varied[name] for name in _ordered(varied)})


def load_space(path: Path, default_base: str | Config, flags: Mapping[str, Any] | None = None) -> Space:
    """A space from a TOML file; ``flags`` overrule it. Raises :class:`SpaceError` naming the file."""
    try:
        values = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise SpaceError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SpaceError(f"{path}: not valid TOML: {error}") from error
    base = load_config(values.pop("base", default_base))
    try:
        return make_space(base, {**values, **(flags or {})})
    except (SpaceError, ConfigError) as error:
        raise SpaceError(f"{path}: {error}") from error


def parse_flag(text: str) -> tuple[str, Any]:
    """``name=value`` or ``name=a,b,c`` of a command line."""
    name, separator, value = text.partition("=")
    if not separator or not value:
        raise SpaceError(f"{text}: must be PARAMETER=VALUE or PARAMETER=VALUE,VALUE")
    words = {"true": True, "false": False}
    try:
        values = [words[v] if (v := part.strip().lower()) in words else int(part) for part in value.split(",")]
    except ValueError as error:
        raise SpaceError(f"{text}: values must be integers, true or false") from error
    return name.strip(), values if len(values) > 1 else values[0]


def _ordered(varied: Mapping[str, Any]) -> list[str]:
    return [f.name for f in dataclasses.fields(Config) if f.name in varied]


def _replace_lenient(base: Config, fixed: dict[str, Value], lists: Mapping[str, tuple[Value, ...]]) -> Config:
    """``base`` with fixed values; if they only fit beside a varied one, with the first that they fit beside."""
    try:
        return base.replace(**fixed)
    except ConfigError as error:
        candidates = lists or {k: v for k, v in DEFAULT_VARIED.items() if k not in fixed}
        for name, values in candidates.items():
            for value in values:
                try:
                    return base.replace(**fixed, **{name: value})
                except ConfigError:
                    continue
        raise SpaceError(str(error)) from error
