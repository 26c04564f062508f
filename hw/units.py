"""A design as *units*: parts that are synthesised on their own, each shape once, and counted as often as they occur.

The RTL instantiates the same few things many times (a lane of the ALU, a dot product), and most parts are the same in
many Configs. So the design is cut at the engines; what lies below an engine is flattened into it, apart from the lanes
and dot products; what a part's surroundings never use or hold constant is taken out (Yosys' ``opt_hier``); and parts
that are equal but for names are one unit.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

TOP = "tilewright"
#: parts with a boundary of their own; everything else is flattened into the part around it
ENGINES = (
    "gemm", "alu", "load", "load_data", "store", "fetch", "dispatch", "issue", "control", "read_channel", "memories",
)  # fmt: skip
_MODULE = re.compile(r"^module (\S+) ?\(.*?^endmodule$", re.S | re.M)
_SOURCE = re.compile(r'\(\* src = "[^"\n]*" \*\)\s*')
_TEMPORARY = re.compile(r"\\\$[^\s]+ |\b_\d+_\b")
_INSTANCE = re.compile(r"^(\s+)(\\\S+) (?= *\S+ *\($)", re.M)
_IDENTIFIER = re.compile(r'[\\$][^\s"\[\]]+')
_PORT = re.compile(r" (?:input|output|inout) \d+ ")


def merge_equal_modules(verilog: str) -> str:
    """The text with modules that differ in names of inner signals alone made one."""
    text = _SOURCE.sub("", verilog)
    first: dict[str, str] = {}
    same: dict[str, str] = {}
    for found in _MODULE.finditer(text):
        name, body = found.group(1), found.group(0)
        head, _, rest = body.partition(";")
        key = hashlib.sha256((head.partition("(")[2] + _numbered(rest)).encode()).hexdigest()
        if first.setdefault(key, name) != name:
            same[name] = first[key]
    text = _MODULE.sub(lambda m: "" if m.group(1) in same else m.group(0), text)
    return _INSTANCE.sub(lambda m: f"{m.group(1)}{same.get(m.group(2), m.group(2))} ", text)


def _numbered(text: str) -> str:
    numbers: dict[str, str] = {}
    return _TEMPORARY.sub(lambda m: numbers.setdefault(m.group(0), f"n{len(numbers)} "), text)


def cut_script(files: list[str], output: str) -> str:
    """Yosys commands that read Verilog and write the units of a design as RTLIL."""
    keep = [f"{TOP}.{name}" for name in ENGINES]
    return "\n".join(
        [
            f"read_verilog -sv {' '.join(files)}",
            f"hierarchy -top {TOP}",
            "proc",
            *[f"setattr -mod -set keep_hierarchy 1 {name} {name}$*" for name in keep],
            *[f"setattr -mod -unset keep_hierarchy {name}$*.*" for name in keep],
            f"setattr -mod -set keep_hierarchy 1 {TOP}.alu.lane_* *\\tw_dot*",
            "flatten",
            "opt_expr", "opt_clean",
            # values at power-up stand in the way of removing single bits of a register, and do not count
            "setattr -unset init */w:*",
            "opt_hier", "opt_expr", "opt_clean",
            "opt_hier", "opt_expr", "opt_clean",
            f"write_rtlil {output}",
        ]
    )  # fmt: skip


@dataclass(frozen=True)
class Unit:
    """A part to synthesise: RTLIL with normal names; ``children`` are empty modules that it instantiates."""

    text: str
    children: tuple[str, ...]

    @property
    def key(self) -> str:
        """16 hex digits over the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def rtlil(self) -> str:
        """The module alone, named by its key."""
        return f"module \\u{self.key}\n{self.text}end\n"


def split(rtlil: str) -> dict[str, list[str]]:
    """The lines of every module by its name, without attributes but those that steer the mapping of memories."""
    modules: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for raw in rtlil.splitlines():
        line = raw.strip()
        if raw.startswith("module "):
            lines = modules.setdefault(line[7:], [])
        elif raw == "end":
            lines = None
        elif lines is not None and (not line.startswith("attribute ") or line.startswith("attribute \\ram_style ")):
            lines.append(line)
    return modules


def unit_of(name: str, modules: Mapping[str, list[str]]) -> Unit:
    """The unit of a module: names numbered in order of appearance, so that equal parts have equal texts."""
    lines = modules[name]
    names: dict[str, str] = {}
    stubs: dict[str, str] = {}
    for line in lines:
        words = line.split()
        if words[0] in ("wire", "memory"):
            names.setdefault(words[-1], f"\\n{len(names)}")
        elif words[0] == "cell":
            names.setdefault(words[2], f"\\n{len(names)}")
            if words[1] in modules and words[1] not in stubs:
                stubs[words[1]] = _stub(modules[words[1]])

    def rename(text: str) -> str:
        return _IDENTIFIER.sub(lambda m: names.get(m.group(0), m.group(0)), text)

    result, in_cell = [], False
    for line in lines:
        words = line.split(" ", 2)
        if words[0] == "cell":
            in_cell = True
            result.append(f"cell {_stub_name(stubs[words[1]]) if words[1] in stubs else words[1]} {names[words[2]]}")
        elif words[0] == "end":
            in_cell = False
            result.append(line)
        elif words[0] == "attribute":
            result.append(line)
        elif words[0] == "parameter":
            memory = re.fullmatch(r'\\MEMID "(.*)"', line.partition(" ")[2])
            if memory:
                line = "parameter \\MEMID " + json.dumps(names[memory.group(1).replace("\\\\", "\\")])
            result.append(line)
        elif in_cell:
            result.append(f"{words[0]} {words[1]} {rename(words[2])}")
        else:
            result.append(rename(line))
    return Unit("\n".join(result) + "\n", tuple(dict.fromkeys(stubs.values())))


def instances(modules: Mapping[str, list[str]], top: str = f"\\{TOP}") -> dict[str, int]:
    """How often each module occurs below ``top``, itself included."""
    counts: dict[str, int] = {}

    def visit(name: str, times: int) -> None:
        counts[name] = counts.get(name, 0) + times
        for line in modules[name]:
            if line.startswith("cell ") and line.split()[1] in modules:
                visit(line.split()[1], times)

    visit(top, 1)
    return counts


def plain_name(module: str) -> str:
    """What a person calls a module: ``gemm``, ``alu.lane``, ``gemm.dot``."""
    if "\\tw_dot" in module:
        return "gemm.dot"
    name = re.sub(r"\$\d+$", "", module.removeprefix("\\"))
    return re.sub(r"lane_\d+_\d+_\d+$", "lane", name.removeprefix(TOP).removeprefix(".")) or "top"


def _stub(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines if line.startswith("wire ") and _PORT.search(line))


def _stub_name(stub: str) -> str:
    return f"\\s{hashlib.sha256(stub.encode()).hexdigest()[:16]}"


def stub_rtlil(stub: str) -> str:
    """An empty module with the ports of a child."""
    return f"attribute \\blackbox 1\nmodule {_stub_name(stub)}\n{stub}end\n"
