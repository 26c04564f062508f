"""Refusals and defects: which exceptions send work to the CPU, and how all others are reported.

A rule refuses an operator with :class:`~tilewright.jit.errors.Unsupported`, a schedule fails with a
:class:`~tilewright.errors.TilewrightError`. Any other exception (a TypeError, an IndexError) is a defect of the
compiler. Tests and campaigns set the environment variable ``TILEWRIGHT_DEFECTS`` to ``raise``: a defect is then raised
as it is. Without it the user is warned (:class:`Defect`) and the work is left to the CPU, whose integers are right.
"""

from __future__ import annotations

import os
import traceback
import warnings
from pathlib import Path

from tilewright.errors import TilewrightError
from tilewright.jit.errors import ModelError, Unsupported
from tilewright.jit.numbers.scales import NotRepresentable

#: environment variable: ``raise`` makes every defect an error
DEFECTS = "TILEWRIGHT_DEFECTS"

_REFUSALS = (Unsupported, NotRepresentable, TilewrightError)
#: raised as they are, whoever runs it: the file is wrong, memory is short, or warnings are errors
_RAISED = (ModelError, MemoryError, Warning)


class Defect(UserWarning):
    """The compiler failed with an exception that is none of its own; results are right but may take longer.

    That is a defect of Tilewright: please report it, with the model.
    """


def why_not(error: Exception, name: str) -> str:
    """Why ``name`` (an operator, a network) is done in another way, for the report.

    A refusal says so itself. A defect is raised where ``TILEWRIGHT_DEFECTS`` is ``raise``; else :class:`Defect` is
    warned of. A ModelError, a MemoryError and a warning that is an error are always raised.
    """
    if isinstance(error, _RAISED):
        raise error
    if isinstance(error, _REFUSALS):
        return str(error)
    if os.environ.get(DEFECTS) == "raise":
        raise error
    frame = traceback.extract_tb(error.__traceback__)[-1]
    found = f"{type(error).__name__}: {error}, at {Path(frame.filename).name}:{frame.lineno}"
    warnings.warn(
        f"{name}: a defect of Tilewright ({found}); results stay right but may be slower; please report it with the "
        f"model, or set {DEFECTS}=raise to see where it comes from",
        Defect,
        stacklevel=2,
    )
    return f"a defect of Tilewright ({found}); please report it"
