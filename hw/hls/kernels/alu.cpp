// ALU: vector operations on acc, requantisation to act, rescaling from act; one vector per iteration.
#include "alu_lane.hpp"
#include "engines.hpp"
#include "loops.hpp"
#include "memory.hpp"

typedef ap_uint<VECTOR_ADDRESS_BITS + 1> vector_offset;

// The three instructions in one shape, so that they share one loop and its multipliers.
struct Work {
    Loops<UOP_ALU_ADDRESS_BITS, UOP_ALU_ADDRESS_BITS + 1> loops;
    Affine<VECTOR_ADDRESS_BITS + 1> dst, src;
    Affine<PRM_ADDRESS_BITS> prm;
    act_address wrap_base;
    act_offset wrap_size;
    LaneControl lanes;
    int32_t imm;
    bool use_imm, paced, reads_old, reads_operand, reads_act, lookup;
    ap_uint<3> table;
};

template <typename Fields> void start_common(Work &work, const Fields &f) {
#pragma HLS INLINE
    work.loops.start(f.uop_begin, f.uop_count, f.outer, f.inner);
    work.dst.start(f.dst, f.dst_outer, f.dst_inner);
    work.src.start(f.src, f.src_outer, f.src_inner);
    work.prm.start(0, 0, 0);
    work.wrap_base = 0;
    work.wrap_size = 1;
    work.imm = 0;
    work.use_imm = work.paced = work.reads_old = work.reads_operand = work.reads_act = work.lookup = false;
    work.table = 0;
    const LaneControl nothing = {false, false, 0, 0, 0, 0, 0, 0};
    work.lanes = nothing;
}

template <typename Fields> void start_scaling(Work &work, const Fields &f) {
#pragma HLS INLINE
    start_common(work, f);
    work.prm.start(f.prm, f.prm_outer, f.prm_inner);
    work.wrap_base = f.wrap_base;
    work.wrap_size = f.wrap_size;
    work.lanes.rounding = f.rounding;
}

static Work work_of(const Header &header, const ap_uint<INSTRUCTION_BITS> &word) {
#pragma HLS INLINE
    Work work;
    if (header.opcode == OPCODE_REQUANTIZE) {
        const RequantizeFields f = decode_RequantizeFields(word);
        start_scaling(work, f);
        work.lanes.requantize = true;
        work.lanes.zero_point = f.zero_point;
        work.lanes.lo = f.lo;
        work.lanes.hi = f.hi;
        work.reads_operand = f.rounding != ROUNDING_CONSTANT;
    } else if (header.opcode == OPCODE_RESCALE) {
        const RescaleFields f = decode_RescaleFields(word);
        start_scaling(work, f);
        work.lanes.rescale = true;
        work.lanes.combine = f.combine;
        work.reads_act = true;
        work.lookup = f.lookup == 1;
        work.table = f.table;
        work.reads_old = combine_reads_dst(f.combine);
    } else {
        const AluFields f = decode_AluFields(word);
        start_common(work, f);
        work.lanes.function = f.function;
        work.imm = f.imm;
        work.use_imm = f.use_imm == 1;
        work.paced = f.pace == 1;
        work.reads_old = function_reads_dst(f.function);
        work.reads_operand = !work.use_imm && function_reads_operand(f.function);
    }
    return work;
}

