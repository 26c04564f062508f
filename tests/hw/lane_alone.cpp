// Arrays of operands through one lane, a set a cycle. Compiled with the Verilated module by lane_alone.py.
#include <cstdint>

#include "Vlane.h"
#include "verilated.h"

// operands: seven rows of `count`; the result of a set stands at the output 16 cycles after it was there.
extern "C" void run_lane(int bits, int64_t count, const uint32_t* head, const int32_t* operands, int32_t* results) {
    constexpr int DEPTH = 16;
    VerilatedContext context;
    Vlane top{&context};
    for (int k = 0; 32 * k < bits; k++) {
        const int left = bits - 32 * k;
        top.head[k] = left < 32 ? head[k] & ((1u << left) - 1) : head[k];
    }
    top.rst = 0;
    for (int64_t i = 0; i < count + DEPTH; i++) {
        const int64_t at = i < count ? i : 0;
        top.valid = i < count;
        top.act = uint8_t(operands[at]);
        top.src = uint32_t(operands[count + at]);
        top.dst = uint32_t(operands[2 * count + at]);
        top.bias = uint32_t(operands[3 * count + at]);
        top.multiplier = uint32_t(operands[4 * count + at]);
        top.offset = uint32_t(operands[5 * count + at]);
        top.shift = uint8_t(operands[6 * count + at]) & 63;
        top.clk = 0, top.eval();
        if (i >= DEPTH) results[i - DEPTH] = int32_t(top.result);
        top.clk = 1, top.eval();
    }
}
