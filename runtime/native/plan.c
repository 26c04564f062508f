/* Steps of an artifact's header, checked before anything runs; flow.py and steps.py are the same in Python. */
#include "bytes.h"
#include "plan.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy of the step at the end of the list, null and an error where there is no memory. */
static struct step *append(tilewright *t, const struct step *s) {
  if (t->step_count == t->step_room) {
    const int32_t room = 2 * t->step_room + 16;
    struct step *more = realloc(t->steps, (size_t)room * sizeof *more);
    if (!more) {
      tw_fail(t, TILEWRIGHT_NO_MEMORY, "there is no memory for %d steps", (int)room);
      return NULL;
    }
    t->steps = more, t->step_room = room;
  }
  t->steps[t->step_count] = *s;
  return t->steps + t->step_count++;
}

/* The segment of a pack or unpack step; null and an error unless its bytes lie in it. */
static void check_segment(const struct part *p, struct step *s, int launched) {
  tilewright *t = p->t;
  s->program = (int32_t)tw_integer(p, "program", 0, 1 << 16, 0);
  s->segment = (int32_t)tw_integer(p, "segment", 0, 1 << 16, REQUIRED);
  s->offset = (size_t)tw_integer(p, "offset", 0, INT32_MAX, 0);
  if (t->code || !plan_require(p, s->program < t->program_count, "there is no such program")) return;
  const struct program *program = t->programs + s->program;
  plan_require(p, program->launched == launched,
               launched ? "its program has not been launched" : "its program has already been launched");
  if (!plan_require(p, s->segment < program->segment_count, "there is no such segment")) return;
  const struct segment *segment = program->segments + s->segment;
  plan_require(p, segment->kind == (launched ? SEGMENT_OUTPUT : SEGMENT_INPUT), "a segment of another kind");
  plan_require(p, s->offset <= segment->size && s->size <= segment->size - s->offset,
               "its bytes lie outside the segment");
}

/* Strides along height, width and channel of an image in a tensor: `order` says which axis of the tensor each of the
 * image's is; axes of one element do not count. 0 where no strides say it. */
static int image_strides(const int32_t image[4], const struct slot *s, const int32_t *order, int32_t strides[3]) {
  int64_t apart[AXES], at = 1;
  int32_t axis = 0;
  for (int32_t k = s->rank - 1; k >= 0; k--) apart[k] = at, at *= s->shape[k];
  for (int32_t k = 0; k < 4; k++) {
    int64_t found = 0;
    if (image[k] > 1) {
      while (axis < s->rank && s->shape[order[axis]] == 1) axis++;
      if (axis == s->rank || s->shape[order[axis]] != image[k]) return 0;
      found = apart[order[axis++]];
    }
    if (k) strides[k - 1] = (int32_t)found;
  }
  return 1;
}

/* Whether these are the numbers below `count`, in any order. */
static int is_order(const int32_t *order, int32_t count) {
  uint32_t seen = 0;
  for (int32_t k = 0; k < count; k++) seen |= order[k] < count ? 1u << order[k] : 0;
  return seen == (1u << count) - 1;
}

