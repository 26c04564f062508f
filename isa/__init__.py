"""The instruction set, declared once as data: codec, assembler, builder, token placer, verifier, arithmetic."""
