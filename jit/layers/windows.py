"""Windows no larger than what of the image they can meet.

A tap that lies in the padding for every window adds nothing (of a convolution: the zero point, which the bias takes
off again), so a window loses those at its ends, exactly, before anybody plans it tap by tap.
"""

from __future__ import annotations

from dataclasses import dataclass

Quad = tuple[int, int, int, int]


@dataclass(frozen=True)
class Span:
    """Along one axis: the taps ``first`` .. ``first + count - 1`` of a window, and the padding that is left."""

    first: int
    count: int
    dilation: int
    before: int
    after: int

    @property
    def taps(self) -> slice:
        return slice(self.first, self.first + self.count)


def meeting(size: int, taps: int, stride: int, dilation: int, before: int, after: int) -> Span:
    """The span of a window of ``taps`` over ``size`` pixels with padding ``before`` and ``after`` that has the same
    positions and meets the same pixels. Negative padding leaves pixels out, as of a transposed convolution."""
    last = (size + before + after - (taps - 1) * dilation - 1) // stride * stride  # where the last window begins
    if last < 0:
        return Span(0, taps, dilation, before, after)  # no position at all, which others say
    # tap d of the window at p meets pixel p - before + d * dilation; padding that was none does not become negative
    first = min(max(0, -((last - before) // dilation)), max(0, before) // dilation, taps - 1)
    before -= first * dilation
    count = max(1, min(taps - first, (before + size - 1) // dilation + 1))

    def beyond(count: int) -> int:
        return last + (count - 1) * dilation + 1 - before - size

    if after >= 0 and beyond(count) <= -stride:
        count += 1  # a tap in the padding, without which another window had room
    left = beyond(count) if after < 0 else max(0, beyond(count))
    return Span(first, count, dilation if count > 1 else 1, before, left)
