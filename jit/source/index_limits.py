"""Which inputs of a network are indices of a table, and of how many entries: tokens of a vocabulary, say.

An input counts where it reaches a look-up through nothing but changes of form and type.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Indexing:
    """An operator as far as indices are concerned: the tensors whose elements it hands on to what it ``makes``, and
    (indices, entries of the table) of its look-ups."""

    hands_on: Sequence[Hashable]
    makes: Sequence[Hashable]
    looks_up: Sequence[tuple[Hashable, int]] = ()


def index_limits(inputs: Iterable[Hashable], operators: Iterable[Indexing]) -> dict[Hashable, int]:
    """Input -> the least number of entries of a table that it looks up in; inputs that look up in none are left out.

    ``operators``: each behind those whose results it reads.
    """
    found: dict[Hashable, int] = {}
    origins: dict[Hashable, set[Hashable]] = {name: {name} for name in inputs}
    for op in operators:
        for indices, entries in op.looks_up:
            found |= {origin: min(entries, found.get(origin, entries)) for origin in origins.get(indices, ())}
        handed_on = set[Hashable]().union(*(origins.get(name, ()) for name in op.hands_on))
        if handed_on:
            origins |= dict.fromkeys(op.makes, handed_on)
    return found
