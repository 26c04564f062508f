"""What is worked out from a layer's weights, kept while they are: placement lowers a layer once for every part."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from numpy.typing import NDArray

T = TypeVar("T")

#: by identity: the array, and what is known of it
_KNOWN: dict[int, tuple[weakref.ref[NDArray[Any]], dict[Hashable, Any]]] = {}


def of_weights(weight: NDArray[Any], key: Hashable, make: Callable[[], T]) -> T:
    """What ``make`` gives, which depends on these values and on ``key`` alone.

    Nobody may change either thereafter: the array is made one that cannot be written.
    """
    number = id(weight)
    found = _KNOWN.get(number)
    if found is None or found[0]() is not weight:
        weight.flags.writeable = False
        found = weakref.ref(weight, lambda _: _KNOWN.pop(number, None)), {}
        _KNOWN[number] = found
    known = found[1]
    if key not in known:
        known[key] = make()
    result: T = known[key]
    return result
