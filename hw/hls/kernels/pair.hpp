// Window emits with two results, on packed multipliers: what is left of one after its iteration.
//
// Products of even lanes first, with both rows of weights; those of odd lanes an iteration later, from a copy of the
// window and the next entry of wgt. Then the results are there: the first is written in that iteration, the second in
// the one after. The next emit is two iterations away, so acc and wgt serve one of them at a time.
#pragma once
#include "types.hpp"

struct Pair {
    bool odd, rest;  // this iteration multiplies for odd lanes; it writes a second result
    bool adds, rest_adds;
    acc_address at, rest_at;
    ap_uint<WGT_ADDRESS_BITS> entry;
    int8_t window[BLOCK_IN][UNIT];
    int32_t first[UNIT], second[UNIT], rest_of[UNIT];

    void start() {
#pragma HLS INLINE
        odd = rest = adds = rest_adds = false;
    }

    // Both results of every second lane, from `parity` on.
    void multiply(const int8_t from[BLOCK_IN][UNIT], const int8_t w[ENTRY_WEIGHTS], int parity) {
#pragma HLS INLINE
        for (int b = 0; b < BATCH; b++)
            for (int lane = 0; lane < LANES; lane += 2) {
#pragma HLS UNROLL
                int32_t one = 0, other = 0;
                for (int t = 0; t < BLOCK_IN; t++) {
                    one += from[t][b * LANES + lane + parity] * w[lane * BLOCK_IN + t];
                    other += from[t][b * LANES + lane + parity] * w[(lane + 1) * BLOCK_IN + t];
                }
                first[b * LANES + lane + parity] = one;
                second[b * LANES + lane + parity] = other;
            }
    }

    // An emit: even lanes now.
    void emit(const int8_t from[BLOCK_IN][UNIT], const int8_t w[ENTRY_WEIGHTS], acc_address target, bool accumulate,
              ap_uint<WGT_ADDRESS_BITS> weights) {
#pragma HLS INLINE
        multiply(from, w, 0);
        for (int t = 0; t < BLOCK_IN; t++)
            for (int e = 0; e < UNIT; e++) {
#pragma HLS UNROLL
                window[t][e] = from[t][e];
            }
        at = target;
        adds = accumulate;
        entry = weights + 1;
    }

    // The iteration after: odd lanes.
    void complete(const int8_t w[ENTRY_WEIGHTS]) {
#pragma HLS INLINE
        multiply(window, w, 1);
        for (int e = 0; e < UNIT; e++) rest_of[e] = second[e];
        rest_at = at + 1;
        rest_adds = adds;
    }
};
