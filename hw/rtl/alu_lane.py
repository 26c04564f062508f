"""One lane of the ALU: a multiplier, an adder and a shifter that serve every function, REQUANTIZE and RESCALE."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data

from tilewright.config import Config
from tilewright.hw.rtl.functions import any_of, choose, logic, one_of
from tilewright.hw.rtl.primitives import multiply_wide
from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT
from tilewright.isa.functions import AluOp, Combine, Rounding
from tilewright.isa.spec import bits_for

MULTIPLYING = tuple(function for function in AluOp if function.multiplies)
SHIFTING = {function: function.count for function in AluOp if function.count is not None}
#: rounding modes that the lanes tell apart, each by a flag
ROUNDINGS = tuple(rounding for rounding in Rounding if not rounding.plain)
_MODE = data.StructLayout(
    {
        "requantize": unsigned(1), "rescale": unsigned(1), "function": unsigned(bits_for(len(AluOp))),
        "use_imm": unsigned(1), "imm": signed(32), "zero_point": signed(8), "lo": signed(8), "hi": signed(8),
        **{rounding.name: unsigned(1) for rounding in ROUNDINGS}, "combine": unsigned(bits_for(len(Combine))),
        "paced": unsigned(1),
    }
)  # fmt: skip


class LaneControl:
    """What an instruction asks of every lane, as it stands in one pipeline stage."""

    def __init__(self, config: Config, name: str) -> None:
        self.word = Signal(_MODE.size, name=f"mode_{name}", reset_less=True)
        view = data.View(_MODE, self.word)
        self.requantize, self.rescale, self.paced = view.requantize, view.rescale, view.paced
        self.function, self.use_imm, self.imm = view.function, view.use_imm, view.imm
        self.zero_point, self.lo, self.hi = view.zero_point, view.lo, view.hi
        self.combine = view.combine
        self.flags = {rounding: view[rounding.name] for rounding in ROUNDINGS}
        self.constant = any_of(flag for rounding, flag in self.flags.items() if rounding.nudge is None)
        self.to_even = any_of(flag for rounding, flag in self.flags.items() if rounding.to_even)


def _nudge(mode: LaneControl, values: Mapping[str, Value]) -> tuple[Value, int]:
    """What the rounding mode adds ahead of the shift, and the bits of a signed number that holds it."""
    nudge: Value = Const(0)
    bits = 1
    for rounding, flag in mode.flags.items():
        meaning = rounding.nudge
        if meaning is None or meaning.value == 0:
            continue
        bits = max(bits, meaning.bits)
        if meaning.operator == "select" and meaning.operands[2].value == 0:  # one choice, not two in a row
            flag, meaning = flag & logic(meaning.operands[0], values), meaning.operands[1]
        nudge = Mux(flag, logic(meaning, values), nudge)
    return nudge, bits


class AluLane(Elaboratable):
    """Stages 8 to 16 of the ALU for one int32.

    Everything is ``(a * multiplier + constant) >> shift``, then joined, clamped or taken as it is. A function that
    does not multiply enters as the constant. One that shifts enters as ``constant << 32`` and is shifted right by
    32 + n, which also does the left shifts; the others are not shifted.

    ``mode`` and ``valid``: of stage k at index k - 1.
    """

    def __init__(self, mode: list[LaneControl], valid: list[Signal]) -> None:
        self.mode, self.valid = mode, valid
        self.act_8 = Signal(signed(8))
        self.src_8 = Signal(signed(32))
        self.dst_8 = Signal(signed(32))
        self.bias_7 = Signal(signed(32))
        self.multiplier_7 = Signal(signed(32))
        self.offset_7 = Signal(signed(32))
        self.shift_7 = Signal(6)
        self.result_16 = Signal(signed(32), reset_less=True)

    def elaborate(self, platform: object) -> Module:
        """Names end in the stage in which the value is there."""
        m = Module()

        def mode(stage: int) -> LaneControl:
            return self.mode[stage - 1]

        def register(name: str, value: object, shape: object = signed(32)) -> Signal:
            stage = int(name.rpartition("_")[2])  # clocked only for a vector in the stage before
            signal = Signal(shape, name=name, reset_less=True)
            with m.If(self.valid[stage - 2]):
                m.d.sync += signal.eq(value)
            return signal

        bias_8, multiplier_8 = register("bias_8", self.bias_7), register("multiplier_8", self.multiplier_7)
        offset_8, shift_8 = register("offset_8", self.offset_7), register("shift_8", self.shift_7, unsigned(6))

        # stage 8: the biased value; the operand of an ALU function
        now = mode(8)
        scaled = Signal()  # REQUANTIZE or RESCALE
        operand = Signal(signed(32))
        m.d.comb += [scaled.eq(now.requantize | now.rescale), operand.eq(Mux(now.use_imm, now.imm, self.src_8))]
        value = Mux(now.rescale, self.act_8 << RESCALE_LEFT_SHIFT, self.src_8)
        a_9 = register("a_9", Mux(scaled, value + bias_8, self.dst_8))
        b_9 = register("b_9", Mux(scaled, multiplier_8, operand))
        old_9 = register("old_9", self.dst_8)
        offset_9 = register("offset_9", offset_8)
        count: Value = Const(0)
        for function, by in SHIFTING.items():
            right = logic(by, {"x": self.dst_8, "y": operand})
            count = Mux(now.function == function, (right ^ Const(-32, signed(6)))[:6], count)  # 32 more
        shift_9 = register("shift_9", Mux(scaled, shift_8, count), unsigned(6))

        # stages 9 to 12: product; beside it the sum of constants, or the result of a function without product
        product_12 = multiply_wide(m, "multiply", a_9, b_9)
        now = mode(9)
        half = Signal(64)
        m.d.comb += half.eq((1 << shift_9) >> 1)
        constant_10 = register("constant_10", half + offset_9, signed(64))
        correction, bits = _nudge(now, {"negative": a_9 < 0, "shift": shift_9, "half": half})
        correction_10 = register("correction_10", correction, signed(bits))
        simple = Signal(signed(32))
        ab = {"x": a_9, "y": b_9}
        choose(m, simple, now.function, {f: logic(f.unshifted, ab) for f in AluOp if not f.multiplies})
        simple_10 = register("simple_10", simple)
        now = mode(10)
        scaled_10 = now.requantize | now.rescale
        upper = Cat(Const(0, 32), simple_10).as_signed()
        constant_11 = register(
            "constant_11",
            Mux(
                scaled_10, constant_10 + correction_10,
                Mux(one_of(now.function, MULTIPLYING), 0, Mux(one_of(now.function, SHIFTING), upper, simple_10)),
            ),
            signed(64),
        )  # fmt: skip
        constant_12 = register("constant_12", constant_11, signed(64))
        now = mode(12)
        has_product = now.requantize | now.rescale | one_of(now.function, MULTIPLYING)
        total_13 = register("total_13", Mux(has_product, product_12, 0) + constant_12, signed(64))

        # stages 13 and 14: shift by multiples of 8, then by the rest; ``below``: a bit shifted out was set
        shift_13 = shift_9
        for stage in range(10, 14):
            shift_13 = register(f"shift_{stage}", shift_13, unsigned(6))
        coarse = Cat(Const(0, 3), shift_13[3:])
        below_coarse = Cat(*[(shift_13[3:] > k) & total_13[8 * k : 8 * k + 8].any() for k in range(7)]).any()
        shifted_14 = register("shifted_14", total_13 >> coarse, signed(64))
        below_14 = register("below_14", below_coarse, unsigned(1))
        shift_14 = register("shift_14", shift_13, unsigned(6))
        fine = shift_14[:3]
        below_fine = (shifted_14[:7] & ((Const(1, 8) << fine) - 1)[:7]).any()
        tie = mode(14).to_even & ~below_14 & ~below_fine & (shift_14 != 0)
        fine_shifted = Signal(signed(64))
        m.d.comb += fine_shifted.eq(shifted_14 >> fine)
        rounded_15 = register(
            "rounded_15",
            Cat(fine_shifted[0] & ~(tie & (mode(14).requantize | mode(14).rescale)), fine_shifted[1:]),
            signed(64),
        )
        old_15 = old_9
        for stage in range(10, 16):
            old_15 = register(f"old_{stage}", old_15)

        # stage 15: zero point and clamp, or join with the old value
        now = mode(15)
        shifted_zero = Signal(signed(64))  # no legal scaling comes near its ends
        m.d.comb += shifted_zero.eq(Mux(now.constant, 0, rounded_15) + now.zero_point)
        floor = Mux(now.lo > now.hi, now.hi, now.lo)  # the upper clamp comes last
        capped = Mux(shifted_zero > now.hi, now.hi, shifted_zero[:8].as_signed())
        narrow = Mux(shifted_zero < now.lo, floor, capped)
        low = Signal(signed(32))
        joined = Signal(signed(32))
        m.d.comb += low.eq(rounded_15[:32])
        choose(m, joined, now.combine, {c: logic(c.meaning, {"x": old_15, "y": low}) for c in Combine})
        with m.If(self.valid[14]):
            m.d.sync += self.result_16.eq(Mux(now.requantize, narrow, Mux(now.rescale, joined, low)))
        return m
