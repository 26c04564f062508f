/* What an open network is, for the files of the C runtime. */
#ifndef TILEWRIGHT_INTERNAL_H
#define TILEWRIGHT_INTERNAL_H

#include "json.h"
#include "steps.h"
#include "tilewright.h"

#define AXES 8                  /* most axes of a tensor */
#define MOST_ELEMENTS (1 << 28) /* of a tensor, as step_base.py has it */
#define PAGE 4096
#define REGISTER_WORDS 1024
#define FLIGHTS 2 /* groups of inferences under way: one on the accelerator, one on the processor */

struct config {
  uint64_t fingerprint;
  struct tilewright_order order;
  int32_t segments;
};

enum segment_kind { SEGMENT_CONSTANT, SEGMENT_INPUT, SEGMENT_OUTPUT, SEGMENT_SCRATCH };

struct segment {
  enum segment_kind kind;
  size_t size, stride; /* bytes; stride from one inference's to the next one's, 0: all share it */
  uint8_t *data;       /* its first bytes; null once they are in the accelerator's memory */
  size_t data_size;
  int per_flight; /* each group of inferences has its own */
  size_t first;   /* byte in the buffer */
};

struct program {
  uint8_t *code;
  size_t code_size;
  int32_t instructions, segment_count;
  struct segment *segments;
  tilewright_buffer fixed;    /* code, constants and scratch memory, for all inferences */
  size_t own_size, own_input; /* bytes of a flight's buffer, and of its part that the processor writes */
  int launched;               /* while steps are read: whether one launches it */
  uint64_t cycles;            /* of its latest inference */
};

struct slot { /* one tensor that a step makes; the name may be that of an earlier one */
  char *name;
  int32_t type, rank, shape[AXES];
  size_t elements, bytes; /* of one inference */
  int32_t root;           /* the slot whose bytes these are */
  uint8_t *constant;      /* the same bytes for every inference, or null */
  int32_t input;          /* which of the inputs it is, or -1 */
};

enum step_kind {
  STEP_PACK,
  STEP_LAUNCH,
  STEP_UNPACK,
  STEP_SOFTMAX,
  STEP_TABLE_SOFTMAX,
  STEP_CAST,
  STEP_QUANTIZE,
  STEP_DEQUANTIZE,
  STEP_COPY
};

struct copy { /* elements to other places; strides in bytes */
  int32_t rank, shape[AXES];
  int64_t in[AXES], out[AXES];
  int64_t first_in, first_out;
  size_t item;
  int clear; /* the output is zero where nothing is copied to */
};

struct step {
  enum step_kind kind;
  int32_t in, out; /* slots */
  int32_t program, segment;
  size_t offset, size;
  union {
    struct tilewright_pack pack;
    struct tilewright_unpack unpack;
    struct {
      void *table;
      int64_t diff_min;
      float factor;
      int32_t zero_point;
      size_t columns;
    } softmax;
    struct {
      float scale;
      int32_t offset, away;
    } convert;
    struct copy copy;
  } u;
};

struct state { /* a tensor as steps find it, and as they leave it; zero point everywhere at first */
  int32_t before, after;
  uint8_t zero;
};

struct flight {
  uint8_t **base;         /* of each slot's bytes */
  uint8_t *memory;        /* that of all slots */
  tilewright_buffer *own; /* of each program */
  size_t first, count;    /* inferences of its group */
  int32_t step;           /* the next */
  enum { FLIGHT_IDLE, FLIGHT_READY, FLIGHT_LAUNCHED, FLIGHT_ENDED } phase;
};

struct tilewright {
  char error[TILEWRIGHT_TEXT];
  tilewright_code code; /* of the first error while opening, of the latest run later */
  tilewright_board board;
  tilewright_options options;
  int ready; /* opened without an error */
  struct config config;
  struct program *programs;
  struct slot *slots;
  struct step *steps;
  struct state *states;
  int32_t program_count, slot_count, step_count, state_count, slot_room, step_room;
  int32_t *inputs, *outputs, input_count, output_count; /* slots */
  tilewright_tensor *described;                         /* the inputs, then the outputs */
  char **output_names;
  int32_t batch; /* images of one inference, each of which runs by itself */
  size_t group;  /* most inferences of one launch */
  struct flight flights[FLIGHTS];
  int32_t flight_count;
  uint8_t *scratch, *staging;      /* for packing; for memory in another order */
  uint32_t shadow[REGISTER_WORDS]; /* what the registers hold */
  uint8_t known[REGISTER_WORDS];
};

#define AGAIN "compile the model again" /* the way out of most errors */

/* Note an error unless there is one; returns its code. */
tilewright_code tw_fail(tilewright *t, tilewright_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void *tw_allocate(tilewright *t, size_t count, size_t size); /* zeroed; null and an error where there is no memory */

/* A part of a JSON header that is read field by field; `what` names it in errors. */
struct part {
  tilewright *t;
  const struct json *json;
  uint32_t node;
  const char *what;
};
#define REQUIRED INT64_MIN
/* The integer of a key from `low` to `high`; `missing` where there is no such key, unless it is REQUIRED. */
int64_t tw_integer(const struct part *p, const char *key, int64_t low, int64_t high, int64_t missing);
double tw_real(const struct part *p, const char *key, double low, double high);
/* An array of integers, `least` to `most` of them; how many there are. Null and missing give 0 where `least` is 0. */
int32_t tw_integers(const struct part *p, const char *key, int32_t least, int32_t most, int64_t low, int64_t high,
                    int32_t *out);
char *tw_text(const struct part *p, const char *key); /* to be freed; null and an error where there is none */

/* artifact.c: the whole file; plan.c: tensors and steps of its header. */
tilewright_code tw_read_artifact(tilewright *t, const uint8_t *data, size_t size);
tilewright_code tw_read_plan(tilewright *t, const struct json *json);
static inline size_t tw_beat(const tilewright *t) { return (size_t)(t->config.order.word * t->config.order.ports); }

/* memory.c: everything that runs need; launch.c: registers. */
tilewright_code tw_prepare(tilewright *t);
void tw_release(tilewright *t);
tilewright_code tw_check_board(tilewright *t);
tilewright_code tw_start(tilewright *t, struct flight *f, int32_t program);
tilewright_code tw_wait(tilewright *t, struct flight *f, int32_t program);
/* execute.c: the steps of the processor. */
tilewright_code tw_execute(tilewright *t, struct flight *f, const struct step *s);

#endif
