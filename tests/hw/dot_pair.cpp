// All operands of one tap of tw_dot_pair (TAPS = 4, one set a cycle) beside random ones of the other three, of which
// a quarter are the least there are, against plain multiplies less one. Compiled with the Verilated module by test_dot_pair.py.
#include <cstdint>

#include "Vpair.h"
#include "verilated.h"

namespace {
// LATENCY: from x; the weights of a set are given a cycle before its x
constexpr int TAPS = 4, LATENCY = 3, KEPT = LATENCY + 3, BITS = WEIGHT_BITS;

struct Operands {
    int32_t x[TAPS], w0[TAPS], w1[TAPS];
    static int32_t narrow(uint64_t value, int bits) { return int32_t(uint32_t(value) << (32 - bits)) >> (32 - bits); }
    static int32_t dot(const int32_t* x, const int32_t* w) {
        int32_t sum = 0;
        for (int k = 0; k < TAPS; k++) sum += x[k] * w[k];
        return sum - 1;
    }
};
}  // namespace

// The number of the first operand set whose sums are wrong, or -1. In mode 1 (`late`) the second sum that appears
// beside those of a set is of the set a cycle later. In mode 2 two sets give first the first sums of both (`firsts`),
// then the second ones (`seconds`).
extern "C" int64_t check_tap(int tap, int mode, int64_t sets) {
    VerilatedContext context;
    Vpair top{&context};
    Operands recent[KEPT] = {};
    uint64_t random = 0x9E3779B97F4A7C15ULL;
    uint32_t next_x = 0;
    for (int64_t i = 0; i < sets + LATENCY + 1; i++) {
        Operands& now = recent[i % KEPT];
        const int64_t first = i - LATENCY - 1;  // the set whose first sum stands at the output after this cycle
        const bool second = first & 1;
        top.late = mode == 1, top.firsts = mode == 2 && !second, top.seconds = mode == 2 && second;
        uint32_t w0 = 0, w1 = 0;
        top.x = next_x, next_x = 0;
        for (int k = 0; k < TAPS; k++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            const uint64_t least = 1u << 7 | 1ull << (7 + BITS) | 1ull << (7 + 2 * BITS);
            const uint64_t drawn = k == tap ? uint64_t(i) : (random & 3) == 0 ? least : random >> 20;
            now.x[k] = Operands::narrow(drawn, 8);
            now.w0[k] = Operands::narrow(drawn >> 8, BITS);
            now.w1[k] = Operands::narrow(drawn >> (8 + BITS), BITS);
            next_x |= uint32_t(now.x[k] & 0xFF) << (8 * k);
            w0 |= (uint32_t(now.w0[k]) & ((1u << BITS) - 1)) << (BITS * k);
            w1 |= (uint32_t(now.w1[k]) & ((1u << BITS) - 1)) << (BITS * k);
        }
        top.w0 = w0, top.w1 = w1;
        top.clk = 0, top.eval();
        top.clk = 1, top.eval();
        if (first < 0 || first >= sets) continue;
        const int64_t begin = first - (mode == 2 && second), end = first + (mode == 1 || (mode == 2 && !second));
        const Operands &a = recent[begin % KEPT], &b = recent[end % KEPT];
        const int32_t sum0 = Operands::dot(a.x, mode == 2 && second ? a.w1 : a.w0);
        const int32_t sum1 = Operands::dot(b.x, mode == 2 && !second ? b.w0 : b.w1);
        if (int32_t(top.sum0) != sum0 || int32_t(top.sum1) != sum1) return first;
    }
    return -1;
}
