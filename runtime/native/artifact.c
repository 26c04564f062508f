/* Reading an artifact's file; artifact.py and isa/container.py have its layout. */
#include "bytes.h"
#include "contract.h"
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX = 52, PROGRAM_PREFIX = 20, DIGEST = 32 };

tilewright_code tw_fail(tilewright *t, tilewright_code code, const char *format, ...) {
  if (t->code) return t->code;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(t->error, sizeof t->error, format, arguments);
  va_end(arguments);
  return t->code = code;
}

void *tw_allocate(tilewright *t, size_t count, size_t size) {
  void *made = calloc(count ? count : 1, size);
  if (!made) tw_fail(t, TILEWRIGHT_NO_MEMORY, "there is no memory for %zu bytes", count * size);
  return made;
}

/* -- fields of the header ---------------------------------------------------------------------------------- */

int64_t tw_integer(const struct part *p, const char *key, int64_t low, int64_t high, int64_t missing) {
  const uint32_t node = json_get(p->json, p->node, key);
  int64_t value = 0;
  if (!node && missing != REQUIRED) return missing;
  if (node && json_integer(p->json, node, &value) && value >= low && value <= high) return value;
  tw_fail(p->t, TILEWRIGHT_DAMAGED, "%s: %s is no integer from %lld to %lld; " AGAIN, p->what, key, (long long)low,
          (long long)high);
  return low;
}

double tw_real(const struct part *p, const char *key, double low, double high) {
  const uint32_t node = json_get(p->json, p->node, key);
  double value = 0;
  if (node && json_real(p->json, node, &value) && value >= low && value <= high) return value;
  tw_fail(p->t, TILEWRIGHT_DAMAGED, "%s: %s is no number from %g to %g; " AGAIN, p->what, key, low, high);
  return low;
}

int32_t tw_integers(const struct part *p, const char *key, int32_t least, int32_t most, int64_t low, int64_t high,
                    int32_t *out) {
  const struct json *j = p->json;
  const uint32_t node = json_get(j, p->node, key);
  if ((!node || j->nodes[node].type == JSON_NULL) && !least) return 0;
  const uint32_t count = node && j->nodes[node].type == JSON_ARRAY ? json_length(j, node) : 0;
  int bad = !node || j->nodes[node].type != JSON_ARRAY || count < (uint32_t)least || count > (uint32_t)most;
  uint32_t at = bad ? 0 : json_first(node);
  for (uint32_t k = 0; k < count && !bad; k++, at = json_next(j, at)) {
    int64_t value = 0;
    bad = !json_integer(j, at, &value) || value < low || value > high;
    out[k] = (int32_t)value;
  }
  if (!bad) return (int32_t)count;
  tw_fail(p->t, count > (uint32_t)most ? TILEWRIGHT_UNSUPPORTED : TILEWRIGHT_DAMAGED,
          "%s: %s: not %d to %d integers from %lld to %lld", p->what, key, (int)least, (int)most, (long long)low,
          (long long)high);
  memset(out, 0, (size_t)least * sizeof *out);
  return 0;
}

char *tw_text(const struct part *p, const char *key) {
  const uint32_t node = json_get(p->json, p->node, key);
  if (!node || p->json->nodes[node].type != JSON_STRING) {
    tw_fail(p->t, TILEWRIGHT_DAMAGED, "%s: %s is no text; " AGAIN, p->what, key);
    return NULL;
  }
  char *made = json_string(p->json, node);
  if (!made) tw_fail(p->t, TILEWRIGHT_NO_MEMORY, "there is no memory for a name");
  return made;
}

static tilewright_code parse(tilewright *t, struct json *json, const uint8_t *text, size_t size, const char *what) {
  const int failed = json_parse(json, (const char *)text, size);
  if (failed == 2) return tw_fail(t, TILEWRIGHT_NO_MEMORY, "%s: there is no memory to read it", what);
  if (failed || json->nodes[0].type != JSON_OBJECT)
    return tw_fail(t, TILEWRIGHT_DAMAGED, "%s: the header is no JSON object; " AGAIN, what);
  return TILEWRIGHT_OK;
}

/* -- programs ---------------------------------------------------------------------------------------------- */

struct blobs {
  const uint8_t *at, *end;
};

