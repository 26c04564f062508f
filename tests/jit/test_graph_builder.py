"""The integer graph under construction: names, shapes, and quantisations that become known late."""

from __future__ import annotations

import pytest

from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import HostCast, Reshape
from tilewright.jit.layers.builder import GraphBuilder, Quantisation, nhwc

READ = Quantisation(0.25, -28)


def test_what_a_consumer_reads_goes_back_through_host_steps_and_no_further() -> None:
    """Of two chains the other stays as it was; a cast by -128 moves the zero point, a reshape does not."""
    b = GraphBuilder()
    for name in ("other", "x"):
        b.declare(name, (1, 1, 2, 6), "uint8", Quantisation(0.5, 7))
        cast = b.append(HostCast, f"{name}/cast", [name], (1, 1, 2, 6), offset=-128, dtype="int8")
        b.append(Reshape, f"{name}/row", [cast], (1, 1, 1, 12), shape=(1, 1, 1, 12))
    before = {name: b.quantisation(name) for name in b.tensors}
    b.learn("x/row", READ)
    learnt = {"x/row": READ, "x/cast": READ, "x": Quantisation(0.25, 100)}
    assert {name: b.quantisation(name) for name in b.tensors} == before | learnt
    b.learn("other", READ)
    assert b.quantisation("other") == READ
    assert b.quantisation("other/cast") == before["other/cast"]


def test_names_are_unique() -> None:
    b = GraphBuilder()
    assert [b.declare("x", (1, 1, 1, 1)) for _ in range(3)] == ["x", "x_2", "x_3"]


def test_shapes_of_fewer_axes() -> None:
    assert nhwc(()) == (1, 1, 1, 1)
    assert nhwc((5,)) == (1, 1, 1, 5)
    assert nhwc((1, 2, 3, 4)) == (1, 2, 3, 4)
    with pytest.raises(Unsupported, match="batch 2"):
        nhwc((2, 2, 3, 4))
    with pytest.raises(Unsupported, match="rank 5"):
        nhwc((1, 1, 2, 3, 4))
