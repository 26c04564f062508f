"""The runtime: artifacts, devices, launches and reports.

``run_bytes`` is the entry point for other runtimes that hold an artifact as bytes.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewright.runtime.executable import Executable

_LOADED: OrderedDict[tuple[str, str], Executable] = OrderedDict()
_LOADED_LIMIT = 16  #: artifacts kept ready to run


def run_bytes(artifact: bytes, inputs: list[NDArray[Any]], device: str = "sim") -> list[NDArray[Any]]:
    """Run an artifact held as bytes (the content of a ``.twa`` file) once.

    ``inputs``: arrays of the tensors' own shapes (batch of 1 included), in order. Returns the outputs
    likewise. Loaded artifacts are kept by hash, so that repeated calls do not parse and verify again.
    """
    from tilewright.runtime.artifact import Artifact
    from tilewright.runtime.executable import Executable, element_shape

    key = (hashlib.sha256(artifact).hexdigest(), device)
    if key not in _LOADED:
        _LOADED[key] = Executable(Artifact.from_bytes(artifact), key[1])
        while len(_LOADED) > _LOADED_LIMIT:
            _LOADED.popitem(last=False)
    _LOADED.move_to_end(key)
    executable = _LOADED[key]
    stacked = [
        x.reshape(1, *element_shape(t)) if x.shape == t.shape else x for x, t in zip(inputs, executable.inputs)
    ] + inputs[len(executable.inputs) :]
    outputs, _ = executable.run(stacked)
    several = outputs if isinstance(outputs, list) else [outputs]
    return [y.reshape(t.shape) for y, t in zip(several, executable.outputs)]
