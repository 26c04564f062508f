#include "bytes.h"

#include <string.h>

/* -- SHA-256 ----------------------------------------------------------------------------------------------- */

static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static inline uint32_t rotate(uint32_t x, int by) { return x >> by | x << (32 - by); }

/* One round; the caller turns the names of the state instead of moving it. */
#define ROUND(a, b, c, d, e, f, g, h, t)                                                                    \
  do {                                                                                                      \
    const uint32_t t1 =                                                                                     \
        h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + (g ^ (e & (f ^ g))) + rounds[t] + w[(t) % 16]; \
    d += t1, h = t1 + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) | (c & (a | b)));           \
  } while (0)
#define EIGHT(t)                          \
  do {                                    \
    ROUND(a, b, c, d, e, f, g, h, t);     \
    ROUND(h, a, b, c, d, e, f, g, t + 1); \
    ROUND(g, h, a, b, c, d, e, f, t + 2); \
    ROUND(f, g, h, a, b, c, d, e, t + 3); \
    ROUND(e, f, g, h, a, b, c, d, t + 4); \
    ROUND(d, e, f, g, h, a, b, c, t + 5); \
    ROUND(c, d, e, f, g, h, a, b, t + 6); \
    ROUND(b, c, d, e, f, g, h, a, t + 7); \
  } while (0)

static void sha256_block(uint32_t state[8], const uint8_t *block) {
  uint32_t w[16];
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6],
           h = state[7];
  for (int t = 0; t < 16; t++)
    w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 | (uint32_t)block[4 * t + 2] << 8 |
           block[4 * t + 3];
  for (int t = 0; t < 64; t += 16) {
    for (int k = 0; t && k < 16; k++) {
      const uint32_t early = w[(k + 1) % 16], late = w[(k + 14) % 16];
      w[k] += (rotate(early, 7) ^ rotate(early, 18) ^ early >> 3) + w[(k + 9) % 16] +
              (rotate(late, 17) ^ rotate(late, 19) ^ late >> 10);
    }
    EIGHT(t);
    EIGHT(t + 8);
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e, state[5] += f, state[6] += g,
      state[7] += h;
}

void bytes_sha256(const uint8_t *data, size_t size, uint8_t digest[32]) {
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t last[128] = {0};
  const size_t whole = size / 64 * 64, rest = size - whole, end = rest < 56 ? 64 : 128;
  for (size_t k = 0; k < whole; k += 64) sha256_block(state, data + k);
  if (rest) memcpy(last, data + whole, rest);
  last[rest] = 0x80;
  for (int k = 0; k < 8; k++) last[end - 1 - (size_t)k] = (uint8_t)((uint64_t)size * 8 >> (8 * k));
  for (size_t k = 0; k < end; k += 64) sha256_block(state, last + k);
  for (int k = 0; k < 32; k++) digest[k] = (uint8_t)(state[k / 4] >> (24 - 8 * (k % 4)));
}

/* -- zlib -------------------------------------------------------------------------------------------------- */

struct stream {
  const uint8_t *in;
  uint8_t *out;
  size_t length, size, at, made;
  uint32_t bits;
  int held; /* bits in `bits` */
  int bad;
};

/* At least 25 bits are held, zeros behind the end. */
static inline void refill(struct stream *s) {
  for (; s->held <= 24; s->at++, s->held += 8)
    if (s->at < s->length) s->bits |= (uint32_t)s->in[s->at] << s->held;
}

/* The next `count` bits, at most 16. The stream is bad where they lie past its end. */
static inline uint32_t take(struct stream *s, int count) {
  refill(s);
  const uint32_t value = s->bits & ((1u << count) - 1);
  s->bits >>= count, s->held -= count;
  s->bad |= s->at > s->length + (size_t)(s->held / 8);
  return value;
}

/* A canonical Huffman code: how many codes of each length there are, and the symbols in the codes' order. Codes of up
 * to FAST bits have an entry for each way in which they go on: symbol and length, 0 for longer ones. */
