"""Programs written in Python: the builder names memories, loads, micro-ops and stores, and places the tokens.

``docs/tutorials/programs.md`` shows the use, ``examples/programs`` has whole programs.
"""

from tilewright.isa.builder.builder import Builder
from tilewright.isa.builder.places import BuilderError, Range

__all__ = ["Builder", "BuilderError", "Range"]
