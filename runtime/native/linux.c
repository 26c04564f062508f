/* A board under Linux: registers through UIO or a mapped file, memory of u-dma-buf or reserved memory. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include "tilewright.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef TILEWRIGHT_SYSFS
#define TILEWRIGHT_SYSFS "/sys/class" /* with u-dma-buf or, of old versions, udmabuf in it */
#endif

enum { WINDOW = 4096, PAGE = 4096, MOST_BLOCKS = 1024, NAP_US = 50 };
enum { SYNC_OFFSET, SYNC_SIZE, SYNC_DIRECTION, SYNC_FOR_DEVICE, SYNC_FOR_CPU, SYNC_FILES };

struct block {
  size_t first, size;
};

struct linux_board {
  int registers, memory, sync[SYNC_FILES]; /* files; -1 for none */
  int interrupts;                          /* whether `registers` tells of them */
  uint8_t *window_map, *bytes;             /* as mapped */
  size_t window_size, window_first;
  volatile uint32_t *window;
  uint64_t address;
  size_t size, map_size, map_first;
  struct block blocks[MOST_BLOCKS]; /* that are taken, in order */
  int block_count;
};

static tilewright_code fail(char *why, tilewright_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static tilewright_code fail(char *why, tilewright_code code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, TILEWRIGHT_TEXT, format, arguments);
  va_end(arguments);
  return code;
}

/* What was written to memory is there before what follows is written to a register. */
static void drain(void) {
#if defined(__arm__) || defined(__aarch64__)
  __asm__ volatile("dsb sy" ::: "memory");
#else
  atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* -- the board's three functions ----------------------------------------------------------------------------- */

static uint32_t access_register(void *context, uint32_t offset, const uint32_t *value) {
  struct linux_board *b = context;
  if (!value) {
    const uint32_t found = b->window[offset / 4];
    drain(); /* what the accelerator wrote before it said so is read after */
    return found;
  }
  drain();
  b->window[offset / 4] = *value;
  return 0;
}

/* The first gap that is large enough. */
static int allocate(struct linux_board *b, tilewright_buffer *buffer) {
  size_t first = 0;
  int at = 0;
  if (b->block_count == MOST_BLOCKS) return 1;
  for (; at < b->block_count && b->blocks[at].first - first < buffer->size; at++)
    first = b->blocks[at].first + b->blocks[at].size;
  if (first > b->size || b->size - first < buffer->size) return 1;
  memmove(b->blocks + at + 1, b->blocks + at, (size_t)(b->block_count++ - at) * sizeof *b->blocks);
  b->blocks[at] = (struct block){first, buffer->size};
  buffer->bytes = b->bytes + first, buffer->address = b->address + first;
  return 0;
}

static void give_back(struct linux_board *b, const tilewright_buffer *buffer) {
  for (int k = 0; k < b->block_count; k++)
    if (b->blocks[k].first == (size_t)(buffer->bytes - b->bytes)) {
      memmove(b->blocks + k, b->blocks + k + 1, (size_t)(--b->block_count - k) * sizeof *b->blocks);
      return;
    }
}

static void put(const struct linux_board *b, int file, size_t value) {
  char text[24];
  const int length = snprintf(text, sizeof text, "%zu", value);
  if (pwrite(b->sync[file], text, (size_t)length, 0) != length)
    abort(); /* no value that the driver refuses: it is gone */
}

/* u-dma-buf's cache maintenance; direction 1 is to the device, 2 from it. */
static void synchronize(const struct linux_board *b, int file, size_t direction, size_t first, size_t size) {
  if (b->sync[SYNC_OFFSET] < 0) return;
  put(b, SYNC_OFFSET, first), put(b, SYNC_SIZE, size), put(b, SYNC_DIRECTION, direction), put(b, file, 1);
}

static int use_memory(void *context, int what, tilewright_buffer *buffer, size_t offset, size_t size) {
  struct linux_board *b = context;
  if (what == TILEWRIGHT_ALLOCATE) return allocate(b, buffer);
  const size_t first = (size_t)(buffer->bytes - b->bytes) + offset;
  if (what == TILEWRIGHT_RELEASE) give_back(b, buffer);
  else if (what == TILEWRIGHT_TO_DEVICE) synchronize(b, SYNC_FOR_DEVICE, 1, first, size);
  else synchronize(b, SYNC_FOR_CPU, 2, first, size);
  return 0;
}

static uint64_t tell_time(void *context, uint32_t microseconds) {
  struct linux_board *b = context;
  struct timespec now;
  const uint32_t nap = b->interrupts || microseconds < NAP_US ? microseconds : NAP_US;
  const struct timespec rest = {nap / 1000000, (long)(nap % 1000000) * 1000};
  if (nap && b->interrupts) {
    struct pollfd wanted = {b->registers, POLLIN, 0};
    uint32_t number = 1; /* enables the interrupt; read, how many there have been */
    if (write(b->registers, &number, sizeof number) != sizeof number) b->interrupts = 0;
    else if (poll(&wanted, 1, (int)((nap + 999) / 1000)) > 0 &&
             read(b->registers, &number, sizeof number) != sizeof number)
      b->interrupts = 0;
  } else if (nap) nanosleep(&rest, NULL);
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* -- opening ------------------------------------------------------------------------------------------------- */

/* PATH@ADDRESS or PATH@ADDRESS+BYTES: the file is opened and the rest read; 0 if that is not what it is. */
static int open_range(const char *text, char path[256], uint64_t *address, uint64_t *size) {
  const char *at = strrchr(text, '@');
  char *end = NULL;
  if (!at || (size_t)(at - text) >= 256) return 0;
  memcpy(path, text, (size_t)(at - text));
  path[at - text] = 0;
  *address = strtoull(at + 1, &end, 0);
  if (end == at + 1) return 0;
  if (!size) return !*end;
  if (*end != '+') return 0;
  *size = strtoull(end + 1, &end, 0);
  return !*end && *size;
}

/* Part of a file, mapped with the pages around it; null where that fails. */
static uint8_t *map(int file, uint64_t first, size_t size, size_t *whole, size_t *inside) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  *inside = (size_t)(first % page), *whole = size + *inside;
  void *found = mmap(NULL, *whole, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)(first - *inside));
  return found == MAP_FAILED ? NULL : found;
}

