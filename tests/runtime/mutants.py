"""Every change of one value of a JSON header, one after another."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from tests.fuzz.hostile import VALUES, places


def mutants(tree: Any) -> Iterator[tuple[str, Any]]:
    """(what was done, tree) for each place: every hostile value, numbers next to its own, gone, twice, renamed."""
    for path in places(tree):
        where = "/".join(map(str, path))
        own = _parent(tree, path)[path[-1]]
        near = [own + 1, own - 1, own * 2, -own] if isinstance(own, int) and not isinstance(own, bool) else []
        for value in (*VALUES, *near):
            changed = copy.deepcopy(tree)
            _parent(changed, path)[path[-1]] = value
            yield f"{where} = {value!r:.40}", changed
        changed = copy.deepcopy(tree)
        holder = _parent(changed, path)
        value = holder.pop(path[-1])
        yield f"{where} is gone", changed
        changed = copy.deepcopy(changed)
        holder = _parent(changed, path)
        if isinstance(holder, list):
            holder += [value, value]
        else:
            holder["renamed"] = value
        yield f"{where} is elsewhere", changed


def _parent(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        tree = tree[key]
    return tree
