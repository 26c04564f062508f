/* The processor's steps on a group of inferences. */
#include "internal.h"

#include <string.h>

static uint8_t *bytes_of(const struct flight *f, const tilewright *t, int32_t slot) {
  return f->base[t->slots[slot].root];
}

/* Bytes from one inference's tensor to the next one's: none for a constant. */
static size_t apart(const tilewright *t, int32_t slot) {
  const struct slot *root = t->slots + t->slots[slot].root;
  return root->constant ? 0 : root->bytes;
}

static void copy_axes(const struct copy *c, int32_t axis, const uint8_t *in, uint8_t *out) {
  if (axis == c->rank) {
    memcpy(out, in, c->item);
    return;
  }
  const int64_t item = (int64_t)c->item, step_in = c->in[axis], step_out = c->out[axis];
  if (axis == c->rank - 1 && step_in == item && step_out == item) memcpy(out, in, (size_t)c->shape[axis] * c->item);
  else if (axis == c->rank - 1 && item == 1)
    for (int32_t k = 0; k < c->shape[axis]; k++) out[k * step_out] = in[k * step_in];
  else
    for (int32_t k = 0; k < c->shape[axis]; k++) copy_axes(c, axis + 1, in + k * step_in, out + k * step_out);
}

static tilewright_code refuse(tilewright *t, const char *what) {
  return tw_fail(t, TILEWRIGHT_INPUT, "tensor %.80s: %s", what,
                 "a value that the step cannot take: NaN, or outside of its type");
}

static tilewright_code pack(tilewright *t, struct flight *f, const struct step *s) {
  const struct segment *segment = t->programs[s->program].segments + s->segment;
  uint8_t *memory = f->own[s->program].bytes + segment->first;
  for (size_t k = 0; k < f->count; k++) {
    const uint8_t *in = bytes_of(f, t, s->in) + k * apart(t, s->in);
    const size_t begin = k * segment->stride + s->offset;
    uint8_t *out = t->staging ? t->staging : memory + begin;
    if (tilewright_pack(&s->u.pack, in, out, s->size, t->scratch, 1)) return refuse(t, t->slots[s->in].name);
    if (t->staging) tilewright_to_dram(&t->config.order, memory, begin, out, s->size);
  }
  return TILEWRIGHT_OK;
}

static void unpack(tilewright *t, struct flight *f, const struct step *s) {
  const struct segment *segment = t->programs[s->program].segments + s->segment;
  const uint8_t *memory = f->own[s->program].bytes + segment->first;
  for (size_t k = 0; k < f->count; k++) {
    const size_t begin = k * segment->stride + s->offset;
    const uint8_t *in = t->staging ? t->staging : memory + begin;
    if (t->staging) tilewright_from_dram(&t->config.order, memory, begin, t->staging, s->size);
    tilewright_unpack(&s->u.unpack, (const int8_t *)in, s->size, bytes_of(f, t, s->out) + k * apart(t, s->out), 1);
  }
}

tilewright_code tw_execute(tilewright *t, struct flight *f, const struct step *s) {
  if (s->kind == STEP_PACK) return pack(t, f, s);
  if (s->kind == STEP_UNPACK) {
    unpack(t, f, s);
    return TILEWRIGHT_OK;
  }
  const struct slot *x = t->slots + s->in, *y = t->slots + s->out;
  int bad = 0;
  for (size_t k = 0; k < f->count; k++) {
    const void *in = bytes_of(f, t, s->in) + k * apart(t, s->in);
    void *out = bytes_of(f, t, s->out) + k * apart(t, s->out);
    switch (s->kind) {
    case STEP_SOFTMAX:
      if (tilewright_softmax(s->u.softmax.table, s->u.softmax.diff_min, in, out, x->elements / s->u.softmax.columns,
                             s->u.softmax.columns))
        return tw_fail(t, TILEWRIGHT_INPUT, "tensor %.80s: the softmax's sum over %zu elements exceeds int32", x->name,
                       s->u.softmax.columns);
      break;
    case STEP_TABLE_SOFTMAX:
      tilewright_table_softmax(s->u.softmax.table, s->u.softmax.factor, s->u.softmax.zero_point, in, out,
                               x->elements / s->u.softmax.columns, s->u.softmax.columns);
      break;
    case STEP_CAST: bad = tilewright_cast(in, x->type, s->u.convert.offset, out, y->type, x->elements); break;
    case STEP_QUANTIZE:
      bad = tilewright_quantize(in, s->u.convert.scale, s->u.convert.offset, s->u.convert.away, out, y->type,
                                x->elements);
      break;
    case STEP_DEQUANTIZE:
      tilewright_dequantize(in, x->type, s->u.convert.scale, s->u.convert.offset, out, x->elements);
      break;
    default:
      if (s->u.copy.clear) memset(out, 0, y->bytes);
      if (x->elements)
        copy_axes(&s->u.copy, 0, (const uint8_t *)in + s->u.copy.first_in, (uint8_t *)out + s->u.copy.first_out);
    }
    if (bad) return refuse(t, x->name);
  }
  return TILEWRIGHT_OK;
}
