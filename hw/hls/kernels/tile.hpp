// The 2-D tiles that LOAD, FILL and STORE walk: one beat of one entry at a time.
#pragma once
#include "memory.hpp"

struct Tile {
    ap_uint<SRAM_ADDRESS_BITS + 1> sram, by_row, by_col, cols, rows;
    act_address wrap_base;
    act_offset wrap_size;
};

template <typename Fields> Tile tile_of(const Fields &f) {
#pragma HLS INLINE
    Tile tile;
    tile.sram = f.sram;
    tile.by_row = f.sram_row;
    tile.by_col = f.sram_col;
    tile.cols = f.cols;
    tile.rows = f.rows;
    tile.wrap_base = f.wrap_base;
    tile.wrap_size = f.wrap_size;
    return tile;
}

// A walk over the beats of a tile in DRAM order: `parts` beats an entry, `step` columns a beat.
struct TileWalk {
    Tile tile;
    ap_uint<16> parts, step, part;
    ap_uint<SRAM_ADDRESS_BITS + 1> row_at, at, rows_left, cols_left;

    void start(const Tile &t, int parts_of_entry, int columns_of_beat) {
#pragma HLS INLINE
        tile = t;
        parts = parts_of_entry;
        step = columns_of_beat;
        part = 0;
        row_at = at = t.sram;
        rows_left = t.rows;
        cols_left = t.cols;
    }
    act_address act() const { return wrapped(act_offset(at), tile.wrap_base, tile.wrap_size); }
    bool last_of_row() const { return part + 1 == parts && cols_left <= step; }
    bool last() const { return last_of_row() && rows_left == 1; }

    void advance() {
#pragma HLS INLINE
        if (part + 1 != parts) {
            part = part + 1;
            return;
        }
        part = 0;
        if (cols_left > step) {
            cols_left = cols_left - step;
            at = at + (step == 1 ? tile.by_col : ap_uint<SRAM_ADDRESS_BITS + 1>(step));
            return;
        }
        cols_left = tile.cols;
        rows_left = rows_left - 1;
        row_at = row_at + tile.by_row;
        at = row_at;
    }
};

// Whether rows of `row_beats` from `offset` on, `stride` apart, reach beyond the segment.
inline bool outside(ap_uint<32> offset, ap_uint<32> rows, ap_uint<32> stride, ap_uint<32> row_beats,
                    ap_uint<LIMIT_BITS> limit) {
#pragma HLS INLINE
    const uint64_t last_row = uint64_t(unsigned(rows) - 1) * unsigned(stride);
    return uint64_t(unsigned(offset)) + last_row + unsigned(row_beats) > uint64_t(unsigned(limit));
}
