/* What artifacts are wrapped in: SHA-256 (FIPS 180-4), zlib (RFC 1950 and 1951) and base64 (RFC 4648). */
#ifndef TILEWRIGHT_BYTES_H
#define TILEWRIGHT_BYTES_H

#include <stddef.h>
#include <stdint.h>

void bytes_sha256(const uint8_t *data, size_t size, uint8_t digest[32]);
/* 0 if `in` decodes to exactly `size` bytes. */
int bytes_inflate(const uint8_t *in, size_t length, uint8_t *out, size_t size);
int bytes_base64(const char *in, size_t length, uint8_t *out, size_t size);

static inline uint32_t bytes_u32(const uint8_t *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}
static inline uint64_t bytes_u64(const uint8_t *at) { return bytes_u32(at) | (uint64_t)bytes_u32(at + 4) << 32; }

#endif
