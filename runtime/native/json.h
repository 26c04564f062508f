/* A reader of JSON: the text stays where it is, nodes say where values begin and end in it. */
#ifndef TILEWRIGHT_JSON_H
#define TILEWRIGHT_JSON_H

#include <stddef.h>
#include <stdint.h>

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_node {
  uint32_t begin, end; /* of the text; of a string without its quotes */
  uint32_t next;       /* the node after this one and all inside it; those inside begin right behind */
  uint32_t type;
};

struct json {
  const char *text;
  struct json_node *nodes; /* the first is the whole */
  uint32_t count, room;
};

/* 0 for a whole and correct text; `text` must live as long as `json`. 2 where there is no memory. */
int json_parse(struct json *json, const char *text, size_t size);
void json_free(struct json *json);

/* The value of a key, 0 where there is none or `object` is none. */
uint32_t json_get(const struct json *json, uint32_t object, const char *key);
/* Elements of an array, pairs of an object, 0 of anything else. */
uint32_t json_length(const struct json *json, uint32_t node);
/* The first node inside an array or object, and the one behind a node. */
static inline uint32_t json_first(uint32_t node) { return node + 1; }
static inline uint32_t json_next(const struct json *json, uint32_t node) { return json->nodes[node].next; }

int json_is(const struct json *json, uint32_t node, const char *text);    /* whether it is this string */
int json_integer(const struct json *json, uint32_t node, int64_t *value); /* 0 unless it is an integer */
int json_real(const struct json *json, uint32_t node, double *value);     /* 0 unless it is a number */
char *json_string(const struct json *json, uint32_t node); /* a copy as UTF-8, null where there is no memory */

#endif
