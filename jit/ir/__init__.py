"""What the operators of the integer graph are made of, and the graph itself; :mod:`tilewright.jit.ops` has them."""
