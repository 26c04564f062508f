// LOAD: tiles from DRAM into any memory, and FILL. Reading and writing are two processes with a stream
// between them, so that bursts are requested ahead while earlier beats are still being written.
#include "engines.hpp"
#include "tile.hpp"

struct Destination {
    ap_uint<3> memory;
    int parts;  // beats of an entry
    int step;   // entries of a beat: more than one for micro-ops only
};

static Destination destination_of(ap_uint<3> memory) {
#pragma HLS INLINE
    Destination d = {memory, 1, 1};
    switch (int(memory)) {
    case MEMORY_ACT:
    case MEMORY_ACC8: d.parts = ACT_PARTS; break;
    case MEMORY_WGT: d.parts = WGT_PARTS; break;
    case MEMORY_ACC: d.parts = ACC_PARTS; break;
    case MEMORY_PRM: d.parts = PRM_PARTS; break;
    case MEMORY_TABLE: break;
    case MEMORY_UOP_GEMM:
        d.parts = UOP_GEMM_BITS > BEAT_BITS ? UOP_GEMM_BITS / BEAT_BITS : 1;
        d.step = UOP_GEMM_PER_BEAT;
        break;
    default:
        d.parts = UOP_ALU_BITS > BEAT_BITS ? UOP_ALU_BITS / BEAT_BITS : 1;
        d.step = UOP_ALU_PER_BEAT;
    }
    return d;
}

static unsigned row_beats(const Destination &d, unsigned cols) {
#pragma HLS INLINE
    return (cols + d.step - 1) / d.step * d.parts;
}

static void read_rows(TW_READ_DRAM, dram_address base, const LoadFields f, unsigned beats, beat_stream &data) {
#pragma HLS INLINE off
    uint64_t row = uint64_t(base) + unsigned(f.offset);
    for (unsigned r = 0; r < unsigned(f.rows); r++) {
        read_beats(TW_DRAM, row, beats, data);
        row += unsigned(f.stride);
    }
}

static int32_t word_of(const beat_t &beat, int k) {
#pragma HLS INLINE
    return int32_t(uint32_t(ap_uint<32>(beat.range(32 * k + 31, 32 * k))));
}

static int8_t byte_of(const beat_t &beat, int k) {
#pragma HLS INLINE
    return int8_t(uint8_t(ap_uint<8>(beat.range(8 * k + 7, 8 * k))));
}

// A micro-op memory's word from beats: several micro-ops of one beat, or one of several beats.
template <int BITS, int PER_BEAT, typename Row>
static void place_uops(Row row, const beat_t &beat, ap_uint<BITS + BEAT_BITS> &assembled) {
#pragma HLS INLINE
    if (PER_BEAT == 1) {  // beats of one micro-op come low bits first: shift each in from above
        const ap_uint<BITS + BEAT_BITS> wide = beat;
        assembled = (assembled >> BEAT_BITS) | (wide << (BITS > BEAT_BITS ? BITS - BEAT_BITS : 0));
        row[0] = ap_uint<BITS>(assembled);
    } else {
        for (int k = 0; k < PER_BEAT; k++) {
#pragma HLS UNROLL
            row[k] = beat.range(BITS * (k + 1) - 1 < BEAT_BITS ? BITS * (k + 1) - 1 : BEAT_BITS - 1,
                                BITS * k < BEAT_BITS ? BITS * k : 0);
        }
    }
}

