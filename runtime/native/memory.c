/* Memory of an open network: that of the accelerator by program, and the processor's for tensors.
 *
 * All inferences share a program's code, constants and scratch memory. Each flight has inputs and outputs of its own,
 * so that the processor can fill one flight's while the accelerator works on the other's.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

enum { PER_LAUNCH = 8, MOST_PER_LAUNCH = 65535, ALIGNMENT = 16 };

static size_t pages(size_t size) { return (size + PAGE - 1) / PAGE * PAGE; }

/* -- the accelerator's --------------------------------------------------------------------------------------- */

static size_t span(const tilewright *t, const struct segment *s) { return pages(s->size + (t->group - 1) * s->stride); }

static void allocate(tilewright *t, tilewright_buffer *b, size_t size, const char *what) {
  b->size = pages(size ? size : 1);
  if (t->code) return;
  const int failed = t->board.memory(t->board.context, TILEWRIGHT_ALLOCATE, b, 0, b->size);
  if (failed) b->bytes = NULL;
  if (failed || !b->bytes)
    tw_fail(t, TILEWRIGHT_NO_MEMORY,
            "the board has no %zu bytes for %s; run fewer inferences per launch, or reserve more", b->size, what);
  else if (b->address % PAGE || (b->address + b->size) >> 40)
    tw_fail(t, TILEWRIGHT_BOARD, "the board's memory is at an address that is no multiple of %d below 2^40", PAGE);
  else memset(b->bytes, 0, b->size);
}

/* Constants of a segment, for each inference that has its own. */
static void fill(tilewright *t, const struct segment *s, tilewright_buffer *b) {
  for (size_t k = 0; s->data && k < (s->stride ? t->group : 1); k++)
    tilewright_to_dram(&t->config.order, b->bytes + s->first, k * s->stride, s->data, s->data_size);
}

static void place(tilewright *t, struct program *p) {
  size_t fixed = pages(p->code_size);
  static const enum segment_kind order[] = {SEGMENT_CONSTANT, SEGMENT_SCRATCH, SEGMENT_INPUT, SEGMENT_OUTPUT};
  for (int kind = 0; kind < 4; kind++) { /* outputs last, so that what the processor writes is in one piece */
    if (order[kind] == SEGMENT_OUTPUT) p->own_input = p->own_size;
    for (int32_t k = 0; k < p->segment_count; k++) {
      struct segment *s = p->segments + k;
      size_t *end = s->per_flight ? &p->own_size : &fixed;
      if (s->kind != order[kind]) continue;
      s->first = *end, *end += span(t, s);
    }
  }
  allocate(t, &p->fixed, fixed, "a program and its constants");
  for (int32_t f = 0; f < t->flight_count; f++)
    allocate(t, t->flights[f].own + (p - t->programs), p->own_size, "inputs and outputs");
  if (t->code) return;
  tilewright_to_dram(&t->config.order, p->fixed.bytes, 0, p->code, p->code_size);
  for (int32_t k = 0; k < p->segment_count; k++) {
    struct segment *s = p->segments + k;
    if (!s->per_flight) fill(t, s, &p->fixed);
    for (int32_t f = 0; s->per_flight && f < t->flight_count; f++) fill(t, s, t->flights[f].own + (p - t->programs));
    free(s->data);
    s->data = NULL;
  }
  free(p->code);
  p->code = NULL;
  t->board.memory(t->board.context, TILEWRIGHT_TO_DEVICE, &p->fixed, 0, p->fixed.size);
  for (int32_t f = 0; f < t->flight_count; f++) {
    tilewright_buffer *own = t->flights[f].own + (p - t->programs);
    t->board.memory(t->board.context, TILEWRIGHT_TO_DEVICE, own, 0, own->size);
  }
}

/* -- the processor's ----------------------------------------------------------------------------------------- */

