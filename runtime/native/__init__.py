"""The compiled host library: the host's steps in C, for Python through ctypes and for programs without Python.

Without it NumPy does the same; ``TILEWRIGHT_NATIVE=0`` switches it off, and gives the path of another one to use.
"""
