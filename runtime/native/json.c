#include "json.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST 64

struct parser {
  struct json *json;
  size_t at, size;
  int no_memory;
};

static int peek(const struct parser *p) { return p->at < p->size ? (unsigned char)p->json->text[p->at] : -1; }

static void skip_blanks(struct parser *p) {
  for (int c = peek(p); c == ' ' || c == '\n' || c == '\r' || c == '\t'; c = peek(p)) p->at++;
}

/* A new node, 0 where there is no memory (the very first is 0, too). */
static uint32_t add(struct parser *p, enum json_type type) {
  struct json *j = p->json;
  if (j->count == j->room) {
    const uint32_t room = j->room ? 2 * j->room : 256;
    struct json_node *more = room > j->room ? realloc(j->nodes, room * sizeof *more) : NULL;
    if (!more) {
      p->no_memory = 1;
      return 0;
    }
    j->nodes = more, j->room = room;
  }
  j->nodes[j->count] = (struct json_node){(uint32_t)p->at, (uint32_t)p->at, j->count + 1, type};
  return j->count++;
}

static int is_hexadecimal(int c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

static int parse_string(struct parser *p) {
  if (peek(p) != '"') return 1;
  p->at++;
  const uint32_t node = add(p, JSON_STRING);
  for (int c = peek(p); c != '"'; c = peek(p)) {
    if (c < 0x20 || p->no_memory) return 1;
    p->at++;
    if (c != '\\') continue;
    c = peek(p);
    if (c <= 0 || !strchr("\"\\/bfnrtu", c)) return 1;
    p->at++;
    for (int k = 0; c == 'u' && k < 4; k++, p->at++)
      if (!is_hexadecimal(peek(p))) return 1;
  }
  if (p->no_memory) return 1;
  p->json->nodes[node].end = (uint32_t)p->at++;
  return 0;
}

static int digits(struct parser *p) {
  const size_t begin = p->at;
  while (peek(p) >= '0' && peek(p) <= '9') p->at++;
  return p->at == begin;
}

static int parse_number(struct parser *p) {
  const uint32_t node = add(p, JSON_NUMBER);
  if (peek(p) == '-') p->at++;
  if (digits(p)) return 1;
  if (peek(p) == '.' && (p->at++, digits(p))) return 1;
  if (peek(p) == 'e' || peek(p) == 'E') {
    p->at++;
    if (peek(p) == '+' || peek(p) == '-') p->at++;
    if (digits(p)) return 1;
  }
  if (p->no_memory) return 1;
  p->json->nodes[node].end = (uint32_t)p->at;
  return 0;
}

static int parse_word(struct parser *p) {
  static const char *const words[] = {"null", "true", "false"};
  for (int k = 0; k < 3; k++) {
    const size_t length = strlen(words[k]);
    if (p->size - p->at < length || memcmp(p->json->text + p->at, words[k], length)) continue;
    const uint32_t node = add(p, k ? JSON_BOOL : JSON_NULL);
    p->at += length;
    if (p->no_memory) return 1;
    p->json->nodes[node].end = (uint32_t)p->at;
    return 0;
  }
  return 1;
}

static int parse_value(struct parser *p, int depth) {
  skip_blanks(p);
  const int c = peek(p);
  if (c == '"') return parse_string(p);
  if (c == '-' || (c >= '0' && c <= '9')) return parse_number(p);
  if (c != '[' && c != '{') return parse_word(p);
  const int close = c == '[' ? ']' : '}';
  const uint32_t node = add(p, c == '[' ? JSON_ARRAY : JSON_OBJECT);
  if (p->no_memory || depth == DEEPEST) return 1;
  p->at++;
  skip_blanks(p);
  for (int first = 1; peek(p) != close; first = 0) {
    if (!first) {
      if (peek(p) != ',') return 1;
      p->at++;
      skip_blanks(p);
    }
    if (close == '}') {
      if (parse_string(p)) return 1;
      skip_blanks(p);
      if (peek(p) != ':') return 1;
      p->at++;
    }
    if (parse_value(p, depth + 1)) return 1;
    skip_blanks(p);
  }
  p->at++;
  p->json->nodes[node].end = (uint32_t)p->at;
  p->json->nodes[node].next = p->json->count;
  return 0;
}

int json_parse(struct json *json, const char *text, size_t size) {
  *json = (struct json){text, NULL, 0, 0};
  struct parser p = {json, 0, size, 0};
  int bad = size >= UINT32_MAX || parse_value(&p, 0);
  skip_blanks(&p);
  bad = bad || p.at != size;
  if (bad) json_free(json);
  return p.no_memory ? 2 : bad;
}

void json_free(struct json *json) {
  free(json->nodes);
  *json = (struct json){0};
}

uint32_t json_get(const struct json *json, uint32_t object, const char *key) {
  if (json->nodes[object].type != JSON_OBJECT) return 0;
  for (uint32_t k = json_first(object); k < json->nodes[object].next; k = json_next(json, k + 1))
    if (json_is(json, k, key)) return k + 1;
  return 0;
}

uint32_t json_length(const struct json *json, uint32_t node) {
  const uint32_t type = json->nodes[node].type;
  uint32_t found = 0;
  if (type != JSON_ARRAY && type != JSON_OBJECT) return 0;
  for (uint32_t k = json_first(node); k < json->nodes[node].next; k = json_next(json, k)) found++;
  return type == JSON_OBJECT ? found / 2 : found;
}

int json_is(const struct json *json, uint32_t node, const char *text) {
  const struct json_node *n = json->nodes + node;
  const size_t length = strlen(text);
  return n->type == JSON_STRING && n->end - n->begin == length && !memcmp(json->text + n->begin, text, length);
}

/* The text of a number, with the decimal point that strtod wants here; null for anything else. */
static const char *number(const struct json *json, uint32_t node, char copy[static 64]) {
  const struct json_node *n = json->nodes + node;
  const size_t length = n->end - n->begin;
  if (n->type != JSON_NUMBER || length >= 64) return NULL;
  memcpy(copy, json->text + n->begin, length);
  copy[length] = 0;
  char *point = strchr(copy, '.');
  if (point) *point = localeconv()->decimal_point[0];
  return copy;
}

int json_integer(const struct json *json, uint32_t node, int64_t *value) {
  char copy[64];
  const char *text = number(json, node, copy);
  if (!text || strpbrk(text, ".,eE") || strlen(text) > 18) return 0;
  *value = strtoll(text, NULL, 10);
  return 1;
}

int json_real(const struct json *json, uint32_t node, double *value) {
  char copy[64];
  const char *text = number(json, node, copy);
  if (!text) return 0;
  *value = strtod(text, NULL);
  return 1;
}

static uint32_t four_digits(const char *text) {
  uint32_t value = 0;
  for (int k = 0; k < 4; k++)
    value = value * 16 + (uint32_t)(text[k] <= '9' ? text[k] - '0' : (text[k] | 32) - 'a' + 10);
  return value;
}

/* Append a code point; what half a pair of surrogates is left of becomes a character that stands for none. */
static char *append(char *out, uint32_t c) {
  if (c >= 0xD800 && c < 0xE000) c = 0xFFFD;
  if (c < 0x80) *out++ = (char)c;
  else if (c < 0x800) *out++ = (char)(0xC0 | c >> 6), *out++ = (char)(0x80 | (c & 63));
  else if (c < 0x10000)
    *out++ = (char)(0xE0 | c >> 12), *out++ = (char)(0x80 | (c >> 6 & 63)), *out++ = (char)(0x80 | (c & 63));
  else
    *out++ = (char)(0xF0 | c >> 18), *out++ = (char)(0x80 | (c >> 12 & 63)), *out++ = (char)(0x80 | (c >> 6 & 63)),
    *out++ = (char)(0x80 | (c & 63));
  return out;
}

char *json_string(const struct json *json, uint32_t node) {
  const struct json_node *n = json->nodes + node;
  const char *in = json->text + n->begin, *end = json->text + n->end;
  char *made = malloc((size_t)(end - in) + 1), *out = made;
  if (!made) return NULL;
  while (in < end) {
    if (*in != '\\') {
      *out++ = *in++;
      continue;
    }
    static const char escapes[] = "bfnrt", meant[] = "\b\f\n\r\t";
    const char *found = strchr(escapes, in[1]);
    if (in[1] == 'u') {
      uint32_t c = four_digits(in + 2);
      in += 6;
      if (c >= 0xD800 && c < 0xDC00 && end - in >= 6 && in[0] == '\\' && in[1] == 'u') {
        const uint32_t low = four_digits(in + 2);
        if (low >= 0xDC00 && low < 0xE000) c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00), in += 6;
      }
      out = append(out, c);
    } else {
      *out++ = found ? meant[found - escapes] : in[1];
      in += 2;
    }
  }
  *out = 0;
  return made;
}
