// STORE: tiles from act to DRAM. As in LOAD, SRAM side and DRAM side are two processes.
#include "engines.hpp"
#include "tile.hpp"

static void read_units(const StoreFields f, const act_memory act, beat_stream &data) {
#pragma HLS INLINE off
    TileWalk walk;
    walk.start(tile_of(f), ACT_PARTS, 1);
    bool more = true;
    while (more) {
// A slice a cycle, as wide as a beat: the rate of the bus.
#pragma HLS PIPELINE II=1
        const act_address unit = walk.act();
        int8_t row[ACT_SPAN * UNIT];
#pragma HLS ARRAY_PARTITION variable=row complete
        read_act_row(act, unit, true, row);
        const unsigned first = unsigned(unit) % ACT_SPAN * UNIT + unsigned(walk.part) * BEAT_BYTES;
        beat_t beat = 0;
        for (int k = 0; k < BEAT_BYTES; k++) {
#pragma HLS UNROLL
            beat.range(8 * k + 7, 8 * k) = uint8_t(row[first + k]);
        }
        data.write(beat);
        more = !walk.last();
        walk.advance();
    }
}

static void write_rows(const StoreFields f, dram_address base, beat_stream &data, TW_WRITE_DRAM) {
#pragma HLS INLINE off
    uint64_t row = uint64_t(base) + unsigned(f.offset);
    for (unsigned r = 0; r < unsigned(f.rows); r++) {
        write_beats(TW_DRAM, row, unsigned(f.cols) * ACT_PARTS, data);
        row += unsigned(f.stride);
    }
}

static void move_rows(const StoreFields f, dram_address base, const act_memory act, TW_WRITE_DRAM) {
#pragma HLS INLINE off
#pragma HLS DATAFLOW
    beat_stream data("store_data");
// Covers the read latency of act and the pause between two bursts.
#pragma HLS STREAM variable=data depth=64
    read_units(f, act, data);
    write_rows(f, base, data, TW_DRAM);
}

// Returns the push mask. A function ends when its last write has been answered, so a token cannot overtake
// the data: LOAD sees what was stored. It stands around the dataflow region, which may return nothing.
static token_mask transfer(const StoreFields f, dram_address base, token_mask push, const act_memory act,
                           TW_WRITE_DRAM) {
#pragma HLS INLINE off
    move_rows(f, base, act, TW_DRAM);
    return push;
}

#if TW_CORES > 1
// Ring the doorbells of a WAIT; returns its push mask when that is done. What was stored before has been answered.
static token_mask ring_bells(bell_stream &ring, const WaitFields f, token_mask push) {
#pragma HLS INLINE off
    if (f.ring != 0) ring.write(f.ring);
    return push;
}
#endif

void tilewright_store(TW_BELLS(bell_stream &ring) command_stream &commands, retire_stream &retired,
                      token_stream &from_load, token_stream &from_gemm, token_stream &from_alu, token_stream &to_load,
                      token_stream &to_gemm, token_stream &to_alu, TW_WRITE_DRAM, act_memory act) {
#pragma HLS INTERFACE ap_ctrl_none port=return
#if TW_CORES > 1
#pragma HLS INTERFACE axis port=ring
#endif
#pragma HLS INTERFACE axis port=commands
#pragma HLS INTERFACE axis port=retired
#pragma HLS INTERFACE axis port=from_load
#pragma HLS INTERFACE axis port=from_gemm
#pragma HLS INTERFACE axis port=from_alu
#pragma HLS INTERFACE axis port=to_load
#pragma HLS INTERFACE axis port=to_gemm
#pragma HLS INTERFACE axis port=to_alu
#pragma HLS INTERFACE m_axi port=dram offset=off bundle=gmem
#if TW_AXI_PORTS == 2
#pragma HLS INTERFACE m_axi port=dram_odd offset=off bundle=gmem1
#endif
#pragma HLS INTERFACE ap_memory port=act
// The same shape as in the kernels that write it: a port must fit the RAMs behind it.
#pragma HLS ARRAY_PARTITION variable=act complete dim=1
#pragma HLS ARRAY_PARTITION variable=act complete dim=2
#pragma HLS ARRAY_RESHAPE variable=act complete dim=4
    const Received now = receive(commands, from_load, from_gemm, from_alu);
    token_mask push = now.header.push;
    bool fault = false;
    if (now.header.opcode == OPCODE_STORE) {
        const StoreFields f = decode_StoreFields(now.word);
        fault = outside(f.offset, f.rows, f.stride, unsigned(f.cols) * ACT_PARTS, command_limit(now.command));
        if (!fault) push = transfer(f, command_base(now.command), push, act, TW_DRAM);
#if TW_CORES > 1
    } else if (now.header.opcode == OPCODE_WAIT) {
        push = ring_bells(ring, decode_WaitFields(now.word), push);
#endif
    }
    finish(now.command, push, fault, to_load, to_gemm, to_alu, retired);
}
