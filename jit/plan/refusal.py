"""What a plan answers where there is none: which layer asks for more of which memory than there is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """``layer`` needs ``needed`` of ``memory``, there are ``there``; ``reason`` says so and names the way out."""

    layer: str
    memory: str
    needed: int
    there: int
    reason: str

    def __str__(self) -> str:
        return f"{self.layer}: {self.reason}"