static void write_rows(const Destination d, const LoadFields f, beat_stream &data, act_memory act, wgt_memory wgt,
                       acc_memory acc, prm_memory prm, table_memory tables, uop_gemm_memory uops_gemm, uop_alu_memory uops_alu) {
#pragma HLS INLINE off
    TileWalk walk;
    walk.start(tile_of(f), d.parts, d.step);
    ap_uint<UOP_GEMM_BITS + BEAT_BITS> gemm_uop = 0;
    ap_uint<UOP_ALU_BITS + BEAT_BITS> alu_uop = 0;
    bool more = true;
    while (more) {
// A beat is a slice of its memory: one write a cycle keeps up with the bus, and nothing is read here.
#pragma HLS PIPELINE II=1
        const beat_t beat = data.read();
        const unsigned part = walk.part, at = walk.at;
        const unsigned act_unit = walk.act(), acc_unit = acc_address(walk.at);
        switch (int(d.memory)) {
        case MEMORY_ACT:
            for (int k = 0; k < BEAT_BYTES; k++)
                act[act_unit / ACT_BANK_UNITS][act_unit % ACT_SPAN * ACT_PARTS + part]
                   [act_unit % ACT_BANK_UNITS / ACT_SPAN][k] = byte_of(beat, k);
            break;
        case MEMORY_WGT:
            for (int k = 0; k < BEAT_WEIGHTS; k++) {
                weight_t weight;
                weight.range() = beat.range(WEIGHT_BITS * k + WEIGHT_BITS - 1, WEIGHT_BITS * k);
                wgt[part][at % WGT_ENTRIES][k] = weight;
            }
            break;
        case MEMORY_ACC:
            for (int k = 0; k < BEAT_WORDS; k++)
                acc[acc_unit / ACC_BANK_UNITS][acc_unit % OUT_UNITS * ACC_PARTS + part]
                   [acc_unit % ACC_BANK_UNITS / OUT_UNITS][k] = word_of(beat, k);
            break;
        case MEMORY_ACC8:  // a beat of bytes is four slices of words
            for (int k = 0; k < BEAT_BYTES; k++)
                acc[acc_unit / ACC_BANK_UNITS][acc_unit % OUT_UNITS * ACC_PARTS + part * 4 + k / BEAT_WORDS]
                   [acc_unit % ACC_BANK_UNITS / OUT_UNITS][k % BEAT_WORDS] = byte_of(beat, k);
            break;
        case MEMORY_PRM:
            for (int k = 0; k < BEAT_WORDS; k++) prm[part][at % PRM_ENTRIES][k] = word_of(beat, k);
            break;
        case MEMORY_TABLE:
            for (int e = 0; e < OUT_ELEMENTS; e++)
                for (int k = 0; k < TABLE_ENTRY_VALUES; k++) tables[e][at % TABLE_ROWS][k] = byte_of(beat, k);
            break;
        case MEMORY_UOP_GEMM:
            place_uops<UOP_GEMM_BITS, UOP_GEMM_PER_BEAT>(uops_gemm[at % UOP_GEMM_DEPTH / UOP_GEMM_PER_BEAT], beat,
                                                         gemm_uop);
            break;
        default:
            place_uops<UOP_ALU_BITS, UOP_ALU_PER_BEAT>(uops_alu[at % UOP_ALU_DEPTH / UOP_ALU_PER_BEAT], beat, alu_uop);
        }
        more = !walk.last();
        walk.advance();
    }
}

static void move_rows(TW_READ_DRAM, dram_address base, const Destination d, const LoadFields f, unsigned beats,
                      act_memory act, wgt_memory wgt, acc_memory acc, prm_memory prm, table_memory tables, uop_gemm_memory uops_gemm,
                      uop_alu_memory uops_alu) {
#pragma HLS INLINE off
#pragma HLS DATAFLOW
    beat_stream data("load_data");
// Room for the beats that arrive while the writing side is still starting up.
#pragma HLS STREAM variable=data depth=64
    read_rows(TW_DRAM, base, f, beats, data);
    write_rows(d, f, data, act, wgt, acc, prm, tables, uops_gemm, uops_alu);
}

// Returns the push mask when everything is written: around the dataflow region, which may return nothing.
static token_mask transfer(TW_READ_DRAM, dram_address base, const LoadFields f, token_mask push, act_memory act,
                           wgt_memory wgt, acc_memory acc, prm_memory prm, table_memory tables, uop_gemm_memory uops_gemm,
                           uop_alu_memory uops_alu) {
#pragma HLS INLINE off
    const Destination d = destination_of(f.memory);
    move_rows(TW_DRAM, base, d, f, row_beats(d, f.cols), act, wgt, acc, prm, tables, uops_gemm, uops_alu);
    return push;
}

static token_mask fill(const FillFields f, token_mask push, act_memory act, acc_memory acc) {
#pragma HLS INLINE off
    TileWalk walk;
    walk.start(tile_of(f), 1, 1);
    bool more = true;
    while (more) {
// A unit a cycle: all its slices are written at once.
#pragma HLS PIPELINE II=1
        const int32_t value = f.value;
        if (f.memory == MEMORY_ACT) {
            const unsigned unit = walk.act();
            for (int part = 0; part < ACT_PARTS; part++)
                for (int k = 0; k < BEAT_BYTES; k++)
                    act[unit / ACT_BANK_UNITS][unit % ACT_SPAN * ACT_PARTS + part][unit % ACT_BANK_UNITS / ACT_SPAN]
                       [k] = int8_t(value);
        } else {
            int32_t unit[OUT_ELEMENTS];
            for (int e = 0; e < UNIT; e++) unit[e] = value;
            write_acc(acc, acc_address(walk.at), true, unit);
        }
        more = !walk.last();
        walk.advance();
    }
    return push;
}

