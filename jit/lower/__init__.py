"""From operators of the graph to nodes over plain tensors: the state of a lowering, and what operators lower with."""
