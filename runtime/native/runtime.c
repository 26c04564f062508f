/* The public functions: open, run, close. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

tilewright_code tilewright_open(tilewright **network, const void *artifact, size_t size, const tilewright_board *board,
                                const tilewright_options *options) {
  tilewright *t = *network = calloc(1, sizeof *t);
  if (!t) return TILEWRIGHT_NO_MEMORY;
  t->board = *board;
  if (options) t->options = *options;
  if (!tw_read_artifact(t, artifact, size) && !tw_check_board(t)) t->ready = !tw_prepare(t);
  return t->code;
}

void tilewright_close(tilewright *t) {
  if (t) tw_release(t);
  free(t);
}

int32_t tilewright_inputs(const tilewright *t) { return t->input_count; }
int32_t tilewright_outputs(const tilewright *t) { return t->output_count; }

const tilewright_tensor *tilewright_input(const tilewright *t, int32_t index) {
  return index >= 0 && index < t->input_count ? t->described + index : NULL;
}

const tilewright_tensor *tilewright_output(const tilewright *t, int32_t index) {
  return index >= 0 && index < t->output_count ? t->described + t->input_count + index : NULL;
}

uint64_t tilewright_cycles(const tilewright *t) {
  uint64_t total = 0;
  for (int32_t k = 0; k < t->program_count; k++) total += t->programs[k].cycles;
  return total;
}

const char *tilewright_error(const tilewright *t) { return t ? t->error : "there is no memory"; }

const char *tilewright_code_name(tilewright_code code) {
  static const char *const names[] = {"ok",    "no memory", "file",    "damaged", "unsupported",
                                      "board", "fault",     "timeout", "input"};
  return (size_t)code < sizeof names / sizeof *names ? names[code] : "unknown";
}

/* -- running ----------------------------------------------------------------------------------------------- */

static tilewright_code check_inputs(tilewright *t, size_t count, const void *const *inputs) {
  for (int32_t k = 0; k < t->input_count; k++) {
    const struct slot *s = t->slots + t->inputs[k];
    const size_t elements = s->elements * count;
    int bad = 0;
    if (s->type == TYPE_FLOAT32)
      for (size_t n = 0; n < elements && !bad; n++) bad = !isfinite(((const float *)inputs[k])[n]);
    if (s->type == TYPE_FLOAT64)
      for (size_t n = 0; n < elements && !bad; n++) bad = !isfinite(((const double *)inputs[k])[n]);
    if (s->type == TYPE_FLOAT16)
      for (size_t n = 0; n < elements && !bad; n++) bad = (((const uint16_t *)inputs[k])[n] & 0x7C00) == 0x7C00;
    if (bad) return tw_fail(t, TILEWRIGHT_INPUT, "input %.80s: a value is NaN or infinite", s->name);
  }
  return TILEWRIGHT_OK;
}

static void begin(tilewright *t, struct flight *f, size_t first, size_t count, const void *const *inputs) {
  f->first = first, f->count = count, f->step = 0;
  for (int32_t k = 0; k < t->input_count; k++) {
    const struct slot *s = t->slots + t->inputs[k];
    f->base[t->inputs[k]] = (uint8_t *)(uintptr_t)inputs[k] + first * s->bytes; /* never written to */
  }
}

/* The processor's steps up to the next launch, or to the end: results are copied then, and states handed on. */
static tilewright_code advance(tilewright *t, struct flight *f, void *const *outputs) {
  for (; f->step < t->step_count && t->steps[f->step].kind != STEP_LAUNCH; f->step++)
    if (tw_execute(t, f, t->steps + f->step)) return t->code;
  f->phase = f->step < t->step_count ? FLIGHT_READY : FLIGHT_IDLE;
  if (f->phase == FLIGHT_READY) return TILEWRIGHT_OK;
  for (int32_t k = 0; k < t->output_count; k++) {
    const struct slot *s = t->slots + t->outputs[k], *root = t->slots + s->root;
    uint8_t *out = (uint8_t *)outputs[k] + f->first * s->bytes;
    for (size_t n = 0; root->constant && n < f->count; n++) memcpy(out + n * s->bytes, f->base[s->root], s->bytes);
    if (!root->constant && s->bytes) memcpy(out, f->base[s->root], f->count * s->bytes);
  }
  for (int32_t k = 0; k < t->state_count && t->options.keep_states; k++) {
    const struct state *s = t->states + k;
    if (t->slots[s->after].root != s->before)
      memcpy(f->base[s->before], f->base[t->slots[s->after].root], t->slots[s->before].bytes);
  }
  return TILEWRIGHT_OK;
}

/* Inferences of a launch: several launches, where there are inferences for them, so that both sides have work. */
static size_t group_size(const tilewright *t, size_t count) {
  const size_t wanted = t->flight_count > 1 ? (count + 3) / 4 : count;
  return wanted < t->group ? wanted : t->group;
}

static tilewright_code run(tilewright *t, size_t count, const void *const *inputs, void *const *outputs) {
  const size_t size = group_size(t, count);
  size_t taken = 0;
  struct flight *f = t->flights;
  for (int32_t k = 0; k < FLIGHTS; k++) t->flights[k].phase = FLIGHT_IDLE;
  for (;;) {
    struct flight *other = t->flight_count > 1 ? t->flights + (f == t->flights) : f;
    if (f->phase == FLIGHT_READY) {
      tw_start(t, f, t->steps[f->step].program);
      f->phase = FLIGHT_LAUNCHED;
    }
    /* meanwhile: what the other group has got back, then the next group's inputs */
    if (other->phase == FLIGHT_ENDED) advance(t, other, outputs);
    if (!t->code && other->phase == FLIGHT_IDLE && taken < count) {
      const size_t part = count - taken < size ? count - taken : size;
      begin(t, other, taken, part, inputs);
      taken += part;
      advance(t, other, outputs);
    }
    if (f->phase == FLIGHT_LAUNCHED) {
      const tilewright_code waited = tw_wait(t, f, t->steps[f->step++].program);
      f->phase = FLIGHT_ENDED;
      if (waited) return waited;
    }
    if (t->code) return t->code;
    if (f->phase == FLIGHT_IDLE && other->phase == FLIGHT_IDLE && taken == count) return TILEWRIGHT_OK;
    f = other;
  }
}

tilewright_code tilewright_run(tilewright *t, size_t count, const void *const *inputs, void *const *outputs) {
  if (!t->ready) return tw_fail(t, TILEWRIGHT_BOARD, "the network could not be opened");
  t->code = TILEWRIGHT_OK;
  t->error[0] = 0;
  if (count > SIZE_MAX / (size_t)t->batch) return tw_fail(t, TILEWRIGHT_NO_MEMORY, "too many inferences");
  count *= (size_t)t->batch;
  if (!count || check_inputs(t, count, inputs)) return t->code;
  return run(t, count, inputs, outputs);
}
