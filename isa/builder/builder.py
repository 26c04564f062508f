"""A program, call by call: each makes one instruction, and :meth:`Builder.program` gives them their tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config, load_config
from tilewright.isa.builder.constants import DTYPES, Constants, content
from tilewright.isa.builder.micro_ops import MicroOps
from tilewright.isa.builder.places import Arena, BuilderError, Range, caller, problem
from tilewright.isa.codec import EncodingError, Instruction, encode
from tilewright.isa.functions import AluOp, Combine, Rounding
from tilewright.isa.program import Program, Segment, SegmentKind
from tilewright.isa.spec import FORMAT_OF, Engine, Memory, Opcode, entry_bytes
from tilewright.isa.syntax import words
from tilewright.isa.tensors import DTYPES as TENSOR_DTYPES
from tilewright.isa.tensors import Tensor
from tilewright.isa.tokens.place import place_tokens
from tilewright.kinds import instance, shown
from tilewright.ranges import whole

ZERO = ((0, 0, 0),)  #: the micro-op of ALU that leaves all addresses to bases and loops


class Builder:
    """Collects the instructions of a program for one Config.

    ``config``: an object, a preset's name or a TOML file; ``name``: what reports call the program. Further fields of an
    instruction are named as in ``docs/isa.md``, also ``outer``, ``inner`` and the steps of its operands. A call that
    cannot be carried out raises :class:`BuilderError`.
    """

    def __init__(self, config: Config | str = "pynq-z2", name: str = "program") -> None:
        instance("name", name, str, "text", error=BuilderError)
        self.config = load_config(config)
        self.name = name
        c = self.config
        aligned = {Memory.ACT: max(c.in_units, c.out_units), Memory.ACC: c.out_units, Memory.WGT: 1, Memory.PRM: 1}
        self._arenas = {memory: Arena(memory, c, align) for memory, align in aligned.items()}
        self._constants = Constants(c)
        self._uops = MicroOps(c)
        self._tensors: list[Tensor] = []
        self._instructions: list[Instruction] = []
        self._places: list[str] = []
        self._layers: list[dict[str, Any]] = []
        self._layer_of: list[int] = []

    # -- memories --------------------------------------------------------------------------------------

    def input(self, name: str, shape: Sequence[int], dtype: str = "int8") -> Tensor:
        """An array in DRAM that the program reads."""
        return self._tensor(name, "input", shape, dtype)

    def output(self, name: str, shape: Sequence[int], dtype: str = "int8") -> Tensor:
        """An array in DRAM that the program writes."""
        return self._tensor(name, "output", shape, dtype)

    def scratch(self, name: str, shape: Sequence[int], dtype: str = "int8") -> Tensor:
        """An array in DRAM that the program writes and then reads."""
        return self._tensor(name, "scratch", shape, dtype)

    def act(self, units: int, bank: int | None = None) -> Range:
        """Free units of act: BATCH x lanes int8 each; what :meth:`gemm` reads and :meth:`requantize` writes."""
        return self._arenas[Memory.ACT].take(units, bank)

    def acc(self, units: int, bank: int | None = None) -> Range:
        """Free units of acc: BATCH x lanes int32 each; what :meth:`gemm` and :meth:`alu` write."""
        return self._arenas[Memory.ACC].take(units, bank)

    def wgt(self, entries: int) -> Range:
        """Free entries of wgt: BLOCK_OUT x BLOCK_IN weights each."""
        return self._arenas[Memory.WGT].take(entries, None)

    def prm(self, entries: int) -> Range:
        """Free entries of prm: BLOCK_OUT x (bias, multiplier, offset, shift) int32 each."""
        return self._arenas[Memory.PRM].take(entries, None)

    def layer(self, name: str) -> None:
        """What follows is a part of the program that reports show by this name."""
        instance("name", name, str, "text", error=BuilderError)
        self._layers.append({"name": name})

    # -- data moves ------------------------------------------------------------------------------------

    def load(
        self, to: Range, source: Tensor | NDArray[Any], *, at: int = 0, rows: int = 1, cols: int | None = None,
        stride: int | None = None, row_step: int | None = None, col_step: int = 1,
    ) -> None:  # fmt: skip
        """LOAD ``rows`` rows of ``cols`` units or entries (together: all of ``to``) from entry ``at`` of ``source``.

        ``stride``: entries from row to row in DRAM (default: ``cols``); ``row_step``, ``col_step``: on chip. int8 that
        goes to acc is widened. An array is a constant of the program; for wgt it has shape (entries, BLOCK_OUT,
        BLOCK_IN), for prm (entries, BLOCK_OUT, 4).
        """
        _placed("to", to, Memory.ACT, Memory.ACC, Memory.WGT, Memory.PRM)
        segment = 0 if isinstance(source, np.ndarray) else self._number(source)
        memory = Memory.ACC8 if to.memory == Memory.ACC and str(source.dtype) == "int8" else to.memory
        if isinstance(source, np.ndarray):
            data = content(source, memory, self.config)
            size = entry_bytes(self.config, memory)
            if len(data) > to.size * size:
                raise problem(
                    f"{to}: a constant of {len(data)} bytes exceeds {to.size} times {size}; take a larger range"
                )
            first = self._constants.add(data)
        else:
            first = 0
            if str(source.dtype) != DTYPES[memory]:
                raise problem(f"{source}: {memory.name.lower()} is loaded from {DTYPES[memory]}; declare it so")
        moved = self._tile(to, memory, at, rows, cols, stride, row_step, col_step)
        moved["offset"] += first
        self._emit(Opcode.LOAD, {"memory": int(memory), "segment": segment, **moved})

    def fill(
        self, to: Range, value: int, *, rows: int = 1, cols: int | None = None, row_step: int | None = None,
        col_step: int = 1,
    ) -> None:  # fmt: skip
        """FILL act or acc with a number, shaped as in :meth:`load`."""
        _placed("to", to, Memory.ACT, Memory.ACC)
        tile = self._tile(to, to.memory, 0, rows, cols, None, row_step, col_step)
        del tile["offset"], tile["stride"]
        self._emit(Opcode.FILL, {"memory": int(to.memory), "value": value, **tile})

    def store(
        self, source: Range, to: Tensor, *, at: int = 0, rows: int = 1, cols: int | None = None,
        stride: int | None = None, row_step: int | None = None, col_step: int = 1,
    ) -> None:  # fmt: skip
        """STORE units of act to entry ``at`` of an output or scratch array, shaped as in :meth:`load`."""
        _placed("source", source, Memory.ACT)
        tile = self._tile(source, Memory.ACT, at, rows, cols, stride, row_step, col_step)
        self._emit(Opcode.STORE, {"segment": self._number(to), **tile})

    # -- computation -----------------------------------------------------------------------------------

    def gemm(
        self, uops: Sequence[tuple[int, int, int, int]], *, dst: Range, src: Range, wgt: Range, **fields: int
    ) -> None:  # fmt: skip
        """GEMM over micro-ops (dst, src, wgt, accumulate): ``acc[d] (+)= act[s] . wgt[w]``; dst -1 pushes a window."""
        _placed("dst", dst, Memory.ACC)
        _placed("src", src, Memory.ACT)
        _placed("wgt", wgt, Memory.WGT)
        begin = self._resident(Engine.GEMM, uops)
        bases = {"dst": dst.start, "src": src.start, "wgt": wgt.start, "wrap_size": self.config.act_units}
        self._emit(Opcode.GEMM, {"uop_begin": begin, "uop_count": len(uops), **bases, **fields})

    def alu(
        self, function: str | AluOp, *, dst: Range, src: Range | None = None, imm: int | None = None,
        uops: Sequence[tuple[int, int, int]] = ZERO, **fields: int,
    ) -> None:  # fmt: skip
        """ALU: ``acc[d] = acc[d] OP operand``, the operand ``acc[s]`` or the number ``imm``.

        Without ``outer`` and ``inner``, here and below: all of ``dst``, vector by vector.
        """
        if (src is None) == (imm is None):
            raise problem("alu: give either src, a range of acc, or imm, a number")
        _placed("dst", dst, Memory.ACC)
        operand: dict[str, Any] = {"use_imm": 1, "imm": imm}
        if src is not None:
            _placed("src", src, Memory.ACC)
            operand = {"src": src.start}
        fields = {"function": _chosen("function", function, AluOp), **operand, **fields}
        self._vectors(Opcode.ALU, dst, uops, fields, ("dst", "src") if src is not None else ("dst",))

    def requantize(
        self, *, dst: Range, src: Range, prm: Range, rounding: str | Rounding = Rounding.SINGLE, zero_point: int = 0,
        lo: int = -128, hi: int = 127, uops: Sequence[tuple[int, int, int]] = ZERO, **fields: int,
    ) -> None:  # fmt: skip
        """REQUANTIZE: ``act[d] = clamp(round((acc[s] + bias) * multiplier >> shift) + zero_point, lo, hi)``."""
        _placed("dst", dst, Memory.ACT)
        _placed("src", src, Memory.ACC)
        _placed("prm", prm, Memory.PRM)
        chosen = {
            "src": src.start, "prm": prm.start, "rounding": _chosen("rounding", rounding, Rounding),
            "zero_point": zero_point, "lo": lo, "hi": hi, "wrap_size": self.config.act_units,
        }  # fmt: skip
        self._vectors(Opcode.REQUANTIZE, dst, uops, {**chosen, **fields}, ("dst", "src"))

    def rescale(
        self, *, dst: Range, src: Range, prm: Range, combine: str | Combine = Combine.WRITE,
        rounding: str | Rounding = Rounding.SINGLE, uops: Sequence[tuple[int, int, int]] = ZERO, **fields: int,
    ) -> None:  # fmt: skip
        """RESCALE: ``acc[d] (op)= round(((act[s] << 20) + bias) * multiplier >> shift)``."""
        _placed("dst", dst, Memory.ACC)
        _placed("src", src, Memory.ACT)
        _placed("prm", prm, Memory.PRM)
        chosen = {
            "src": src.start, "prm": prm.start, "combine": _chosen("combine", combine, Combine),
            "rounding": _chosen("rounding", rounding, Rounding), "wrap_size": self.config.act_units,
        }  # fmt: skip
        self._vectors(Opcode.RESCALE, dst, uops, {**chosen, **fields}, ("dst", "src"))

    def wait(self, engine: str | Engine, cycles: int = 1) -> None:
        """WAIT: occupy an engine."""
        self._emit(Opcode.WAIT, {"engine": _chosen("engine", engine, Engine), "cycles": cycles})

    # -- the end ---------------------------------------------------------------------------------------

    def program(self) -> Program:
        """The program with its tokens, verified.

        Raises :class:`IllegalProgram` with every rule that is broken, each with the line of the call.
        """
        layers = self._layers or [{"name": self.name}]
        meta = {
            "tensors": {t.name: {"dtype": str(t.dtype), "shape": list(t.shape)} for t in self._tensors},
            "layers": layers,
            **({"instruction_layer": self._layer_of} if self._layers else {}),
        }
        beat = self.config.beat_bytes
        held = [Segment(t.name, t.kind, -(-max(t.nbytes, 1) // beat) * beat) for t in self._tensors]
        segments = (self._constants.segment(), *held)
        code = encode(self._instructions, self.config)
        return place_tokens(Program(self.config, code, segments, meta), self.name, self._places)

    # -- pieces ----------------------------------------------------------------------------------------

    def _tensor(self, name: str, kind: SegmentKind, shape: Sequence[int], dtype: str) -> Tensor:
        instance("name", name, str, "text", error=BuilderError)
        instance(f"{name}: shape", shape, (list, tuple), "a list of numbers", error=BuilderError)
        sizes = tuple(whole(f"{name}: shape", size, 1, error=BuilderError) for size in shape)
        if not isinstance(dtype, str) or dtype not in TENSOR_DTYPES:
            raise problem(f"{name}: dtype = {shown(dtype)}: must be one of {', '.join(TENSOR_DTYPES)}")
        tensor = Tensor(name, len(self._tensors) + 1, kind, sizes, np.dtype(dtype))
        self._tensors.append(tensor)
        return tensor

    def _number(self, tensor: Any) -> int:
        if not isinstance(tensor, Tensor) or tensor not in self._tensors:
            raise problem(f"{shown(tensor)}: is no array of this program; input, output and scratch make one")
        return tensor.number

    def _tile(
        self, at_chip: Range, memory: Memory, at: int, rows: int, cols: int | None, stride: int | None,
        row_step: int | None, col_step: int,
    ) -> dict[str, int]:  # fmt: skip
        """The fields of a tile on chip, and of its rows in DRAM."""
        for name, value in (("at", at), ("rows", rows), ("col_step", col_step)):
            whole(name, value, 0, error=BuilderError)
        for name, given in (("cols", cols), ("stride", stride), ("row_step", row_step)):
            if given is not None:
                whole(name, given, 0, error=BuilderError)
        cols = at_chip.size // max(rows, 1) if cols is None else cols
        row_step = cols * col_step if row_step is None else row_step
        size = entry_bytes(self.config, memory)
        beats = size // self.config.beat_bytes  # whole ones, of all memories
        if (last := (rows - 1) * row_step + (cols - 1) * col_step) >= at_chip.size:
            raise problem(f"{at_chip}: {rows} rows of {cols} reach its entry {last}; take a larger range, or fewer")
        return {
            "sram": at_chip.start, "sram_row": row_step if rows > 1 else 0, "sram_col": col_step, "rows": rows,
            "cols": cols, "wrap_size": self.config.act_units if memory == Memory.ACT else 1,
            "offset": at * beats, "stride": (cols if stride is None else stride) * beats if rows > 1 else 0,
        }  # fmt: skip

    def _vectors(
        self, opcode: Opcode, dst: Range, uops: Sequence[tuple[int, int, int]], fields: dict[str, Any],
        stepped: Sequence[str],
    ) -> None:  # fmt: skip
        if "inner" not in fields and "outer" not in fields:
            span = self.config.out_units
            fields = {"inner": dst.size // span, **{f"{name}_inner": span for name in stepped}, **fields}
        begin = self._resident(Engine.ALU, uops)
        self._emit(opcode, {"uop_begin": begin, "uop_count": len(uops), "dst": dst.start, **fields})

    def _resident(self, engine: Engine, uops: Sequence[tuple[int, ...]]) -> int:
        begin, load = self._uops.resident(engine, uops)
        if load is not None:
            memory, data, count = load
            tile = {"sram": begin, "sram_col": 1, "cols": count, "offset": self._constants.add(data)}
            self._emit(Opcode.LOAD, {"memory": int(memory), "segment": 0, "wrap_size": 1, **tile})
        return begin

    def _emit(self, opcode: Opcode, fields: Mapping[str, Any]) -> None:
        known = {field.name for field in FORMAT_OF[opcode].fields}
        for name, value in fields.items():
            if name not in known:
                raise problem(f"{opcode.name}: no field {name!r}; it has {', '.join(sorted(known))}")
            whole(f"{opcode.name}: {name}", value, -(1 << 63), error=BuilderError)
        instruction = Instruction(opcode, {name: int(value) for name, value in fields.items()})
        try:
            encode([instruction], self.config)
        except EncodingError as error:
            raise problem(str(error).replace("instruction 0 ", "")) from error
        self._instructions.append(instruction)
        self._places.append(caller())
        self._layer_of.append(max(0, len(self._layers) - 1))


def _placed(name: str, value: Any, *memories: Memory) -> None:
    if not isinstance(value, Range) or value.memory not in memories:
        wanted = " or ".join(memory.name.lower() for memory in memories)
        found = value if isinstance(value, Range) else shown(value)
        raise problem(f"{name}: {found} is no range of {wanted}; take one with Builder.{memories[0].name.lower()}")


def _chosen(name: str, value: Any, enum: Any) -> int:
    """The code of an entry, given itself or by its name in assembly text."""
    found = words(enum).get(value) if isinstance(value, str) else value if isinstance(value, enum) else None
    if found is None:
        raise problem(f"{name} = {shown(value)}: must be one of {', '.join(words(enum))}")
    return int(found)
