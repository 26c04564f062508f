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

// UNITS consecutive units of act from an address that is a multiple of UNITS.
template <int UNITS> void read_act(const act_memory act, act_address address, int8_t value[UNITS * UNIT]) {
#pragma HLS INLINE
    const unsigned unit = address;
    const unsigned first = unit % ACT_SPAN / UNITS * UNITS * ACT_PARTS;
    for (int part = 0; part < UNITS * ACT_PARTS; part++) {
#pragma HLS UNROLL
        for (int k = 0; k < BEAT_BYTES; k++) {
#pragma HLS UNROLL
            value[part * BEAT_BYTES + k] =
                act[unit / ACT_BANK_UNITS][first + part][unit % ACT_BANK_UNITS / ACT_SPAN][k];
        }
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

// One vector of acc, or with `single` one unit of it into the first UNIT elements.
inline void read_acc(const acc_memory acc, acc_address address, bool single, int32_t value[OUT_ELEMENTS]) {
#pragma HLS INLINE
    const unsigned unit = address;
    const unsigned first = single ? unit % OUT_UNITS * ACC_PARTS : 0;
    for (int part = 0; part < OUT_UNITS * ACC_PARTS; part++) {
#pragma HLS UNROLL
        if (single && part >= ACC_PARTS) break;
        for (int k = 0; k < BEAT_WORDS; k++) {
#pragma HLS UNROLL
            value[part * BEAT_WORDS + k] =
                acc[unit / ACC_BANK_UNITS][first + part][unit % ACC_BANK_UNITS / OUT_UNITS][k];
        }
    }
}

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
