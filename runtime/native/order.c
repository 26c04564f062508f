/* Where the bytes of a segment lie in DRAM: isa/dram_order.py, compiled. A core of one port finds them in their order.
 * Of two ports all even words of a block lie before its odd ones. */
#include "steps.h"

#include <string.h>

typedef void move(uint8_t *memory, uint8_t *plain, size_t size);

static void to_memory(uint8_t *memory, uint8_t *plain, size_t size) { memcpy(memory, plain, size); }
static void from_memory(uint8_t *memory, uint8_t *plain, size_t size) { memcpy(plain, memory, size); }

/* Words of 8 bytes, which boards have: vectors where the processor has them. */
static inline void copy_word(uint8_t *restrict out, const uint8_t *restrict in) {
#ifdef __GNUC__
  typedef uint8_t vector __attribute__((vector_size(8), aligned(1)));
  *(vector *)out = *(const vector *)in;
#else
  memcpy(out, in, 8);
#endif
}

/* A block of two ports and words of 8 bytes. */
static void split_block(uint8_t *restrict memory, const uint8_t *restrict plain, size_t beats) {
  uint8_t *restrict odd = memory + 8 * beats;
#pragma GCC unroll 8
  for (size_t k = 0; k < beats; k++, plain += 16) copy_word(memory + 8 * k, plain), copy_word(odd + 8 * k, plain + 8);
}

static void join_block(const uint8_t *restrict memory, uint8_t *restrict plain, size_t beats) {
  const uint8_t *restrict odd = memory + 8 * beats;
#pragma GCC unroll 8
  for (size_t k = 0; k < beats; k++, plain += 16) copy_word(plain, memory + 8 * k), copy_word(plain + 8, odd + 8 * k);
}

/* Bytes from `begin` on, word by word, up to `end`. */
static void by_words(const struct tilewright_order *o, move *moved, uint8_t *memory, size_t begin, size_t end,
                     uint8_t *plain) {
  const size_t word = (size_t)o->word, ports = (size_t)o->ports, beats = (size_t)o->beats, block = word * ports * beats;
  while (begin < end) {
    const size_t inside = begin % block, beat = inside / (word * ports), port = inside / word % ports,
                 left = word - begin % word;
    const size_t size = left < end - begin ? left : end - begin;
    moved(memory + begin - inside + (port * beats + beat) * word + begin % word, plain, size);
    begin += size, plain += size;
  }
}

static void arrange(const struct tilewright_order *o, move *moved, uint8_t *memory, size_t begin, uint8_t *plain,
                    size_t size) {
  const size_t block = (size_t)o->word * (size_t)o->ports * (size_t)o->beats, end = begin + size;
  const size_t first = (begin + block - 1) / block * block, last = end / block * block;
  if (o->ports != 2 || o->word != 8 || first >= last) {
    if (o->ports == 1) moved(memory + begin, plain, size);
    else by_words(o, moved, memory, begin, end, plain);
    return;
  }
  by_words(o, moved, memory, begin, first, plain);
  plain += first - begin;
  for (size_t k = first; k < last; k += block, plain += block)
    if (moved == to_memory) split_block(memory + k, plain, (size_t)o->beats);
    else join_block(memory + k, plain, (size_t)o->beats);
  by_words(o, moved, memory, last, end, plain);
}

void tilewright_to_dram(const struct tilewright_order *o, uint8_t *memory, size_t begin, const uint8_t *data,
                        size_t size) {
  arrange(o, to_memory, memory, begin, (uint8_t *)(uintptr_t)data, size);
}

void tilewright_from_dram(const struct tilewright_order *o, const uint8_t *memory, size_t begin, uint8_t *data,
                          size_t size) {
  arrange(o, from_memory, (uint8_t *)(uintptr_t)memory, begin, data, size);
}

void tilewright_stack_to_dram(const struct tilewright_order *o, uint8_t *memory, size_t begin, size_t stride,
                              const uint8_t *data, size_t size, size_t count) {
  for (size_t k = 0; k < count; k++) tilewright_to_dram(o, memory, begin + k * stride, data + k * size, size);
}

void tilewright_stack_from_dram(const struct tilewright_order *o, const uint8_t *memory, size_t begin, size_t stride,
                                uint8_t *data, size_t size, size_t count) {
  for (size_t k = 0; k < count; k++) tilewright_from_dram(o, memory, begin + k * stride, data + k * size, size);
}
