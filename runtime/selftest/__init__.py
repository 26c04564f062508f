"""Whether a board, a bitstream and their driver work: programs with known results, and what their failures mean."""