/* The next blob, decoded, as the object of `key` describes it; null and an error otherwise. */
static uint8_t *read_blob(const struct part *p, const char *key, struct blobs *blobs, size_t *size) {
  const struct part blob = {p->t, p->json, json_get(p->json, p->node, key), p->what};
  const size_t left = (size_t)(blobs->end - blobs->at);
  const uint64_t stored =
      (uint64_t)tw_integer(&blob, "stored", 0, (int64_t)(left < INT32_MAX ? left : INT32_MAX), REQUIRED);
  const uint64_t decoded = (uint64_t)tw_integer(&blob, "size", 0, INT32_MAX, REQUIRED);
  if (p->t->code) return NULL;
  const uint8_t *from = blobs->at;
  const uint32_t encoding = json_get(p->json, blob.node, "encoding");
  const int raw = json_is(p->json, encoding, "raw"), packed = json_is(p->json, encoding, "zlib");
  blobs->at += stored;
  uint8_t *made = NULL;
  if ((raw && stored == decoded) || (packed && decoded / 1100 <= stored)) /* deflate shrinks to a 1,032nd at most */
    made = tw_allocate(p->t, (size_t)decoded, 1);
  else tw_fail(p->t, TILEWRIGHT_DAMAGED, "%s: %s has no known encoding or a wrong size; " AGAIN, p->what, key);
  if (!made) return NULL;
  if (raw && stored) memcpy(made, from, (size_t)stored);
  if (packed && bytes_inflate(from, (size_t)stored, made, (size_t)decoded)) {
    tw_fail(p->t, TILEWRIGHT_DAMAGED, "%s: %s cannot be unpacked; " AGAIN, p->what, key);
    free(made);
    return NULL;
  }
  *size = (size_t)decoded;
  return made;
}

static void read_segment(const struct part *p, struct segment *s, struct blobs *blobs) {
  static const char *const kinds[] = {"constant", "input", "output", "scratch"};
  const uint32_t kind = json_get(p->json, p->node, "kind"), data = json_get(p->json, p->node, "data");
  int32_t k = 0;
  while (k < 4 && !json_is(p->json, kind, kinds[k])) k++;
  if (k == 4) {
    const int shared = json_is(p->json, kind, "shared");
    tw_fail(p->t, shared ? TILEWRIGHT_UNSUPPORTED : TILEWRIGHT_DAMAGED,
            shared ? "%s exchanges with programs on other cores, which needs Python; compile for throughput"
                   : "%s: a segment of no known kind; " AGAIN,
            p->what);
    return;
  }
  s->kind = (enum segment_kind)k;
  const int64_t size = tw_integer(p, "size", 0, INT64_MAX, REQUIRED),
                stride = tw_integer(p, "repeat_stride", 0, INT64_MAX, REQUIRED);
  if (size > INT32_MAX || stride > INT32_MAX)
    tw_fail(p->t, TILEWRIGHT_NO_MEMORY, "%s: a segment larger than 2 GiB", p->what);
  if (p->t->code) return;
  s->size = (size_t)size, s->stride = (size_t)stride;
  s->per_flight = s->stride || k == SEGMENT_INPUT || k == SEGMENT_OUTPUT;
  if (s->stride % PAGE || (s->stride && s->stride < s->size))
    tw_fail(p->t, TILEWRIGHT_DAMAGED, "%s: a segment of %zu bytes repeats after %zu; " AGAIN, p->what, s->size,
            s->stride);
  if (!p->t->code && data && p->json->nodes[data].type != JSON_NULL)
    s->data = read_blob(p, "data", blobs, &s->data_size);
  if (s->data_size > s->size)
    tw_fail(p->t, TILEWRIGHT_DAMAGED, "%s: a segment's data is larger than it; " AGAIN, p->what);
}

/* The container of one program. The artifact's checksum covers it: its own is not looked at. */
static tilewright_code read_program(tilewright *t, struct program *program, const uint8_t *data, size_t size,
                                    const char *what) {
  static const uint8_t magic[8] = "TWPROG\r\n";
  if (size < PROGRAM_PREFIX + 4 + DIGEST || memcmp(data, magic, 8) || bytes_u32(data + 8) != PROGRAM_FORMAT ||
      bytes_u64(data + 12) != size - PROGRAM_PREFIX - DIGEST)
    return tw_fail(t, TILEWRIGHT_DAMAGED, "%s: no program of format %d; " AGAIN, what, (int)PROGRAM_FORMAT);
  const uint8_t *body = data + PROGRAM_PREFIX + 4, *end = data + size - DIGEST;
  const uint32_t length = bytes_u32(body - 4);
  if (length > (size_t)(end - body)) return tw_fail(t, TILEWRIGHT_DAMAGED, "%s: its header is cut off; " AGAIN, what);
  struct json json = {0};
  struct blobs blobs = {body + length, end};
  const struct part p = {t, &json, 0, what};
  if (parse(t, &json, body, length, what)) return t->code;
  program->code = read_blob(&p, "instructions", &blobs, &program->code_size);
  const uint32_t segments = json_get(&json, 0, "segments"), count = json_length(&json, segments);
  const uint32_t owners = json_get(&json, json_get(&json, 0, "meta"), "instruction_layer");
  const uint32_t instructions = json_length(&json, owners);
  if (!instructions || program->code_size % instructions || instructions >= 1 << 24)
    tw_fail(t, TILEWRIGHT_DAMAGED, "%s: does not say how many instructions it has; " AGAIN, what);
  program->instructions = (int32_t)instructions;
  if (count > (uint32_t)t->config.segments || (segments && json.nodes[segments].type != JSON_ARRAY))
    tw_fail(t, TILEWRIGHT_DAMAGED, "%s: %u segments, the config has %d; " AGAIN, what, count, (int)t->config.segments);
  if (!t->code) program->segments = tw_allocate(t, count, sizeof *program->segments);
  uint32_t at = segments ? json_first(segments) : 0;
  for (uint32_t k = 0; k < count && !t->code; k++, at = json_next(&json, at)) {
    const struct part segment = {t, &json, at, what};
    program->segment_count++;
    read_segment(&segment, program->segments + k, &blobs);
  }
  if (!t->code && blobs.at != blobs.end) tw_fail(t, TILEWRIGHT_DAMAGED, "%s: bytes too many; " AGAIN, what);
  json_free(&json);
  return t->code;
}

