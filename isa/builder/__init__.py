"""Programs written in Python: memories, loads, micro-ops and stores by name; tokens are placed for you.

``docs/tutorials/programs.md`` shows the use, ``examples/programs`` has whole programs.
"""

from tilewright.isa.builder.builder import Builder
from tilewright.isa.builder.places import BuilderError, Range

__all__ = ["Builder", "BuilderError", "Range"]
