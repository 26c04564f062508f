/* Changes of an element's type: host.py, compiled. */
#include "steps.h"

#include <math.h>

static const int32_t least[] = {INT8_MIN, 0, INT16_MIN, 0, INT32_MIN};
static const int32_t most[] = {INT8_MAX, UINT8_MAX, INT16_MAX, UINT16_MAX, INT32_MAX};

static inline int32_t fetch(const void *in, int32_t type, size_t k) {
  switch (type) {
  case TYPE_INT8: return ((const int8_t *)in)[k];
  case TYPE_UINT8: return ((const uint8_t *)in)[k];
  case TYPE_INT16: return ((const int16_t *)in)[k];
  case TYPE_UINT16: return ((const uint16_t *)in)[k];
  default: return ((const int32_t *)in)[k];
  }
}

static inline void put(void *out, int32_t type, size_t k, int32_t value) {
  switch (type) {
  case TYPE_INT8:
  case TYPE_UINT8: ((uint8_t *)out)[k] = (uint8_t)value; break;
  case TYPE_INT16:
  case TYPE_UINT16: ((uint16_t *)out)[k] = (uint16_t)value; break;
  default: ((int32_t *)out)[k] = value; break;
  }
}

int tilewright_cast(const void *in, int32_t from, int32_t offset, void *out, int32_t to, size_t count) {
  int bad = 0;
  if (from <= TYPE_UINT8 && to <= TYPE_UINT8) { /* a loop that compilers vectorise */
    const uint8_t *bytes = in;
    uint8_t *made = out;
    const int32_t low = least[to], high = most[to], sign = from == TYPE_INT8 ? 0x80 : 0;
    if (offset < -511 || offset > 511) return count > 0;
    for (size_t k = 0; k < count; k++) {
      const int32_t value = (bytes[k] ^ sign) - sign + offset;
      bad |= value < low || value > high;
      made[k] = (uint8_t)value;
    }
    return bad;
  }
  for (size_t k = 0; k < count; k++) {
    const int64_t value = (int64_t)fetch(in, from, k) + offset;
    bad |= value < least[to] || value > most[to];
    put(out, to, k, (int32_t)(uint32_t)(uint64_t)value);
  }
  return bad;
}

/* What the processor makes of a float32 without a fraction, as NumPy shows it: beyond int32 ARM saturates and makes 0
 * of NaN, x86 gives the least int32. */
static int32_t converted(float value) {
  if (value >= -2147483648.0f && value < 2147483648.0f) return (int32_t)value;
#if defined(__arm__) || defined(__aarch64__)
  return value > 0 ? INT32_MAX : value < 0 ? INT32_MIN : 0;
#else
  return INT32_MIN;
#endif
}

int tilewright_quantize(const float *in, float scale, int32_t zero_point, int32_t away, void *out, int32_t to,
                        size_t count) {
  const double low = least[to], high = most[to];
  int bad = 0;
  for (size_t k = 0; k < count; k++) {
    const float quotient = in[k] / scale;
    if (away) { /* without the error of adding 0.5 in float32 */
      const float magnitude = fabsf(quotient), whole = floorf(magnitude);
      const float rounded = copysignf(whole + (magnitude - whole >= 0.5f), quotient);
      const int32_t value = (int32_t)((uint32_t)converted(rounded) + (uint32_t)zero_point); /* it wraps */
      put(out, to, k, value < least[to] ? least[to] : value > most[to] ? most[to] : value);
    } else {
      const double value = (double)rintf(quotient) + zero_point;
      bad |= in[k] != in[k];
      put(out, to, k, value > low ? value < high ? (int32_t)value : most[to] : least[to]);
    }
  }
  return bad;
}

void tilewright_dequantize(const void *in, int32_t from, float scale, int32_t zero_point, float *out, size_t count) {
  for (size_t k = 0; k < count; k++) out[k] = (float)(fetch(in, from, k) - zero_point) * scale;
}
