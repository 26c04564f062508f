/* Host steps of an artifact on plain arrays. NumPy's versions in packing.py and host.py are their reference.
 *
 * Every function handles `count` inferences that lie one after another in `in` and `out`. Types of elements are
 * numbered as in enum tilewright_type. Functions that can meet a value which they must refuse return 0 for success.
 */
#ifndef TILEWRIGHT_STEPS_H
#define TILEWRIGHT_STEPS_H

#include <stddef.h>
#include <stdint.h>

#define TILEWRIGHT_API __attribute__((visibility("default")))

enum tilewright_type {
  TYPE_INT8,
  TYPE_UINT8,
  TYPE_INT16,
  TYPE_UINT16,
  TYPE_INT32, /* those that steps compute in */
  TYPE_BOOL,
  TYPE_UINT32,
  TYPE_INT64,
  TYPE_UINT64,
  TYPE_FLOAT16,
  TYPE_FLOAT32,
  TYPE_FLOAT64
};

enum { LAYOUT_ROWS, LAYOUT_PATCHES, LAYOUT_BLOCKS };

/* A PackStep (packing.py has the meaning of each field). `stride`: elements of the tensor between neighbours along
 * height, width and channel, which is how a permutation is expressed. */
struct tilewright_pack {
  int32_t height, width, channels;
  int32_t stride[3];
  int32_t lanes, units, batch, layout, block;
  int32_t top, left, bottom, right;
  int32_t pad_value, channel_pad, value_offset;
  int32_t is_unsigned;
  int32_t kernel[2], step[2], dilation[2];
};

/* An UnpackStep; `stride`: elements of the tensor between neighbours along height, width and channel. */
struct tilewright_unpack {
  int32_t height, width, channels;
  int32_t stride[3];
  int32_t lanes, units, batch;
  int32_t value_offset, type;
};

/* Where bytes of a segment lie in DRAM: `ports` words of `word` bytes are a beat, `beats` of them a block. */
struct tilewright_order {
  int32_t word, ports, beats;
};

/* Bytes of a segment from number `begin` on to its memory, and out of it. */
TILEWRIGHT_API void tilewright_to_dram(const struct tilewright_order *o, uint8_t *memory, size_t begin,
                                       const uint8_t *data, size_t size);
TILEWRIGHT_API void tilewright_from_dram(const struct tilewright_order *o, const uint8_t *memory, size_t begin,
                                         uint8_t *data, size_t size);
/* The same for `count` inferences, whose parts of the segment begin `stride` bytes apart. */
TILEWRIGHT_API void tilewright_stack_to_dram(const struct tilewright_order *o, uint8_t *memory, size_t begin,
                                             size_t stride, const uint8_t *data, size_t size, size_t count);
TILEWRIGHT_API void tilewright_stack_from_dram(const struct tilewright_order *o, const uint8_t *memory, size_t begin,
                                               size_t stride, uint8_t *data, size_t size, size_t count);

/* Bytes that packing writes for one inference, and bytes of working memory that it needs. */
TILEWRIGHT_API size_t tilewright_pack_size(const struct tilewright_pack *p);
TILEWRIGHT_API size_t tilewright_pack_scratch(const struct tilewright_pack *p);

/* `room`: bytes from the first of one inference's output to the first of the next. Fails where value_offset takes a
 * value out of int8. */
TILEWRIGHT_API int tilewright_pack(const struct tilewright_pack *p, const uint8_t *in, uint8_t *out, size_t room,
                                   uint8_t *scratch, size_t count);
TILEWRIGHT_API void tilewright_unpack(const struct tilewright_unpack *p, const int8_t *in, size_t room, void *out,
                                      size_t count);

/* TFLite's int8 softmax. `table`: made once by tilewright_softmax_table, 2 x 256 words. Fails where a sum of
 * exponentials exceeds int32. */
TILEWRIGHT_API void tilewright_softmax_table(int32_t *table, int32_t multiplier, int32_t left_shift, int64_t diff_min);
TILEWRIGHT_API int tilewright_softmax(const int32_t *table, int64_t diff_min, const int8_t *in, int8_t *out,
                                      size_t rows, size_t columns);
/* ONNX Runtime's, by a table of 256 exponentials. */
TILEWRIGHT_API void tilewright_table_softmax(const float *table, float factor, int32_t zero_point, const int8_t *in,
                                             int8_t *out, size_t rows, size_t columns);

/* On `count` elements. cast fails where a result does not fit, quantize where ties go to even and a value is NaN. */
TILEWRIGHT_API int tilewright_cast(const void *in, int32_t from, int32_t offset, void *out, int32_t to, size_t count);
TILEWRIGHT_API int tilewright_quantize(const float *in, float scale, int32_t zero_point, int32_t away, void *out,
                                       int32_t to, size_t count);
TILEWRIGHT_API void tilewright_dequantize(const void *in, int32_t from, float scale, int32_t zero_point, float *out,
                                          size_t count);

#endif
