"""Damage to text, bytes and JSON: what it is decides what is likely to get past the first check."""

from __future__ import annotations

import random
import re
import struct
from typing import Any

from tests.fuzz.hostile import VALUES, places

NUMBERS = (
    "0", "1", "-1", "2", "3", "7", "127", "128", "255", "256", "65535", "65536", "2147483647", "-2147483648",
    "4294967296", "99999999999999999999", "0x7fffffff", "1e308", "nan", "inf", "-0", "0.5", "",
)  # fmt: skip
_MARKS = ("\x00", "é", '"', "{", "}", "[", "=", ";", "\\", "\n")
_INSERTED = (b"\xff" * 4, b"9" * 30, b"(" * 200, b"\x00" * 8)
_WORDS = tuple(v for v in VALUES if isinstance(v, int) and -(1 << 31) <= v < 1 << 32)
_REALS = (0.0, -1.0, 1e-45, 1e38, float("inf"), float("nan"))


def damage(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, cut out, doubled or put in; in half of the places whole little-endian numbers."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        size = len(changed)
        if not size:
            return b""
        at = rng.choice([rng.randrange(size), rng.randrange(min(size, 160)), size - 1 - rng.randrange(min(size, 160))])
        kind = rng.randrange(8)
        if kind == 0:
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del changed[at : at + rng.randint(1, 9)]
        elif kind == 2:
            changed[at:at] = rng.choice([*_INSERTED, changed[: rng.randint(1, 40)]])
        elif kind == 3:
            del changed[at:]
        else:  # a whole number where one may be
            at &= ~3
            word = struct.pack("<f", rng.choice(_REALS)) if kind == 4 else struct.pack("<I", _word(changed, at, rng))
            changed[at : at + 4] = word
    return bytes(changed)


def _word(data: bytearray, at: int, rng: random.Random) -> int:
    """A hostile number, or one near what stands there."""
    own = int.from_bytes(data[at : at + 4].ljust(4, b"\0"), "little")
    return rng.choice([own + 1, own - 1, own * 2, own + 4, rng.choice(_WORDS), rng.choice(_WORDS)]) & 0xFFFFFFFF


def rewrite(text: str, rng: random.Random) -> str:
    """Lines dropped, doubled or exchanged, numbers and words replaced by others, characters changed."""
    lines = text.splitlines(keepends=True)
    for _ in range(rng.randint(1, 3)):
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        tokens = re.findall(r"\w+|\W", lines[at])
        kind = rng.randrange(7)
        if kind == 0 and len(lines) > 1:
            del lines[at]
        elif kind == 1:
            lines.insert(other, lines[at])
        elif kind == 2:
            lines[at], lines[other] = lines[other], lines[at]
        elif tokens:
            place = rng.randrange(len(tokens))
            numbers = [k for k, token in enumerate(tokens) if token[:1].isdigit()]
            if kind in (3, 4) and numbers:
                tokens[rng.choice(numbers)] = rng.choice(NUMBERS)
            elif kind == 5:
                tokens[place] = rng.choice(re.findall(r"\w+", text) or ["x"])
            else:
                tokens[place] = rng.choice(["", tokens[place] * 2, *_MARKS])
            lines[at] = "".join(tokens)
    return "".join(lines)


def hostile(tree: Any, rng: random.Random) -> None:
    """Put one hostile value into a JSON tree, in place."""
    path = rng.choice(list(places(tree)))
    for key in path[:-1]:
        tree = tree[key]
    own, kind = tree[path[-1]], rng.randrange(6)
    if kind == 0:
        tree.pop(path[-1])
    elif kind == 1 and isinstance(own, int):
        tree[path[-1]] = rng.choice([own + 1, own - 1, own * 2, -own])
    elif kind == 2 and isinstance(own, list) and own:
        own.append(rng.choice(own))
    else:
        tree[path[-1]] = rng.choice(VALUES)
