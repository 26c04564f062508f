"""Write the assembly text of each program of this folder beside it: ``python -m examples.programs``."""

from pathlib import Path

from examples.programs import conv2d, matmul, vector_add
from tilewright.isa.disassembler import disassemble

for module in (vector_add, matmul, conv2d):
    Path(str(module.__file__)).with_suffix(".s").write_text(disassemble(module.build()))
