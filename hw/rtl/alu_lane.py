"""One lane of the ALU: a multiplier, a shifter and an adder that serve every function, REQUANTIZE and RESCALE."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value, signed, unsigned

from tilewright.hw.rtl.float_rounding import FRACTION, decision, rounds_up
from tilewright.hw.rtl.functions import add, any_of, merge, one_of, wire
from tilewright.hw.rtl.lane_control import JOINS, MULTIPLYING, SHIFTING, LaneControl
from tilewright.hw.rtl.primitives import multiply_add
from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT
from tilewright.isa.expression import variable


class AluLane(Elaboratable):
    """Stages 8 to 16 of the ALU for one int32.

    Everything is ``((a * b + c) >> shift) + up``, the result r, then joined with acc[d] and clamped. What an ALU
    function shifts enters as a, with b = 2^32, and is shifted right by 32 + n, which also does the left shifts. A
    function that neither multiplies nor shifts joins its operand, which is 1 * b, at the end.

    Half is not added ahead of the shift: the highest bit that is shifted out says whether r is one more. In floating
    point the word that is shifted keeps 24 bits more below r, by which :func:`more_than_half` decides.

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

        def carry(signal: Signal, stage: int) -> Signal:
            name, _, first = signal.name.rpartition("_")
            for k in range(int(first) + 1, stage + 1):
                signal = register(f"{name}_{k}", signal, signal.shape())
            return signal

        scaled = mode(7).scaled
        bias_8 = register("bias_8", Mux(scaled, self.bias_7, 0))
        offset_8 = register("offset_8", Mux(scaled, self.offset_7, 0))
        multiplier_8 = register("multiplier_8", self.multiplier_7)
        shift_8 = register("shift_8", self.shift_7, unsigned(6))

        # stage 8: the biased value, or what a function multiplies or shifts; by what; and by how much it shifts
        now = mode(8)
        operand = wire(m, "operand", Mux(now.use_imm, now.imm, self.src_8))
        xy = {"x": self.dst_8, "y": operand}
        value = Mux(now.rescale, self.act_8 << RESCALE_LEFT_SHIFT, self.src_8)
        shifted = [(now.function == function, function.unshifted) for function in SHIFTING]
        times_b = merge(m, "times_b", [*shifted, (one_of(now.function, MULTIPLYING), variable("x", 0, 0))], xy, 32)
        before = wire(m, "before", Mux(now.scaled, value, times_b)[:32])
        a_9 = register("a_9", Mux(now.joins, 1, add(bias_8, before)))
        factor = Mux(now.scaled, multiplier_8, operand)
        b_9 = register("b_9", Mux(now.shifts, 1 << 32, Mux(now.blank, 0, factor)), signed(34))
        counts = [(now.function == function, by) for function, by in SHIFTING.items()]
        count = merge(m, "count", counts, xy, 6) ^ 0b100000  # 32 more
        shift_9 = register("shift_9", Mux(now.scaled, shift_8, Mux(now.shifts, count, 0)), unsigned(6))
        offset_9, old_9 = register("offset_9", offset_8), register("old_9", self.dst_8)

        # stages 9 to 13: the product and what a rounding mode adds
        half = wire(m, "half", ((1 << shift_9) >> 1)[:64])
        # registers of the lane's own: the stages' control comes from shift registers, which are slow
        flags = {r: register(f"{r.name.lower()}_9", flag, unsigned(1)) for r, flag in mode(8).flags.items()}
        nudge, wide = LaneControl.nudge(flags, {"negative": a_9 < 0, "shift": shift_9, "half": half})
        c_9 = wire(m, "c_9", offset_9 + nudge)
        total = multiply_add(m, "multiply", Cat(*self.valid[8:12]), a_9, b_9, c_9)
        if wide is not None:
            total = wire(m, "wide_total", (total + carry(register("wide_10", wide, signed(64)), 13))[:64])
        shift_12 = carry(shift_9, 12)
        shift_13 = carry(shift_12, 13)
        # with half of the greatest shift, 2^62 and more become negative: -1, which rounding leaves as it is
        greatest = register("greatest_13", mode(12).rounds & (shift_12 == 63), unsigned(1))
        overflow = greatest & total[62] & ~total[63]
        ends = Mux(greatest, Cat(total[62] & total[63], total[62] | total[63]), total[62:])
        word_13 = wire(m, "word_13", Cat(Const(0, 1), total[:62], ends))

        # stages 13 and 14: shifts by multiples of 16, of 4, of 1, one bit more below than the result has
        sign_13 = word_13[-1]
        by_16, low_16, high_16 = _shift(m, "by_16", word_13, shift_13[4:], 16, 48, 48, sign_13)
        by_4, low_4, high_4 = _shift(m, "by_4", by_16, shift_13[2:4], 4, 36, 36, sign_13)
        below_16, beyond_16 = _below(low_16, shift_13[4:]), _beyond(high_16, shift_13[4:])
        word_14 = register("word_14", by_4, unsigned(36))
        # of the shift by multiples of 4 the groups of bits are found here, and those that count in stage 14
        below_14 = register("below_14", below_16, unsigned(1))
        beyond_14 = register("beyond_14", beyond_16, unsigned(1))
        low_14, high_14 = register("low_14", low_4, unsigned(3)), register("high_14", high_4, unsigned(3))
        sign_14 = register("sign_14", sign_13, unsigned(1))
        overflow_14 = register("overflow_14", overflow, unsigned(1))
        shift_14 = carry(shift_13, 14)
        now = mode(14)
        word, low_1, high_1 = _shift(m, "by_1", word_14, shift_14[:2], 1, 33, 32, sign_14)
        below_4, beyond_4 = _below(low_14, shift_14[2:4]), _beyond(high_14, shift_14[2:4])
        below = wire(m, "below", below_14 | below_4 | _below(low_1, shift_14[:2]))
        up = word[0] & now.rounds & (~now.to_even | below | word[1])
        # half is in the word already: a tie has no fraction
        halved = now.wide_to_even | (overflow_14 & now.to_even)
        clear = halved & ~word[0] & ~below & (shift_14 != 0)
        wider = beyond_14 | beyond_4
        beyond = wider | _beyond(high_1, shift_14[:2])
        r_14, more = Cat(word[1] & ~clear, word[2:]), up
        up_15: Value = Const(0, 1)  # in floating point r_15 is rounded in stage 15: the decision takes longer
        if now.in_float is not None:
            r_14 = Mux(now.in_float, Cat(word[FRACTION:], sign_14.replicate(24)), r_14)
            beyond = Mux(now.in_float, wider | _beyond(high_1[1:], shift_14[:2]), beyond)
            parts = decision(m, word, below, sign_14).items()
            kept = {name: register(f"{name}_15", now.in_float & part, unsigned(1)) for name, part in parts}
            up_15 = wire(m, "up_15", rounds_up(kept))
        r_15 = register("r_15", r_14 + more)
        beyond_15 = register("beyond_15", beyond, unsigned(1))
        sign_15 = carry(sign_14, 15)

        # stage 15: clamp around the zero point, or join with the old value
        now = mode(15)
        r = wire(m, "r", r_15[:10].as_signed())
        over = beyond_15 | (r_15[9:31] != r_15[31].replicate(22))  # r is not all of it
        # the bit that rounds up comes late: what it decides is found for both its values, and in forms that stay two.
        # What it makes of less than the least is the least at most
        under = wire(m, "under", Mux(over, sign_15, r < now.least))
        clamped = wire(m, "clamped", over | (r < now.least) | (r > now.most))
        most = wire(m, "most", r == now.most)
        point = now.zero_point
        plain, next_one = (r + point)[:8], (Cat(Const(1, 1), r[:8]) + Cat(Const(1, 1), point))[1:9]
        narrow = Mux(clamped | (up_15 & most), Mux(under, now.lo, now.hi)[:8], Mux(up_15, next_one, plain))
        cases = [(now.join == k, expression) for k, expression in enumerate(JOINS)]
        joined = merge(m, "joined", cases, {"x": carry(old_9, 15), "y": r_15}, 32)
        with m.If(self.valid[14]):
            m.d.sync += self.result_16.eq(Cat(Mux(now.requantize, narrow, joined[:8]), joined[8:]))
        return m


