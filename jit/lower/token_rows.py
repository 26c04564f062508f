"""Sequences as images of several rows: what works on each pixel by itself then streams row by row.

A sequence is a single row of pixels, and a row is what a schedule passes on. In the same place in DRAM, and in the same
order, its pixels may as well be several rows, so that one layer works on the first while another makes the next.
"""

from __future__ import annotations

from tilewright.jit.ir.base import Graph, Op

Image = tuple[int, int, int, int]
_LEAST = 32  #: pixels of a row: enough that instructions are few


def folds(graph: Graph) -> bool:
    """Whether no operator of a graph looks at more than a pixel, or at products of two tensors; of images the rows are
    many as they are."""
    single = all(len(shape) < 4 or shape[1] == 1 for op in graph.ops for shape in _shapes(graph, op))
    return (single or has_products(graph)) and all(op.by_pixel(_shapes(graph, op)) for op in graph.ops)


def has_products(graph: Graph) -> bool:
    """Whether a graph multiplies two tensors. Tiles are tried for it where rows do not fit, and nowhere else."""
    return any(op.multiplies_tensors for op in graph.ops)


def _shapes(graph: Graph, op: Op) -> list[tuple[int, ...]]:
    return [graph.tensors[name].shape for name in (*op.inputs, *op.outputs)]


def parts(width: int) -> int:
    """Rows that a row of so many pixels becomes."""
    return max(n for n in range(1, width + 1) if width % n == 0 and (n == 1 or width // n >= _LEAST))


def folded(shape: Image) -> Image:
    """The shape with each row as several."""
    rows = parts(shape[2])
    return shape[0], shape[1] * rows, shape[2] // rows, shape[3]
