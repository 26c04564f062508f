/* Launches: registers written where they differ, START, STATUS. */
#include "internal.h"
#include "contract.h"

#include <string.h>

enum { TIMEOUT_MS = 10000, ABORT_US = 500000, REST_US = 1000 };

static uint32_t get(tilewright *t, uint32_t offset) { return t->board.registers(t->board.context, offset, NULL); }

static void set(tilewright *t, uint32_t offset, uint32_t value) {
  t->board.registers(t->board.context, offset, &value);
}

/* Set a register unless it holds the value. */
static void change(tilewright *t, uint32_t offset, uint32_t value) {
  const uint32_t word = offset / 4;
  if (t->known[word] && t->shadow[word] == value) return;
  set(t, offset, value);
  t->shadow[word] = value, t->known[word] = 1;
}

static void change_wide(tilewright *t, uint32_t offset, uint64_t value) {
  change(t, offset, (uint32_t)value);
  change(t, offset + 4, (uint32_t)(value >> 32));
}

/* End what runs; 0 if it cannot be ended. */
static int stop(tilewright *t) {
  set(t, REGISTER_CONTROL, 1u << CONTROL_ABORT);
  const uint64_t end = t->board.time(t->board.context, 0) + ABORT_US;
  while (!(get(t, REGISTER_STATUS) >> STATUS_DONE & 1))
    if (t->board.time(t->board.context, REST_US) > end) return 0;
  set(t, REGISTER_CONTROL, 1u << CONTROL_ACKNOWLEDGE);
  return 1;
}

tilewright_code tw_check_board(tilewright *t) {
  const uint32_t id = get(t, REGISTER_ID);
  if (id != ID_VALUE)
    return tw_fail(t, TILEWRIGHT_BOARD,
                   "register ID holds %#010x, not %#010x: no Tilewright at this address, or no clock or reset",
                   (unsigned)id, (unsigned)ID_VALUE);
  const uint64_t found = get(t, REGISTER_FINGERPRINT_LOW) | (uint64_t)get(t, REGISTER_FINGERPRINT_HIGH) << 32;
  if (found != t->config.fingerprint)
    return tw_fail(t, TILEWRIGHT_BOARD,
                   "compiled for config %016llx, the hardware is %016llx; compile the model for it",
                   (unsigned long long)t->config.fingerprint, (unsigned long long)found);
  if (get(t, REGISTER_STATUS) >> STATUS_BUSY & 1 && !stop(t))
    return tw_fail(t, TILEWRIGHT_BOARD, "a run goes on and cannot be ended; reset the board");
  return TILEWRIGHT_OK;
}

tilewright_code tw_start(tilewright *t, struct flight *f, int32_t program) {
  const struct program *p = t->programs + program;
  const tilewright_buffer *own = f->own + program;
  const size_t beat = tw_beat(t);
  if (p->own_input) t->board.memory(t->board.context, TILEWRIGHT_TO_DEVICE, f->own + program, 0, p->own_input);
  if (get(t, REGISTER_PROGRAM_LOW) != t->shadow[REGISTER_PROGRAM_LOW / 4])
    memset(t->known, 0, sizeof t->known); /* another network's */
  change_wide(t, REGISTER_PROGRAM_LOW, p->fixed.address);
  change(t, REGISTER_PROGRAM_INSTRUCTIONS, (uint32_t)p->instructions);
  change(t, REGISTER_PROGRAM_BEATS, (uint32_t)((p->code_size + beat - 1) / beat));
  change(t, REGISTER_REPEAT, (uint32_t)f->count);
  change(t, REGISTER_WATCHDOG, t->options.watchdog_cycles ? t->options.watchdog_cycles : UINT32_MAX);
  change(t, REGISTER_INTERRUPT_ENABLE, 1);
  for (int32_t k = 0; k < t->config.segments; k++) {
    const uint32_t at = SEGMENT_BASE + (uint32_t)k * SEGMENT_SPACING;
    const struct segment *s = k < p->segment_count ? p->segments + k : NULL;
    change_wide(t, at, s ? (s->per_flight ? own : &p->fixed)->address + s->first : 0);
    change(t, at + 8, s ? (uint32_t)(s->size / beat) : 0);
    change(t, at + 12, s ? (uint32_t)s->stride : 0);
  }
  set(t, REGISTER_CONTROL, 1u << CONTROL_START);
  return TILEWRIGHT_OK;
}

tilewright_code tw_wait(tilewright *t, struct flight *f, int32_t program) {
  static const char *const faults[] = {"none", "SEGMENT", "ILLEGAL", "WATCHDOG", "BUS"};
  struct program *p = t->programs + program;
  const uint32_t allowed = t->options.timeout_ms ? t->options.timeout_ms : TIMEOUT_MS;
  uint32_t status = get(t, REGISTER_STATUS);
  if (!(status >> STATUS_DONE & 1)) {
    const uint64_t end = t->board.time(t->board.context, 0) + (uint64_t)allowed * 1000;
    while (!((status = get(t, REGISTER_STATUS)) >> STATUS_DONE & 1))
      if (t->board.time(t->board.context, REST_US) > end)
        return tw_fail(t, TILEWRIGHT_TIMEOUT, "no end after %u ms; %s", (unsigned)allowed,
                       stop(t) ? "the run was ended" : "nor does abort end it: reset the board");
  }
  if (status >> STATUS_FAULT & 1) {
    const uint32_t code = get(t, REGISTER_FAULT_CODE);
    tw_fail(t, TILEWRIGHT_FAULT, "program %d: fault %s at instruction %u", (int)program,
            code < 5 ? faults[code] : "of an unknown code", (unsigned)get(t, REGISTER_FAULT_INSTRUCTION));
  }
  p->cycles = get(t, REGISTER_CYCLES_LOW) | (uint64_t)get(t, REGISTER_CYCLES_HIGH) << 32;
  set(t, REGISTER_CONTROL, 1u << CONTROL_ACKNOWLEDGE);
  if (p->own_size > p->own_input)
    t->board.memory(t->board.context, TILEWRIGHT_FROM_DEVICE, f->own + program, p->own_input,
                    p->own_size - p->own_input);
  return t->code;
}
