"""LiteRT's integer LSTM and SVDF on the array: states outlive a program, an LSTM's sequence is one."""
