// GEMM: matrix products and window mode over micro-ops, one micro-op per iteration.
#include "engines.hpp"
#include "loops.hpp"
#include "memory.hpp"
#include "pair.hpp"

// sum_k act[b, k] * wgt[o, k]: the unrolled loops become BATCH x BLOCK_OUT adder trees of BLOCK_IN products.
static void dense(const int8_t x[IN_ELEMENTS], const int8_t w[ENTRY_WEIGHTS], int32_t sum[OUT_ELEMENTS]) {
#pragma HLS INLINE
    for (int unit = 0; unit < OUT_UNITS; unit++)
        for (int b = 0; b < BATCH; b++)
            for (int lane = 0; lane < LANES; lane++) {
#pragma HLS UNROLL
                int32_t total = 0;
                for (int source = 0; source < IN_UNITS; source++)
                    for (int k = 0; k < LANES; k++)
                        total += x[source * UNIT + b * LANES + k] *
                                 w[(unit * LANES + lane) * BLOCK_IN + source * LANES + k];
                sum[unit * UNIT + b * LANES + lane] = total;
            }
}

// sum_t window[t][b, c] * wgt[c, t]: the same trees, each lane with operands of its own.
static void taps(const int8_t window[BLOCK_IN][UNIT], const int8_t w[ENTRY_WEIGHTS], int32_t sum[OUT_ELEMENTS]) {
#pragma HLS INLINE
    for (int b = 0; b < BATCH; b++)
        for (int c = 0; c < LANES; c++) {
#pragma HLS UNROLL
            int32_t total = 0;
            for (int t = 0; t < BLOCK_IN; t++) total += window[t][b * LANES + c] * w[c * BLOCK_IN + t];
            sum[b * LANES + c] = total;
        }
}

static void read_weights(const wgt_memory wgt, ap_uint<WGT_ADDRESS_BITS> entry, int8_t w[ENTRY_WEIGHTS]) {
#pragma HLS INLINE
    const unsigned row = entry;
    for (int part = 0; part < WGT_PARTS; part++)
        for (int k = 0; k < BEAT_WEIGHTS; k++) {
#pragma HLS UNROLL
            w[part * BEAT_WEIGHTS + k] = int8_t(int(wgt[part][row][k]));  // sign-extended: costs no bits
        }
}