// One read of every bank at most, of acc[d] or acc[s]: that is all a bank's read port can do in a cycle. The
// two lie in different banks, or are read in two cycles (pace); programs that break this are not legal.
static void read_operands(const acc_memory acc, acc_address d, acc_address s, bool want_old, bool want_operand,
                          int32_t old[OUT_ELEMENTS], int32_t operand[OUT_ELEMENTS]) {
#pragma HLS INLINE
    const unsigned to = d, from = s;
    for (unsigned bank = 0; bank < unsigned(ACC_BANKS); bank++) {
#pragma HLS UNROLL
        const bool is_old = want_old && to / ACC_BANK_UNITS == bank;
        const bool is_operand = !is_old && want_operand && from / ACC_BANK_UNITS == bank;
        const bool meant = is_old || is_operand;
        if (!READ_EVERY_BANK && !meant) continue;
        const unsigned row = meant ? (is_old ? to : from) % ACC_BANK_UNITS / OUT_UNITS : unsigned(ACC_ROWS);
        for (int e = 0; e < OUT_ELEMENTS; e++) {
#pragma HLS UNROLL
            const int32_t value = acc[bank][e / BEAT_WORDS][row][e % BEAT_WORDS];
            if (is_old) old[e] = value;
            else if (is_operand) operand[e] = value;
        }
    }
}

static LaneParameters parameters(const prm_memory prm, ap_uint<PRM_ADDRESS_BITS> entry, int channel) {
#pragma HLS INLINE
    int32_t word[4];
    for (int k = 0; k < 4; k++) {
#pragma HLS UNROLL
        word[k] = prm[(4 * channel + k) / BEAT_WORDS][unsigned(entry)][(4 * channel + k) % BEAT_WORDS];
    }
    const LaneParameters p = {word[0], word[1], word[2], ap_uint<6>(word[3] & 63)};
    return p;
}

// Runs one instruction and returns its push mask when all results are written.
static token_mask run(Work work, token_mask push, const uop_alu_memory uops, act_memory act, acc_memory acc,
                      const prm_memory prm, const table_memory tables) {
#pragma HLS INLINE off
    int32_t old[OUT_ELEMENTS], operand[OUT_ELEMENTS];
#pragma HLS ARRAY_PARTITION variable=old complete
#pragma HLS ARRAY_PARTITION variable=operand complete
    for (int e = 0; e < OUT_ELEMENTS; e++) {
#pragma HLS UNROLL
        old[e] = 0;
        operand[e] = work.imm;
    }
    AccWrites<TW_ALU_DISTANCE> writes;
    bool second = !work.paced;  // with pace, a vector takes two iterations
    bool more = true;
    while (more) {
// One vector a cycle. Legal programs keep the ALU's distance between a write of acc and a read of it, counted
// in these iterations (less one: with pace the first operand is read an iteration ahead). A loop reads
// either acc or act and never reads what it writes of act.
#pragma HLS PIPELINE II=1
TW_PRAGMA(HLS DEPENDENCE variable=acc inter RAW distance=TW_ALU_DISTANCE true)
#pragma HLS DEPENDENCE variable=act inter false
        writes.begin_iteration(acc);
        const unsigned index = work.loops.uop;
        const AluUop uop = decode_AluUop(uops[index / UOP_ALU_PER_BEAT][index % UOP_ALU_PER_BEAT]);
        const vector_offset d = uop.dst + work.dst.at, s = uop.src + work.src.at;
        const bool first = !work.paced || !second;
        read_operands(acc, acc_address(d), acc_address(s), second && work.reads_old, first && work.reads_operand,
                      old, operand);
        const act_address source = wrapped(act_offset(s), work.wrap_base, work.wrap_size);
        int8_t act_row[ACT_SPAN * UNIT];
#pragma HLS ARRAY_PARTITION variable=act_row complete
        read_act_row(act, source, second && work.reads_act, act_row);
        if (second) {
            int8_t x[OUT_ELEMENTS], to_act[OUT_ELEMENTS];
            int32_t to_acc[OUT_ELEMENTS];
#pragma HLS ARRAY_PARTITION variable=x complete
#pragma HLS ARRAY_PARTITION variable=to_act complete
#pragma HLS ARRAY_PARTITION variable=to_acc complete
            if (work.reads_act) {
                units_of_row<OUT_UNITS>(act_row, source, x);
            } else {
                for (int e = 0; e < OUT_ELEMENTS; e++) x[e] = 0;
            }
            for (int e = 0; e < OUT_ELEMENTS; e++) {
#pragma HLS UNROLL
                const unsigned index = uint8_t(x[e]);
                const int8_t found = tables[e][unsigned(work.table) * TABLE_ENTRIES + index / TABLE_ENTRY_VALUES]
                                           [index % TABLE_ENTRY_VALUES];
                if (work.lookup) x[e] = found;
            }
            const ap_uint<PRM_ADDRESS_BITS> entry = uop.prm + work.prm.at;
            for (int c = 0; c < BLOCK_OUT; c++) {
#pragma HLS UNROLL
                const LaneParameters p = parameters(prm, entry, c);
                for (int b = 0; b < BATCH; b++) {
#pragma HLS UNROLL
                    const int e = c / LANES * UNIT + b * LANES + c % LANES;
                    lane(work.lanes, p, old[e], operand[e], x[e], to_acc[e], to_act[e]);
                }
            }
            if (work.lanes.requantize)
                write_act(act, wrapped(act_offset(d), work.wrap_base, work.wrap_size), to_act);
            else
                writes.write(acc, acc_address(d), false, to_acc);
            work.dst.advance(work.loops.last_uop(), work.loops.last_inner());
            work.src.advance(work.loops.last_uop(), work.loops.last_inner());
            work.prm.advance(work.loops.last_uop(), work.loops.last_inner());
            more = !work.loops.last();
            work.loops.advance();
        }
        second = !work.paced || !second;
    }
    writes.finish(acc);
    return push;
}

