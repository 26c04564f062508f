// Units and vectors in the banked memories. Addresses are as wide as the memories are deep: no access can
// lie outside one, whatever an instruction says.
#pragma once
#include "types.hpp"

inline act_address wrapped(act_offset offset, act_address base, act_offset size) {
#pragma HLS INLINE
    act_offset inside = offset;
    if (offset >= size) inside = offset - size;
    return base + inside;
}

// Reads. Several engines share a bank's read port, one at a time as tokens order it, but a synthesis tool may
// enable the port of every bank where the bank is chosen at run time, or read ahead of the condition. So a
// kernel reads every bank in every iteration and gives the banks that it does not mean the spare row as their
// row: the RAM behind the port takes no read there (join.py), whoever else reads the bank is not
// disturbed. Natively only the bank that is meant is read, unless TW_READ_EVERY_BANK asks for the other way too.
#if defined(__SYNTHESIS__) || defined(TW_READ_EVERY_BANK)
static const bool READ_EVERY_BANK = true;
#else
static const bool READ_EVERY_BANK = false;
#endif

// The row of act with the unit at an address: ACT_SPAN units. Undefined if it is not `wanted`.
inline void read_act_row(const act_memory act, act_address address, bool wanted, int8_t row[ACT_SPAN * UNIT]) {
#pragma HLS INLINE
    const unsigned unit = address;
    for (unsigned bank = 0; bank < unsigned(ACT_BANKS); bank++) {
#pragma HLS UNROLL
        const bool meant = wanted && unit / ACT_BANK_UNITS == bank;
        if (!READ_EVERY_BANK && !meant) continue;
        const unsigned at = meant ? unit % ACT_BANK_UNITS / ACT_SPAN : unsigned(ACT_ROWS);
        for (int part = 0; part < ACT_SPAN * ACT_PARTS; part++) {
#pragma HLS UNROLL
            for (int k = 0; k < BEAT_BYTES; k++) {
#pragma HLS UNROLL
                const int8_t element = act[bank][part][at][k];
                if (meant) row[part * BEAT_BYTES + k] = element;
            }
        }
    }
}

// UNITS consecutive units of a row, from an address that is a multiple of UNITS.
template <int UNITS>
void units_of_row(const int8_t row[ACT_SPAN * UNIT], act_address address, int8_t value[UNITS * UNIT]) {
#pragma HLS INLINE
    const unsigned first = unsigned(address) % ACT_SPAN / UNITS * UNITS * UNIT;
    for (int e = 0; e < UNITS * UNIT; e++) {
#pragma HLS UNROLL
        value[e] = row[first + e];
    }
}

inline void write_act(act_memory act, act_address address, const int8_t value[OUT_ELEMENTS]) {
#pragma HLS INLINE
    const unsigned unit = address;
    const unsigned first = unit % ACT_SPAN / OUT_UNITS * OUT_UNITS * ACT_PARTS;
    for (int part = 0; part < OUT_UNITS * ACT_PARTS; part++) {
#pragma HLS UNROLL
        for (int k = 0; k < BEAT_BYTES; k++) {
#pragma HLS UNROLL
            act[unit / ACT_BANK_UNITS][first + part][unit % ACT_BANK_UNITS / ACT_SPAN][k] =
                value[part * BEAT_BYTES + k];
        }
    }
}

// One vector of acc, or with `single` one unit of it into the first UNIT elements. Undefined if not `wanted`.
inline void read_acc(const acc_memory acc, acc_address address, bool wanted, bool single,
                     int32_t value[OUT_ELEMENTS]) {
#pragma HLS INLINE
    const unsigned unit = address;
    int32_t row[OUT_ELEMENTS];
#pragma HLS ARRAY_PARTITION variable=row complete
    for (unsigned bank = 0; bank < unsigned(ACC_BANKS); bank++) {
#pragma HLS UNROLL
        const bool meant = wanted && unit / ACC_BANK_UNITS == bank;
        if (!READ_EVERY_BANK && !meant) continue;
        const unsigned at = meant ? unit % ACC_BANK_UNITS / OUT_UNITS : unsigned(ACC_ROWS);
        for (int e = 0; e < OUT_ELEMENTS; e++) {
#pragma HLS UNROLL
            const int32_t element = acc[bank][e / BEAT_WORDS][at][e % BEAT_WORDS];
            if (meant) row[e] = element;
        }
    }
    if (!wanted) return;
    const unsigned first = single ? unit % OUT_UNITS * UNIT : 0;
    for (int e = 0; e < (single ? UNIT : OUT_ELEMENTS); e++) {
#pragma HLS UNROLL
        value[e] = row[first + e];
    }
}

// One vector of acc, or with `single` one unit of it from the first UNIT elements.
inline void write_acc(acc_memory acc, acc_address address, bool single, const int32_t value[OUT_ELEMENTS]) {
#pragma HLS INLINE
    const unsigned unit = address;
    const unsigned first = single ? unit % OUT_UNITS * ACC_PARTS : 0;
    for (int part = 0; part < OUT_UNITS * ACC_PARTS; part++) {
#pragma HLS UNROLL
        if (single && part >= ACC_PARTS) break;
        for (int k = 0; k < BEAT_WORDS; k++) {
#pragma HLS UNROLL
            acc[unit / ACC_BANK_UNITS][first + part][unit % ACC_BANK_UNITS / OUT_UNITS][k] =
                value[part * BEAT_WORDS + k];
        }
    }
}

// Writes to acc inside a pipelined loop whose DEPENDENCE pragma promises DISTANCE: a read may miss the writes
// of the DISTANCE - 1 iterations before it. The native build makes it miss every one of them, so that a
// promise that does not hold shows as wrong bytes instead of only in hardware.
template <int DISTANCE> class AccWrites {
#ifdef __SYNTHESIS__
  public:
    void begin_iteration(acc_memory) {}
    void write(acc_memory acc, acc_address address, bool single, const int32_t value[OUT_ELEMENTS]) {
#pragma HLS INLINE
        write_acc(acc, address, single, value);
    }
    void finish(acc_memory) {}
#else
    struct Late {
        bool waiting = false, single = false;
        acc_address address = 0;
        int32_t value[OUT_ELEMENTS];
    };
    Late late[DISTANCE];
    int now = 0;

  public:
    void begin_iteration(acc_memory acc) {
        now = (now + 1) % DISTANCE;
        if (late[now].waiting) write_acc(acc, late[now].address, late[now].single, late[now].value);
        late[now].waiting = false;
    }
    void write(acc_memory, acc_address address, bool single, const int32_t value[OUT_ELEMENTS]) {
        late[now].waiting = true;
        late[now].single = single;
        late[now].address = address;
        for (int e = 0; e < (single ? UNIT : OUT_ELEMENTS); e++) late[now].value[e] = value[e];
    }
    void finish(acc_memory acc) {
        for (int k = 0; k < DISTANCE; k++) begin_iteration(acc);
    }
#endif
};
