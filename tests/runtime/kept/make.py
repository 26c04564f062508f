"""Makes the files of this folder, once for each format of artifacts: ``python -m tests.runtime.kept.make``.

They are never made anew: what a released version wrote is what later ones must read (``docs/versions.md``).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.runtime.network import images, make_artifact, reference
from tilewright.runtime.artifact import FORMAT_VERSION

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Write the toy network's artifact with inputs and the outputs that it must give."""
    path = HERE / f"toy-format-{FORMAT_VERSION}.twa"
    if path.exists():
        raise SystemExit(f"{path} is there: a kept artifact is not made anew")
    make_artifact(keep=True).save(path)
    x = images(3, seed=11)
    np.savez(path.with_suffix(".npz"), x=x, y=reference(x)[1].reshape(3, 32))


if __name__ == "__main__":
    main()