// Runs one GEMM instruction and returns its push mask when all results are written.
static token_mask run(const GemmFields f, token_mask push, const uop_gemm_memory uops, const act_memory act,
                      const wgt_memory wgt, acc_memory acc) {
#pragma HLS INLINE off
    Loops<UOP_GEMM_ADDRESS_BITS, UOP_GEMM_ADDRESS_BITS + 1> loops;
    Affine<ACC_ADDRESS_BITS> dst;
    Affine<ACT_ADDRESS_BITS + 1> src;
    Affine<WGT_ADDRESS_BITS> weights;
    loops.start(f.uop_begin, f.uop_count, f.outer, f.inner);
    dst.start(f.dst, f.dst_outer, f.dst_inner);
    src.start(f.src, f.src_outer, f.src_inner);
    weights.start(f.wgt, f.wgt_outer, f.wgt_inner);

    // All registers: window mode shifts the whole window and reads all taps in every iteration.
    int8_t window[BLOCK_IN][UNIT];
#pragma HLS ARRAY_PARTITION variable=window complete dim=0
    for (int t = 0; t < BLOCK_IN; t++)
        for (int e = 0; e < UNIT; e++) {
#pragma HLS UNROLL
            window[t][e] = 0;
        }
    // The newest results, newest first. acc takes a few cycles from a read to the write of the sum, so an
    // accumulation onto one of these takes it from here: one address can accumulate in successive cycles.
    bool recent_valid[TW_FORWARD];
    acc_address recent_at[TW_FORWARD];
    int32_t recent[TW_FORWARD][OUT_ELEMENTS];
#pragma HLS ARRAY_PARTITION variable=recent_valid complete dim=0
#pragma HLS ARRAY_PARTITION variable=recent_at complete dim=0
#pragma HLS ARRAY_PARTITION variable=recent complete dim=0
    for (int k = 0; k < TW_FORWARD; k++) recent_valid[k] = false;
    AccWrites<TW_GEMM_DISTANCE> writes;

    Pair pair;
#pragma HLS ARRAY_PARTITION variable=pair.window complete dim=0
#pragma HLS ARRAY_PARTITION variable=pair.first complete
#pragma HLS ARRAY_PARTITION variable=pair.second complete
#pragma HLS ARRAY_PARTITION variable=pair.rest_of complete
    pair.start();

    bool more = true;
    while (more || pair.odd || pair.rest) {
// One micro-op a cycle is what the array is built for. That acc is free of closer dependences is what
// `recent` is for; the tool still checks the distance against the pipeline that it builds.
#pragma HLS PIPELINE II=1
TW_PRAGMA(HLS DEPENDENCE variable=acc inter RAW distance=TW_GEMM_DISTANCE true)
        writes.begin_iteration(acc);
        const unsigned index = loops.uop;
        const GemmUop uop = decode_GemmUop(uops[index / UOP_GEMM_PER_BEAT][index % UOP_GEMM_PER_BEAT]);
        const act_address source = wrapped(act_offset(uop.src + src.at), f.wrap_base, f.wrap_size);
        const bool single = f.window == 1;
        const bool step = more && !(pair.odd && f.pace == 1);  // no micro-op beside the second half of an emit
        const bool emit = step && (!single || ~uop.dst != 0);
        const bool emit_pair = PACKED && emit && f.pair == 1;
        const bool result = (emit && !emit_pair) || pair.odd || pair.rest;
        const bool adds = pair.odd ? pair.adds : pair.rest ? pair.rest_adds : uop.accumulate == 1;
        const acc_address mine = uop.dst + dst.at;
        const acc_address target = pair.odd ? pair.at : pair.rest ? pair.rest_at : mine;
        const ap_uint<WGT_ADDRESS_BITS> entry = uop.wgt + weights.at;

        int8_t row[ACT_SPAN * UNIT], x[IN_ELEMENTS], w[ENTRY_WEIGHTS];
        int32_t sum[OUT_ELEMENTS], old[OUT_ELEMENTS];
#pragma HLS ARRAY_PARTITION variable=row complete
#pragma HLS ARRAY_PARTITION variable=x complete
#pragma HLS ARRAY_PARTITION variable=w complete
#pragma HLS ARRAY_PARTITION variable=sum complete
#pragma HLS ARRAY_PARTITION variable=old complete
        read_act_row(act, source, step, row);
        if (single && step) {
            for (int t = BLOCK_IN - 1; t > 0; t--)
                for (int e = 0; e < UNIT; e++) window[t][e] = window[t - 1][e];
            units_of_row<1>(row, source, window[0]);
            if (PACKED && f.twin == 1) units_of_row<1>(row, source + 1, window[BLOCK_IN / 2]);
        } else if (!single) {
            units_of_row<IN_UNITS>(row, source, x);
        }
        read_acc(acc, target, result && adds, single, old);
        if (emit || pair.odd) read_weights(wgt, pair.odd ? pair.entry : entry, w);
        if (result) {
            if (pair.odd) pair.complete(w);
            if (pair.odd || pair.rest)
                for (int e = 0; e < UNIT; e++) sum[e] = pair.odd ? pair.first[e] : pair.rest_of[e];
            else if (single) taps(window, w, sum);
            else dense(x, w, sum);
            if (adds) {
                for (int k = TW_FORWARD - 1; k >= 0; k--)
                    if (recent_valid[k] && recent_at[k] == target)
                        for (int e = 0; e < OUT_ELEMENTS; e++) old[e] = recent[k][e];
                for (int e = 0; e < (single ? UNIT : OUT_ELEMENTS); e++)
                    sum[e] = int32_t(uint32_t(sum[e]) + uint32_t(old[e]));
            }
            writes.write(acc, target, single, sum);
        }
        for (int k = TW_FORWARD - 1; k > 0; k--) {
            recent_valid[k] = recent_valid[k - 1];
            recent_at[k] = recent_at[k - 1];
            for (int e = 0; e < OUT_ELEMENTS; e++) recent[k][e] = recent[k - 1][e];
        }
        recent_valid[0] = result;
        recent_at[0] = target;
        if (result)
            for (int e = 0; e < (single ? UNIT : OUT_ELEMENTS); e++) recent[0][e] = sum[e];

        pair.rest = pair.odd;
        pair.odd = emit_pair;
        if (emit_pair) pair.emit(window, w, mine, uop.accumulate == 1, entry);
        if (!step) continue;
        dst.advance(loops.last_uop(), loops.last_inner());
        src.advance(loops.last_uop(), loops.last_inner());
        weights.advance(loops.last_uop(), loops.last_inner());
        more = !loops.last();
        loops.advance();
    }
    writes.finish(acc);
    return push;
}

void tilewright_gemm(command_stream &commands, retire_stream &retired, token_stream &from_load,
                     token_stream &from_alu, token_stream &from_store, token_stream &to_load,
                     token_stream &to_alu, token_stream &to_store, uop_gemm_memory uops, act_memory act,
                     wgt_memory wgt, acc_memory acc) {
#pragma HLS INTERFACE ap_ctrl_none port=return
#pragma HLS INTERFACE axis port=commands
#pragma HLS INTERFACE axis port=retired
#pragma HLS INTERFACE axis port=from_load
#pragma HLS INTERFACE axis port=from_alu
#pragma HLS INTERFACE axis port=from_store
#pragma HLS INTERFACE axis port=to_load
#pragma HLS INTERFACE axis port=to_alu
#pragma HLS INTERFACE axis port=to_store
#pragma HLS INTERFACE ap_memory port=uops
#pragma HLS INTERFACE ap_memory port=act
#pragma HLS INTERFACE ap_memory port=wgt
#pragma HLS INTERFACE ap_memory port=acc
// Banks and slices apart: a vector is read in one cycle, and a bank is free for another engine meanwhile.
#pragma HLS ARRAY_PARTITION variable=act complete dim=1
#pragma HLS ARRAY_PARTITION variable=act complete dim=2
#pragma HLS ARRAY_RESHAPE variable=act complete dim=4
#pragma HLS ARRAY_PARTITION variable=acc complete dim=1
#pragma HLS ARRAY_PARTITION variable=acc complete dim=2
#pragma HLS ARRAY_RESHAPE variable=acc complete dim=4
// A whole entry, BLOCK_OUT x BLOCK_IN weights, is read in one cycle.
#pragma HLS ARRAY_PARTITION variable=wgt complete dim=1
#pragma HLS ARRAY_RESHAPE variable=wgt complete dim=3
// LOAD writes a beat of micro-ops at once.
#pragma HLS ARRAY_RESHAPE variable=uops complete dim=2
    const Received now = receive(commands, from_load, from_alu, from_store);
    token_mask push = now.header.push;
    if (now.header.opcode == OPCODE_GEMM) push = run(decode_GemmFields(now.word), push, uops, act, wgt, acc);
    finish(now.command, push, false, to_load, to_alu, to_store, retired);
}
