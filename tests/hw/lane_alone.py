"""One lane of the ALU on its own: instructions decoded as in the engine, a set of operands a cycle."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
from amaranth.back import verilog
from amaranth.hdl import Module, Signal, signed

from tilewright.config import PRESETS, Config
from tilewright.hw.rtl.alu_lane import AluLane
from tilewright.hw.rtl.lane_control import LaneControl
from tilewright.hw.rtl.layout import view, widest_format
from tilewright.hw.rtl.primitives import primitive_sources
from tilewright.hw.rtl.sequencer import delay
from tilewright.hw.verilated.build import RUNTIME, runtime_objects
from tilewright.hw.verilated.toolchain import FAST_FLAGS, compile_objects, link, verilator, verilator_root
from tilewright.isa.codec import Instruction, encode
from tilewright.isa.spec import Opcode, roundings

HERE = Path(__file__).parent
TINY = PRESETS["tiny"]
OPERANDS = {"act": 8, "src": 32, "dst": 32, "bias": 32, "multiplier": 32, "offset": 32, "shift": 6}
EARLY = ("bias", "multiplier", "offset", "shift")  #: needed in stage 7, the others in stage 8
STAGES = 16


def lane_verilog(kind: type[AluLane] = AluLane, config: Config = TINY) -> dict[str, str]:
    """A module ``lane_alone``: head and operands in, the result of those 16 cycles before out."""
    m = Module()
    head = Signal(widest_format(config), name="head")
    alu, req, res = (view(op, head, config) for op in (Opcode.ALU, Opcode.REQUANTIZE, Opcode.RESCALE))
    mode = [LaneControl(f"stage_{k}", roundings(config)) for k in range(STAGES + 1)]
    m.d.comb += mode[0].decode(alu, req, res, alu.opcode == Opcode.ALU, alu.opcode == Opcode.REQUANTIZE)
    m.d.sync += [mode[1].word.eq(mode[0].word), mode[2].settle(mode[1])]
    m.d.sync += mode[3].center(mode[2])
    m.d.sync += [mode[k].word.eq(mode[k - 1].word) for k in range(4, STAGES + 1)]
    valid = Signal(name="valid")
    valids = delay(m, valid, STAGES, "valid", reset=True)
    m.submodules.lane = lane = kind(mode[1:], valids[1:])
    inputs = [Signal(signed(bits), name=name) for name, bits in OPERANDS.items()]
    for name, signal in zip(OPERANDS, inputs):
        stage = 7 if name in EARLY else 8
        m.d.comb += getattr(lane, f"{name}_{stage}").eq(delay(m, signal, stage, f"{name}_late")[-1])
    result = Signal(signed(32), name="result")
    m.d.comb += result.eq(lane.result_16)
    text = verilog.convert(m, name="lane_alone", ports=[head, valid, *inputs, result], emit_src=False)
    return {"lane_alone.v": text, "tw_multiply_add.v": primitive_sources()["tw_multiply_add.v"]}


class LaneAlone:
    """The Verilated lane."""

    def __init__(self, folder: Path, sources: dict[str, str]) -> None:
        for name, text in sources.items():
            (folder / name).write_text(text)
        verilator(
            ["--cc", "--top-module", "lane_alone", "--prefix", "Vlane", "--Mdir", "generated", "-Wno-fatal",
             "-Wno-lint", "-O3", *sources], folder,
        )  # fmt: skip
        root = verilator_root() / "include"
        include = [part for path in (root, root / "vltstd", folder / "generated") for part in ("-I", str(path))]
        files = [HERE / "lane_alone.cpp", *sorted((folder / "generated").glob("*.cpp"))]
        (folder / "all.cpp").write_text("".join(f'#include "{file}"\n' for file in files))
        objects = compile_objects([(folder / "all.cpp", FAST_FLAGS)], include, folder)
        objects += runtime_objects([root / name for name in RUNTIME], ["-I", str(root)])
        link(objects, [], folder / "lane.so")
        self._run = ctypes.CDLL(str(folder / "lane.so")).run_lane

    def __call__(self, opcode: Opcode, fields: dict[str, int], **operands: np.ndarray) -> np.ndarray:
        """int32: results of an instruction for arrays of operands, of which those that are not given are 0."""
        count = max(len(values) for values in operands.values())
        table = np.zeros((len(OPERANDS), count), "<i4")
        for name, values in operands.items():
            table[list(OPERANDS).index(name)] = values
        code = np.frombuffer(encode([Instruction(opcode, fields)], TINY), "<u4").copy()
        result = np.zeros(count, "<i4")
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (code, table, result)]
        self._run(ctypes.c_int(widest_format(TINY)), ctypes.c_int64(count), *pointers)
        return result
