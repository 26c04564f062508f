// The two affine loops around a list of micro-ops, as counters: one loop without products, so that it
// pipelines whatever the counts are.
#pragma once
#include "types.hpp"

template <int UOP_BITS, int COUNT_BITS> struct Loops {
    ap_uint<UOP_BITS> begin, uop;
    ap_uint<COUNT_BITS> count, uops_left;
    ap_uint<LOOP_BITS + 1> inner, inner_left, outer_left;

    void start(ap_uint<UOP_BITS> first, ap_uint<COUNT_BITS> uops, ap_uint<LOOP_BITS + 1> outer_count,
               ap_uint<LOOP_BITS + 1> inner_count) {
#pragma HLS INLINE
        begin = uop = first;
        count = uops_left = uops;
        inner = inner_left = inner_count;
        outer_left = outer_count;
    }
    bool last_uop() const { return uops_left == 1; }
    bool last_inner() const { return inner_left == 1; }
    bool last() const { return last_uop() && last_inner() && outer_left == 1; }

    void advance() {
#pragma HLS INLINE
        if (!last_uop()) {
            uop = uop + 1;
            uops_left = uops_left - 1;
            return;
        }
        uop = begin;
        uops_left = count;
        if (!last_inner()) {
            inner_left = inner_left - 1;
            return;
        }
        inner_left = inner;
        outer_left = outer_left - 1;
    }
};

// base + o * outer + i * inner of one operand, by additions.
template <int BITS> struct Affine {
    ap_uint<BITS> at, row, by_outer, by_inner;

    void start(ap_uint<BITS> base, ap_uint<BITS> outer, ap_uint<BITS> inner) {
#pragma HLS INLINE
        at = row = base;
        by_outer = outer;
        by_inner = inner;
    }
    void advance(bool last_uop, bool last_inner) {
#pragma HLS INLINE
        if (last_uop && last_inner) {
            row = row + by_outer;
            at = row;
        } else if (last_uop) {
            at = at + by_inner;
        }
    }
};
