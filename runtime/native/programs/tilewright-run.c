/* tilewright-run: an artifact on a Linux board. Arrays are .npy files, or bytes where names end otherwise. */
#define _POSIX_C_SOURCE 200809L
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tilewright.h"

enum { MOST = 16 };

static const char usage[] =
    "usage: tilewright-run --registers R --memory M [options] NETWORK.twa\n"
    "  --registers R     /dev/uio0, or /dev/mem@ADDRESS\n"
    "  --memory M        /dev/udmabuf0, or /dev/mem@ADDRESS+BYTES of reserved memory\n"
    "  --input FILE      one for each input: inferences one after another; zeros where left out\n"
    "  --output FILE     one for each output\n"
    "  --count N         inferences (1) where there is no --input\n"
    "  --repeat N        run that often, and print the shortest time\n"
    "  --per-launch N    most inferences of one launch\n"
    "  --stream          inferences follow on each other: states go on\n";

struct arguments {
  const char *registers, *memory, *network, *inputs[MOST], *outputs[MOST];
  int input_count, output_count;
  unsigned long count, repeat;
  tilewright_options options;
};

static int complain(const char *what, const char *why) {
  fprintf(stderr, "tilewright-run: %s%s%s\n", what, why ? ": " : "", why ? why : "");
  return 2;
}

static int parse(int argc, char **argv, struct arguments *a) {
  static const struct option options[] = {{"registers", 1, 0, 'r'},  {"memory", 1, 0, 'm'},
                                          {"input", 1, 0, 'i'},      {"output", 1, 0, 'o'},
                                          {"count", 1, 0, 'n'},      {"repeat", 1, 0, 'k'},
                                          {"per-launch", 1, 0, 'l'}, {"stream", 0, 0, 's'},
                                          {"help", 0, 0, 'h'},       {0}};
  *a = (struct arguments){.count = 1, .repeat = 1};
  for (int found; (found = getopt_long(argc, argv, "r:m:i:o:n:k:l:sh", options, NULL)) != -1;) {
    if (found == 'r') a->registers = optarg;
    else if (found == 'm') a->memory = optarg;
    else if (found == 'i' && a->input_count < MOST) a->inputs[a->input_count++] = optarg;
    else if (found == 'o' && a->output_count < MOST) a->outputs[a->output_count++] = optarg;
    else if (found == 'n') a->count = strtoul(optarg, NULL, 10);
    else if (found == 'k') a->repeat = strtoul(optarg, NULL, 10);
    else if (found == 'l') a->options.per_launch = (uint32_t)strtoul(optarg, NULL, 10);
    else if (found == 's') a->options.keep_states = 1;
    else return 1;
  }
  a->network = optind + 1 == argc ? argv[optind] : NULL;
  return !a->registers || !a->memory || !a->network || !a->count || !a->repeat;
}

static int is_npy(const char *path) {
  const size_t length = strlen(path);
  return length > 4 && !strcmp(path + length - 4, ".npy");
}

/* NumPy's names of types in .npy files. */
static const char *npy_type(const char *type) {
  static const char *const names[][2] = {{"int8", "|i1"},   {"uint8", "|u1"},   {"bool", "|b1"},    {"int16", "<i2"},
                                         {"uint16", "<u2"}, {"int32", "<i4"},   {"uint32", "<u4"},  {"int64", "<i8"},
                                         {"uint64", "<u8"}, {"float16", "<f2"}, {"float32", "<f4"}, {"float64", "<f8"}};
  size_t k = 0;
  while (strcmp(names[k][0], type)) k++;
  return names[k][1];
}

/* Skip a .npy file's header; 0 unless it is of the type, in row-major order. */
static int skip_header(FILE *file, const char *type) {
  unsigned char prefix[12];
  char header[4096] = "", wanted[32];
  if (fread(prefix, 1, 10, file) != 10 || memcmp(prefix, "\x93NUMPY", 6)) return 0;
  size_t length = prefix[8] | (size_t)prefix[9] << 8;
  if (prefix[6] > 1) {
    if (fread(prefix + 10, 1, 2, file) != 2) return 0;
    length |= (size_t)prefix[10] << 16 | (size_t)prefix[11] << 24;
  }
  if (length >= sizeof header || fread(header, 1, length, file) != length) return 0;
  snprintf(wanted, sizeof wanted, "'%s'", npy_type(type));
  return strstr(header, wanted) && strstr(header, "'fortran_order': False");
}

