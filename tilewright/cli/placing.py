"""Options of where operators run, which several commands have, and what of them needs another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright.arguments import UsageProblem, refuse_vain
from tilewright.cli.paths import READ
from tilewright.runtime import records

FAST_HOST = "Let operators on the CPU use faster kernels, which may differ from the reference by an LSB."
OBJECTIVE = "Place operators on cores and CPU by what they cost here: for one inference, many in flight, or energy."
OBJECTIVES = "|".join(records.OBJECTIVES)
HostWatts = Annotated[
    float | None,
    typer.Option(metavar="W", help="For --objective energy: what this CPU takes while one thread works."),
]
HostIdleWatts = Annotated[
    float | None, typer.Option(metavar="W", help="For --objective energy: what this CPU takes while it waits (0).")
]
OwnEnergies = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="For --objective energy: TOML file with energies of your own."),
    READ,
]
JOBS = "Threads of the CPU that work on different inferences with --objective throughput (1)."
Exact = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(records.EXACT),
        help="Layers of .onnx that fall back to the CPU: those not proven exact, those that differ (default), or none.",
    ),
]


def check_objective(objective: str | None, **options: Any) -> None:
    """Raise :class:`UsageProblem` for an objective that there is none of, and for options of another one's.

    ``options``: of ``host_watts``, ``host_idle_watts``, ``energy_table`` and ``jobs``, those that have no other use.
    """
    if objective is not None and objective not in OBJECTIVES.split("|"):
        raise UsageProblem(f"--objective {objective}: must be one of {', '.join(OBJECTIVES.split('|'))}")
    for name, value in options.items():
        whose, option = "throughput" if name == "jobs" else "energy", f"--{name.replace('_', '-')}"
        text = f"{option}: only --objective {whose} has use for it; add that, or leave it out"
        refuse_vain((value, objective == whose, text))


def exact_of(given: str | None) -> records.Exact:
    """What ``--exact`` asks for. Raises :class:`UsageProblem` for what it cannot be."""
    for known in records.EXACT:
        if (given or "default") == known:
            return known
    raise UsageProblem(f"--exact {given}: must be one of {', '.join(records.EXACT)}")


def refuse_compiled(path: Path, **options: Any) -> None:
    """Raise :class:`UsageProblem` for options of compiling, where the file is compiled already."""
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        refuse_vain((value, False, f"{path}: is compiled; give {option} when compiling the model file"))