void tilewright_alu(command_stream &commands, retire_stream &retired, token_stream &from_load,
                    token_stream &from_gemm, token_stream &from_store, token_stream &to_load,
                    token_stream &to_gemm, token_stream &to_store, uop_alu_memory uops, act_memory act,
                    acc_memory acc, prm_memory prm, table_memory tables) {
#pragma HLS INTERFACE ap_ctrl_none port=return
#pragma HLS INTERFACE axis port=commands
#pragma HLS INTERFACE axis port=retired
#pragma HLS INTERFACE axis port=from_load
#pragma HLS INTERFACE axis port=from_gemm
#pragma HLS INTERFACE axis port=from_store
#pragma HLS INTERFACE axis port=to_load
#pragma HLS INTERFACE axis port=to_gemm
#pragma HLS INTERFACE axis port=to_store
#pragma HLS INTERFACE ap_memory port=uops
#pragma HLS INTERFACE ap_memory port=act
#pragma HLS INTERFACE ap_memory port=acc
#pragma HLS INTERFACE ap_memory port=prm
#pragma HLS INTERFACE ap_memory port=tables
// As in GEMM: a vector in one cycle, every bank with a port of its own.
#pragma HLS ARRAY_PARTITION variable=act complete dim=1
#pragma HLS ARRAY_PARTITION variable=act complete dim=2
#pragma HLS ARRAY_RESHAPE variable=act complete dim=4
#pragma HLS ARRAY_PARTITION variable=acc complete dim=1
#pragma HLS ARRAY_PARTITION variable=acc complete dim=2
#pragma HLS ARRAY_RESHAPE variable=acc complete dim=4
// A whole entry, the four parameters of every channel, is read in one cycle.
#pragma HLS ARRAY_PARTITION variable=prm complete dim=1
#pragma HLS ARRAY_RESHAPE variable=prm complete dim=3
// A copy of the tables for every element: each looks up another value in the same cycle.
#pragma HLS ARRAY_PARTITION variable=tables complete dim=1
#pragma HLS ARRAY_RESHAPE variable=tables complete dim=3
#pragma HLS ARRAY_RESHAPE variable=uops complete dim=2
    const Received now = receive(commands, from_load, from_gemm, from_store);
    token_mask push = now.header.push;
    if (now.header.opcode != OPCODE_WAIT) push = run(work_of(now.header, now.word), push, uops, act, acc, prm, tables);
    finish(now.command, push, false, to_load, to_gemm, to_store, retired);
}
