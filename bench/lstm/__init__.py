"""LiteRT's integer LSTM on the array: what it computes, as a program, and what that program takes."""
