"""``.onnx`` files: ONNX Runtime prepares the graph, its integer kernels become the integer graph."""
