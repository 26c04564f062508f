"""The joined HLS design with the C++ kernels inside, as a library: built from shells of the kernels' ports."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.hw.tcl.netlist import kernel_verilog
from tilewright.config import Config
from tilewright.hw.hls.build import HERE, ap_types
from tilewright.hw.hls.control import control_verilog, window_verilog
from tilewright.hw.hls.header import config_header
from tilewright.hw.hls.join import KERNELS, MASTERS, join_kernels, master
from tilewright.hw.hls.kernel_ports import parse_ports
from tilewright.hw.hls.shapes import memory_shapes, shapes
from tilewright.hw.rtl.primitives import primitive_sources
from tilewright.hw.verilated.build import RUNTIME, runtime_objects
from tilewright.hw.verilated.toolchain import compile_objects, link, verilator, verilator_root

Field = tuple[str, int, int, bool]  # name, first bit, bits, whether it is an output


def fields(config: Config, kernel: str) -> list[Field]:
    """The ports of a kernel, inputs and outputs each packed from bit 0 on; memories have an enable per element."""
    element = {"act": 8, "acc": 32, "prm": 32, "tables": 8, "wgt": config.weight_bits}
    arrays = {argument: m for m in memory_shapes(config) for k, argument in m["kernels"].items() if k == kernel}
    position = {False: 0, True: 0}
    found = []
    for name, port in parse_ports(kernel_verilog(config, kernel), f"tilewright_{kernel}").items():
        bits, output = port.width, port.output
        if match := re.fullmatch(r"([a-z_]+?)(_\d+)*_we[01]", name):
            shape = arrays[match.group(1)]
            bits = shape["width"] // element.get(shape["name"], _uop_bits(config, shape["name"]))
        found.append((name, position[output], bits, output))
        position[output] += bits
    return found


def _uop_bits(config: Config, memory: str) -> int:
    from tilewright.isa import spec

    return spec.uop_width(config, spec.Engine.GEMM if memory == "uops_gemm" else spec.Engine.ALU)


def shell(kernel: str, packed: list[Field]) -> str:
    """A module with a kernel's ports, driven from the vector ``outputs`` and shown in ``inputs``."""
    ends = {output: max(at + bits for _, at, bits, out in packed if out == output) for output in (False, True)}
    lines = [f"module tilewright_{kernel} ({', '.join(name for name, *_ in packed)});"]
    for name, _, bits, output in packed:
        lines.append(f"{'output' if output else 'input'} [{bits - 1}:0] {name};")
    lines += [
        f"reg [{ends[True] - 1}:0] outputs /*verilator public_flat_rw*/ = 0;",
        f"wire [{ends[False] - 1}:0] inputs /*verilator public_flat_rd*/;",
    ]
    for name, at, bits, output in packed:
        lines.append(
            f"assign {name} = outputs[{at} +: {bits}];" if output else f"assign inputs[{at} +: {bits}] = {name};"
        )
    return "\n".join([*lines, "endmodule"]) + "\n"