static void read_pack(const struct part *p, struct step *s) {
  tilewright *t = p->t;
  struct tilewright_pack *k = &s->u.pack;
  int32_t shape[4] = {0}, padding[4] = {0}, order[AXES];
  const uint32_t layout = json_get(p->json, p->node, "layout");
  s->in = plan_find_key(p, "tensor");
  tw_integers(p, "shape", 4, 4, 1, MOST_ELEMENTS, shape);
  tw_integers(p, "padding", 4, 4, 0, MOST_ELEMENTS, padding);
  const int32_t permuted = tw_integers(p, "permutation", 0, AXES, 0, AXES - 1, order);
  tw_integers(p, "kernel", 2, 2, 1, MOST_ELEMENTS, k->kernel);
  tw_integers(p, "strides", 2, 2, 1, MOST_ELEMENTS, k->step);
  tw_integers(p, "dilation", 2, 2, 1, MOST_ELEMENTS, k->dilation);
  k->lanes = (int32_t)tw_integer(p, "lanes", 1, MOST_ELEMENTS, REQUIRED);
  k->units = (int32_t)tw_integer(p, "units", 1, MOST_ELEMENTS, REQUIRED);
  k->batch = (int32_t)tw_integer(p, "batch", 1, MOST_ELEMENTS, 1);
  k->block = (int32_t)tw_integer(p, "block", 1, MOST_ELEMENTS, 1);
  k->value_offset = (int32_t)tw_integer(p, "value_offset", -255, 255, 0);
  k->pad_value = (int32_t)tw_integer(p, "pad_value", -128, 127, 0);
  k->channel_pad = (int32_t)tw_integer(p, "channel_pad", -128, 127, 0);
  k->layout = !layout || json_is(p->json, layout, "rows") ? LAYOUT_ROWS
              : json_is(p->json, layout, "patches")       ? LAYOUT_PATCHES
                                                          : LAYOUT_BLOCKS;
  plan_require(p, k->layout != LAYOUT_BLOCKS || json_is(p->json, layout, "blocks"), "an unknown layout");
  if (t->code) return;
  const struct slot *x = t->slots + s->in;
  k->height = shape[1], k->width = shape[2], k->channels = shape[3];
  k->top = padding[0], k->left = padding[1], k->bottom = padding[2], k->right = padding[3];
  k->is_unsigned = x->type == TYPE_UINT8;
  plan_require(p, x->type <= TYPE_UINT8, "no 8-bit integers");
  const int64_t height = (int64_t)k->top + k->height + k->bottom, width = (int64_t)k->left + k->width + k->right;
  const int64_t pixels = height * width, reach_y = (k->kernel[0] - 1) * (int64_t)k->dilation[0] + 1,
                reach_x = (k->kernel[1] - 1) * (int64_t)k->dilation[1] + 1;
  const int64_t taps = k->layout == LAYOUT_PATCHES ? (int64_t)k->kernel[0] * k->kernel[1] : 1,
                line = (int64_t)k->units * k->lanes;
  plan_require(p, shape[0] == 1 && (int64_t)k->height * k->width <= MOST_ELEMENTS, "too large an image");
  if (t->code) return;
  plan_require(p, (int64_t)k->height * k->width * k->channels == (int64_t)x->elements,
               "an image of another size than the tensor");
  plan_require(p, pixels <= MOST_ELEMENTS && pixels * k->channels <= MOST_ELEMENTS, "too large a padded image");
  plan_require(p, k->layout != LAYOUT_PATCHES || (reach_y <= height && reach_x <= width),
               "a window that does not fit the image");
  plan_require(p,
               line <= MOST_ELEMENTS && line * k->batch <= MOST_ELEMENTS && taps <= line && taps * k->channels <= line,
               "values that do not fit the units");
  plan_require(p, k->units % k->block == 0, "no whole blocks");
  if (t->code) return;
  if (permuted) {
    plan_require(p, permuted == x->rank && is_order(order, permuted), "no order of the tensor's axes");
    if (!t->code && !image_strides(shape, x, order, k->stride))
      tw_fail(t, TILEWRIGHT_UNSUPPORTED, "%s: a permutation that merges axes; " AGAIN, p->what);
  } else k->stride[0] = k->width * k->channels, k->stride[1] = k->channels, k->stride[2] = 1;
  const int64_t rows = k->layout == LAYOUT_PATCHES ? (height - reach_y) / k->step[0] + 1 : height;
  const int64_t columns = k->layout == LAYOUT_PATCHES ? (width - reach_x) / k->step[1] + 1 : width;
  if (!plan_require(p, rows * columns <= INT32_MAX / (line * k->batch), "too many bytes")) return;
  s->size = tilewright_pack_size(k);
  check_segment(p, s, 0);
}

