"""ALU control: instructions to operand addresses, lanes, and results back to act or acc."""

from __future__ import annotations

from itertools import pairwise

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value

from tilewright.config import Config
from tilewright.hw.rtl.alu_lane import AluLane
from tilewright.hw.rtl.functions import add, any_of, none_of
from tilewright.hw.rtl.lane_control import LaneControl
from tilewright.hw.rtl.layout import uop_view, view, widest_format
from tilewright.hw.rtl.memory import ReadPort, WritePort
from tilewright.hw.rtl.retire import RetireLine
from tilewright.hw.rtl.sequencer import Sequencer, delay
from tilewright.isa.functions import SCALING, AluOp, Combine, Rounding
from tilewright.isa.registers import TAG_BITS
from tilewright.isa.spec import (
    TABLES,
    Engine,
    Opcode,
    acc_bits,
    act_bits,
    bits_for,
    prm_bits,
    roundings,
    uop_alu_bits,
    uop_width,
    vector_bits,
)
from tilewright.isa.timing import ALU_DEPTH

WRITE_STAGE = 16


class Alu(Elaboratable):
    """The ALU engine. Stage n is the cycle n cycles after a vector's issue slot.

    0 issue; 1 loops, micro-op address; 2 micro-op; 3 sums; 4 wrapped act address, reads of acc and act; 5 prm
    read (and acc[d] with pace = 1); 6 data, read of tables; 7 data with pace = 1, looked up; 8 operands; 9 to 15
    arithmetic
    (:mod:`alu_lane`); 16 write, retire.
    """

    def __init__(
        self, config: Config, act_read: ReadPort, act_write: WritePort, acc_src: ReadPort, acc_dst: ReadPort,
        acc_write: WritePort,
    ) -> None:  # fmt: skip
        self.config = config
        self.act_read, self.act_write = act_read, act_write
        self.acc_src, self.acc_dst, self.acc_write = acc_src, acc_dst, acc_write
        self.head = Signal(widest_format(config))
        self.tag = Signal(TAG_BITS)
        self.issue, self.ready = Signal(), Signal()
        self.uop_enable = Signal()
        self.uop_address = Signal(uop_alu_bits(config))
        self.uop_word = Signal(uop_width(config, Engine.ALU))
        self.prm_enable = Signal()
        self.prm_address = Signal(prm_bits(config))
        self.prm_bias = Signal(32 * config.block_out)
        self.prm_multiplier = Signal(32 * config.block_out)
        self.prm_offset = Signal(32 * config.block_out)
        self.prm_shift = Signal(6 * config.block_out)
        self.table_enable = Signal()
        self.table = Signal(range(TABLES))
        self.table_index = Signal(8 * config.act_unit_bytes * config.out_units)
        self.table_result = Signal.like(self.table_index)
        self.retire_line = RetireLine(ALU_DEPTH)

    def elaborate(self, platform: object) -> Module:
        """All stages in order."""
        m = Module()
        c = self.config
        alu, req, res, wait = (
            view(op, self.head, c) for op in (Opcode.ALU, Opcode.REQUANTIZE, Opcode.RESCALE, Opcode.WAIT)
        )
        operand_bits = vector_bits(c) + 1
        sizes = {"dst": operand_bits, "src": operand_bits, "prm": prm_bits(c)}
        m.submodules.sequencer = seq = Sequencer(uop_alu_bits(c), len(alu.uop_count), sizes)
        m.submodules.retire = line = self.retire_line

        # stage 0: issue. What the three formats share by name may stand at different bits.
        is_alu, is_req, is_res = Signal(), Signal(), Signal()
        m.d.comb += [
            is_alu.eq(alu.opcode == Opcode.ALU), is_req.eq(alu.opcode == Opcode.REQUANTIZE),
            is_res.eq(alu.opcode == Opcode.RESCALE),
        ]  # fmt: skip

        def shared(name: str) -> Value:
            return Mux(is_alu, getattr(alu, name), Mux(is_req, getattr(req, name), getattr(res, name)))

        m.d.comb += [
            seq.issue.eq(self.issue), self.ready.eq(seq.ready), seq.is_wait.eq(wait.opcode == Opcode.WAIT),
            seq.wait_cycles.eq(wait.cycles), seq.uop_begin.eq(shared("uop_begin")),
            seq.uop_count.eq(shared("uop_count")), seq.outer.eq(shared("outer")), seq.inner.eq(shared("inner")),
            seq.pace.eq(is_alu & alu.pace), line.issue.eq(self.issue), line.push.eq(alu.push),
            line.trace.eq(alu.trace), line.tag.eq(self.tag), line.last.eq(seq.last),
        ]  # fmt: skip
        for suffix in ("", "_outer", "_inner"):
            kind = suffix[1:] or "base"
            m.d.comb += [getattr(seq.operands[n], kind).eq(shared(n + suffix)) for n in ("dst", "src")]
            m.d.comb += getattr(seq.operands["prm"], kind).eq(
                Mux(is_req, getattr(req, "prm" + suffix), getattr(res, "prm" + suffix))
            )
        mode_0 = LaneControl("issue", roundings(c))
        blank = any_of(req.rounding == r for r in Rounding if r not in SCALING)
        reads_src, reads_dst = Signal(), Signal()
        idle_src = [function for function in AluOp if not function.reads_operand]
        idle_dst = [function for function in AluOp if not function.reads_dst]
        idle_combine = [combine for combine in Combine if not combine.reads_dst]
        m.d.comb += [
            *mode_0.decode(alu, req, res, is_alu, is_req),
            reads_src.eq(Mux(is_alu, none_of(alu.function, idle_src, ~alu.use_imm), is_req & ~blank)),
            reads_dst.eq(Mux(is_alu, none_of(alu.function, idle_dst), is_res & none_of(res.combine, idle_combine))),
        ]  # fmt: skip
        wrap = Cat(
            Mux(is_req, req.wrap_base, res.wrap_base), Mux(is_req, req.wrap_size, res.wrap_size), reads_src, reads_dst
        )
        wrap_1 = Signal.like(wrap, reset_less=True)
        table = Cat(res.table, is_res & res.lookup)
        table_1 = Signal.like(table, reset_less=True)
        mode = [LaneControl(f"stage_{k}", roundings(c)) for k in range(1, WRITE_STAGE + 1)]  # mode[k - 1]: stage k
        with m.If(self.issue):
            m.d.sync += [wrap_1.eq(wrap), table_1.eq(table), mode[0].word.eq(mode_0.word)]
        m.d.sync += mode[1].settle(mode[0])

        # stage 1: micro-op address; stage 2: micro-op
        m.d.comb += [self.uop_enable.eq(seq.valid), self.uop_address.eq(seq.uop)]
        valid = delay(m, seq.valid, WRITE_STAGE - 1, "valid_from_1", reset=True)  # valid[k - 1]: stage k
        for stage, (earlier, later) in enumerate(pairwise(mode[1:]), 3):
            # a shift register's output is late; rounding and clamp wait for theirs in registers, which an enable makes
            with m.If(valid[stage - 2] if stage in (14, 15) else Const(1)):
                m.d.sync += later.word.eq(earlier.word)
        m.d.sync += mode[2].center(mode[1])
        terms = {n: delay(m, o.term, 1, f"{n}_term_from_1")[1] for n, o in seq.operands.items()}
        wraps = delay(m, wrap_1, 2, "wrap_from_1")
        wrap_3 = wraps[2]
        uop = uop_view(Engine.ALU, self.uop_word, c)

        # stage 3: sums
        dst_3, src_3 = Signal(operand_bits, reset_less=True), Signal(operand_bits, reset_less=True)
        prm_3 = Signal(prm_bits(c), reset_less=True)
        m.d.sync += [
            # the choice of the micro-op from its row is part of the sum
            dst_3.eq(add(terms["dst"], uop.dst)), src_3.eq(add(terms["src"], uop.src)),
            prm_3.eq(add(terms["prm"], uop.prm)),
        ]  # fmt: skip
        n = act_bits(c)
        base_3, size_3, wrap_2 = wrap_3[:n], wrap_3[n : 2 * n], wraps[1]
        less_3 = Signal(n, reset_less=True)  # base less the size of what wraps
        m.d.sync += less_3.eq(wrap_2[:n] - wrap_2[n : 2 * n] - 1)
        offset_3 = Mux(mode[2].requantize, dst_3, src_3)

        # stage 4: wrap; reads
        act_4 = Signal(n, reset_less=True)
        dst_4, src_4 = Signal(acc_bits(c), reset_less=True), Signal(acc_bits(c), reset_less=True)
        prm_4 = Signal(prm_bits(c), reset_less=True)
        reads_src_4, reads_dst_4 = Signal(), Signal()
        m.d.sync += [
            act_4.eq(add(offset_3[:n], Mux(offset_3 > size_3, less_3, base_3))),
            dst_4.eq(dst_3), src_4.eq(src_3), prm_4.eq(prm_3),
            reads_src_4.eq(valid[2] & wrap_3[2 * n]), reads_dst_4.eq(valid[2] & wrap_3[2 * n + 1]),
        ]  # fmt: skip
        acc_unit = bits_for(c.out_units) if c.out_units > 1 else 0
        act_row, vectors = c.act_row_units, c.act_row_units // c.out_units  # of a row of act
        act_unit = bits_for(act_row) if act_row > 1 else 0
        reads_dst_5, dst_5 = Signal(), Signal.like(dst_4, reset_less=True)  # a cycle later with pace = 1
        m.d.sync += [reads_dst_5.eq(reads_dst_4 & mode[3].paced), dst_5.eq(dst_4)]
        m.d.comb += [
            self.act_read.enable.eq(valid[3] & mode[3].rescale), self.act_read.address.eq(act_4[act_unit:]),
            self.acc_src.enable.eq(reads_src_4), self.acc_src.address.eq(src_4[acc_unit:]),
            self.acc_dst.enable.eq((reads_dst_4 & ~mode[3].paced) | reads_dst_5),
            self.acc_dst.address.eq(Mux(reads_dst_5, dst_5, dst_4)[acc_unit:]),
        ]  # fmt: skip

        # stage 5: prm read, output register, so that bias is there in stage 7
        prm_5 = delay(m, prm_4, 1, "prm_from_4")[1]
        m.d.comb += [self.prm_enable.eq(valid[4]), self.prm_address.eq(prm_5)]

        # stages 6 to 8: data. src waits for dst, which with pace = 1 comes a cycle later
        act_from_4 = delay(m, act_4, WRITE_STAGE - 4, "act_from_4")
        unit_bits = 8 * c.act_unit_bytes
        width = unit_bits * c.out_units
        x: Value = self.act_read.data
        if vectors > 1:
            x = self.act_read.data[:width]
            for k in range(1, vectors):
                x = Mux(act_from_4[2][:act_unit] == k, self.act_read.data[k * width : (k + 1) * width], x)
        act_6 = Signal(width)
        m.d.comb += act_6.eq(x)
        table_from_1 = delay(m, table_1, 6, "table_from_1")
        m.d.comb += [
            self.table_enable.eq(valid[5] & table_from_1[5][-1]), self.table.eq(table_from_1[5]),
            self.table_index.eq(act_6),
        ]  # fmt: skip
        act_7 = delay(m, act_6, 1, "act_data_from_6")[1]
        act_8 = Signal(width, reset_less=True)
        m.d.sync += act_8.eq(Mux(table_from_1[6][-1], self.table_result, act_7))
        src_6 = Signal.like(self.acc_src.data)
        m.d.comb += src_6.eq(self.acc_src.data)
        src_8 = delay(m, src_6, 2, "src_data_from_6")[2]
        dst_data_7, dst_data_8 = (
            Signal.like(self.acc_dst.data, name=s, reset_less=True) for s in ("dst_data_7", "dst_data_8")
        )
        m.d.sync += [dst_data_7.eq(self.acc_dst.data), dst_data_8.eq(Mux(mode[6].paced, self.acc_dst.data, dst_data_7))]

        # lanes: unit j, image b, lane l works for channel j * V + l
        results_32, results_8 = [], []
        lane_index = 0
        for j in range(c.out_units):
            for b in range(c.batch):
                for l in range(c.lanes):
                    channel = j * c.lanes + l
                    lane = AluLane(mode, valid)
                    m.submodules[f"lane_{j}_{b}_{l}"] = lane
                    at = slice(32 * lane_index, 32 * lane_index + 32)
                    m.d.comb += [
                        lane.act_8.eq(act_8[8 * lane_index : 8 * lane_index + 8]), lane.src_8.eq(src_8[at]),
                        lane.dst_8.eq(dst_data_8[at]), lane.bias_7.eq(self.prm_bias[32 * channel : 32 * channel + 32]),
                        lane.multiplier_7.eq(self.prm_multiplier[32 * channel : 32 * channel + 32]),
                        lane.offset_7.eq(self.prm_offset[32 * channel : 32 * channel + 32]),
                        lane.shift_7.eq(self.prm_shift[6 * channel : 6 * channel + 6]),
                    ]  # fmt: skip
                    results_32.append(lane.result_16)
                    results_8.append(lane.result_16[:8])
                    lane_index += 1

        # stage 16: write
        dst_16 = delay(m, dst_4, WRITE_STAGE - 4, "dst_from_4")[-1]
        act_16 = act_from_4[-1]
        write_act, write_acc = Signal(), Signal()
        m.d.comb += [
            write_act.eq(valid[-1] & mode[-1].requantize), write_acc.eq(valid[-1] & ~mode[-1].requantize),
            self.acc_write.address.eq(dst_16[acc_unit:]), self.acc_write.data.eq(Cat(*results_32)),
            self.acc_write.chunks.eq(write_acc.replicate(len(self.acc_write.chunks))),
            self.act_write.address.eq(act_16[act_unit:]),
            self.act_write.data.eq(Cat(*results_8 * vectors)),
        ]  # fmt: skip
        per_vector = len(self.act_write.chunks) // vectors
        if vectors > 1:
            one = [write_act & (act_16[:act_unit] == k) for k in range(vectors)]
            m.d.comb += self.act_write.chunks.eq(Cat(*[bit.replicate(per_vector) for bit in one]))
        else:
            m.d.comb += self.act_write.chunks.eq(write_act.replicate(len(self.act_write.chunks)))
        return m
