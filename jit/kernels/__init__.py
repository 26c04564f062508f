"""Lowering rules: one file per family of operators, each a :class:`~tilewright.jit.kernels.base.Node`."""
