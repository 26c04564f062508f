"""What the compiler can promise about each layer's integers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerExactness:
    """How one layer's arithmetic compares with its oracle's, over everything its inputs can reach.

    ``channels`` of them ``exact`` are proven equal; elsewhere the result may differ by at most ``bound`` LSB, for at
    most the fraction ``worst`` of the sums that a channel can reach. ``compared``: whether some are known to differ.
    """

    name: str
    oracle: str
    channels: int
    exact: int
    bound: int = 0
    worst: float = 0.0
    method: str = "same integer arithmetic"
    compared: bool = False

    @property
    def proven(self) -> bool:
        return self.exact == self.channels

    def __str__(self) -> str:
        if self.proven:
            return f"{self.name}: exact ({self.method}; {self.channels} channels; oracle {self.oracle})"
        return (
            f"{self.name}: {self.exact} of {self.channels} channels exact, the others within {self.bound} LSB for at "
            f"most {self.worst:.2g} of the reachable sums ({self.method}; oracle {self.oracle})"
        )


@dataclass(frozen=True)
class LayerDifference:
    """A layer, by position in the file, that was measured to differ by ``largest`` LSB where ``bound`` is stated."""

    position: int
    largest: int
    bound: int
