"""Drawing random networks: what both front ends share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tests.fuzz.recipe import Assembly, Recipe, Step, source
from tests.fuzz.tensors import BuildError, Tensor, limits, resized


@dataclass(frozen=True)
class Size:
    """How large the drawn networks are."""

    macs: int = 20_000_000
    elements: int = 300_000  #: most of one tensor
    operators: int = 20
    channels: int = 700
    side: int = 60
    signal: int = 0  #: the longest signal, of one row or column; 0: no signals, and few large sides


OTHER = {"int8": "uint8", "uint8": "int8"}

AnyDrawer = TypeVar("AnyDrawer", bound="Drawer")
#: what may follow a tensor: weights, and functions that add steps behind it
Menu = list[tuple[float, Callable[[AnyDrawer, str], object]]]

SMALL = Size(macs=400_000, elements=20_000, operators=8, channels=64, side=16)
FULL = Size()
LARGE = Size(macs=60_000_000, elements=400_000, operators=8, side=400, signal=30_000)


class Drawer:
    """Draws one network step by step; every step is applied at once, so that shapes are known."""

    def __init__(self, frontend: str, rng: np.random.Generator, size: Size, options: dict[str, Any]) -> None:
        self.frontend, self.rng, self.size, self.options = frontend, rng, size, options
        self.seed = int(rng.integers(1 << 31))
        self.assembly = Assembly(frontend, self.seed, options)
        self.steps: list[Step] = []
        self.live: list[str] = []  #: quantised results, the newest last
        self.dtype: str = options["dtype"]
        self.batch = self.between(2, 4) if self.chance(0.12) else 1  #: of the inputs

    # -- steps -------------------------------------------------------------------------------------

    def step(self, kind: str, *inputs: str, **args: Any) -> str:
        """Do a step of one result. Raises BuildError where it does not fit or would cost too much."""
        return self.steps_of(kind, *inputs, **args)[0]

    def steps_of(self, kind: str, *inputs: str, **args: Any) -> list[str]:
        """Do a step of several results."""
        step = Step(len(self.steps), kind, inputs, args)
        before = self.assembly.net.macs
        names = self.assembly.apply(step)
        made = [self.tensor(name) for name in names]
        if self.assembly.net.macs > self.size.macs or any(t.size > self.size.elements for t in made):
            self.assembly.net.macs = before
            for name in names:
                del self.assembly.results[name]
            raise BuildError(f"{kind}: too large")
        self.steps.append(step)
        if kind != "constant_tensor":
            self.live += [n for n, t in zip(names, made, strict=True) if t.scale is not None and t.dtype == self.dtype]
        return names

    def tensor(self, ref: str) -> Tensor:
        """The result ``ref``."""
        return self.assembly.results[ref]

    def shape(self, ref: str) -> tuple[int, ...]:
        """Shape of the result ``ref``."""
        return self.tensor(ref).shape

    def current(self) -> str:
        """The tensor to go on from: mostly the newest."""
        if self.chance(0.8):
            return self.live[-1]
        return str(self.rng.choice(self.live))

    def partner(self, x: str, fits: Callable[[Tensor], bool]) -> str | None:
        """Another tensor that fits, if there is one."""
        found = [ref for ref in self.live if ref != x and fits(self.tensor(ref))]
        return str(self.rng.choice(found)) if found else None

    def alike(self, x: str, axis: int) -> str:
        """Another tensor that differs in size along ``axis`` alone, else ``x`` itself."""
        given = self.tensor(x)
        found = self.partner(x, lambda t: len(t.shape) == len(given.shape) and resized(t, axis) == resized(given, axis))
        return found or x

    def constant(self, shape: Sequence[int], **numbers: Any) -> str:
        """A constant tensor, with numbers of its own unless they are given."""
        given = {"scale": self.scale(), "zero_point": self.zero_point()} | numbers
        return self.step("constant_tensor", shape=list(shape), **given)

    def parts(self, x: str, axis: int, numbers: Callable[[], dict[str, Any]] = dict) -> list[str]:
        """Tensors to join with ``x`` along an axis, and now and then a constant (``numbers``: those that it must have)
        before or behind them."""
        found = [x, *(self.alike(x, axis) for _ in range(self.pick([1, 2, 3, 9], [0.6, 0.2, 0.15, 0.05])))]
        if self.chance(0.2):
            found = found[: self.pick([1, len(found)])]
            made = self.constant(resized(self.tensor(x), axis, self.between(1, 9)), **numbers())
            found.insert(self.between(0, len(found)), made)
        return found

    def across(self, x: str) -> list[int]:
        """A shape that goes with ``x``: ones in the place of some axes."""
        return [n if self.chance(0.6) else 1 for n in self.shape(x)]

    def recipe(self, most_outputs: int = 4) -> Recipe:
        """What was drawn: outputs are the results that nothing reads, and now and then one that is read too."""
        read = {ref for step in self.steps for ref in step.inputs}
        made = [ref for ref in self.assembly.results if self.kind_of(ref) not in ("input", "constant_tensor")]
        ends = [ref for ref in made if ref not in read]
        ends = [ref for ref in ends if self.tensor(ref).size <= self.size.elements]
        ends = ends[-most_outputs:]
        if self.chance(0.2) and len(made) > len(ends):
            ends.append(self.pick([ref for ref in made if ref not in ends]))
        if not ends:
            raise BuildError("no operator fitted")
        stored = tuple(self.chance(0.5) for _ in ends) if self.frontend == "onnx" else ()
        drawn = Recipe(self.frontend, self.seed, self.options, tuple(self.steps), tuple(ends), stored)
        return drawn.without_unused()

    def kind_of(self, ref: str) -> str:
        """The kind of step that gives ``ref``."""
        return self.steps[source(ref)].kind

    # -- shapes ------------------------------------------------------------------------------------

    def factors(self, x: str) -> list[list[int]]:
        """Shapes with the elements of ``x``: of two axes, with the last one left open, of three and of four."""
        batch, *others = self.shape(x)
        rest = math.prod(others)
        divisors = [n for n in range(1, min(rest, 64) + 1) if rest % n == 0]
        a = self.pick(divisors)
        b = self.pick([n for n in divisors if (rest // a) % n == 0])
        return [[batch, rest], [batch, -1], [batch, a, rest // a], [batch, a, b, rest // a // b]]

    def map_sizes(self, x: str) -> tuple[int, int, int]:
        """Height, width and channels of a small map with the elements of ``x``."""
        rest = math.prod(self.shape(x)[1:])
        h = self.pick([n for n in range(1, 13) if rest % n == 0])
        w = self.pick([n for n in range(1, 13) if rest // h % n == 0])
        return h, w, rest // h // w

    def permutation(self, x: str) -> list[int]:
        """An order of axes that leaves the batch in front."""
        return [0, *(self.rng.permutation(len(self.shape(x)) - 1) + 1).tolist()]

    def axes(self, x: str) -> list[int]:
        """Some axes, the batch left out."""
        rank = len(self.shape(x))
        found = self.rng.choice(np.arange(1, rank), size=self.between(1, rank - 1), replace=False)
        return sorted(found.tolist())

    def same(self, x: str) -> dict[str, Any]:
        """The numbers of ``x`` for an output."""
        return {"scale": self.tensor(x).scale, "zero_point": self.tensor(x).zero_point}

    def axis(self, x: str) -> int:
        """One axis, seldom the batch's where that is one."""
        return self.between(0 if self.chance(0.05 if self.shape(x)[0] == 1 else 0.3) else 1, len(self.shape(x)) - 1)

    def split_count(self, x: str, axis: int) -> int:
        """A number of equal parts, up to 8."""
        return int(self.pick([n for n in range(1, 9) if self.shape(x)[axis] % n == 0]))

    def rejoined(self, parts: list[str]) -> object:
        """Parts of a tensor, or the sum of the first and the last."""
        return self.step("add", parts[0], parts[-1], **self.out()) if len(parts) > 1 and self.chance(0.6) else parts

    def heads(self) -> tuple[int, int]:
        """Heads of an attention, and their depth."""
        return self.pick([1, 2, 3, 4]), self.pick([4, 8, 10, 16, self.between(1, 24)])

    def grouped(self, x: str, axis: int, channels: int, least: int = 2) -> dict[str, int]:
        """Groups of a convolution of ``x``, and channels that go with them."""
        depth = self.shape(x)[axis]
        groups = self.pick([g for g in range(least, depth + 1) if depth % g == 0])
        return {"groups": groups, "channels": groups * self.between(1, max(1, channels // groups))}

    def branches(self, x: str, layer: dict[str, Any], numbers: dict[str, Any]) -> list[str]:
        """Convolutions of one tensor whose results have the same numbers."""
        kept = {k: v for k, v in layer.items() if k not in ("gain", "zero_point")}
        return [
            self.step("conv", x, channels=self.channels(), kernel=self.kernel(), **kept, **numbers)
            for _ in range(self.between(2, 4))
        ]

    # -- numbers -----------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        """True with a probability."""
        return bool(self.rng.random() < probability)

    def pick(self, values: Sequence[Any], weights: Sequence[float] | None = None) -> Any:
        """One of some values."""
        p = None if weights is None else np.asarray(weights) / np.sum(weights)
        return values[int(self.rng.choice(len(values), p=p))]

    def between(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, max(low, high) + 1))

    def channels(self) -> int:
        """A number of channels: small ones, multiples of 8, and a wide tail; of large images mostly one."""
        if self.size.signal:
            return self.pick([1, 2, 3, 4, 8], [0.5, 0.1, 0.2, 0.1, 0.1])
        style = self.pick(["small", "round", "middle", "wide"], [0.35, 0.25, 0.28, 0.12])
        if style == "small":
            n = self.between(1, 8)
        elif style == "round":
            n = 8 * self.between(1, 8)
        elif style == "middle":
            n = self.between(9, 70)
        else:
            n = round(math.exp(self.rng.uniform(math.log(64), math.log(700))))
        return min(n, self.size.channels)

    def sides(self) -> tuple[int, int]:
        """Height and width, equal half of the time; of large images one is 1 as often."""
        if self.size.signal:
            signal = self.chance(0.5)
            long = round(math.exp(self.rng.uniform(3, math.log(self.size.signal if signal else self.size.side))))
            other = 1 if signal else self.between(20, self.size.side)
            return (long, other) if self.chance(0.5) else (other, long)

        def one() -> int:
            most = self.pick([12, 32, 60], [0.55, 0.33, 0.12])
            return self.between(1, min(most, self.size.side))

        height = one()
        return (height, height) if self.chance(0.5) else (height, one())

    def input_shape(self, rank: int, channels_last: bool) -> list[int]:
        """A shape of an input that is not too large."""
        while True:
            channels = self.channels()
            if rank == 2:
                return [self.batch, channels]
            if rank == 3:
                return [self.batch, self.between(1, 12), channels]
            height, width = self.sides()
            if self.batch * height * width * channels <= self.size.elements // 2:
                return [self.batch, *((height, width, channels) if channels_last else (channels, height, width))]

    def kernel(self) -> list[int]:
        """Kernel sizes: mostly 1 and 3, some rows and columns."""
        style = self.pick(["square", "free", "row", "column"], [0.75, 0.1, 0.08, 0.07])
        n = self.pick([1, 2, 3, 4, 5, 6, 7], [0.27, 0.08, 0.4, 0.04, 0.12, 0.03, 0.06])
        if style == "square":
            return [n, n]
        if style == "free":
            return [self.between(1, 7), self.between(1, 7)]
        return [1, n] if style == "row" else [n, 1]

    def stride(self) -> list[int]:
        """Strides: mostly 1, then 2, sometimes unequal."""
        if self.chance(0.1):
            return [self.between(1, 4), self.between(1, 4)]
        n = self.pick([1, 2, 3, 4], [0.65, 0.28, 0.05, 0.02])
        return [n, n]

    def zero_point(self, dtype: str | None = None) -> int:
        """A zero point: anywhere, in the middle, or at the ends."""
        low, high = limits(dtype or self.dtype)
        style = self.pick(["any", "middle", "near", "end"], [0.3, 0.25, 0.3, 0.15])
        middle = (low + high + 1) // 2
        if style == "any":
            return self.between(low, high)
        if style == "end":
            return low if self.chance(0.6) else high
        return middle + (self.between(-9, 9) if style == "near" else 0)

    def scale(self) -> float:
        """A scale of an input or constant: a power of two where the network has those."""
        if self.options["power_of_two"]:
            return 2.0 ** self.between(-8, -3)
        return float(np.float32(math.exp(self.rng.uniform(math.log(0.003), math.log(0.2)))))

    def out(self) -> dict[str, Any]:
        """Numbers of an output: mostly those that fit, else another zero point, saturation or wasted bits."""
        style = self.pick(["fit", "zero", "saturate", "waste", "both"], [0.6, 0.2, 0.08, 0.07, 0.05])
        if style == "fit":
            return {}
        if style == "zero":
            return {"zero_point": self.zero_point()}
        gain = {"gain": float(self.pick([0.02, 0.2, 0.5]) if style != "waste" else self.pick([2.0, 7.0, 100.0]))}
        return gain if style != "both" else gain | {"zero_point": self.zero_point()}


def draw_steps(drawer: AnyDrawer, menus: Callable[[AnyDrawer, str], Menu[AnyDrawer]]) -> None:
    """Add operators from the menu of the tensor in hand until there are enough, or nothing fits any more."""
    wanted = drawer.between(1, drawer.size.operators) if drawer.chance(0.8) else drawer.between(1, 4)
    for _ in range(4 * wanted):
        if sum(s.kind not in ("input", "constant_tensor") for s in drawer.steps) >= wanted:
            break
        x = drawer.current()
        menu = menus(drawer, x)
        choice = drawer.pick([entry for _, entry in menu], [weight for weight, _ in menu])
        try:
            choice(drawer, x)
        except BuildError:
            continue  # does not fit here: another draw