static void read_unpack(const struct part *p, struct step *s) {
  tilewright *t = p->t;
  struct tilewright_unpack *k = &s->u.unpack;
  int32_t shape[4] = {0}, tensor[AXES] = {0}, order[4], inverse[4];
  tw_integers(p, "shape", 4, 4, 1, MOST_ELEMENTS, shape);
  const int32_t rank = tw_integers(p, "tensor_shape", 0, AXES, 1, MOST_ELEMENTS, tensor);
  const int32_t permuted = tw_integers(p, "permutation", 0, 4, 0, 3, order);
  k->lanes = (int32_t)tw_integer(p, "lanes", 1, MOST_ELEMENTS, REQUIRED);
  k->units = (int32_t)tw_integer(p, "units", 1, MOST_ELEMENTS, REQUIRED);
  k->batch = (int32_t)tw_integer(p, "batch", 1, MOST_ELEMENTS, 1);
  k->value_offset = (int32_t)tw_integer(p, "value_offset", -255, 255, 0);
  k->type = plan_type(p, "dtype", TYPE_BOOL);
  s->out = plan_add(p, "tensor", k->type, rank, tensor);
  if (t->code) return;
  const int64_t pixels = (int64_t)shape[1] * shape[2], line = (int64_t)k->units * k->lanes;
  k->height = shape[1], k->width = shape[2], k->channels = shape[3];
  plan_require(p,
               shape[0] == 1 && pixels <= MOST_ELEMENTS && pixels * k->channels == (int64_t)t->slots[s->out].elements,
               "an image of another size than the tensor");
  plan_require(p, k->channels <= line && line <= MOST_ELEMENTS && line * k->batch <= MOST_ELEMENTS,
               "channels that do not fit the units");
  plan_require(p, !permuted || (permuted == 4 && is_order(order, 4)), "no order of four axes");
  if (t->code || !plan_require(p, pixels <= INT32_MAX / (line * k->batch), "too many bytes")) return;
  struct slot image = {.rank = 4};
  for (int32_t axis = 0; axis < 4; axis++) {
    const int32_t from = permuted ? order[axis] : axis;
    image.shape[axis] = shape[from], inverse[from] = axis;
  }
  image_strides(shape, &image, inverse, k->stride);
  s->size = (size_t)(pixels * line * k->batch);
  check_segment(p, s, 1);
}

static void read_softmax(const struct part *p, struct step *s, int by_table) {
  tilewright *t = p->t;
  const struct slot *x = t->slots + s->in;
  if (!plan_require(p, x->type == TYPE_INT8 && x->elements > 0 && x->rank > 0, "no int8 vector")) return;
  s->u.softmax.columns = (size_t)x->shape[x->rank - 1];
  s->u.softmax.table = tw_allocate(t, 512, sizeof(int32_t));
  if (!by_table) {
    const int32_t multiplier = (int32_t)tw_integer(p, "multiplier", 0, INT32_MAX, REQUIRED),
                  shift = (int32_t)tw_integer(p, "left_shift", 0, 31, REQUIRED);
    const int64_t least = s->u.softmax.diff_min = tw_integer(p, "diff_min", INT32_MIN, 0, REQUIRED),
                  widest = -least < 255 ? -least : 255;
    if (plan_require(p, widest << shift <= INT64_C(1) << 31, "a difference beyond int32") && s->u.softmax.table)
      tilewright_softmax_table(s->u.softmax.table, multiplier, shift, least);
    return;
  }
  const uint32_t node = json_get(p->json, p->node, "table");
  s->u.softmax.factor = (float)tw_real(p, "factor", FLT_TRUE_MIN, FLT_MAX);
  s->u.softmax.zero_point = (int32_t)tw_integer(p, "zero_point", 0, 255, REQUIRED);
  if (t->code || !plan_require(p, node && p->json->nodes[node].type == JSON_ARRAY && json_length(p->json, node) == 256,
                               "no table of 256 values"))
    return;
  uint32_t at = json_first(node);
  for (int32_t k = 0; k < 256; k++, at = json_next(p->json, at)) {
    double value = -1;
    if (!plan_require(p, json_real(p->json, at, &value) && value >= 0 && value <= FLT_MAX, "a table with wrong values"))
      return;
    ((float *)s->u.softmax.table)[k] = (float)value;
  }
}

