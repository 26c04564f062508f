"""Ways out that go behind LiteRT's words on files that it does not load."""

from __future__ import annotations

import pytest

from tilewright.runtime.litert.foreign import way_out_of_foreign


@pytest.mark.parametrize(
    ("said", "way"),
    [
        ("Encountered unresolved custom op: edgetpu-custom-op.", "compiled for another accelerator"),
        ("Encountered unresolved custom op: ethos-u.", "compiled for another accelerator"),
        ("Encountered unresolved custom op: Convolution2DTransposeBias.", "TFLITE_BUILTINS"),
        (
            "Select TensorFlow op(s), included in the given model, is(are) not supported: Flex delegate",
            "TFLITE_BUILTINS",
        ),
        ("Node number 3 (ADD) failed to prepare.", ""),
    ],
)
def test_the_way_out_fits_what_was_said(said: str, way: str) -> None:
    found = way_out_of_foreign(said)
    assert way in found
    assert bool(found) == bool(way)
