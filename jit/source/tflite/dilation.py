"""SPACE_TO_BATCH_ND, a convolution, BATCH_TO_SPACE_ND: how converters write a convolution with dilation.

The image is padded and dealt out into a batch of every n-th row and column, each is convolved by itself, and the
results are put together and cropped. That is one convolution of the image with n times the dilation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilewright.jit.errors import Unsupported
from tilewright.jit.source.tflite.file import File, Operator
from tilewright.jit.source.tflite.site import Site
from tilewright.jit.source.tflite.weighted import Phases, conv_2d, depthwise_conv_2d

DEAL, GATHER = "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"
_RULES: dict[str, Callable[[Site, Phases], str]] = {"CONV_2D": conv_2d, "DEPTHWISE_CONV_2D": depthwise_conv_2d}


@dataclass(frozen=True)
class Dilated:
    """Three operators, none of whose tensors in between anybody else reads."""

    deal: Operator
    layer: Operator
    gather: Operator

    @property
    def covers(self) -> tuple[int, ...]:
        return self.deal.index, self.layer.index, self.gather.index

    def lower(self, site: Site) -> str:
        """With a convolution of stride 1 in between, whose dilation it becomes

        The tensor that the last of the three makes; ``site``: of the convolution. Raises Unsupported.
        """
        deal, gather = replace(site, op=self.deal), replace(site, op=self.gather)
        deal.same_kind(0)
        gather.same_kind(0)
        numbers = [t.quantisation() for s in (deal, gather) for t in (s.tensor(0), s.result)]
        if numbers[0] != numbers[1] or numbers[2] != numbers[3]:
            raise Unsupported("elements that move between different scales")
        block, back = _whole(deal, 1), _whole(gather, 1)
        pads, crops = _whole(deal, 2), _whole(gather, 2)
        if len(deal.tensor(0).shape) != 4 or len(block) != 2 or block != back or min(*block, *pads, *crops) < 0:
            raise Unsupported(f"a batch of blocks {block} that becomes one of {back}")
        padding = tuple(pads[k] - crops[k] for k in (0, 2, 1, 3))
        return _RULES[self.layer.kind](site, Phases(deal.operand(0), (block[0], block[1]), padding))


def _whole(site: Site, position: int) -> list[int]:
    values: Any = site.constant(position).reshape(-1)
    return [int(v) for v in values]


def find(file: File, refused: Mapping[int, str]) -> dict[int, Dilated]:
    """By the position of their first, operators that are one; those of ``refused`` are not."""
    readers: dict[int, list[Operator]] = {}
    for op in file.operators:
        for index in dict.fromkeys(op.inputs):
            readers.setdefault(index, []).append(op)

    def only_reader(op: Operator, kinds: tuple[str, ...]) -> Operator | None:
        found = readers.get(op.outputs[0], [])
        if len(found) != 1 or found[0].kind not in kinds or op.outputs[0] in file.outputs:
            return None
        return found[0] if found[0].inputs[0] == op.outputs[0] else None

    result = {}
    for deal in file.operators:
        layer = only_reader(deal, tuple(_RULES)) if deal.kind == DEAL else None
        gather = only_reader(layer, (GATHER,)) if layer is not None else None
        if layer is not None and gather is not None:
            found = Dilated(deal, layer, gather)
            if not refused.keys() & {*found.covers}:
                result[deal.index] = found
    return result