/* All inferences in a file; null, and the reason said, where it has none or a part of one. */
static void *read_input(const char *path, const tilewright_tensor *t, size_t *count) {
  FILE *file = fopen(path, "rb");
  size_t room = t->bytes + 1, size = 0;
  char *data = NULL;
  if (!file) perror(path);
  else if (is_npy(path) && !skip_header(file, t->type))
    complain(path, "no .npy file of the input's type in row-major order");
  else data = malloc(room);
  while (data && (size += fread(data + size, 1, room - size, file)) == room) {
    char *more = realloc(data, room *= 2);
    if (!more) free(data), complain(path, "there is no memory for it");
    data = more;
  }
  if (file) fclose(file);
  if (data && size && t->bytes && size % t->bytes == 0) {
    *count = size / t->bytes;
    return data;
  }
  if (data) complain(path, "does not hold whole inferences");
  free(data);
  return NULL;
}

static int write_output(const char *path, const tilewright_tensor *t, size_t count, const void *data) {
  char shape[128] = "", header[256];
  FILE *file = fopen(path, "wb");
  if (file && is_npy(path)) {
    for (int32_t k = 0, at = 0; k < t->rank; k++)
      at += snprintf(shape + at, sizeof shape - (size_t)at, ", %d", (int)t->shape[k]);
    int length = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%zu%s%s), }",
                          npy_type(t->type), count, shape, t->rank ? "" : ",");
    while ((length + 11) % 64) header[length++] = ' ';
    header[length++] = '\n';
    const unsigned char prefix[10] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)length, (unsigned char)(length >> 8)};
    fwrite(prefix, 1, sizeof prefix, file), fwrite(header, 1, (size_t)length, file);
  }
  const int failed = !file || fwrite(data, t->bytes, count, file) != (t->bytes ? count : 0) || ferror(file);
  if ((file && fclose(file)) || failed) perror(path);
  return failed;
}

static void describe(const char *what, const tilewright_tensor *t) {
  printf("%s %s: %s[", what, t->name, t->type);
  for (int32_t k = 0; k < t->rank; k++) printf("%s%d", k ? ", " : "", (int)t->shape[k]);
  printf("], real = %g * (integer - %d)\n", t->scale, (int)t->zero_point);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Read inputs, run, write outputs; the exit code. */
static int run(tilewright *network, struct arguments *a) {
  void *inputs[MOST] = {0}, *outputs[MOST] = {0};
  const int in = tilewright_inputs(network), out = tilewright_outputs(network);
  size_t count = a->count;
  int failed = in > MOST || out > MOST || (a->input_count && a->input_count != in) ||
               (a->output_count && a->output_count != out);
  if (failed) complain(a->network, "takes and gives another number of files");
  for (int k = 0; k < in && !failed; k++) {
    const tilewright_tensor *t = tilewright_input(network, k);
    size_t found = count;
    describe("input", t);
    inputs[k] = a->input_count ? read_input(a->inputs[k], t, &found) : calloc(count, t->bytes ? t->bytes : 1);
    failed = !inputs[k] || (k && found != count);
    if (inputs[k] && failed) complain(a->inputs[k], "another number of inferences");
    count = found;
  }
  for (int k = 0; k < out && !failed; k++) {
    describe("output", tilewright_output(network, k));
    failed = !(outputs[k] = calloc(count, tilewright_output(network, k)->bytes + 1));
  }
  double shortest = 0;
  for (unsigned long k = 0; k < a->repeat && !failed; k++) {
    const double start = seconds();
    tilewright_reset(network);
    failed = tilewright_run(network, count, (const void *const *)inputs, outputs) != TILEWRIGHT_OK;
    const double taken = seconds() - start;
    shortest = k && shortest < taken ? shortest : taken;
    if (failed) complain(a->network, tilewright_error(network));
  }
  if (!failed)
    printf("%zu inferences in %.3f ms; %llu cycles of the accelerator each\n", count, shortest * 1e3,
           (unsigned long long)tilewright_cycles(network));
  for (int k = 0; k < a->output_count && !failed; k++)
    failed = write_output(a->outputs[k], tilewright_output(network, k), count, outputs[k]);
  for (int k = 0; k < MOST; k++) free(inputs[k]), free(outputs[k]);
  return failed ? 2 : 0;
}

int main(int argc, char **argv) {
  struct arguments a;
  char why[TILEWRIGHT_TEXT];
  tilewright_board board;
  tilewright *network = NULL;
  if (parse(argc, argv, &a)) {
    fputs(usage, stderr);
    return 2;
  }
  if (tilewright_linux_board(&board, a.registers, a.memory, why)) return complain(why, NULL);
  const int failed = tilewright_open_file(&network, a.network, &board, &a.options) != TILEWRIGHT_OK;
  const int code = failed ? complain(a.network, tilewright_error(network)) : run(network, &a);
  tilewright_close(network);
  tilewright_linux_close(&board);
  return code;
}
