"""The programs of ``examples/programs``: equal to NumPy, near their bound, and their assembly text is what is kept."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from examples.programs import conv2d, matmul, vector_add
from examples.programs.show import show
from tilewright.isa.assembler import assemble
from tilewright.isa.disassembler import disassemble
from tilewright.runtime.report.run import busiest
from tilewright.sim import run_program

#: cycles of each, and what the work itself takes at least on pynq-z2: bytes of both inputs / 16, MACs / 256
PROGRAMS = [(vector_add, 8926, 2 * 65536 // 16), (matmul, 67116, 256**3 // 256), (conv2d, 38778, 9 * 32**4 // 256)]


def kept(module: ModuleType) -> str:
    return Path(str(module.__file__)).with_suffix(".s").read_text()


@pytest.mark.parametrize(("module", "cycles", "least"), PROGRAMS, ids=lambda v: getattr(v, "__name__", None))
def test_a_program_computes_what_numpy_says_near_its_bound(module: ModuleType, cycles: int, least: int) -> None:
    program, inputs = module.build(), module.inputs(seed=3)
    result = run_program(program, inputs)
    for name, values in module.expected(**inputs).items():
        np.testing.assert_array_equal(result.outputs[name], values)
    assert result.cycles == cycles
    assert least <= busiest(program)[1] <= cycles <= 1.1 * least


@pytest.mark.parametrize("module", [module for module, _, _ in PROGRAMS], ids=lambda m: m.__name__)
def test_the_assembly_text_is_the_builders(module: ModuleType) -> None:
    program = module.build()
    assert disassemble(program) == kept(module), "python -m examples.programs"
    assert assemble(kept(module)) == program


def test_what_is_shown_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    program, inputs = vector_add.build(), vector_add.inputs()
    show(program, inputs, vector_add.expected)
    assert "vector add: 8,926 cycles, 1.06x the lower bound of 8,452 (reading DRAM)" in capsys.readouterr().out
    with pytest.raises(AssertionError):
        show(program, inputs, lambda a, b: {"c": vector_add.expected(a, b)["c"] + np.int8(1)})


def test_blocks_are_the_matrix_and_the_kernel() -> None:
    b = np.arange(32 * 48, dtype=np.int32).reshape(32, 48)
    np.testing.assert_array_equal(matmul.blocks(b)[2, 1], b[16:32, 32:48].T)
    w = np.arange(9 * 32 * 48).reshape(3, 3, 32, 48)
    np.testing.assert_array_equal(conv2d.blocks(w)[2, 5, 1], w[1, 2, 16:32, 32:48].T)
