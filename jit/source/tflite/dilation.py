"""SPACE_TO_BATCH_ND, a convolution, BATCH_TO_SPACE_ND: how converters write a convolution with dilation.

The image is padded and dealt out into a batch of every n-th row and column, each is convolved by itself, and the
results are put together and cropped. That is one convolution of the image with n times the dilation. A convolution
along one axis has reshapes around it, which give it a height of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilewright.jit.errors import Unsupported
from tilewright.jit.source.operators import tflite_row
from tilewright.jit.source.tflite.file import File, Operator
from tilewright.jit.source.tflite.site import Site
from tilewright.jit.source.tflite.weighted import Phases

DEAL, GATHER = "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"


@dataclass(frozen=True)
class Dilated:
    """Successive operators, none of whose tensors in between anybody else reads, and the ones that count."""

    operators: tuple[Operator, ...]
    layer: Operator

    @property
    def deal(self) -> Operator:
        return self.operators[0]

    @property
    def gather(self) -> Operator:
        return self.operators[-1]

    @property
    def covers(self) -> tuple[int, ...]:
        return tuple(op.index for op in self.operators)

    def lower(self, site: Site) -> str:
        """With a convolution of stride 1 in between, whose dilation the block becomes

        Returns the tensor that the last operator makes. ``site`` is the one of the convolution. Raises Unsupported
        where the three are not one.
        """
        deal, gather = replace(site, op=self.deal), replace(site, op=self.gather)
        deal.same_kind(0)
        gather.same_kind(0)
        for op in self.operators:
            if tflite_row(op.kind).family == "view":
                replace(site, op=op).require_known(1)
        numbers = [t.quantisation() for s in (deal, gather) for t in (s.tensor(0), s.result)]
        read = site.tensor(0).quantisation()  # the convolution's own, behind a reshape
        if not numbers[0] == numbers[1] == read or numbers[2] != numbers[3]:
            raise Unsupported("elements that move between different scales")
        block, back = _whole(deal, 1), _whole(gather, 1)
        pads, crops = _whole(deal, 2), _whole(gather, 2)
        axes = len(deal.tensor(0).shape) - 2
        if axes not in (1, 2) or len(block) != axes or block != back or min(*block, *pads, *crops) < 0:
            raise Unsupported(f"a batch of blocks {block} that becomes one of {back}")
        for dealt, image in ((deal.result, site.tensor(0)), (gather.tensor(0), site.result)):
            if image.shape != (dealt.shape[0], *(1,) * (2 - axes), *dealt.shape[1:]):
                raise Unsupported(f"a reshape of {dealt.shape} to {image.shape}")
        block, pads, crops = [1] * (2 - axes) + block, [0] * (4 - 2 * axes) + pads, [0] * (4 - 2 * axes) + crops
        padding = tuple(pads[k] - crops[k] for k in (0, 2, 1, 3))
        row = tflite_row(self.layer.kind)
        return str(row.find(row.rule)(site, Phases(deal.operand(0), (block[0], block[1]), padding)))


def is_layer(kind: str) -> bool:
    """Whether it may stand in between."""
    return tflite_row(kind).family in ("convolution", "depthwise")


def _whole(site: Site, position: int) -> list[int]:
    values: Any = site.constant(position).reshape(-1)
    return [int(v) for v in values]


def find(file: File, refused: Mapping[int, str]) -> dict[int, Dilated]:
    """By the position of their first, operators that are one; those of ``refused`` are not."""
    readers: dict[int, list[Operator]] = {}
    for op in file.operators:
        for index in dict.fromkeys(op.inputs):
            readers.setdefault(index, []).append(op)

    def followed(op: Operator) -> list[Operator]:
        """It and what reads its result alone, and so on, to the next GATHER; empty where there is none."""
        chain = [op]
        while chain[-1].kind != GATHER:
            made = chain[-1].outputs[0]
            found = readers.get(made, [])
            if len(found) != 1 or found[0].inputs[0] != made or made in file.outputs:
                return []
            if not (is_layer(found[0].kind) or tflite_row(found[0].kind).family == "view" or found[0].kind == GATHER):
                return []
            chain.append(found[0])
        return chain

    result = {}
    for deal in file.operators:
        chain = followed(deal) if deal.kind == DEAL else []
        layers = [op for op in chain if is_layer(op.kind)]
        if len(layers) == 1 and refused.keys().isdisjoint(op.index for op in chain):
            result[deal.index] = Dilated(tuple(chain), layers[0])
    return result