def fields_header(packed: dict[str, list[Field]], config: Config) -> str:
    """C++ tables of the kernels' ports, core after core, and a list of the design's AXI masters."""
    lines = ["struct Row { const char *name; int at, bits; bool output; };"]
    lines.append(
        "struct Shell { const uint32_t *inputs; uint32_t *outputs; int output_words, count; const Row *rows; };"
    )
    for kernel, rows in packed.items():
        body = ", ".join(f'{{"{name}", {at}, {bits}, {str(out).lower()}}}' for name, at, bits, out in rows)
        lines.append(f"static const Row ROWS_{kernel}[] = {{{body}}};")
    lines += ["inline Shell shell_of(Vjoined &top, int kernel) {", "    auto *r = top.rootp;", "    switch (kernel) {"]
    whole = [(core, kernel, rows) for core in range(config.cores) for kernel, rows in packed.items()]
    for number, (core, kernel, rows) in enumerate(whole):
        path = f"r->tilewright__DOT__{f'core_{core}__DOT__' if config.cores > 1 else ''}{kernel}__DOT__"
        words = -(-max(at + bits for _, at, bits, out in rows if out) // 32)
        label = "default" if number == len(whole) - 1 else f"case {number}"
        lines.append(
            f"    {label}: return {{&{path}inputs[0], &{path}outputs[0], {words}, {len(rows)}, ROWS_{kernel}}};"
        )
    ports = config.memory_ports
    buses = [master(kernel, port, ports) for port in range(ports) for kernel in MASTERS]
    masters = " ".join(f"each({number}, {bus})" for number, bus in enumerate(buses))
    return "\n".join([*lines, "    }", "}", f"#define TW_MASTERS(each) {masters}"]) + "\n"


def build(config: Config, folder: Path, flags: tuple[str, ...] = ()) -> Path:
    """The library of a config; about a minute."""
    packed = {kernel: fields(config, kernel) for kernel in KERNELS}
    texts = {kernel: shell(kernel, packed[kernel]) for kernel in KERNELS}
    sources = {
        "tilewright.v": join_kernels(shapes(config), texts),
        "tilewright_control.v": control_verilog(config),
        **({"tilewright_window.v": window_verilog(config)} if config.cores > 1 else {}),
        "tw_stream.v": (HERE / "verilog" / "tw_stream.v").read_text(),
        **{name: primitive_sources()[name] for name in ("tw_ram.v", "tw_ram_async.v")},
        **{f"tilewright_{kernel}.v": text for kernel, text in texts.items()},
    }
    for name, text in sources.items():
        (folder / name).write_text(text)
    (folder / "tilewright_config.h").write_text(config_header(config))
    (folder / "fields.hpp").write_text(fields_header(packed, config))
    verilator(
        ["--cc", "--top-module", "tilewright", "--prefix", "Vjoined", "--Mdir", "generated", "-Wno-fatal", "-Wno-lint",
         "--flatten", "--x-assign", "fast", "-O3", *sources], folder,
    )  # fmt: skip
    root = verilator_root() / "include"
    include = [
        part for path in (root, root / "vltstd", folder, folder / "generated", HERE) for part in ("-I", str(path))
    ]
    include += ["-isystem", str(ap_types())]
    files = sorted((folder / "generated").glob("*.cpp"))
    (folder / "all.cpp").write_text("".join(f'#include "{file}"\n' for file in files))
    defines = ['-DTW_COSIM="cosim/ports.hpp"', *flags]
    objects = compile_objects(
        [(folder / "all.cpp", ["-O1"]), (HERE / "cosim" / "cosim.cpp", ["-O1", "-fno-strict-aliasing", *defines])],
        include, folder,
    )  # fmt: skip
    objects += runtime_objects([root / name for name in RUNTIME], ["-I", str(root)])
    link(objects, [], folder / "cosim.so")
    return folder / "cosim.so"


class Joined:
    """One instance of the design on a DRAM, which is changed in place."""

    def __init__(self, library: Path, dram: NDArray[np.uint8]) -> None:
        self._library = ctypes.CDLL(str(library))
        pointer, u32, i64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int64
        self._library.cosim_new.restype, self._library.cosim_new.argtypes = pointer, [pointer, ctypes.c_uint64]
        self._library.cosim_delete.argtypes = [pointer]
        self._library.cosim_write.argtypes = [pointer, u32, u32]
        self._library.cosim_read.restype, self._library.cosim_read.argtypes = u32, [pointer, u32]
        self._library.cosim_wait.restype, self._library.cosim_wait.argtypes = i64, [pointer, i64]
        self._library.cosim_outside.argtypes = [pointer]
        self.dram = dram
        self._handle = self._library.cosim_new(dram.ctypes.data, dram.size)

    def write(self, offset: int, value: int) -> None:
        """Write a register."""
        self._library.cosim_write(self._handle, offset, value)

    def read(self, offset: int) -> int:
        """Read a register."""
        return int(self._library.cosim_read(self._handle, offset))

    def wait(self, limit: int) -> int:
        """Cycles until the interrupt, -1 if it does not come in time."""
        return int(self._library.cosim_wait(self._handle, limit))

    @property
    def outside(self) -> bool:
        """Whether an address beyond the DRAM was asked for."""
        return bool(self._library.cosim_outside(self._handle))

    def close(self) -> None:
        """Free the design."""
        self._library.cosim_delete(self._handle)
