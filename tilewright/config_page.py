"""The tables of ``docs/config.md``, from the parameters' declaration: ``python -m tilewright.config_page``."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.config import DEFAULT_CONFIG, KIB, PARAMETERS, PRESETS
from tilewright.pages import write
from tilewright.parameters import Parameter

PAGE = "config.md"


def blocks() -> dict[str, list[str]]:
    """What of the page is generated, by name, as lines of Markdown."""
    return {"parameters": list(_parameters()), "presets": list(_presets())}


def _parameters() -> Iterator[str]:
    yield "| parameter | default | unit | range | meaning |"
    yield "|---|---|---|---|---|"
    for name, parameter in PARAMETERS.items():
        default = _text(parameter, getattr(PRESETS[DEFAULT_CONFIG], name))
        star = " *" if parameter.cosmetic else ""
        yield f"| `{name}`{star} | {default} | {parameter.unit} | {_range(parameter)} | {parameter.doc} |"


def _presets() -> Iterator[str]:
    base = PRESETS[DEFAULT_CONFIG]
    others = [preset for preset in PRESETS.values() if preset is not base]
    yield f"What the other presets change in the default, `{base.name}`:\n"
    yield f"| parameter | {' | '.join(f'`{preset.name}`' for preset in others)} |"
    yield "|---|" + "---|" * len(others)
    for name, parameter in PARAMETERS.items():
        values = [getattr(preset, name) for preset in others]
        if name != "name" and any(value != getattr(base, name) for value in values):
            cells = ["" if value == getattr(base, name) else _text(parameter, value) or "none" for value in values]
            yield f"| `{name}` | {' | '.join(cells)} |"


def _range(parameter: Parameter) -> str:
    if parameter.kind is not int:
        return parameter.allowed
    low, high = _text(parameter, parameter.low), _text(parameter, parameter.high)
    return f"{low} to {high}{', a power of two' if parameter.power_of_two else ''}"


def _text(parameter: Parameter, value: int | str) -> str:
    if parameter.kind is bool:
        return str(value).lower()
    in_kib = parameter.unit == "bytes" and isinstance(value, int) and value >= KIB
    return f"{int(value) // KIB} KiB" if in_kib else str(value)


if __name__ == "__main__":
    write(PAGE, blocks())
