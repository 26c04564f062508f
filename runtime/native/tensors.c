/* Tensors of an artifact's header: inputs, outputs, states, and what steps make of them. */
#include "plan.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

static const char *const type_names[] = {"int8",   "uint8", "int16",  "uint16",  "int32",   "bool",
                                         "uint32", "int64", "uint64", "float16", "float32", "float64"};
const size_t plan_type_sizes[TYPES] = {1, 1, 2, 2, 4, 1, 4, 8, 8, 2, 4, 8};

int plan_require(const struct part *p, int holds, const char *what) {
  if (!holds) tw_fail(p->t, TILEWRIGHT_DAMAGED, "%s: %s; " AGAIN, p->what, what);
  return holds;
}

int32_t plan_find(const struct part *p, const char *name) {
  for (int32_t k = p->t->slot_count - 1; name && k >= 0; k--)
    if (!strcmp(p->t->slots[k].name, name)) return k;
  if (name) tw_fail(p->t, TILEWRIGHT_DAMAGED, "%s: there is no tensor %.80s; " AGAIN, p->what, name);
  return -1;
}

int32_t plan_find_key(const struct part *p, const char *key) {
  char *name = tw_text(p, key);
  const int32_t found = plan_find(p, name);
  free(name);
  return found;
}

/* Bytes of a tensor, noted in the slot; an error for one that no model has. */
static void measure(const struct part *p, struct slot *s) {
  int64_t elements = 1;
  for (int32_t k = 0; k < s->rank; k++) {
    elements *= s->shape[k];
    if (!plan_require(p, elements <= MOST_ELEMENTS, "a tensor has too many elements")) return;
  }
  s->elements = (size_t)elements, s->bytes = (size_t)elements * plan_type_sizes[s->type];
}

int32_t plan_add(const struct part *p, const char *key, int32_t type, int32_t rank, const int32_t *shape) {
  tilewright *t = p->t;
  if (t->slot_count == t->slot_room) {
    const int32_t room = 2 * t->slot_room + 16;
    struct slot *more = realloc(t->slots, (size_t)room * sizeof *more);
    if (!more) tw_fail(t, TILEWRIGHT_NO_MEMORY, "there is no memory for %d tensors", (int)room);
    else t->slots = more, t->slot_room = room;
  }
  char *name = tw_text(p, key);
  if (t->code) {
    free(name);
    return -1;
  }
  struct slot *s = t->slots + t->slot_count;
  *s = (struct slot){.name = name, .type = type, .rank = rank, .root = t->slot_count, .input = -1};
  memcpy(s->shape, shape, (size_t)rank * sizeof *shape);
  measure(p, s);
  return t->slot_count++;
}

int32_t plan_type(const struct part *p, const char *key, int32_t most) {
  const uint32_t node = json_get(p->json, p->node, key);
  for (int32_t k = 0; k < most; k++)
    if (node && json_is(p->json, node, type_names[k])) return k;
  plan_require(p, 0, "an unknown type");
  return 0;
}

/* A tensor's specification in the header: its form, and a description of it. */
static void read_spec(const struct part *p, struct slot *form, tilewright_tensor *d) {
  *form = (struct slot){.type = plan_type(p, "dtype", TYPES)};
  form->rank = tw_integers(p, "shape", 0, AXES, 0, MOST_ELEMENTS, form->shape);
  measure(p, form);
  d->type = type_names[form->type], d->rank = form->rank;
  memcpy(d->shape, form->shape, sizeof d->shape);
  d->bytes = form->bytes * (size_t)p->t->batch;
  if (p->t->batch > 1 && plan_require(p, d->rank > 0 && d->shape[0] == 1, "no tensor of one image"))
    d->shape[0] = p->t->batch;
  d->scale = tw_real(p, "scale", 0, FLT_MAX);
  d->zero_point = (int32_t)tw_integer(p, "zero_point", INT32_MIN, INT32_MAX, REQUIRED);
}

