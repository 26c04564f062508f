"""The space of Configs: every parameter with its legal values, narrowed to what a sweep shall vary.

A space file is TOML. A value fixes a parameter, a list gives the values to try, ``"all"`` stands for every legal
value and ``"low..high"`` for those of a range::

    base = "pynq-z2"          # preset or .toml file that everything not named here comes from
    block_in = [8, 16, 32]
    act_bytes = "65536..262144"
    dsp_packing = true
    compiler.schedule = "all"

Beside the parameters of :class:`Config` a space may vary the compiler's options (:mod:`tilewright.dse.options`).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.config import KIB, PARAMETERS, Config, ConfigError, load_config
from tilewright.dse.options import LEGAL, PREFIX, CompilerOptions
from tilewright.errors import TilewrightError
from tilewright.files import FileError, read_text
from tilewright.schema import read_toml

Value = int | bool | str

#: what a sweep varies by default
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
    "axi_ports": (1, 2),
    "dsp_packing": (False, True),
}


#: what is given and not chosen
NOT_EXPLORED = ("dram_bandwidth",)


class SpaceError(TilewrightError):
    """A space file or flag names an unknown parameter or an illegal value."""


@dataclass(frozen=True)
class Space:
    """``base`` with the parameters of ``varied`` replaced by any of their values; ``fixed`` compiler options."""

    base: Config
    varied: dict[str, tuple[Value, ...]]
    fixed: dict[str, Value] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Points, those that break a relation between parameters included."""
        return math.prod(len(values) for values in self.varied.values())

    def config(self, point: Mapping[str, Value]) -> Config:
        """The Config of a point. Raises :class:`ConfigError` if parameters contradict each other."""
        changes = {name: value for name, value in point.items() if not name.startswith(PREFIX)}
        return self.base.replace(**{**changes, "name": point_name(self.base, point)})

    def options(self, point: Mapping[str, Value]) -> CompilerOptions:
        """How the networks of a point are compiled."""
        return CompilerOptions.of({**self.fixed, **point})

    def points(self) -> Iterator[dict[str, Value]]:
        """All points, in a fixed order."""
        for values in itertools.product(*self.varied.values()):
            yield dict(zip(self.varied, values, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain values; equal spaces give equal dictionaries."""
        plain: dict[str, Any] = {"base": self.base.to_dict(), "varied": {k: list(v) for k, v in self.varied.items()}}
        return plain | ({"fixed": dict(self.fixed)} if self.fixed else {})


def point_name(base: Config, point: Mapping[str, Value]) -> str:
    """A name that shows a point's shape, e.g. ``pynq-z2-16x32``."""
    batch, block_in, block_out = (point.get(n, getattr(base, n)) for n in ("batch", "block_in", "block_out"))
    return f"{base.board or base.name}-{batch}x{block_in}x{block_out}"


def parameters() -> list[str]:
    """Every parameter of a space: those of the Config (names and NOT_EXPLORED apart), then the compiler's options."""
    numbers = (name for name, parameter in PARAMETERS.items() if parameter.kind is not str)
    return [*(name for name in numbers if name not in NOT_EXPLORED), *LEGAL]


def legal_values(parameter: str) -> list[Value]:
    """All values of a parameter; those that need not be powers of two as every integer of the range."""
    if parameter in LEGAL:
        return list(LEGAL[parameter])
    if parameter not in parameters():
        raise SpaceError(f"{parameter}: no such parameter; the parameters of a space are {', '.join(parameters())}")
    return [*PARAMETERS[parameter].values()]


def describe_parameters(base: Config) -> list[tuple[str, str, str, str]]:
    """One row per parameter: name, legal values, the base's value, what a sweep varies by default."""
    usual = {PREFIX + name: value for name, value in dataclasses.asdict(CompilerOptions()).items()}
    values = {**base.to_dict(), **usual}
    return [
        (name, _shown(legal_values(name)), _text(values[name]), ", ".join(map(_text, DEFAULT_VARIED.get(name, ()))))
        for name in parameters()
    ]


def make_space(base: Config, narrowed: Mapping[str, Any] | None = None) -> Space:
    """The default space around ``base``, narrowed: a value fixes a parameter, a list says what to try.

    Where ``narrowed`` has lists, only those parameters vary; where it only fixes values, the others of the default
    space do. Raises :class:`SpaceError`.
    """
    fixed: dict[str, Value] = {}
    lists: dict[str, tuple[Value, ...]] = {}
    for name, value in (narrowed or {}).items():
        values = _checked(name, value)
        if len(values) == 1:
            fixed[name] = values[0]
        else:
            lists[name] = values
    options = {name: value for name, value in fixed.items() if name.startswith(PREFIX)}
    hardware = {name: value for name, value in fixed.items() if name not in options}
    if hardware:
        # relations are checked point by point: a fixed value may only be legal beside another varied one
        base = _replace_lenient(base, hardware, lists)
    varied = lists or {k: v for k, v in DEFAULT_VARIED.items() if k not in fixed}
    return Space(base, {name: varied[name] for name in parameters() if name in varied}, options)


def _checked(name: str, value: Any) -> tuple[Value, ...]:
    """The values that ``value`` stands for, each legal and named once."""
    legal = legal_values(name)
    if value == "all":
        return tuple(legal)
    if isinstance(value, str) and ".." in value:
        return _range(name, value, legal)
    values = value if isinstance(value, list) else [value]
    if not values:
        raise SpaceError(f"{name} = []: no value to try; give one or more")
    for v in values:
        if not any(v == known and type(v) is type(known) for known in legal):
            raise SpaceError(f"{name} = {v!r}: must be one of {_shown(legal)}")
    return tuple(dict.fromkeys(values))


def _range(name: str, text: str, legal: list[Value]) -> tuple[Value, ...]:
    low, _, high = text.partition("..")
    try:
        ends = int(low), int(high)
    except ValueError as error:
        raise SpaceError(f"{name} = {text!r}: a range is LOW..HIGH, two integers") from error
    inside = tuple(v for v in legal if isinstance(v, int) and ends[0] <= v <= ends[1])
    if not inside or isinstance(legal[0], bool):
        raise SpaceError(f"{name} = {text!r}: no legal value in this range; must be one of {_shown(legal)}")
    return inside


def _shown(legal: list[Value]) -> str:
    return ", ".join(map(_text, legal)) if len(legal) <= 16 else f"{legal[0]} to {legal[-1]}"


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def load_space(path: Path, default_base: str | Config, flags: Mapping[str, Any] | None = None) -> Space:
    """A space from a TOML file; ``flags`` overrule it. Raises :class:`SpaceError` naming the file."""
    try:
        values = _flat(read_toml(read_text(path)))
    except FileError as error:
        raise SpaceError(str(error)) from error
    except ValueError as error:
        raise SpaceError(f"{path}: not valid TOML: {error}") from error
    named = values.pop("base", default_base)
    if not isinstance(named, str | Config):
        raise SpaceError(f"{path}: base = {named!r}: must be the name of a preset or a .toml file, as text")
    base = load_config(named)
    try:
        return make_space(base, {**values, **(flags or {})})
    except (SpaceError, ConfigError) as error:
        raise SpaceError(f"{path}: {error}") from error


def parse_flag(text: str) -> tuple[str, Any]:
    """``name=value``, ``name=a,b,c``, ``name=low..high`` or ``name=all`` of a command line."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip() or not value.strip():
        raise SpaceError(f"{text}: must be PARAMETER=VALUE or PARAMETER=VALUE,VALUE")
    values = [_word(part.strip()) for part in value.split(",")]
    return name.strip(), values if len(values) > 1 else values[0]


def _word(text: str) -> Value:
    lowered = text.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    try:
        return int(text)
    except ValueError:
        return text


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables under dotted names, as the space has them."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": inner for key, inner in _flat(value).items()}
        else:
            flat[name] = value
    return flat


def _replace_lenient(base: Config, fixed: Mapping[str, Any], lists: Mapping[str, tuple[Value, ...]]) -> Config:
    """``base`` with fixed values; if they only fit beside a varied one, with the first that they fit beside."""
    try:
        return base.replace(**fixed)
    except ConfigError as error:
        candidates = lists or {k: v for k, v in DEFAULT_VARIED.items() if k not in fixed}
        for name, values in candidates.items():
            if name.startswith(PREFIX):
                continue
            for value in values:
                try:
                    return base.replace(**fixed, **{name: value})
                except ConfigError:
                    continue
        raise SpaceError(str(error)) from error
