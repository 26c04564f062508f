"""From operators of the graph to nodes over plain tensors: one rule for each kind of operator."""