def _shift(
    m: Module, name: str, word: Value, by: Value, step: int, width: int, fits: int, sign: Value
) -> tuple[Signal, Value, Value]:
    """``width`` bits of a signed word shifted right by ``by``, two bits, times ``step``; of each ``step`` bits from
    the lowest on that can be shifted out, whether one is set; and of each from ``fits`` on whether they are not all
    equal to the sign."""
    padded = Cat(word, sign.replicate(3 * step + width))
    parts = [padded[step * k : step * k + width] for k in range(4)]
    low = Cat(word[step * k : step * k + step].any() for k in range(3))
    groups = [word[at : at + step] for at in range(fits, len(word), step)]
    high = Cat(bits != sign.replicate(len(bits)) for bits in groups)
    shifted = Mux(by[1], Mux(by[0], parts[3], parts[2]), Mux(by[0], parts[1], parts[0]))
    return wire(m, name, shifted), low, high


def _below(low: Value, by: Value) -> Value:
    """Whether a bit that is shifted out is set, of the groups that :func:`_shift` found."""
    return any_of((by > k) & low[k] for k in range(len(low)))


def _beyond(high: Value, by: Value) -> Value:
    """Whether what is left from ``fits`` on are not all signs."""
    return any_of((by <= k) & high[k] for k in range(len(high)))
