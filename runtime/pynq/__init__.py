"""What the ``pynq`` device is made of: manifest, board, registers, contiguous buffers, interrupt."""