uint32_t plan_list(const struct part *p, const char *key, uint32_t least, uint32_t *first) {
  const uint32_t node = json_get(p->json, p->node, key), count = node ? json_length(p->json, node) : 0;
  plan_require(
      p, (!node && !least) || (node && p->json->nodes[node].type == JSON_ARRAY && count >= least && count < 1 << 20),
      key);
  *first = json_first(node);
  return p->t->code ? 0 : count;
}

void plan_read_inputs(const struct part *p) {
  tilewright *t = p->t;
  uint32_t at, count = plan_list(p, "inputs", 1, &at), outputs = plan_list(p, "outputs", 0, &(uint32_t){0});
  t->described = tw_allocate(t, (size_t)count + outputs, sizeof *t->described);
  t->inputs = tw_allocate(t, count, sizeof *t->inputs), t->outputs = tw_allocate(t, outputs, sizeof *t->outputs);
  t->output_names = tw_allocate(t, outputs, sizeof *t->output_names);
  for (uint32_t k = 0; k < count && !t->code; k++, at = json_next(p->json, at)) {
    struct slot form;
    const struct part input = {t, p->json, at, "input"};
    read_spec(&input, &form, t->described + k);
    t->inputs[k] = plan_add(&input, "name", form.type, form.rank, form.shape);
    if (t->code) return;
    t->slots[t->inputs[k]].input = (int32_t)k;
    t->input_count++;
  }
  for (int32_t k = 0; k < t->input_count; k++) t->described[k].name = t->slots[t->inputs[k]].name;
}

void plan_read_states(const struct part *p, int after) {
  tilewright *t = p->t;
  uint32_t at, count = plan_list(p, "states", 0, &at);
  if (!after) t->states = tw_allocate(t, count, sizeof *t->states);
  for (uint32_t k = 0; k < count && !t->code; k++, at = json_next(p->json, at)) {
    struct slot form;
    tilewright_tensor described;
    const struct part part = {t, p->json, at, "state"};
    read_spec(&part, &form, &described);
    struct state *s = t->states + k;
    if (after) {
      s->after = plan_find_key(&part, "name");
      if (!t->code)
        plan_require(&part, t->slots[s->after].type == form.type && t->slots[s->after].elements == form.elements,
                     "another tensor takes its place");
      continue;
    }
    const int fits = form.type == TYPE_INT8 && described.zero_point >= -128 && described.zero_point <= 127;
    if (!plan_require(&part, fits, "not int8")) return;
    s->before = plan_add(&part, "name", form.type, form.rank, form.shape), s->zero = (uint8_t)described.zero_point;
    t->state_count++;
  }
}

void plan_read_outputs(const struct part *p) {
  tilewright *t = p->t;
  uint32_t at, names, count = plan_list(p, "outputs", 0, &at), named = plan_list(p, "output_names", 0, &names);
  plan_require(p, !named || named == count, "names of outputs");
  for (uint32_t k = 0; k < count && !t->code; k++, at = json_next(p->json, at)) {
    struct slot form;
    const struct part output = {t, p->json, at, "output"};
    tilewright_tensor *d = t->described + t->input_count + k;
    read_spec(&output, &form, d);
    const int32_t found = t->outputs[k] = plan_find_key(&output, "name");
    if (t->code ||
        !plan_require(&output, t->slots[found].type == form.type && t->slots[found].elements == form.elements,
                      "the steps give another form"))
      return;
    plan_require(&output, !named || p->json->nodes[names].type == JSON_STRING, "its name is no text");
    t->output_names[k] = named && !t->code ? json_string(p->json, names) : tw_text(&output, "name");
    if (!t->output_names[k]) tw_fail(t, TILEWRIGHT_NO_MEMORY, "there is no memory for a name");
    d->name = t->output_names[k];
    t->output_count++;
    if (named) names = json_next(p->json, names);
  }
}
