"""What nodes do: one file per family, each a :class:`~tilewright.jit.kernels.base.Node`."""
