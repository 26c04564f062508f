/* Tensors to and from the bytes of segments: packing.py, compiled.
 *
 * Packing goes in two passes. The first writes the image, its values offset and padding around it, to working memory;
 * the second copies windows of it to their places. Copies are rounded up to 16 bytes, which processors move at once:
 * what is written too much belongs to positions that are written later. Only at the very end the number is exact.
 */
#include "steps.h"

#include <string.h>

#define CHUNK 16

/* CHUNK bytes from anywhere to anywhere. gcc for ARM makes eight instructions of a memcpy, and two of a vector. */
#ifdef __GNUC__
typedef uint8_t chunk __attribute__((vector_size(CHUNK), aligned(1)));
static inline chunk load_chunk(const uint8_t *in) { return *(const chunk *)in; }
static inline void store_chunk(uint8_t *out, chunk c) { *(chunk *)out = c; }
#define APART __attribute__((noinline))
#else
typedef struct {
  uint8_t bytes[CHUNK];
} chunk;
static inline chunk load_chunk(const uint8_t *in) {
  chunk c;
  memcpy(&c, in, CHUNK);
  return c;
}
static inline void store_chunk(uint8_t *out, chunk c) { memcpy(out, &c, CHUNK); }
#define APART
#endif

static size_t padded_bytes(const struct tilewright_pack *p) {
  return (size_t)(p->top + p->height + p->bottom) * (size_t)(p->left + p->width + p->right) * (size_t)p->channels;
}

static int32_t rows_of(const struct tilewright_pack *p) {
  int32_t height = p->top + p->height + p->bottom;
  return p->layout == LAYOUT_PATCHES ? (height - (p->kernel[0] - 1) * p->dilation[0] - 1) / p->step[0] + 1 : height;
}

static int32_t columns_of(const struct tilewright_pack *p) {
  int32_t width = p->left + p->width + p->right;
  return p->layout == LAYOUT_PATCHES ? (width - (p->kernel[1] - 1) * p->dilation[1] - 1) / p->step[1] + 1 : width;
}

size_t tilewright_pack_size(const struct tilewright_pack *p) {
  return (size_t)rows_of(p) * (size_t)columns_of(p) * (size_t)p->units * (size_t)p->batch * (size_t)p->lanes;
}

size_t tilewright_pack_scratch(const struct tilewright_pack *p) {
  return padded_bytes(p) + (size_t)p->units * (size_t)p->lanes + 2 * CHUNK;
}

/* `count` values with the offset added; 0 unless one leaves int8. */
static int offset_row(const struct tilewright_pack *p, const uint8_t *restrict in, uint8_t *restrict out,
                      size_t count) {
  const int32_t is_unsigned = p->is_unsigned, offset = p->value_offset;
  if (!is_unsigned && !offset) {
    memcpy(out, in, count);
    return 0;
  }
  size_t i = 0;
  if (is_unsigned && offset == -128) { /* changes the sign bit alone */
    for (; i + 8 <= count; i += 8) {
      uint64_t eight;
      memcpy(&eight, in + i, 8);
      eight ^= UINT64_C(0x8080808080808080);
      memcpy(out + i, &eight, 8);
    }
    for (; i < count; i++) out[i] = in[i] ^ 0x80;
    return 0;
  }
  int bad = 0;
  for (; i < count; i++) {
    int32_t value = (is_unsigned ? in[i] : (int8_t)in[i]) + offset;
    bad |= value != (int8_t)value;
    out[i] = (uint8_t)value;
  }
  return bad;
}

/* One row of the image, its channels side by side; 0 unless a value leaves int8. */
static int image_row(const struct tilewright_pack *p, const uint8_t *in, uint8_t *out) {
  const int32_t channels = p->channels, width = p->width;
  if ((channels == 1 || p->stride[2] == 1) && (width == 1 || p->stride[1] == channels))
    return offset_row(p, in, out, (size_t)width * (size_t)channels);
  for (int32_t c = 0; c < channels; c++) {
    const uint8_t *from = in + (ptrdiff_t)c * p->stride[2];
    for (int32_t x = 0; x < width; x++)
      out[(size_t)x * (size_t)channels + (size_t)c] = from[(ptrdiff_t)x * p->stride[1]];
  }
  /* in place, which offset_row promises not to do: 64 values at a time go through a buffer */
  if (!p->is_unsigned && !p->value_offset) return 0;
  uint8_t buffer[64];
  int bad = 0;
  const size_t total = (size_t)width * (size_t)channels;
  for (size_t i = 0; i < total; i += sizeof buffer) {
    size_t part = total - i < sizeof buffer ? total - i : sizeof buffer;
    memcpy(buffer, out + i, part);
    bad |= offset_row(p, buffer, out + i, part);
  }
  return bad;
}

