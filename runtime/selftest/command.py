"""``tilewright selftest``: is this board, this overlay and this driver in order, and if not, what is wrong?

Needs NumPy and, on a board, pynq; ``python -m tilewright.runtime.selftest.command`` runs it where nothing else is
installed.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from tilewright.arguments import Parser, refuse_vain
from tilewright.arrays import load_array
from tilewright.config import Config, load_config
from tilewright.errors import TilewrightError
from tilewright.interrupts import EXIT_INTERRUPTED, MESSAGE
from tilewright.printable import complain, say
from tilewright.progress import on_error_stream
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.device import Device, open_device
from tilewright.runtime.pynq.manifest import Manifest, OverlayError, find_overlay
from tilewright.runtime.pynq_device import PynqDevice
from tilewright.runtime.selftest.checks import Bench, Finding, check_artifact, run_checks

LAUNCH_SECONDS = 600.0  #: that a launch of the simulated hardware may take
MARKS = {True: "ok", False: "FAIL", None: "--"}


def open_bench(device: str, overlay: str | Path | None, config: str | Config | None) -> Device:
    """The device to test. Raises :class:`TilewrightError` where there is none.

    ``device``: ``pynq``, a board; ``rtl``, the Verilated design behind PYNQ's interfaces, driven by the board's own
    driver; or any other of this process. ``config`` is the overlay's own where it is not given.
    """
    wanted = None if config is None else load_config(config)
    if device == "pynq":
        manifest = find_overlay(overlay, wanted)
        return PynqDevice(manifest.config, manifest)
    if overlay is not None:
        raise OverlayError(f"overlay {overlay}: only the pynq device has overlays; leave it out or add --device pynq")
    chosen = wanted or load_config("tiny")
    if device != "rtl":
        return open_device(device, chosen)
    from tilewright.hw.verilated.facade import Facade

    facade = Facade(chosen, files=False, build_progress=on_error_stream("rtl"))
    return PynqDevice(chosen, Manifest(Path("verilated.bit"), chosen), timeout=LAUNCH_SECONDS, pynq=facade)


def selftest(
    device: str = "pynq",
    overlay: str | Path | None = None,
    config: str | Config | None = None,
    artifact: str | Path | None = None,
    x: str | Path | None = None,
    expected: str | Path | None = None,
) -> Iterator[Finding]:
    """The findings, one after another. ``x`` and ``expected``: ``.npy`` files for the artifact.

    Raises :class:`TilewrightError` where a file is wrong; a device that cannot be opened is a finding.
    """
    network = None if artifact is None else Artifact.load(artifact)
    given = None if x is None else load_array(x)
    wanted = None if expected is None else load_array(expected)
    try:
        opened = open_bench(device, overlay, config if network is None or config else network.config)
    except OverlayError as error:
        yield Finding("overlay", False, str(error))
        return
    with closing(opened):
        yield Finding("overlay", True, f"{opened} of config {opened.config.name} ({opened.config.fingerprint})")
        bench, sound = Bench(opened), True
        for finding in run_checks(bench):
            sound &= finding.ok is not False
            yield finding
        if network is not None:
            yield check_artifact(bench, network, given, wanted) if sound else Finding("artifact", None, "left out")


def print_findings(findings: Iterator[Finding], say: Callable[[str], None] = say) -> bool:
    """A line each as they come, and one at the end; whether nothing failed."""
    failed = 0
    for finding in findings:
        say(f"{MARKS[finding.ok]:>4}  {finding.name:<16}{finding.detail}")
        failed += finding.ok is False
    say(f"selftest: {failed} failed" if failed else "selftest: all in order")
    return not failed


def main(arguments: Sequence[str] | None = None) -> int:
    """The command without Typer; returns the exit code: 0, 1 (something failed), 2 (an error, in one line) or
    130."""
    parser = Parser(
        prog="tilewright selftest", description="Check board, overlay and driver, step by step, and say what is wrong.",
        epilog="Example: tilewright selftest --overlay tilewright-pynq-z2.bit",
    )  # fmt: skip
    parser.add_argument("--device", default="pynq", help="pynq (default), rtl, or sim")
    parser.add_argument("--overlay", metavar="FILE", help="the .bit file, or a folder of them")
    parser.add_argument("--config", metavar="NAME|FILE", help="preset or .toml (default: the overlay's own)")
    parser.add_argument("--artifact", metavar="A.twa", help="a compiled network to run at the end")
    parser.add_argument("--input", metavar="X.npy", help="its inputs (default: random)")
    parser.add_argument("--expected", metavar="Y.npy", help="its outputs for them")
    try:
        options = parser.parse_args(arguments)
        _check_options(options)
        findings = selftest(
            options.device, options.overlay, options.config, options.artifact, options.input, options.expected
        )
        return 0 if print_findings(findings) else 1
    except TilewrightError as error:
        complain(str(error))
        return 2
    except KeyboardInterrupt:
        complain(MESSAGE)
        return EXIT_INTERRUPTED


def _check_options(options: Namespace) -> None:
    artifact, given = options.artifact is not None, options.input is not None
    refuse_vain(
        (options.input, artifact, "--input: is an artifact's; add --artifact A.twa, or leave it out"),
        (options.expected, artifact, "--expected: is what an artifact gives; add --artifact A.twa, or leave it out"),
        (options.expected, given, "--expected: is what the artifact gives for its inputs; add --input X.npy"),
    )


if __name__ == "__main__":
    sys.exit(main())
