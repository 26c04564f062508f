"""LiteRT's integer LSTM on the array: all steps of a sequence as one program."""