#if TW_CORES > 1
// Wait for the doorbells of a WAIT; returns its push mask when they have been heard.
static token_mask hear_bells(token_stream &heard, const WaitFields f, token_mask push) {
#pragma HLS INLINE off
    if (f.hear != 0) heard.read();
    return push;
}
#endif

void tilewright_load(TW_BELLS(token_stream &heard) command_stream &commands, retire_stream &retired,
                     token_stream &from_gemm, token_stream &from_alu, token_stream &from_store, token_stream &to_gemm,
                     token_stream &to_alu, token_stream &to_store, TW_READ_DRAM, act_memory act,
                     wgt_memory wgt, acc_memory acc, prm_memory prm, table_memory tables, uop_gemm_memory uops_gemm,
                     uop_alu_memory uops_alu) {
#pragma HLS INTERFACE ap_ctrl_none port=return
#if TW_CORES > 1
#pragma HLS INTERFACE axis port=heard
#endif
#pragma HLS INTERFACE axis port=commands
#pragma HLS INTERFACE axis port=retired
#pragma HLS INTERFACE axis port=from_gemm
#pragma HLS INTERFACE axis port=from_alu
#pragma HLS INTERFACE axis port=from_store
#pragma HLS INTERFACE axis port=to_gemm
#pragma HLS INTERFACE axis port=to_alu
#pragma HLS INTERFACE axis port=to_store
#pragma HLS INTERFACE m_axi port=dram offset=off bundle=gmem
#if TW_AXI_PORTS == 2
#pragma HLS INTERFACE m_axi port=dram_odd offset=off bundle=gmem1
#endif
#pragma HLS INTERFACE ap_memory port=act
#pragma HLS INTERFACE ap_memory port=wgt
#pragma HLS INTERFACE ap_memory port=acc
#pragma HLS INTERFACE ap_memory port=prm
#pragma HLS INTERFACE ap_memory port=tables
#pragma HLS INTERFACE ap_memory port=uops_gemm
#pragma HLS INTERFACE ap_memory port=uops_alu
// The same shapes as in the kernels that read them: a port must fit the RAMs behind it.
#pragma HLS ARRAY_PARTITION variable=act complete dim=1
#pragma HLS ARRAY_PARTITION variable=act complete dim=2
#pragma HLS ARRAY_RESHAPE variable=act complete dim=4
#pragma HLS ARRAY_PARTITION variable=acc complete dim=1
#pragma HLS ARRAY_PARTITION variable=acc complete dim=2
#pragma HLS ARRAY_RESHAPE variable=acc complete dim=4
#pragma HLS ARRAY_PARTITION variable=wgt complete dim=1
#pragma HLS ARRAY_RESHAPE variable=wgt complete dim=3
#pragma HLS ARRAY_PARTITION variable=prm complete dim=1
#pragma HLS ARRAY_RESHAPE variable=prm complete dim=3
#pragma HLS ARRAY_PARTITION variable=tables complete dim=1
#pragma HLS ARRAY_RESHAPE variable=tables complete dim=3
#pragma HLS ARRAY_RESHAPE variable=uops_gemm complete dim=2
#pragma HLS ARRAY_RESHAPE variable=uops_alu complete dim=2
    const Received now = receive(commands, from_gemm, from_alu, from_store);
    token_mask push = now.header.push;
    bool fault = false;
    if (now.header.opcode == OPCODE_LOAD) {
        const LoadFields f = decode_LoadFields(now.word);
        const unsigned beats = row_beats(destination_of(f.memory), f.cols);
        fault = outside(f.offset, f.rows, f.stride, beats, command_limit(now.command));
        if (!fault)
            push = transfer(TW_DRAM, command_base(now.command), f, push, act, wgt, acc, prm, tables, uops_gemm, uops_alu);
    } else if (now.header.opcode == OPCODE_FILL) {
        push = fill(decode_FillFields(now.word), push, act, acc);
#if TW_CORES > 1
    } else if (now.header.opcode == OPCODE_WAIT) {
        push = hear_bells(heard, decode_WaitFields(now.word), push);
#endif
    }
    finish(now.command, push, fault, to_gemm, to_alu, to_store, retired);
}