static void read_convert(const struct part *p, struct step *s, const char *kind) {
  tilewright *t = p->t;
  const struct slot x = t->slots[s->in]; /* a copy: adding a tensor moves them */
  int32_t to = TYPE_FLOAT32;
  if (s->kind == STEP_QUANTIZE) {
    const uint32_t rounding = json_get(p->json, p->node, "rounding");
    to = plan_type(p, "dtype", TYPE_BOOL);
    s->u.convert.away = rounding && json_is(p->json, rounding, "away");
    plan_require(p, x.type == TYPE_FLOAT32 && (s->u.convert.away || !rounding || json_is(p->json, rounding, "even")),
                 "not float32, or an unknown rounding");
    s->u.convert.scale = (float)tw_real(p, "scale", FLT_TRUE_MIN, FLT_MAX);
    s->u.convert.offset = (int32_t)tw_integer(p, "zero_point", INT32_MIN, INT32_MAX, REQUIRED);
  } else if (s->kind == STEP_DEQUANTIZE) {
    s->u.convert.scale = (float)tw_real(p, "scale", FLT_TRUE_MIN, FLT_MAX);
    s->u.convert.offset = (int32_t)tw_integer(p, "zero_point", -(1 << 15), 1 << 16, REQUIRED);
    plan_require(p, x.type <= TYPE_INT32 && (x.type < TYPE_INT32 || !s->u.convert.offset), "values that leave int32");
  } else if (!strcmp(kind, "cast")) {
    to = plan_type(p, "dtype", TYPE_BOOL);
    s->u.convert.offset = (int32_t)tw_integer(p, "offset", INT32_MIN, INT32_MAX, REQUIRED);
    plan_require(p, x.type <= TYPE_INT32, "no integers of at most 32 bits");
  } else to = x.type; /* a softmax */
  s->out = plan_add(p, "output", to, x.rank, x.shape);
}

/* Strides in bytes of a tensor's axes. */
static void byte_strides(const struct slot *s, int64_t *strides) {
  int64_t at = (int64_t)plan_type_sizes[s->type];
  for (int32_t k = s->rank - 1; k >= 0; k--) strides[k] = at, at *= s->shape[k];
}

/* Transposes, and cuts of a part from a tensor. */
static void read_copy(const struct part *p, struct step *s, int is_cut) {
  const struct slot x = p->t->slots[s->in];
  struct copy *c = &s->u.copy;
  int32_t order[AXES] = {0}, begin[AXES] = {0};
  int64_t strides[AXES];
  byte_strides(&x, strides);
  c->rank = x.rank, c->item = plan_type_sizes[x.type];
  if (is_cut) {
    const int32_t axes = tw_integers(p, "begin", 0, AXES, 0, MOST_ELEMENTS, begin),
                  sizes = tw_integers(p, "size", 0, AXES, 1, MOST_ELEMENTS, c->shape);
    if (!plan_require(p, axes == x.rank && sizes == x.rank, "no part of the tensor")) return;
    for (int32_t k = 0; k < x.rank; k++) {
      plan_require(p, (int64_t)begin[k] + c->shape[k] <= x.shape[k], "no part of the tensor");
      c->in[k] = strides[k], c->first_in += begin[k] * strides[k];
    }
  } else {
    const int32_t axes = tw_integers(p, "permutation", 0, AXES, 0, AXES - 1, order);
    if (!plan_require(p, axes == x.rank && is_order(order, axes), "no order of the tensor's axes")) return;
    for (int32_t k = 0; k < x.rank; k++) c->shape[k] = x.shape[order[k]], c->in[k] = strides[order[k]];
  }
  s->out = plan_add(p, "output", x.type, x.rank, c->shape);
  if (!p->t->code) byte_strides(p->t->slots + s->out, c->out);
}

