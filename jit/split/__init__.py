"""A partition cut into pieces that cores compute at the same time, each a graph of its own.

A piece makes some rows, or some channels, of every result, from as much of the operands as that takes: rows at the
seam (the halo) are computed by both neighbours, so that nothing is exchanged within a stretch; or it makes what some
input channels add to a convolution's sums, which pieces of a second round add up. A piece is ordinary operators over
smaller tensors, so what compiles, proves and runs it is what does so for the whole.
"""
