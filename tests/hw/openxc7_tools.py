"""Stand-ins for the open flow's tools: each checks what it is given, and makes what the next one is to be given.

``python openxc7_tools.py TOOL ARGUMENTS``. ``STAND_IN`` in the environment: what goes wrong.
"""

from __future__ import annotations

import json
import os
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

FAULT = os.environ.get("STAND_IN", "")


def options(arguments: list[str], known: dict[str, bool]) -> tuple[dict[str, str], list[str]]:
    """Options (True: with a value) and what else is there; ends with a message at an unknown one."""
    found, others, left = {}, [], list(arguments)
    while left:
        word = left.pop(0)
        if word.startswith("--"):
            if word not in known:
                fail(f"unrecognised option '{word}'")
            found[word] = left.pop(0) if known[word] else ""
        else:
            others.append(word)
    return found, others


def fail(message: str) -> NoReturn:
    print(f"ERROR: {message}")
    sys.exit(1)


def read_netlist(path: str) -> dict[str, Any]:
    """The one module of a netlist whose cells nextpnr can pack, pins as the cells declare them."""
    written = json.loads(Path(path).read_text())
    modules = [m for m in written["modules"].values() if not {"blackbox", "whitebox"} & set(m["attributes"])]
    if len(modules) != 1 or "top" not in modules[0]["attributes"]:
        fail("no top module")
    for name, cell in modules[0]["cells"].items():
        if cell["type"].startswith("$"):
            fail(f"cell {name}: no bel for type {cell['type']}")
        if set(cell["connections"]) - set(cell["port_directions"]):
            fail(f"cell {name}: a pin without a direction")
        declared = written["modules"][cell["type"]]["ports"]
        for pin, bits in cell["connections"].items():
            if pin not in declared or len(bits) != len(declared[pin]["bits"]):
                fail(f"cell {name}: {cell['type']} has no pin {pin} of {len(bits)} bits")
    return modules[0]


def nextpnr_himbaechel(arguments: list[str]) -> None:
    """Options as of himbaechel's main and of its xilinx part (``-o name=value``)."""
    own = dict(part.split("=", 1) for word, part in pairwise(arguments) if word == "-o")
    rest = [word for k, word in enumerate(arguments) if word != "-o" and (k == 0 or arguments[k - 1] != "-o")]
    given, _ = options(rest, {
        "--device": True, "--chipdb": True, "--json": True, "--write": True, "--report": True, "--freq": True,
        "--timing-allow-fail": False, "--seed": True,
    })  # fmt: skip
    if set(own) != {"xdc", "fasm"}:
        fail(f"unrecognised option among {', '.join(own)}")
    if not re.fullmatch(r"(xc7[azkv]\d+t?)([a-z0-9]+)-(\dL?)", given["--device"]):
        fail(f"Invalid device {given['--device']}")
    if "--chipdb" in given and Path(given["--chipdb"]).read_text() != "chip":
        fail("not a chip database")
    design = read_netlist(given["--json"])
    driven = {bit for cell in design["cells"].values() for pin, bits in cell["connections"].items()
              if cell["port_directions"][pin] == "output" for bit in bits}  # fmt: skip
    name = ""
    for line in Path(own["xdc"]).read_text().splitlines():
        match = re.fullmatch(r"create_clock -period ([\d.]+) \[get_nets (\w+)\]", line)
        if match is None:
            fail(f"cannot read {line!r}")
        name = match[2]
        if not set(design["netnames"].get(name, {"bits": [-1]})["bits"]) <= driven:
            fail(f"no net {name}")
        if abs(1000 / float(match[1]) - float(given["--freq"])) > 0.1:
            fail("two clocks are asked for")
    if FAULT == "no place":
        fail("failed to place cell 'x' of type 'SLICE_LUTX'")
    clock = "another" if FAULT == "another clock" else name
    if FAULT == "hold":
        print("Info: 3 Hold/min time violations (showing 10 worst paths):")
    if FAULT != "no route":
        report = {"fmax": {clock: {"achieved": 47.3, "constraint": 95.0}}, "critical_paths": [], "utilization": {}}
        Path(given["--report"]).write_text(json.dumps(report))
    Path(given["--write"]).write_text("{}")
    Path(own["fasm"]).write_text("" if FAULT == "no features" else "CLBLL_L_X2Y1.SLICEL_X0.AFF.ZINI 1\n")


def fasm2frames(arguments: list[str]) -> None:
    given, (fasm, frames) = options(arguments, {"--part": True, "--db-root": True})
    if not (Path(given["--db-root"]) / given["--part"] / "part.yaml").exists():
        fail("no such part")
    if not re.fullmatch(r"(\w+(\.\w+)+( 1)?\n)+", Path(fasm).read_text()):
        fail("not FASM")
    Path(frames).write_text("0x00000000 0x0\n")


def xc7frames2bit(arguments: list[str]) -> None:
    given, _ = options(arguments, {"--part_file": True, "--part_name": True, "--frm_file": True, "--output_file": True})
    if Path(given["--part_file"]).parent.name != given["--part_name"]:
        fail("the part file is another part's")
    if not Path(given["--frm_file"]).read_text().startswith("0x"):
        fail("no frames")
    Path(given["--output_file"]).write_bytes(b"" if FAULT == "no bits" else b"\x00\x09" + b"bits" * 8)


if __name__ == "__main__":
    {"nextpnr-himbaechel": nextpnr_himbaechel, "fasm2frames": fasm2frames, "xc7frames2bit": xc7frames2bit}[sys.argv[1]](
        sys.argv[2:]
    )