enum { FAST = 10 };
struct code {
  uint16_t counts[16], symbols[288], fast[1 << FAST];
};

/* 0 unless more codes are given than their lengths have room for. */
static int make_code(struct code *c, const uint8_t *lengths, int symbols) {
  uint16_t first[16];
  uint32_t codes[16] = {0}; /* the next of each length */
  memset(c->counts, 0, sizeof c->counts), memset(c->fast, 0, sizeof c->fast);
  for (int k = 0; k < symbols; k++) c->counts[lengths[k]]++;
  c->counts[0] = 0;
  int left = 1;
  first[1] = 0;
  for (int k = 1; k < 16; k++) {
    left = 2 * left - c->counts[k];
    if (left < 0) return 1;
    codes[k] = (codes[k - 1] + c->counts[k - 1]) * 2;
    if (k < 15) first[k + 1] = (uint16_t)(first[k] + c->counts[k]);
  }
  for (int k = 0; k < symbols; k++) {
    const int length = lengths[k];
    uint32_t reversed = 0, code = length ? codes[length]++ : 0;
    if (length) c->symbols[first[length]++] = (uint16_t)k;
    if (!length || length > FAST) continue;
    for (int bit = 0; bit < length; bit++, code >>= 1) reversed = reversed << 1 | (code & 1);
    for (; reversed < 1 << FAST; reversed += 1u << length) c->fast[reversed] = (uint16_t)(k << 4 | length);
  }
  return 0;
}

static inline int symbol(struct stream *s, const struct code *c) {
  refill(s);
  const uint16_t found = c->fast[s->bits & ((1 << FAST) - 1)];
  if (found) {
    s->bits >>= found & 15, s->held -= found & 15;
    s->bad |= s->at > s->length + (size_t)(s->held / 8);
    return found >> 4;
  }
  int code = 0, first = 0, index = 0;
  for (int k = 1; k < 16; k++) {
    code |= (int)take(s, 1);
    if (code - first < c->counts[k]) return c->symbols[index + code - first];
    index += c->counts[k], first = (first + c->counts[k]) * 2, code *= 2;
  }
  s->bad = 1;
  return 256;
}

