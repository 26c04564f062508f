"""The roofline of a run as inline SVG: every layer against the array's peak and the bus."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tilewright.printable import in_html

_LETTER = 7.2  #: pixels that a letter takes at most, on average
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 960, 400, 56, 40, 28, 20


def roofline_svg(data: dict[str, Any], colours: dict[str, str]) -> str:
    """MACs per cycle over MACs per bus byte, both logarithmic; one dot per layer, coloured by what bounds it."""
    config = data["config_parameters"]
    peak, beat = data["array_macs_per_cycle"], config["axi_bits"] * config.get("axi_ports", 1) // 8
    points = [_point(layer) for layer in data["layers"] if layer["useful"] and layer["cycles"]]
    intensities = [x for x, _, _ in points] + [peak / beat]
    rates = [y for _, y, _ in points] + [float(peak)]
    x_range = (math.floor(math.log10(min(intensities) / 2)), math.ceil(math.log10(max(intensities) * 2)))
    y_range = (math.floor(math.log10(min(rates) / 2)), math.ceil(math.log10(peak * 1.3)))

    def place_x(value: float) -> float:
        share = (math.log10(value) - x_range[0]) / (x_range[1] - x_range[0])
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def place_y(value: float) -> float:
        share = (math.log10(value) - y_range[0]) / (y_range[1] - y_range[0])
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" class="roofline" role="img" aria-label="Roofline of the layers">']
    for exponent in range(x_range[0], x_range[1] + 1):
        x = place_x(10.0**exponent)
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>')
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 15}" text-anchor="middle">{10.0**exponent:g}</text>')
    for exponent in range(y_range[0], y_range[1] + 1):
        y = place_y(10.0**exponent)
        parts.append(f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**exponent:g}</text>')
    ridge = peak / beat
    low = max(10.0 ** x_range[0], 10.0 ** y_range[0] / beat)
    corners = [(low, low * beat), (ridge, float(peak)), (10.0 ** x_range[1], float(peak))]
    middle = math.sqrt(low * ridge)  # of the slope, to whose right its words stand
    path = " ".join(f"{place_x(x):.1f},{place_y(y):.1f}" for x, y in corners)
    parts.append(f'<polyline class="roof" points="{path}"/>')
    parts.append(
        f'<text x="{_WIDTH - _RIGHT}" y="{place_y(peak) - 5:.1f}" text-anchor="end">array: {peak} MACs/cycle</text>'
        f'<text x="{place_x(middle) + 10:.1f}" y="{place_y(middle * beat) + 14:.1f}">bus: {beat} B/cycle</text>'
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 6}" text-anchor="middle">MACs per byte that must cross the bus</text>'
        f'<text x="14" y="{_TOP - 16}">MACs/cycle</text>'
    )
    dots = [_Dot(place_x(x), place_y(y), _radius(layer, data), layer["name"]) for x, y, layer in points]
    for dot, (_, y, layer) in zip(dots, points, strict=True):
        title = in_html(f"{layer['name']}: {y:.1f} MACs/cycle, {layer['cycles']:,} cycles, {layer['bound']} bound")
        parts.append(
            f'<circle cx="{dot.x:.1f}" cy="{dot.y:.1f}" r="{dot.radius:.1f}" fill="{colours[layer["bound"]]}">'
            f"<title>{title}</title></circle>"
        )
    taken = [
        (_WIDTH - 180, place_y(peak) - 18, _WIDTH, place_y(peak)),
        (place_x(ridge), place_y(peak) - 2, _WIDTH, place_y(peak) + 2),
        (place_x(middle), place_y(middle * beat), place_x(middle) + 110, place_y(middle * beat) + 18),
    ]
    for dot, (x, y) in _labels(dots, taken):
        parts.append(f'<text class="dot" x="{x:.1f}" y="{y:.1f}">{in_html(dot.name)}</text>')
    return "".join([*parts, "</svg>"])


class _Dot(NamedTuple):
    """A layer's circle, in pixels."""

    x: float
    y: float
    radius: float
    name: str


_Box = tuple[float, float, float, float]  #: left, top, right, bottom


def _labels(dots: Sequence[_Dot], taken: Sequence[_Box]) -> Iterator[tuple[_Dot, tuple[float, float]]]:
    """Where names of dots stand, the largest first: right, left, above or below, where no other name or dot is."""
    boxes = [*taken, *((d.x - d.radius, d.y - d.radius, d.x + d.radius, d.y + d.radius) for d in dots)]
    for dot in sorted(dots, key=lambda d: -d.radius):
        width, gap = _LETTER * len(dot.name), dot.radius + 3
        for x, y in (
            (dot.x + gap, dot.y + 4), (dot.x - gap - width, dot.y + 4),
            (dot.x - width / 2, dot.y - gap), (dot.x - width / 2, dot.y + gap + 9),
        ):  # fmt: skip
            box = (x, y - 10, x + width, y + 2)
            inside = box[0] > _LEFT and box[2] < _WIDTH - 2 and box[1] > _TOP and box[3] < _HEIGHT - _BOTTOM
            if inside and not any(_overlap(box, other) for other in boxes):
                boxes.append(box)
                yield dot, (x, y)
                break


def _overlap(a: _Box, b: _Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _point(layer: dict[str, Any]) -> tuple[float, float, dict[str, Any]]:
    """Intensity, rate and layer. What ran while other layers had the array took time too: so no less of it than the
    layer needs by itself."""
    work, time = layer["useful"], max(layer["cycles"], layer["alone_cycles"])
    return work / max(1, layer["read_bytes"], layer["write_bytes"]), work / time, layer


def _radius(layer: dict[str, Any], data: dict[str, Any]) -> float:
    """Area in proportion to the layer's share of the cycles."""
    return 4 + 12 * math.sqrt(layer["cycles"] / max(1, data["cycles"] or 0))
