"""GEMM control: micro-ops to operand addresses, the multiplier array's timing, accumulation with forwarding."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value

from tilewright.config import Config
from tilewright.hw.rtl.array import MultiplierArray
from tilewright.hw.rtl.functions import add, wire
from tilewright.hw.rtl.layout import uop_view, view, widest_format
from tilewright.hw.rtl.memory import ReadPort, WritePort
from tilewright.hw.rtl.retire import RetireLine
from tilewright.hw.rtl.sequencer import Sequencer, delay
from tilewright.isa.registers import TAG_BITS
from tilewright.isa.spec import Engine, Opcode, acc_bits, act_bits, bits_for, uop_gemm_bits, uop_width, wgt_bits
from tilewright.isa.timing import GEMM_DEPTH


class Gemm(Elaboratable):
    """The GEMM engine. Stage n is the cycle n cycles after a micro-op's issue slot.

    0 issue; 1 loops, micro-op address; 2 micro-op; 3 sums; 4 wrapped act address, act read; 5 wgt read; 6 act
    data; 7 wgt data (packed ones in 6, and joined in 7), operands; 8 to 11 products and sums (:mod:`array`); 8 acc
    read; 10 old value; 11 accumulate; 12 write, retire.
    """

    def __init__(self, config: Config, act: ReadPort, acc_read: ReadPort, acc_write: WritePort) -> None:
        self.config, self.act, self.acc_read, self.acc_write = config, act, acc_read, acc_write
        self.head = Signal(widest_format(config))
        self.tag = Signal(TAG_BITS)
        self.issue, self.ready = Signal(), Signal()
        self.uop_enable = Signal()
        self.uop_address = Signal(uop_gemm_bits(config))
        self.uop_word = Signal(uop_width(config, Engine.GEMM))
        self.wgt_enable = Signal()
        self.wgt_address = Signal(wgt_bits(config))
        self.wgt_data = Signal(8 * config.wgt_entry_bytes)
        self.retire_line = RetireLine(GEMM_DEPTH)

    def elaborate(self, platform: object) -> Module:
        """All stages in order."""
        m = Module()
        c = self.config
        f = view(Opcode.GEMM, self.head, c)
        wait = view(Opcode.WAIT, self.head, c)
        sizes = {"dst": acc_bits(c), "src": act_bits(c) + 1, "wgt": wgt_bits(c)}
        m.submodules.sequencer = seq = Sequencer(uop_gemm_bits(c), len(f.uop_count), sizes)
        m.submodules.retire = line = self.retire_line

        # stage 0: issue
        wrap_base, wrap_size = Signal.like(f.wrap_base, reset_less=True), Signal.like(f.wrap_size, reset_less=True)
        window, pair, twin = (Signal(name=n, reset_less=True) for n in ("window", "pair", "twin"))
        m.d.comb += [
            seq.issue.eq(self.issue), self.ready.eq(seq.ready), seq.is_wait.eq(f.opcode == Opcode.WAIT),
            seq.wait_cycles.eq(wait.cycles), seq.uop_begin.eq(f.uop_begin), seq.uop_count.eq(f.uop_count),
            seq.outer.eq(f.outer), seq.inner.eq(f.inner), seq.pace.eq(f.pace),
            # the second half of a packed window emit may not meet the next instruction's products
            seq.extra.eq(f.window & ~f.pace if c.dsp_packing else 0),
            line.issue.eq(self.issue), line.push.eq(f.push), line.trace.eq(f.trace), line.tag.eq(self.tag),
            line.last.eq(seq.last),
        ]  # fmt: skip
        for name, operand in seq.operands.items():
            m.d.comb += [
                operand.base.eq(getattr(f, name)), operand.outer.eq(getattr(f, f"{name}_outer")),
                operand.inner.eq(getattr(f, f"{name}_inner")),
            ]  # fmt: skip
        with m.If(self.issue):
            m.d.sync += [
                wrap_base.eq(f.wrap_base), wrap_size.eq(f.wrap_size), window.eq(f.window), pair.eq(f.pair),
                twin.eq(f.twin if c.dsp_packing else 0),
            ]  # fmt: skip

        # stage 1: micro-op address; stage 2: micro-op
        m.d.comb += [self.uop_enable.eq(seq.valid), self.uop_address.eq(seq.uop)]
        valid_2, first_2 = Signal(), Signal(reset_less=True)
        terms = {n: Signal.like(o.term, name=f"{n}_term_2", reset_less=True) for n, o in seq.operands.items()}
        shape_1 = Cat(wrap_base, wrap_size, twin, pair, window)
        shape_2 = Signal.like(shape_1, reset_less=True)
        m.d.sync += [valid_2.eq(seq.valid), first_2.eq(seq.first), shape_2.eq(shape_1)]
        m.d.sync += [terms[n].eq(o.term) for n, o in seq.operands.items()]
        uop = uop_view(Engine.GEMM, self.uop_word, c)
        twin_2, pair_2, window_2 = shape_2[-3:]
        emits_2 = valid_2 & ~(window_2 & uop.dst.all())

        # stage 3: sums
        valid_3, emit_3, pair_3 = Signal(), Signal(), Signal()
        first_3, window_3, twin_3, accumulate_3 = (
            Signal(name=n, reset_less=True) for n in ("first_3", "window_3", "twin_3", "accumulate_3")
        )
        dst_3, wgt_3 = Signal(sizes["dst"], reset_less=True), Signal(sizes["wgt"], reset_less=True)
        src_3 = Signal(sizes["src"], reset_less=True)
        base_3, size_3 = Signal.like(wrap_base, reset_less=True), Signal.like(wrap_size, reset_less=True)
        less_3 = Signal.like(wrap_base, reset_less=True)  # base less the size of what wraps
        n = len(wrap_base)
        m.d.sync += [
            valid_3.eq(valid_2), emit_3.eq(emits_2), pair_3.eq(emits_2 & pair_2 if c.dsp_packing else 0),
            first_3.eq(first_2),
            window_3.eq(window_2), twin_3.eq(twin_2), accumulate_3.eq(uop.accumulate), dst_3.eq(uop.dst + terms["dst"]),
            src_3.eq(uop.src + terms["src"]), wgt_3.eq(uop.wgt + terms["wgt"]), Cat(base_3, size_3).eq(shape_2[:-3]),
            less_3.eq(shape_2[:n] - shape_2[n : 2 * n] - 1),
        ]  # fmt: skip

        # stage 4: wrap; the act read. The second result of a pair takes the slot behind, in which nothing else emits.
        # From here on lists are indexed by stage - 4
        src_4 = Signal(act_bits(c), reset_less=True)
        m.d.sync += src_4.eq(add(src_3[: len(src_4)], Mux(src_3 > size_3, less_3, base_3)))
        write_stage = 12 - 4
        valid = delay(m, self._next(m, valid_3, "valid_4", True), 3, "valid_from_4", reset=True)
        pair = delay(m, self._next(m, pair_3, "pair_4", True), 3, "pair_from_4", reset=True)
        emit = delay(m, self._next(m, emit_3 | pair[0], "emit_4", True), write_stage, "emit_from_4", reset=True)
        first = delay(m, self._next(m, first_3, "first_4"), 3, "first_from_4")
        windowed = delay(m, self._next(m, window_3 | pair[0], "window_4"), 7, "window_from_4")
        twin = delay(m, self._next(m, twin_3, "twin_4"), 2, "twin_from_4")
        accumulate_4, dst_4 = Signal(reset_less=True), Signal.like(dst_3, reset_less=True)
        wgt_4 = Signal.like(wgt_3, reset_less=True)
        m.d.sync += [
            accumulate_4.eq(Mux(pair[0], accumulate_4, accumulate_3)), dst_4.eq(Mux(pair[0], dst_4 | 1, dst_3)),
            wgt_4.eq(Mux(pair[0], wgt_4 | 1, wgt_3)),
        ]  # fmt: skip
        accumulate = delay(m, accumulate_4, 6, "accumulate_from_4")
        dst = delay(m, dst_4, write_stage, "dst_from_4")
        wgt = delay(m, wgt_4, 1, "wgt_from_4")
        row_units = c.act_row_units
        unit_bits = bits_for(row_units) if row_units > 1 else 0
        m.d.comb += [self.act.enable.eq(valid[0]), self.act.address.eq(src_4[unit_bits:])]

        # stage 5: the wgt read; only emits need it, so an entry stays for the second half of a packed emit
        m.d.comb += [self.wgt_enable.eq(emit[1]), self.wgt_address.eq(wgt[1])]

        # stage 6: act data
        m.submodules.array = array = MultiplierArray(c)
        unit_bits_act = 8 * c.act_unit_bytes
        unit = delay(m, src_4, 2, "src_from_4")[2]
        units = [self.act.data[k * unit_bits_act : (k + 1) * unit_bits_act] for k in range(row_units)]
        single: Value = units[0]
        for k in range(1, row_units):
            single = Mux(unit[:unit_bits] == k, units[k], single)
        second = units[-1]  # of the pair that a push with twin takes
        for k in range(1, row_units - 1, 2):
            second = Mux(unit[1:unit_bits] == k // 2, units[k], second)
        m.d.comb += [
            array.push.eq(valid[2]), array.first.eq(first[2]), array.unit.eq(single),
            array.twin_6.eq(twin[2]), array.second.eq(second),
            array.vector.eq(self.act.data if c.in_units > 1 else single), array.window_6.eq(windowed[2]),
            array.emit_7.eq(emit[3]), array.window_7.eq(windowed[3]), array.pair_7.eq(pair[3]),
            array.weights.eq(self.wgt_data),
        ]  # fmt: skip
        self._accumulate(m, array, emit, windowed, accumulate, dst)
        return m

    @staticmethod
    def _next(m: Module, signal: Signal, name: str, reset: bool = False) -> Signal:
        later = Signal.like(signal, name=name, reset_less=not reset)
        m.d.sync += later.eq(signal)
        return later

    def _accumulate(
        self, m: Module, array: MultiplierArray, emit: list[Signal], windowed: list[Signal],
        accumulate: list[Signal], dst: list[Signal],
    ) -> None:  # fmt: skip
        """Stages 8 to 12. Lists are indexed by stage - 4.

        The read of stage 8 misses what the four micro-ops before write: the result of the previous one is
        forwarded to stage 11, those of the second to fourth before to stage 10.
        """
        c = self.config
        unit_bits = bits_for(c.out_units) if c.out_units > 1 else 0
        unit_width = 8 * c.acc_unit_bytes
        m.d.comb += [self.acc_read.enable.eq(emit[4] & accumulate[4]), self.acc_read.address.eq(dst[4][unit_bits:])]
        masks: list[Value] = [self._units(w, d[:unit_bits]) for w, d in zip(windowed, dst)]
        masks = delay(m, self._named(m, masks[6], "mask_10"), 2, "mask_from_10")  # stages 10, 11, 12
        sums = [array.sums[k * unit_width : (k + 1) * unit_width] for k in range(c.out_units)]
        result = Signal(unit_width * c.out_units, name="result_12", reset_less=True)
        history = delay(m, result, 2, "result_from_12")
        mask_history = delay(m, masks[2], 2, "mask_from_12")
        matches = []
        for k in range(1, 5):  # stage 9: does the k-th micro-op before write the same row?
            match = Signal(name=f"same_row_{k}_9", reset_less=True)
            m.d.sync += match.eq(emit[4 + k] & (dst[4 + k][unit_bits:] == dst[4][unit_bits:]))
            matches.append(match)
        keep_1 = delay(m, matches[0], 2, "same_row_1_from_9")
        later = [delay(m, match, 1, f"same_row_{k}_from_9")[1] for k, match in enumerate(matches[1:], 2)]
        for j in range(c.out_units):
            part = slice(j * unit_width, (j + 1) * unit_width)
            # stage 10: the old value, of the latest of the three earlier results that wrote this unit
            second, third, fourth = (hit & mask[j] for hit, mask in zip(later, mask_history))
            newer = wire(m, f"newer_{j}_10", second | third)
            first = wire(m, f"first_{j}_10", Mux(newer, second, fourth))  # of a pair: one of four by two bits
            old = Mux(
                newer,
                Mux(first, history[0][part], history[1][part]),
                Mux(first, history[2][part], self.acc_read.data[part]),
            )
            old_11 = Signal(unit_width, name=f"old_{j}_11", reset_less=True)
            m.d.sync += old_11.eq(Mux(accumulate[6], old, 0))
            # stage 11: forward and add
            forward = Signal(name=f"forward_{j}_11")
            adds = Signal(name=f"adds_{j}_11", reset_less=True)
            m.d.sync += adds.eq(accumulate[6])
            m.d.comb += forward.eq(keep_1[2] & adds & masks[2][j])
            base = Mux(forward, result[part], old_11)
            total = sums[j] if c.out_units == 1 else Mux(windowed[7], sums[0], sums[j])
            for at in range(0, unit_width, 32):
                old, new = base[at : at + 32], total[at : at + 32]
                # what the sums are less comes with the carry
                m.d.sync += result[part][at : at + 32].eq(new - ~old if array.less else new + old)
        # stage 12: write
        chunks = self.acc_write.chunks
        per_unit = len(chunks) // c.out_units
        m.d.comb += [
            chunks.eq(Cat(*[bit.replicate(per_unit) for bit in masks[2]]) & emit[8].replicate(len(chunks))),
            self.acc_write.address.eq(dst[8][unit_bits:]),
            self.acc_write.data.eq(result),
        ]

    def _units(self, window: Signal, unit: Value) -> Value:
        """Mask of the units of the row that a micro-op writes: one in window mode, else all."""
        n = self.config.out_units
        if n == 1:
            return Const(1, 1)
        return Mux(window, Const(1, n) << unit, Const((1 << n) - 1, n))[:n]

    @staticmethod
    def _named(m: Module, value: Value, name: str) -> Signal:
        signal = Signal(len(value), name=name)
        m.d.comb += signal.eq(value)
        return signal
