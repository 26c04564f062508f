"""The ``serve`` command, in plain argparse: a board has no other command-line library."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.arguments import Parser, refuse_vain
from tilewright.config import load_config
from tilewright.printable import say
from tilewright.runtime.device import DEVICES, Device, open_device
from tilewright.runtime.remote.server import DEFAULT_PORT, Limits, Server

MIB = 1 << 20
LOOPBACK = ("127.0.0.1", "localhost", "::1")
EPILOG = "Example: tilewright serve --overlay pynq-z2.bit"


def main(arguments: Sequence[str]) -> int:
    """Serve until interrupted; returns the exit code. Raises :class:`TilewrightError`."""
    options = _parser().parse_args(arguments)
    pynq = options.device == "pynq"
    refuse_vain(
        (options.overlay, pynq, f"--overlay: only the pynq device has one, not {options.device}; leave it out"),
        (options.config, not pynq, "--config: the overlay's manifest has the config of a pynq device; leave it out"),
    )
    limits = Limits(options.max_request * MIB, options.max_memory * MIB, options.idle)
    device = _device(options)
    try:
        server = Server(device, options.host, options.port, limits=limits, log=_log)
        signal.signal(signal.SIGTERM, _interrupt)
        for line in _welcome(device, server, options.host):
            say(line)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            _log("stopped")
        finally:
            server.close()
    finally:
        device.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="tilewright serve", epilog=EPILOG,
        description="Let other machines run programs on this one's accelerator (--device pynq://HOST there). Clients "
        "reach it by ssh -L; one job runs at a time.",
    )  # fmt: skip
    parser.add_argument("--device", default="pynq", choices=list(DEVICES), help="what to serve (default: pynq)")
    parser.add_argument("--overlay", type=Path, help="with --device pynq: the .bit file, or a folder of one")
    parser.add_argument("--config", metavar="NAME|FILE", help="with other devices: preset or .toml file")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; 0.0.0.0: all, for everybody (%(default)s)"
    )
    parser.add_argument("--port", type=_number(0, 65535), default=DEFAULT_PORT, help="0: any free one (%(default)s)")
    parser.add_argument("--max-request", type=_number(1, 2047), default=64, metavar="MIB", help="(%(default)s)")
    parser.add_argument("--max-memory", type=_number(1, 1 << 20), default=512, metavar="MIB", help="(%(default)s)")
    parser.add_argument(
        "--idle", type=_number(1, 86400), default=60, metavar="SECONDS", help="end silent jobs after (%(default)s)"
    )
    return parser


def _number(low: int, high: int) -> Any:
    """An argparse type: an integer from ``low`` to ``high``."""

    def parse(text: str) -> int:
        value = int(text) if text.isdecimal() else -1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text}: must be an integer from {low} to {high}")
        return value

    return parse


def _device(options: argparse.Namespace) -> Device:
    if options.device == "pynq":
        from tilewright.runtime.pynq.manifest import find_overlay

        return open_device("pynq", find_overlay(options.overlay, None).config, overlay=options.overlay)
    return open_device(options.device, load_config(options.config or "pynq-z2"))


def _welcome(device: Device, server: Server, host: str) -> list[str]:
    here = host in LOOPBACK
    at = "" if server.port == DEFAULT_PORT else f":{server.port}"
    reach = (
        f"for this machine alone; from another: ssh -L {server.port}:{host}:{server.port} THIS-MACHINE"
        if here
        else "for everybody who can reach this port; without --host it is this machine alone, and ssh -L reaches it"
    )
    # as it was given: a machine need not know a "localhost", or knows it by its other address
    name = f"[{host}]" if ":" in host else host
    name = name if here else "THIS-MACHINE"
    return [
        f"serving the {device.label} device, config {device.config.name}, on port {server.port}",
        reach,
        f"then: tilewright run A.twa --device pynq://{name}{at}",
    ]


def _log(line: str) -> None:
    say(line, sys.stderr)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
