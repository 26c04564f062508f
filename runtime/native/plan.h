/* Reading tensors (tensors.c) and steps (plan.c) of an artifact's header. */
#ifndef TILEWRIGHT_PLAN_H
#define TILEWRIGHT_PLAN_H

#include "internal.h"

enum { TYPES = TYPE_FLOAT64 + 1 };
extern const size_t plan_type_sizes[TYPES]; /* bytes of an element */

/* Whether it holds; notes an error of the part otherwise. */
int plan_require(const struct part *p, int holds, const char *what);
/* The latest tensor of a name, or of that in a key; -1 and an error where there is none. */
int32_t plan_find(const struct part *p, const char *name);
int32_t plan_find_key(const struct part *p, const char *key);
/* A new tensor of the name that a key has; -1 and an error where that fails. */
int32_t plan_add(const struct part *p, const char *key, int32_t type, int32_t rank, const int32_t *shape);
/* The type that a key names, one of the first `most`. */
int32_t plan_type(const struct part *p, const char *key, int32_t most);
/* Elements of an array, 0 where it is missing; at least `least`. */
uint32_t plan_list(const struct part *p, const char *key, uint32_t least, uint32_t *first);

void plan_read_inputs(const struct part *p);
void plan_read_states(const struct part *p, int after); /* as steps find them, or as they leave them */
void plan_read_outputs(const struct part *p);

#endif