/* A join is a copy for each of its parts. */
static void read_join(const struct part *p) {
  tilewright *t = p->t;
  int32_t shape[AXES];
  uint32_t name, origin, count = plan_list(p, "inputs", 1, &name), origins = plan_list(p, "origins", 1, &origin);
  const int32_t rank = tw_integers(p, "shape", 0, AXES, 1, MOST_ELEMENTS, shape);
  plan_require(p, count == origins, "parts without an origin");
  int32_t out = -1;
  for (uint32_t k = 0; k < count && !t->code;
       k++, name = json_next(p->json, name), origin = json_next(p->json, origin)) {
    char *text = p->json->nodes[name].type == JSON_STRING ? json_string(p->json, name) : NULL;
    struct step s = {.kind = STEP_COPY, .in = plan_find(p, text)};
    free(text);
    const uint32_t axes = json_length(p->json, origin);
    if (t->code || !plan_require(p,
                                 s.in >= 0 && p->json->nodes[origin].type == JSON_ARRAY && axes == (uint32_t)rank &&
                                     t->slots[s.in].rank == rank,
                                 "no parts of the tensor"))
      return;
    const struct slot x = t->slots[s.in];
    struct copy *c = &s.u.copy;
    if (!k) out = plan_add(p, "output", x.type, rank, shape);
    if (t->code || !plan_require(p, t->slots[out].type == x.type, "parts of different types")) return;
    s.out = out, c->rank = rank, c->item = plan_type_sizes[x.type], c->clear = !k;
    byte_strides(&x, c->in), byte_strides(t->slots + out, c->out);
    uint32_t at = json_first(origin);
    for (int32_t axis = 0; axis < rank; axis++, at = json_next(p->json, at)) {
      int64_t begin = -1;
      plan_require(p, json_integer(p->json, at, &begin) && begin >= 0 && begin + x.shape[axis] <= shape[axis],
                   "no parts of the tensor");
      c->shape[axis] = x.shape[axis], c->first_out += begin * c->out[axis];
    }
    if (!t->code) append(t, &s);
  }
}

static void read_constant(const struct part *p) {
  tilewright *t = p->t;
  int32_t shape[AXES];
  const int32_t rank = tw_integers(p, "shape", 0, AXES, 0, MOST_ELEMENTS, shape);
  const int32_t out = plan_add(p, "output", plan_type(p, "dtype", TYPES), rank, shape);
  const uint32_t data = json_get(p->json, p->node, "data");
  if (t->code || !plan_require(p, data && p->json->nodes[data].type == JSON_STRING, "no data")) return;
  struct slot *s = t->slots + out;
  const struct json_node *n = p->json->nodes + data;
  if (!plan_require(p, s->bytes <= n->end - n->begin, "too little data")) return;
  s->constant = tw_allocate(t, s->bytes, 1);
  if (s->constant)
    plan_require(p, !bytes_base64(p->json->text + n->begin, n->end - n->begin, s->constant, s->bytes),
                 "data of another size, or no base64");
}

static void read_reshape(const struct part *p, int32_t in) {
  int32_t shape[AXES];
  const int32_t rank = tw_integers(p, "shape", 0, AXES, 0, MOST_ELEMENTS, shape),
                out = plan_add(p, "output", p->t->slots[in].type, rank, shape);
  if (p->t->code) return;
  struct slot *s = p->t->slots;
  if (plan_require(p, s[out].elements == s[in].elements, "a shape of another size")) s[out].root = s[in].root;
}

