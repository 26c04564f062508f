/* Artifacts through the C runtime on a board that plays back what an accelerator gave.
 *
 *   replay FILE...                                  open each, run 3 inferences on zeros, print what came of it
 *   replay zeros COUNT FILE                         one of them, COUNT inferences
 *   replay FILE FOLDER COUNT BEAT INPUT OUTPUT      one network of one program: FOLDER has the inputs (x0 ...), what
 *                                                   segments INPUT and OUTPUT held in DRAM (packed, given) and the
 *                                                   outputs (y0 ...) of COUNT inferences one after another; exit code
 *                                                   1 if any differ
 *
 * getppid() is called before and after a run, which a counter of instructions can see. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "contract.h"
#include "tilewright.h"

static uint32_t values[1024];
static tilewright_buffer buffers[64];
static const uint8_t *packed, *given;
static size_t beat, played;
static int input_segment, output_segment, differences;

static uint8_t *at(uint64_t address) {
  for (int k = 0; k < 64; k++)
    if (buffers[k].bytes && address >= buffers[k].address && address < buffers[k].address + buffers[k].size)
      return buffers[k].bytes + (address - buffers[k].address);
  abort();
}

static void play(void) {
  const uint32_t *in = values + (SEGMENT_BASE + input_segment * SEGMENT_SPACING) / 4,
                 *out = values + (SEGMENT_BASE + output_segment * SEGMENT_SPACING) / 4;
  for (uint32_t k = 0; packed && k < values[REGISTER_REPEAT / 4]; k++, played++) {
    const size_t in_size = in[2] * beat, out_size = out[2] * beat;
    differences += memcmp(at(in[0] + (uint64_t)k * in[3]), packed + played * in_size, in_size) != 0;
    memcpy(at(out[0] + (uint64_t)k * out[3]), given + played * out_size, out_size);
  }
}

static uint32_t registers(void *context, uint32_t offset, const uint32_t *value) {
  (void)context;
  if (!value) return values[offset / 4];
  values[offset / 4] = *value;
  if (offset == REGISTER_CONTROL && *value >> CONTROL_START & 1) play();
  return 0;
}

static int memory(void *context, int what, tilewright_buffer *buffer, size_t offset, size_t size) {
  (void)context, (void)offset;
  if (what == TILEWRIGHT_ALLOCATE)
    for (int k = 0; k < 64; k++)
      if (!buffers[k].bytes) {
        if (size > (size_t)1 << 28 || !(buffer->bytes = malloc(size))) return 1;
        buffer->address = (uint64_t)(k + 1) << 28;
        buffers[k] = *buffer;
        return 0;
      }
  if (what == TILEWRIGHT_RELEASE)
    for (int k = 0; k < 64; k++)
      if (buffers[k].bytes == buffer->bytes) free(buffer->bytes), buffers[k].bytes = NULL;
  return what == TILEWRIGHT_ALLOCATE;
}

static uint64_t now(void *context, uint32_t microseconds) {
  static uint64_t passed;
  (void)context;
  return passed += microseconds + 1;
}

static void *file(const char *folder, const char *name, int number) {
  char path[4096];
  snprintf(path, sizeof path, number < 0 ? "%s/%s" : "%s/%s%d", folder, name, number);
  FILE *in = fopen(path, "rb");
  if (!in || fseek(in, 0, SEEK_END)) perror(path), exit(2);
  const long size = ftell(in);
  void *data = malloc((size_t)size + 1);
  rewind(in);
  if (!data || fread(data, 1, (size_t)size, in) != (size_t)size) perror(path), exit(2);
  fclose(in);
  return data;
}

/* What the artifact says that it is compiled for, so that any can be opened. */
static void pretend(const char *path) {
  FILE *in = fopen(path, "rb");
  char *text = calloc(1, 1 << 20), *found = NULL;
  const size_t size = in && text ? fread(text, 1, (1 << 20) - 1, in) : 0;
  for (size_t k = 0; k + 40 < size && !found; k++)
    if (!memcmp(text + k, "\"fingerprint\": \"", 16)) found = text + k + 16;
  const uint64_t fingerprint = found ? strtoull(found, NULL, 16) : 0;
  values[REGISTER_ID / 4] = ID_VALUE, values[REGISTER_STATUS / 4] = 1u << STATUS_DONE;
  values[REGISTER_FINGERPRINT_LOW / 4] = (uint32_t)fingerprint,
                                    values[REGISTER_FINGERPRINT_HIGH / 4] = (uint32_t)(fingerprint >> 32);
  if (in) fclose(in);
  free(text);
}

static tilewright_code run(tilewright *t, size_t count, const char *folder) {
  const void *inputs[64] = {0};
  void *outputs[64] = {0};
  const int32_t in = tilewright_inputs(t), out = tilewright_outputs(t);
  if (in > 64 || out > 64) return TILEWRIGHT_OK;
  for (int32_t k = 0; k < in; k++)
    inputs[k] = folder ? file(folder, "x", k) : calloc(count, tilewright_input(t, k)->bytes + 1);
  for (int32_t k = 0; k < out; k++) outputs[k] = malloc(count * tilewright_output(t, k)->bytes + 1);
  getppid();
  const tilewright_code code = tilewright_run(t, count, inputs, outputs);
  getppid();
  for (int32_t k = 0; folder && k < out; k++) {
    void *wanted = file(folder, "y", k);
    differences += memcmp(outputs[k], wanted, count * tilewright_output(t, k)->bytes) != 0;
    free(wanted);
  }
  for (int32_t k = 0; k < in; k++) free((void *)(uintptr_t)inputs[k]);
  for (int32_t k = 0; k < out; k++) free(outputs[k]);
  return code;
}

int main(int argc, char **argv) {
  const tilewright_board board = {NULL, registers, memory, now};
  const int replays = argc == 7 && atoi(argv[3]) > 0;
  const int counted = argc == 4 && !strcmp(argv[1], "zeros");
  const size_t count = replays ? (size_t)atoi(argv[3]) : counted ? (size_t)atoi(argv[2]) : 3;
  if (replays) {
    beat = (size_t)atoi(argv[4]), input_segment = atoi(argv[5]), output_segment = atoi(argv[6]);
    packed = file(argv[2], "packed", -1), given = file(argv[2], "given", -1);
  }
  for (int k = counted ? 3 : 1; k < (replays ? 2 : argc); k++) {
    tilewright *t;
    pretend(argv[k]);
    tilewright_code code = tilewright_open_file(&t, argv[k], &board, NULL);
    if (!code) code = run(t, count, replays ? argv[2] : NULL);
    printf("%d %s\n", code, code ? tilewright_error(t) : replays ? differences ? "differs" : "equal" : "ran");
    differences += replays && code;
    tilewright_close(t);
  }
  free((void *)(uintptr_t)packed), free((void *)(uintptr_t)given);
  return differences > 0;
}