/* The padded image; 0 unless a value leaves int8. */
static int pad_image(const struct tilewright_pack *p, const uint8_t *in, uint8_t *out) {
  const size_t channels = (size_t)p->channels, row = (size_t)(p->left + p->width + p->right) * channels;
  const size_t left = (size_t)p->left * channels, right = (size_t)p->right * channels;
  int bad = 0;
  memset(out, p->pad_value, (size_t)p->top * row);
  out += (size_t)p->top * row;
  for (int32_t y = 0; y < p->height; y++, out += row) {
    if (left) memset(out, p->pad_value, left);
    bad |= image_row(p, in + (ptrdiff_t)y * p->stride[0], out + left);
    if (right) memset(out + row - right, p->pad_value, right);
  }
  memset(out, p->pad_value, (size_t)p->bottom * row);
  return bad;
}

/* So many chunks, the last of which may be more than is wanted. */
static inline void copy_chunks(uint8_t *restrict out, const uint8_t *restrict in, int32_t chunks) {
  for (int32_t k = 0; k < chunks; k++) store_chunk(out + k * CHUNK, load_chunk(in + k * CHUNK));
}

/* A window's `lines` stretches of `run` bytes, `apart` bytes from each other, one after another in `out`. */
static inline void copy_window(uint8_t *restrict out, const uint8_t *restrict in, int32_t lines, int32_t run,
                               size_t apart, int32_t chunks) {
  for (int32_t k = 0; k < lines; k++, out += run, in += apart) copy_chunks(out, in, chunks);
}

struct window {
  int32_t lines, taps, run, tail; /* lines of `taps` stretches of `run` bytes; `tail` bytes of channel_pad follow */
  size_t line, tap, across;       /* bytes from line to line, from tap to tap, from one position to its neighbour */
};

/* The bytes of one position. `exact`: not one byte too much. */
static void one_position(const struct window *w, const uint8_t *in, uint8_t *out, uint8_t pad, int exact) {
  for (int32_t k = 0; k < w->lines; k++)
    for (int32_t t = 0; t < w->taps; t++, out += w->run) {
      const uint8_t *from = in + (size_t)k * w->line + (size_t)t * w->tap;
      if (exact) memcpy(out, from, (size_t)w->run);
      else copy_chunks(out, from, (w->run + CHUNK - 1) / CHUNK);
    }
  memset(out, pad, (size_t)w->tail);
}

/* `count` positions of a row, one after another; bytes too much may follow the last. Small windows, which are those of
 * first layers, have loops whose lengths the compiler knows, and functions of their own, for it to keep in registers all
 * that a loop needs. `pads`: what follows the last line of each. */
#define POSITIONS(NAME, LINES, CHUNKS)                                                                                 \
  APART static void NAME(const struct window *w, const uint8_t *restrict in, uint8_t *restrict out, int32_t count,     \
                         chunk pads) {                                                                                 \
    const int32_t lines = LINES, run = w->run, filled = lines * run, size = filled + w->tail;                          \
    const size_t line = w->line, across = w->across;                                                                   \
    for (; count > 0; count--, in += across, out += size) {                                                            \
      copy_window(out, in, lines, run, line, CHUNKS);                                                                  \
      store_chunk(out + filled, pads);                                                                                 \
    }                                                                                                                  \
  }
POSITIONS(one_line, 1, 1)
POSITIONS(three_lines, 3, 1)
POSITIONS(narrow_lines, w->lines, 1)
POSITIONS(wide_lines, w->lines, 2)

static void many_positions(const struct window *w, const uint8_t *in, uint8_t *out, int32_t count, uint8_t pad) {
  uint8_t pads[CHUNK];
  memset(pads, pad, CHUNK);
  const chunk tail = load_chunk(pads);
  if (w->taps > 1 || w->tail > CHUNK || w->run > 2 * CHUNK)
    for (const int32_t size = w->lines * w->taps * w->run + w->tail; count > 0; count--, in += w->across, out += size)
      one_position(w, in, out, pad, 0);
  else if (w->run > CHUNK) wide_lines(w, in, out, count, tail);
  else if (w->lines == 1) one_line(w, in, out, count, tail);
  else if (w->lines == 3) three_lines(w, in, out, count, tail);
  else narrow_lines(w, in, out, count, tail);
}

/* The units of one position, where each stands: blocks of units, and rows of a batch, the first of them the image. */
static void spread_units(const struct tilewright_pack *p, const uint8_t *vector, uint8_t *out, int32_t column,
                         int32_t columns) {
  const int32_t block = p->layout == LAYOUT_BLOCKS ? p->block : p->units;
  const size_t lanes = (size_t)p->lanes, unit = lanes * (size_t)p->batch;
  for (int32_t u = 0; u < p->units; u++) {
    uint8_t *to =
        out + (((size_t)(u / block) * (size_t)columns + (size_t)column) * (size_t)block + (size_t)(u % block)) * unit;
    memcpy(to, vector + (size_t)u * lanes, lanes);
    memset(to + lanes, 0, unit - lanes);
  }
}

