"""The operators of the integer graph, a file each; :mod:`tilewright.jit.graph` has all of them."""