static size_t aligned(size_t size) { return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static void make_flight(tilewright *t, struct flight *f) {
  size_t total = 0;
  for (int32_t k = 0; k < t->slot_count; k++)
    if (t->slots[k].root == k && t->slots[k].input < 0 && !t->slots[k].constant) {
      if (t->slots[k].bytes > SIZE_MAX / 4 / t->group - total) {
        tw_fail(t, TILEWRIGHT_NO_MEMORY, "there is no memory for the tensors");
        return;
      }
      total += aligned(t->slots[k].bytes * t->group);
    }
  f->base = tw_allocate(t, (size_t)t->slot_count, sizeof *f->base);
  f->own = tw_allocate(t, (size_t)t->program_count, sizeof *f->own);
  f->memory = tw_allocate(t, total + ALIGNMENT, 1);
  if (t->code) return;
  uint8_t *at = f->memory;
  for (int32_t k = 0; k < t->slot_count; k++) {
    const struct slot *s = t->slots + k;
    if (s->root != k || s->input >= 0) continue;
    f->base[k] = s->constant ? s->constant : at;
    if (!s->constant) at += aligned(s->bytes * t->group);
  }
}

static void choose_group(tilewright *t) {
  t->group = t->options.per_launch ? t->options.per_launch : PER_LAUNCH;
  if (t->group > MOST_PER_LAUNCH) t->group = MOST_PER_LAUNCH;
  for (int32_t k = 0; k < t->program_count; k++)
    for (int32_t n = 0; n < t->programs[k].segment_count; n++) {
      const struct segment *s = t->programs[k].segments + n;
      if ((s->kind == SEGMENT_INPUT || s->kind == SEGMENT_OUTPUT) && !s->stride) t->group = 1; /* they cannot repeat */
    }
  if (t->options.keep_states && t->state_count)
    t->group = 1, t->flight_count = 1; /* each needs what the last has left */
}

tilewright_code tw_prepare(tilewright *t) {
  t->flight_count = FLIGHTS;
  choose_group(t);
  size_t scratch = 0, staging = 0;
  for (int32_t k = 0; k < t->step_count; k++) {
    const struct step *s = t->steps + k;
    const size_t needed = s->kind == STEP_PACK ? tilewright_pack_scratch(&s->u.pack) : 0;
    scratch = needed > scratch ? needed : scratch, staging = s->size > staging ? s->size : staging;
  }
  t->scratch = tw_allocate(t, scratch, 1);
  if (t->config.order.ports > 1) t->staging = tw_allocate(t, staging, 1);
  for (int32_t f = 0; f < t->flight_count && !t->code; f++) make_flight(t, t->flights + f);
  for (int32_t k = 0; k < t->program_count && !t->code; k++) place(t, t->programs + k);
  if (!t->code) tilewright_reset(t);
  return t->code;
}

void tilewright_reset(tilewright *t) {
  for (int32_t k = 0; k < t->state_count; k++)
    for (int32_t f = 0; f < t->flight_count; f++)
      memset(t->flights[f].base[t->states[k].before], t->states[k].zero,
             t->slots[t->states[k].before].bytes * t->group);
}

static void give_back(tilewright *t, tilewright_buffer *b) {
  if (b->bytes) t->board.memory(t->board.context, TILEWRIGHT_RELEASE, b, 0, b->size);
}

void tw_release(tilewright *t) {
  for (int32_t k = 0; k < FLIGHTS; k++) {
    struct flight *f = t->flights + k;
    for (int32_t n = 0; f->own && n < t->program_count; n++) give_back(t, f->own + n);
    free(f->base), free(f->own), free(f->memory);
  }
  for (int32_t k = 0; k < t->program_count; k++) {
    struct program *p = t->programs + k;
    for (int32_t n = 0; n < p->segment_count; n++) free(p->segments[n].data);
    give_back(t, &p->fixed);
    free(p->code), free(p->segments);
  }
  for (int32_t k = 0; k < t->slot_count; k++) free(t->slots[k].name), free(t->slots[k].constant);
  for (int32_t k = 0; k < t->step_count; k++)
    if (t->steps[k].kind == STEP_SOFTMAX || t->steps[k].kind == STEP_TABLE_SOFTMAX) free(t->steps[k].u.softmax.table);
  for (int32_t k = 0; k < t->output_count; k++) free(t->output_names[k]);
  free(t->programs), free(t->slots), free(t->steps), free(t->states), free(t->inputs), free(t->outputs),
      free(t->described);
  free(t->output_names), free(t->scratch), free(t->staging);
}