static void read_launch(const struct part *p) {
  tilewright *t = p->t;
  int32_t programs[65] = {(int32_t)tw_integer(p, "program", 0, 1 << 16, 0)};
  const int32_t count = 1 + tw_integers(p, "beside", 0, 64, 0, 1 << 16, programs + 1);
  for (int32_t k = 0; k < count && !t->code; k++) { /* one after another: this runtime uses one core */
    if (!plan_require(p, programs[k] < t->program_count && !t->programs[programs[k]].launched,
                      "no such program, or launched already"))
      return;
    t->programs[programs[k]].launched = 1;
    append(t, &(struct step){.kind = STEP_LAUNCH, .program = programs[k]});
  }
}

/* Operators of an interpreter, by name. */
static void refuse_interpreter(const struct part *p) {
  char names[160] = "operators", *text = NULL;
  const uint32_t node = json_get(p->json, p->node, "operators");
  uint32_t at = json_first(node);
  for (uint32_t k = 0; node && k < json_length(p->json, node) && k < 3; k++, at = json_next(p->json, at)) {
    if (p->json->nodes[at].type != JSON_STRING || !(text = json_string(p->json, at))) break;
    if (!k) names[0] = 0;
    if (strlen(names) + strlen(text) + 3 < sizeof names) strcat(strcat(names, k ? ", " : ""), text);
    free(text);
  }
  tw_fail(p->t, TILEWRIGHT_UNSUPPORTED, "%s run in an interpreter, which needs Python", names);
}

static void read_step(const struct part *p) {
  static const struct {
    const char *name;
    enum step_kind kind;
  } converts[] = {{"softmax", STEP_SOFTMAX},
                  {"table_softmax", STEP_TABLE_SOFTMAX},
                  {"cast", STEP_CAST},
                  {"quantize", STEP_QUANTIZE},
                  {"dequantize", STEP_DEQUANTIZE}};
  tilewright *t = p->t;
  const uint32_t kind = json_get(p->json, p->node, "kind");
#define IS(NAME) json_is(p->json, kind, NAME)
  struct step s = {.kind = STEP_PACK};
  if (!plan_require(p, kind != 0, "no kind")) return;
  if (IS("interpreter")) refuse_interpreter(p);
  else if (IS("launch")) read_launch(p);
  else if (IS("join")) read_join(p);
  else if (IS("pack")) {
    read_pack(p, &s);
    append(t, &s);
  } else if (IS("unpack")) {
    s.kind = STEP_UNPACK;
    read_unpack(p, &s);
    append(t, &s);
  } else {
    if ((s.in = plan_find_key(p, "input")) < 0) return;
    if (IS("reshape")) read_reshape(p, s.in);
    else if (IS("constant")) read_constant(p);
    else if (IS("transpose") || IS("cut")) {
      s.kind = STEP_COPY;
      read_copy(p, &s, IS("cut"));
      append(t, &s);
    } else {
      size_t k = 0;
      while (k < sizeof converts / sizeof *converts && !IS(converts[k].name)) k++;
      if (!plan_require(p, k < sizeof converts / sizeof *converts, "no such step")) return;
      s.kind = converts[k].kind;
      if (k < 2) read_softmax(p, &s, (int)k);
      struct step *kept = append(t, &s); /* first, so that its table is freed whatever comes */
      if (kept) read_convert(p, kept, converts[k].name);
      else free(s.u.softmax.table);
    }
  }
#undef IS
}

tilewright_code tw_read_plan(tilewright *t, const struct json *json) {
  const struct part whole = {t, json, 0, "artifact"};
  t->batch = (int32_t)tw_integer(&whole, "batch", 1, 1 << 20, 1);
  if (!t->code) plan_read_inputs(&whole);
  if (!t->code) plan_read_states(&whole, 0);
  uint32_t at = 0, count = t->code ? 0 : plan_list(&whole, "steps", 0, &at);
  for (uint32_t k = 0; k < count && !t->code; k++, at = json_next(json, at)) {
    char what[24];
    snprintf(what, sizeof what, "step %u", k);
    const struct part step = {t, json, at, what};
    read_step(&step);
  }
  if (!t->code) plan_read_outputs(&whole);
  if (!t->code) plan_read_states(&whole, 1);
  return t->code;
}
