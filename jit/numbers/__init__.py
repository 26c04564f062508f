"""From the scales of a model file to integers: multipliers, shifts, folded biases and tables."""
