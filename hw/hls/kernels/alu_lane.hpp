// One lane of the ALU: the arithmetic of ALU, REQUANTIZE and RESCALE around one multiplier.
#pragma once
#include "types.hpp"

// What the lanes are told of an instruction: the same for all of them, and for all its vectors.
struct LaneControl {
    bool requantize, rescale;  // neither: ALU
    ap_uint<FUNCTION_BITS> function;
    ap_uint<COMBINE_BITS> combine;
    ap_uint<ROUNDING_BITS> rounding;
    int8_t zero_point, lo, hi;
};

struct LaneParameters {
    int32_t bias, multiplier, offset;
    ap_uint<6> shift;
};

// value / 2^shift to nearest, ties to even; shift: 0 to 63.
inline int64_t to_even(int64_t value, int shift) {
#pragma HLS INLINE
    const uint64_t one = uint64_t(1) << shift;
    const uint64_t half = shift == 0 ? 1 : one >> 1;
    const int64_t result = value >> shift;
    return result + ((uint64_t(value) & (one - 1)) > half - (result & 1) ? 1 : 0);
}

// total to `precision` significant bits, then / 2^(shift + precision) to an integer, within FLOAT_LIMIT.
inline int64_t round_in_float(int64_t total, int shift, int precision) {
#pragma HLS INLINE
    ap_uint<64> size = total < 0 ? -uint64_t(total) : uint64_t(total);
    size[0] = 1;  // there is a bit to be found
    const int bits = 64 - int(size.countLeadingZeros());
    const int extra = bits > precision ? bits - precision : 0;
    const int64_t kept = int64_t(uint64_t(to_even(total, extra)) << extra);
    const int down = shift + precision;
    const int64_t result = down > 63 ? 0 : to_even(kept, down);
    return result > FLOAT_LIMIT ? FLOAT_LIMIT : result < -FLOAT_LIMIT ? -FLOAT_LIMIT : result;
}

// product / 2^shift, rounded; `negative`: the sign of the value that was scaled. 64-bit wrapping arithmetic.
inline int64_t round_product(int64_t product, bool negative, const LaneParameters &p, ap_uint<ROUNDING_BITS> rounding) {
#pragma HLS INLINE
    const int shift = p.shift;
    const int precision = rounding_precision(rounding);
    if (precision != 0) {
        return round_in_float(int64_t(uint64_t(product) + uint64_t(int64_t(p.offset))), shift, precision);
    }
    const uint64_t half = shift == 0 ? 0 : uint64_t(1) << (shift - 1);
    const int64_t nudge = rounding_nudge(rounding, negative, shift, int64_t(half));
    const uint64_t total = uint64_t(product) + half + uint64_t(int64_t(p.offset)) + uint64_t(nudge);
    const int64_t result = int64_t(total) >> shift;
    const bool tie = shift != 0 && (total & ((uint64_t(1) << shift) - 1)) == 0;
    return rounding_to_even(rounding) && tie ? result & ~int64_t(1) : result;
}

inline int8_t clamp(int64_t value, int8_t lo, int8_t hi) {
#pragma HLS INLINE
    const int64_t raised = value < lo ? int64_t(lo) : value;
    return int8_t(raised > hi ? int64_t(hi) : raised);
}

// `old`: acc[d]; `operand`: acc[s] or the immediate; `x`: act[s]. Results for acc and for act.
inline void lane(const LaneControl &c, const LaneParameters &p, int32_t old, int32_t operand, int8_t x,
                 int32_t &to_acc, int8_t &to_act) {
#pragma HLS INLINE
    const uint32_t biased = (c.requantize ? uint32_t(operand) : uint32_t(int32_t(x)) << RESCALE_LEFT_SHIFT) +
                            uint32_t(p.bias);
    const bool scale = c.requantize || c.rescale;
    // One 32 x 32 multiplier serves all three: its operands are chosen ahead of it.
    const int32_t a = scale ? int32_t(biased) : old;
    const int32_t b = scale ? p.multiplier : operand;
    const int64_t product = int64_t(a) * int64_t(b);
    const int64_t rounded = round_product(product, a < 0, p, c.rounding);
    to_acc = c.rescale ? joined(c.combine, old, int32_t(uint32_t(uint64_t(rounded))))
                       : operated(c.function, old, operand, product);
    const int64_t centred = c.rounding == ROUNDING_CONSTANT ? int64_t(c.zero_point)
                                                            : int64_t(uint64_t(rounded) + uint64_t(int64_t(c.zero_point)));
    to_act = clamp(centred, c.lo, c.hi);
}
