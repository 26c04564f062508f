"""The ``serve`` command, in plain argparse: a board has no other command-line library."""

from __future__ import annotations

import argparse
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.arguments import Parser, refuse_vain
from tilewright.config import load_config
from tilewright.printable import say
from tilewright.runtime.device import DEVICES, Device, open_device
from tilewright.runtime.remote import auth
from tilewright.runtime.remote.server import DEFAULT_PORT, Limits, Server, tls_context

MIB = 1 << 20
LOOPBACK = ("127.0.0.1", "localhost", "::1")
EPILOG = "Example: tilewright serve --host 0.0.0.0 --overlay pynq-z2.bit --token-file token.txt"


def main(arguments: Sequence[str]) -> int:
    """Serve until interrupted; returns the exit code. Raises :class:`TilewrightError`."""
    options = _parser().parse_args(arguments)
    pynq = options.device == "pynq"
    refuse_vain(
        (options.tls_key, options.tls_cert is not None, "--tls-key: is a certificate's; add --tls-cert PEM, too"),
        (options.overlay, pynq, f"--overlay: only the pynq device has one, not {options.device}; leave it out"),
        (options.config, not pynq, "--config: the overlay's manifest has the config of a pynq device; leave it out"),
    )
    tls = None if options.tls_cert is None else tls_context(options.tls_cert, options.tls_key)
    limits = Limits(options.max_request * MIB, options.max_memory * MIB, options.idle)
    token, generated = auth.find_token(options.token_file), False
    if token is None:
        token, generated = auth.new_token(), True
    device = _device(options)
    try:
        server = Server(device, token, options.host, options.port, tls=tls, limits=limits, log=_log)
        signal.signal(signal.SIGTERM, _interrupt)
        for line in _welcome(device, server, options.host, tls is not None, token if generated else None):
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
        "must know the token; one job runs at a time.",
    )  # fmt: skip
    parser.add_argument("--device", default="pynq", choices=list(DEVICES), help="what to serve (default: pynq)")
    parser.add_argument("--overlay", type=Path, help="with --device pynq: the .bit file, or a folder of one")
    parser.add_argument("--config", metavar="NAME|FILE", help="with other devices: preset or .toml file")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; 0.0.0.0: all, for other machines (%(default)s)"
    )
    parser.add_argument("--port", type=_number(0, 65535), default=DEFAULT_PORT, help="0: any free one (%(default)s)")
    parser.add_argument(
        "--token-file", type=Path, help=f"file with the token (default: {auth.TOKEN_VARIABLE}, or a new one is printed)"
    )
    parser.add_argument("--tls-cert", type=Path, metavar="PEM", help="encrypt: the server's certificate")
    parser.add_argument("--tls-key", type=Path, metavar="PEM", help="its key, if not in the same file")
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


def _welcome(device: Device, server: Server, host: str, tls: bool, token: str | None) -> list[str]:
    here = host in LOOPBACK
    scheme = "pynqs" if tls else "pynq"
    at = "" if server.port == DEFAULT_PORT else f":{server.port}"
    known = f"{auth.TOKEN_VARIABLE}={token} " if token else ""
    lines = [f"serving the {device.label} device, config {device.config.name}, on port {server.port}"]
    if token is not None:
        lines.append(f"token (new; --token-file keeps one): {token}")
    if not tls:
        lines.append("without TLS: programs and data can be read and changed on the way (--tls-cert)")
    if here:
        lines.append("for this machine alone: --host 0.0.0.0 lets others reach it")
    # as it was given: a machine need not know a "localhost", or knows it by its other address
    name = (f"[{host}]" if ":" in host else host) if here else socket.gethostname()
    lines.append(f"from {'here' if here else 'a PC'}: {known}tilewright run A.twa --device {scheme}://{name}{at}")
    return lines


def _log(line: str) -> None:
    say(line, sys.stderr)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