static tilewright_code open_registers(struct linux_board *b, const char *text, char *why) {
  char path[256];
  uint64_t address = 0;
  const int range = open_range(text, path, &address, NULL);
  b->registers = open(range ? path : text, O_RDWR | O_SYNC | O_CLOEXEC);
  if (b->registers < 0)
    return fail(why, TILEWRIGHT_FILE, "%.120s: cannot be opened: %s; run as root", text, strerror(errno));
  b->window_map = map(b->registers, address, WINDOW, &b->window_size, &b->window_first);
  if (!b->window_map)
    return fail(why, TILEWRIGHT_BOARD, "%.120s: the registers cannot be mapped: %s", text, strerror(errno));
  b->window = (volatile uint32_t *)(void *)(b->window_map + b->window_first);
  b->interrupts = !range;
  return TILEWRIGHT_OK;
}

/* A file in u-dma-buf's folder of a device; -1 where there is none. */
static int open_attribute(const char *device, const char *name, int how) {
  static const char *const classes[] = {"u-dma-buf", "udmabuf"};
  const char *slash = strrchr(device, '/');
  int found = -1;
  for (int k = 0; k < 2 && found < 0; k++) {
    char path[512];
    snprintf(path, sizeof path, TILEWRIGHT_SYSFS "/%s/%s/%s", classes[k], slash ? slash + 1 : device, name);
    found = open(path, how | O_CLOEXEC);
  }
  return found;
}

/* The number in such a file; 0 where there is none. */
static uint64_t attribute(const char *device, const char *name) {
  char text[32] = "";
  const int file = open_attribute(device, name, O_RDONLY);
  if (file < 0) return 0;
  if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
  close(file);
  return strtoull(text, NULL, 0);
}

static tilewright_code open_memory(struct linux_board *b, const char *text, char *why) {
  char path[256];
  uint64_t size = 0;
  const int range = open_range(text, path, &b->address, &size);
  if (!range) {
    b->address = attribute(text, "phys_addr"), size = attribute(text, "size");
    static const char *const names[] = {"sync_offset", "sync_size", "sync_direction", "sync_for_device",
                                        "sync_for_cpu"};
    int missing = !size;
    for (int k = 0; k < SYNC_FILES; k++) missing |= (b->sync[k] = open_attribute(text, names[k], O_WRONLY)) < 0;
    if (missing)
      return fail(why, TILEWRIGHT_BOARD, "%.120s: neither u-dma-buf's (" TILEWRIGHT_SYSFS ") nor PATH@ADDRESS+BYTES",
                  text);
  }
  if (size > SIZE_MAX - PAGE || b->address % PAGE)
    return fail(why, TILEWRIGHT_BOARD, "%.120s: no whole pages, or too many", text);
  b->memory = open(range ? path : text, range ? O_RDWR | O_SYNC | O_CLOEXEC : O_RDWR | O_CLOEXEC);
  if (b->memory < 0)
    return fail(why, TILEWRIGHT_FILE, "%.120s: cannot be opened: %s; run as root", text, strerror(errno));
  b->bytes = map(b->memory, range ? b->address : 0, (size_t)size, &b->map_size, &b->map_first);
  if (!b->bytes)
    return fail(why, TILEWRIGHT_BOARD, "%.120s: %llu bytes cannot be mapped: %s", text, (unsigned long long)size,
                strerror(errno));
  b->bytes += b->map_first, b->size = (size_t)size;
  return TILEWRIGHT_OK;
}

tilewright_code tilewright_linux_board(tilewright_board *board, const char *registers, const char *memory,
                                       char why[TILEWRIGHT_TEXT]) {
  struct linux_board *b = calloc(1, sizeof *b);
  *board = (tilewright_board){b, access_register, use_memory, tell_time};
  why[0] = 0;
  if (!b) return fail(why, TILEWRIGHT_NO_MEMORY, "there is no memory");
  b->registers = b->memory = -1;
  for (int k = 0; k < SYNC_FILES; k++) b->sync[k] = -1;
  tilewright_code code = open_registers(b, registers, why);
  if (!code) code = open_memory(b, memory, why);
  if (code) tilewright_linux_close(board);
  return code;
}

void tilewright_linux_close(tilewright_board *board) {
  struct linux_board *b = board->context;
  if (!b) return;
  if (b->window_map) munmap(b->window_map, b->window_size);
  if (b->bytes) munmap(b->bytes - b->map_first, b->map_size);
  if (b->registers >= 0) close(b->registers);
  if (b->memory >= 0) close(b->memory);
  for (int k = 0; k < SYNC_FILES; k++)
    if (b->sync[k] >= 0) close(b->sync[k]);
  free(b);
  board->context = NULL;
}