static int pack_one(const struct tilewright_pack *p, const uint8_t *in, uint8_t *out, uint8_t *scratch) {
  const int32_t rows = rows_of(p), columns = columns_of(p), channels = p->channels;
  const int32_t patches = p->layout == LAYOUT_PATCHES, width = p->units * p->lanes;
  const int32_t plain = p->batch == 1 && (p->layout != LAYOUT_BLOCKS || p->block == p->units);
  const size_t row = (size_t)(p->left + p->width + p->right) * (size_t)channels;
  if (plain && !patches && channels == width) return pad_image(p, in, out);
  const int bad = pad_image(p, in, scratch);

  struct window w = {1, 1, channels, 0, 0, 0, (size_t)channels};
  size_t down = row; /* bytes from one row of positions to the next */
  if (patches) {
    const int32_t dense = p->dilation[1] == 1 || p->kernel[1] == 1; /* a line of taps is one stretch */
    w.lines = p->kernel[0], w.taps = dense ? 1 : p->kernel[1], w.run = dense ? p->kernel[1] * channels : channels;
    w.line = (size_t)p->dilation[0] * row, w.tap = (size_t)p->dilation[1] * (size_t)channels;
    w.across = (size_t)p->step[1] * (size_t)channels, down = (size_t)p->step[0] * row;
  }
  w.tail = width - w.lines * w.taps * w.run;
  const uint8_t pad = (uint8_t)p->channel_pad;
  if (plain) { /* the last positions, of two chunks together, are exact */
    const int64_t positions = (int64_t)rows * columns, loose = positions - (2 * CHUNK + width - 1) / width;
    for (int32_t y = 0; y < rows; y++, out += (size_t)columns * (size_t)width) {
      const int64_t left = loose - (int64_t)y * columns;
      const int32_t fast = left < 0 ? 0 : left < columns ? (int32_t)left : columns;
      const uint8_t *from = scratch + (size_t)y * down;
      many_positions(&w, from, out, fast, pad);
      for (int32_t x = fast; x < columns; x++)
        one_position(&w, from + (size_t)x * w.across, out + (size_t)x * (size_t)width, pad, 1);
    }
    return bad;
  }
  uint8_t *vector = scratch + padded_bytes(p) + CHUNK;
  const size_t line = (size_t)columns * (size_t)width * (size_t)p->batch;
  for (int32_t y = 0; y < rows; y++)
    for (int32_t x = 0; x < columns; x++) {
      one_position(&w, scratch + (size_t)y * down + (size_t)x * w.across, vector, pad, 1);
      spread_units(p, vector, out + (size_t)y * line, x, columns);
    }
  return bad;
}

int tilewright_pack(const struct tilewright_pack *p, const uint8_t *in, uint8_t *out, size_t room, uint8_t *scratch,
                    size_t count) {
  const size_t elements = (size_t)p->height * (size_t)p->width * (size_t)p->channels;
  int bad = 0;
  for (size_t k = 0; k < count; k++) bad |= pack_one(p, in + k * elements, out + k * room, scratch);
  return bad;
}

/* The values of one inference, as a type of so many bytes; sums that fit it are the same modulo its size. */
#define UNPACK(NAME, TYPE)                                                                          \
  static void NAME(const struct tilewright_unpack *p, const int8_t *in, TYPE *out) {                \
    const size_t unit = (size_t)p->lanes * (size_t)p->batch;                                        \
    const ptrdiff_t apart = p->stride[2];                                                           \
    for (int32_t y = 0; y < p->height; y++)                                                         \
      for (int32_t x = 0; x < p->width; x++, in += unit * (size_t)p->units) {                       \
        TYPE *to = out + (ptrdiff_t)y * p->stride[0] + (ptrdiff_t)x * p->stride[1];                 \
        const int8_t *from = in;                                                                    \
        for (int32_t c = 0; c < p->channels; c += p->lanes, from += unit) {                         \
          const int32_t lanes = p->channels - c < p->lanes ? p->channels - c : p->lanes;            \
          for (int32_t k = 0; k < lanes; k++, to += apart) *to = (TYPE)(from[k] + p->value_offset); \
        }                                                                                           \
      }                                                                                             \
  }
UNPACK(unpack_bytes, uint8_t)
UNPACK(unpack_halves, uint16_t)
UNPACK(unpack_words, uint32_t)

void tilewright_unpack(const struct tilewright_unpack *p, const int8_t *in, size_t room, void *out, size_t count) {
  const size_t elements = (size_t)p->height * (size_t)p->width * (size_t)p->channels;
  for (size_t k = 0; k < count; k++, in += room) switch (p->type) {
    case TYPE_INT8:
    case TYPE_UINT8: unpack_bytes(p, in, (uint8_t *)out + k * elements); break;
    case TYPE_INT16:
    case TYPE_UINT16: unpack_halves(p, in, (uint16_t *)out + k * elements); break;
    default: unpack_words(p, in, (uint32_t *)out + k * elements); break;
    }
}