/* Literals and copies up to the end of the block. The stream is a local variable, which no byte written may change. */
static void copy_codes(struct stream *whole, const struct code *literals, const struct code *distances) {
  struct stream local = *whole, *s = &local;
  static const uint16_t length_base[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                         31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
  static const uint8_t length_bits[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                        2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
  int found = 256;
  while (!s->bad && (found = symbol(s, literals)) != 256) {
    if (found < 256) {
      if (s->made == s->size) break;
      s->out[s->made++] = (uint8_t)found;
      continue;
    }
    if (found > 285) break;
    size_t length = length_base[found - 257] + (size_t)take(s, length_bits[found - 257]);
    const int far = symbol(s, distances);
    if (far > 29) break;
    const int more = far < 2 ? 0 : far / 2 - 1;
    const size_t distance = 1 + (far < 2 ? (size_t)far : (size_t)(2 + far % 2) << more) + take(s, more);
    if (s->bad || distance > s->made || length > s->size - s->made) break;
    for (; length > 0; length--, s->made++) s->out[s->made] = s->out[s->made - distance];
  }
  s->bad |= found != 256;
  *whole = local;
}

static void copy_stored(struct stream *s) {
  s->at -= (size_t)(s->held / 8), s->held = 0, s->bits = 0; /* bytes that are held whole are given back */
  if (s->at > s->length || s->length - s->at < 4) {
    s->bad = 1;
    return;
  }
  const uint32_t word = bytes_u32(s->in + s->at), count = word & 0xFFFF;
  s->at += 4;
  if ((word ^ word >> 16 ^ 0xFFFF) & 0xFFFF || count > s->length - s->at || count > s->size - s->made) {
    s->bad = 1;
    return;
  }
  memcpy(s->out + s->made, s->in + s->at, count);
  s->at += count, s->made += count;
}

static void copy_dynamic(struct stream *s) {
  static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  struct code literals, distances;
  uint8_t lengths[320] = {0};
  const int literal_count = (int)take(s, 5) + 257, distance_count = (int)take(s, 5) + 1, count = (int)take(s, 4) + 4;
  for (int k = 0; k < count; k++) lengths[order[k]] = (uint8_t)take(s, 3);
  if (literal_count > 286 || make_code(&literals, lengths, 19)) {
    s->bad = 1;
    return;
  }
  memset(lengths, 0, sizeof lengths);
  for (int k = 0; k < literal_count + distance_count && !s->bad;) {
    const int found = symbol(s, &literals);
    if (found < 16) {
      lengths[k++] = (uint8_t)found;
      continue;
    }
    const uint8_t value = found == 16 && k ? lengths[k - 1] : 0;
    s->bad |= found == 16 && !k;
    int repeat = found == 16 ? 3 + (int)take(s, 2) : found == 17 ? 3 + (int)take(s, 3) : 11 + (int)take(s, 7);
    s->bad |= repeat > literal_count + distance_count - k;
    for (; repeat > 0 && !s->bad; repeat--) lengths[k++] = value;
  }
  if (s->bad || make_code(&literals, lengths, literal_count) ||
      make_code(&distances, lengths + literal_count, distance_count))
    s->bad = 1;
  else copy_codes(s, &literals, &distances);
}

static void copy_fixed(struct stream *s) {
  struct code literals, distances;
  uint8_t lengths[288];
  for (int k = 0; k < 288; k++) lengths[k] = k < 144 ? 8 : k < 256 ? 9 : k < 280 ? 7 : 8;
  make_code(&literals, lengths, 288);
  memset(lengths, 5, 30);
  make_code(&distances, lengths, 30);
  copy_codes(s, &literals, &distances);
}

int bytes_inflate(const uint8_t *in, size_t length, uint8_t *out, size_t size) {
  if (length < 6 || (in[0] & 15) != 8 || (in[1] & 32) || (in[0] * 256 + in[1]) % 31) return 1;
  struct stream s = {.in = in, .out = out, .length = length - 4, .size = size, .at = 2};
  for (int last = 0; !last && !s.bad;) {
    last = (int)take(&s, 1);
    const uint32_t kind = take(&s, 2);
    if (kind == 0) copy_stored(&s);
    else if (kind == 1) copy_fixed(&s);
    else if (kind == 2) copy_dynamic(&s);
    else s.bad = 1;
  }
  if (s.bad || s.made != size) return 1;
  uint32_t a = 1, b = 0; /* Adler-32, in the four bytes that follow */
  for (size_t k = 0; k < size;) {
    const size_t end = size - k < 5552 ? size : k + 5552;
    for (; k < end; k++) a += out[k], b += a;
    a %= 65521, b %= 65521;
  }
  const uint8_t *sum = in + length - 4;
  return (b << 16 | a) != ((uint32_t)sum[0] << 24 | (uint32_t)sum[1] << 16 | (uint32_t)sum[2] << 8 | sum[3]);
}

/* -- base64 ------------------------------------------------------------------------------------------------ */

int bytes_base64(const char *in, size_t length, uint8_t *out, size_t size) {
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (length % 4) return 1;
  if (length && in[length - 1] == '=') length -= in[length - 2] == '=' ? 2 : 1;
  if (length * 3 / 4 != size) return 1;
  uint32_t bits = 0;
  int held = 0;
  for (size_t k = 0; k < length; k++) {
    const char *found = in[k] ? strchr(alphabet, in[k]) : NULL;
    if (!found) return 1;
    bits = bits << 6 | (uint32_t)(found - alphabet), held += 6;
    if (held >= 8) held -= 8, *out++ = (uint8_t)(bits >> held);
  }
  return 0;
}
