/* Softmax of 8-bit integers: host.py, compiled. Sources: gemmlowp's fixedpoint.h, ONNX Runtime's qlinear_softmax.cc. */
#include "steps.h"

#include <math.h>

#define SUM_BITS 12 /* integer bits of the sum of exponentials */

static int64_t saturate(int64_t value) { return value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : value; }

static inline int64_t doubling_high_mul(int64_t a, int64_t b) { return saturate((a * b + (1 << 30)) >> 31); }

static inline int64_t rounding_divide(int64_t value, int32_t exponent) {
  const int64_t mask = (INT64_C(1) << exponent) - 1;
  return (value >> exponent) + ((value & mask) > (mask >> 1) + (value < 0));
}

/* exp of a Q5.26 number <= 0, as Q0.31. */
static int64_t exp_of_negative(int64_t value) {
  static const int32_t factors[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
  if (!value) return INT32_MAX;
  const int64_t quarter = 1 << 24, fraction = (value & (quarter - 1)) - quarter, remainder = fraction - value;
  const int64_t x = fraction * 32 + (1 << 28);
  const int64_t x2 = doubling_high_mul(x, x), x3 = doubling_high_mul(x2, x);
  const int64_t x4_over_4 = rounding_divide(doubling_high_mul(x2, x2), 2);
  const int64_t tail = rounding_divide(doubling_high_mul(x4_over_4 + x3, 715827883) + x2, 1);
  int64_t result = 1895147668 + doubling_high_mul(x + tail, 1895147668);
  for (int k = 0; k < 7; k++)
    if (remainder & (quarter << k)) result = doubling_high_mul(result, factors[k]);
  return result;
}

/* 1 / (1 + x) for x in [0, 1), Q0.31. */
static int64_t reciprocal_of_one_plus(int64_t value) {
  const int64_t half = (value + INT32_MAX + 1) >> 1;
  int64_t x = 1515870810 + doubling_high_mul(half, -1010580540);
  for (int k = 0; k < 3; k++) {
    const int64_t error = (1 << 29) - doubling_high_mul(half, x);
    x += saturate(doubling_high_mul(x, error) * 4);
  }
  return saturate(x * 2);
}

void tilewright_softmax_table(int32_t *table, int32_t multiplier, int32_t left_shift, int64_t diff_min) {
  for (int32_t k = 0; k < 256; k++) { /* what k below the maximum comes to, and its share of the sum */
    const int64_t value =
        -k >= diff_min ? exp_of_negative(doubling_high_mul(-(int64_t)k * (INT64_C(1) << left_shift), multiplier)) : 0;
    table[k] = (int32_t)value;
    table[256 + k] = (int32_t)rounding_divide(value, SUM_BITS);
  }
}

static int8_t maximum(const int8_t *in, size_t columns) {
  int8_t most = in[0];
  for (size_t k = 1; k < columns; k++) most = in[k] > most ? in[k] : most;
  return most;
}

int tilewright_softmax(const int32_t *table, int64_t diff_min, const int8_t *in, int8_t *out, size_t rows,
                       size_t columns) {
  for (; rows > 0; rows--, in += columns, out += columns) {
    const int32_t most = maximum(in, columns);
    int64_t total = 0;
    for (size_t k = 0; k < columns; k++) total += table[256 + most - in[k]];
    if (total > INT64_C(1) << 31) return 1;
    int32_t zeros = 32; /* the maximum itself contributes exp(0): total > 0 */
    for (int64_t rest = total; rest; rest >>= 1) zeros--;
    const int64_t reciprocal = reciprocal_of_one_plus((total << zeros) - (INT64_C(1) << 31));
    const int32_t shift = SUM_BITS - zeros + 31 - 8;
    for (size_t k = 0; k < columns; k++) {
      const int32_t below = most - in[k];
      int64_t share = rounding_divide(doubling_high_mul(table[below], reciprocal), shift) - 128;
      out[k] = (int8_t)(-below < diff_min || share < -128 ? -128 : share > 127 ? 127 : share);
    }
  }
  return 0;
}

void tilewright_table_softmax(const float *table, float factor, int32_t zero_point, const int8_t *in, int8_t *out,
                              size_t rows, size_t columns) {
  for (; rows > 0; rows--, in += columns, out += columns) {
    const int32_t most = maximum(in, columns);
    float total = 0;
    for (size_t k = 0; k < columns; k++) total += table[255 + in[k] - most];
    for (size_t k = 0; k < columns; k++) {
      const float share = rintf(table[255 + in[k] - most] * factor / total);
      /* what is beyond an integer becomes a byte of 0 where ONNX Runtime converts it on x86-64 */
      const int64_t whole = share < 9223372036854775808.0f ? (int64_t)share : 0;
      out[k] = (int8_t)((whole > 255 - zero_point ? 255 : whole + zero_point) - 128);
    }
  }
}
