"""``python -m tilewright.hw.boards``: what ``make bitstream`` calls. Standard library only: it runs where Vivado is."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tilewright.config import Config, load_config
from tilewright.errors import TilewrightError
from tilewright.hw.boards.board import Board, BoardError, board_names, load_board
from tilewright.hw.boards.overlay import Overlay, package_overlay
from tilewright.hw.boards.project import SOURCES

EXIT_ERROR = 2
TOOLCHAINS = ("vivado", "openxc7")


def parser() -> argparse.ArgumentParser:
    """The command line's parser."""
    main_parser = argparse.ArgumentParser(
        prog="python -m tilewright.hw.boards", description="Bitstreams of the accelerator for boards with PYNQ."
    )
    commands = main_parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="make an overlay with Vivado, or the folder for it")
    build.add_argument("board", metavar="BOARD", help=f"one of {', '.join(board_names())}")
    build.add_argument("--source", choices=SOURCES, default="rtl", help="which hardware description (default: rtl)")
    build.add_argument("--config", metavar="NAME|FILE", help="preset or .toml file (default: the board's preset)")
    build.add_argument("-o", "--output", type=Path, metavar="DIR", help="folder (default: build/BOARD-SOURCE)")
    build.add_argument("--ila", action="store_true", help="with a logic analyser at the accelerator's buses")
    build.add_argument(
        "--toolchain", choices=TOOLCHAINS, default="vivado",
        help="openxc7: Yosys, nextpnr and Project X-Ray's tools, for Zynq-7000; experimental",
    )  # fmt: skip
    build.add_argument(
        "--at-least", type=float, default=0, metavar="MHZ", help="openxc7: fail if the routed clock is below this"
    )
    build.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes for Vivado")
    build.add_argument("--project-only", action="store_true", help="write the folder and stop: no tool is needed")
    package = commands.add_parser("package", help="check the results of a carried folder and make the overlay")
    package.add_argument("folder", type=Path, metavar="DIR")
    return main_parser


def run(arguments: list[str]) -> None:
    """Carry out a command line. Raises :class:`TilewrightError`."""
    options = parser().parse_args(arguments)
    if options.command == "package":
        _report(package_overlay(options.folder))
        return
    from tilewright.hw.boards.bitstream import build_bitstream
    from tilewright.hw.boards.project import write_project

    board = load_board(options.board)
    config = load_config(options.config or options.board)
    if options.toolchain == "openxc7":
        _run_openxc7(board, config, options)
        return
    folder = options.output or Path("build") / f"{board.name}-{options.source}"
    if options.project_only:
        files = write_project(board, config, options.source, folder, options.ila)
        print(f"{folder}: {len(files)} files; where Vivado is: sh build.sh, then back here:")
        print(f"  python -m tilewright.hw.boards package {folder}")
    else:
        _report(build_bitstream(board, config, options.source, folder, options.jobs, ila=options.ila))


def _run_openxc7(board: Board, config: Config, options: argparse.Namespace) -> None:
    for given, option in (
        (options.source != "rtl", "--source hls"), (options.ila, "--ila"), (options.project_only, "--project-only"),
    ):  # fmt: skip
        if given:
            raise BoardError(f"{option} needs Vivado: --toolchain openxc7 builds the RTL, here and without an analyser")
    try:  # what maps and times the netlist is not of the standard library
        from tilewright.hw.boards.openxc7.flow import build_openxc7
    except ImportError as error:
        raise BoardError(f"--toolchain openxc7 needs {error.name}; pip install 'tilewright[rtl]'") from error

    folder = options.output or Path("build") / f"{board.name}-openxc7"
    _report(build_openxc7(board, config, folder, options.at_least))


def _report(overlay: Overlay) -> None:
    manifest = overlay.manifest
    shares = ", ".join(f"{name} {used['used'] / used['available']:.0%}" for name, used in
                       manifest["utilisation"].items() if used["available"])  # fmt: skip
    slack = manifest.get("slack_ns")  # of the open flow nothing is left: its clock is what was reached
    told = f", setup slack {slack['setup']:.3f} ns, hold {slack['hold']:.3f} ns" if slack else ""
    print(f"{manifest['clock_mhz']:g} MHz{told}; {shares}")
    for path in (overlay.bitstream, overlay.handoff, overlay.manifest_path):
        print(path)


def main(arguments: list[str]) -> int:
    """Exit code 0, or 2 with one line on the error stream."""
    try:
        run(arguments)
    except TilewrightError as error:
        print(f"tilewright: {' '.join(str(error).split())}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("tilewright: interrupted", file=sys.stderr)
        return EXIT_ERROR
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