static tilewright_code read_programs(tilewright *t, const struct json *json, const uint8_t *data, const uint8_t *end) {
  const uint32_t programs = json_get(json, 0, "programs"), count = json_length(json, programs);
  if (!programs || json->nodes[programs].type != JSON_ARRAY || count > 1 << 16)
    return tw_fail(t, TILEWRIGHT_DAMAGED, "artifact: no list of programs; " AGAIN);
  t->programs = tw_allocate(t, count, sizeof *t->programs);
  uint32_t at = json_first(programs);
  for (uint32_t k = 0; k < count && !t->code; k++, at = json_next(json, at)) {
    int64_t size = 0;
    char what[24];
    snprintf(what, sizeof what, "program %u", k);
    if (!json_integer(json, at, &size) || size < 0 || size > end - data)
      return tw_fail(t, TILEWRIGHT_DAMAGED, "%s: lies outside the file; " AGAIN, what);
    t->program_count++;
    read_program(t, t->programs + k, data, (size_t)size, what);
    data += size;
  }
  return t->code;
}

/* -- the file ---------------------------------------------------------------------------------------------- */

static tilewright_code read_config(tilewright *t, const struct json *json) {
  const struct part config = {t, json, json_get(json, 0, "config"), "config"}, whole = {t, json, 0, "artifact"};
  struct config *c = &t->config;
  struct tilewright_order *o = &c->order;
  o->word = (int32_t)tw_integer(&config, "axi_bits", 8, 4096, REQUIRED) / 8;
  o->ports = (int32_t)tw_integer(&config, "axi_ports", 1, 2, 1);
  o->beats = (int32_t)tw_integer(&config, "burst_beats", 1, 256, REQUIRED);
  c->segments = (int32_t)tw_integer(&config, "segments", 1, 64, REQUIRED);
  if (!t->code && PAGE % (o->beats * o->word * o->ports))
    tw_fail(t, TILEWRIGHT_DAMAGED, "config: a burst of %d bytes divides no page; " AGAIN,
            (int)(o->beats * o->word * o->ports));
  char *fingerprint = tw_text(&whole, "fingerprint");
  if (fingerprint && strlen(fingerprint) == 16 && strspn(fingerprint, "0123456789abcdef") == 16)
    c->fingerprint = strtoull(fingerprint, NULL, 16);
  else tw_fail(t, TILEWRIGHT_DAMAGED, "artifact: no fingerprint; " AGAIN);
  free(fingerprint);
  return t->code;
}

tilewright_code tw_read_artifact(tilewright *t, const uint8_t *data, size_t size) {
  static const uint8_t magic[8] = "TWART\r\n\x1a";
  uint8_t digest[DIGEST];
  if (size < 8 || memcmp(data, magic, 8))
    return tw_fail(t, TILEWRIGHT_DAMAGED, "not a Tilewright artifact (.twa); make one with tilewright compile");
  if (size < PREFIX) return tw_fail(t, TILEWRIGHT_DAMAGED, "truncated: %zu bytes; copy it again or " AGAIN, size);
  if (bytes_u32(data + 8) != ARTIFACT_FORMAT)
    return tw_fail(t, TILEWRIGHT_DAMAGED, "artifact format %u, this version of Tilewright reads %d; " AGAIN,
                   bytes_u32(data + 8), (int)ARTIFACT_FORMAT);
  const uint8_t *body = data + PREFIX, *end = data + size;
  const uint64_t length = bytes_u64(data + 12), body_size = size - PREFIX;
  if (body_size < length) return tw_fail(t, TILEWRIGHT_DAMAGED, "truncated: %zu bytes; copy it again or " AGAIN, size);
  bytes_sha256(body, (size_t)body_size, digest);
  if (body_size > length || body_size < 8 || memcmp(digest, data + 20, DIGEST))
    return tw_fail(t, TILEWRIGHT_DAMAGED, "corrupt: the checksum does not match; " AGAIN);
  const uint64_t header = bytes_u64(body);
  if (header > body_size - 8) return tw_fail(t, TILEWRIGHT_DAMAGED, "artifact: its header is cut off; " AGAIN);
  struct json json = {0};
  if (parse(t, &json, body + 8, (size_t)header, "artifact")) return t->code;
  if (!read_config(t, &json) && !read_programs(t, &json, body + 8 + header, end)) tw_read_plan(t, &json);
  json_free(&json);
  return t->code;
}
