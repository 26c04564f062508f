/* Tilewright without Python: open an artifact (.twa), run inferences, close. C11; needs nothing but the C library.
 *
 *   tilewright_board board;
 *   char why[TILEWRIGHT_TEXT];
 *   if (tilewright_linux_board(&board, "/dev/uio0", "/dev/udmabuf0", why)) ...
 *   tilewright *network;
 *   if (tilewright_open_file(&network, "resnet8.twa", &board, NULL)) puts(tilewright_error(network));
 *   const void *inputs[] = {images};
 *   void *outputs[] = {classes};
 *   if (tilewright_run(network, 16, inputs, outputs)) puts(tilewright_error(network));
 *   tilewright_close(network);
 *
 * One thread at a time uses a network, and one network at a time a board. Verified on the simulated design and under
 * qemu, not yet on a board (docs/c_runtime.md).
 */
#ifndef TILEWRIGHT_H
#define TILEWRIGHT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TILEWRIGHT_API
#define TILEWRIGHT_API __attribute__((visibility("default")))
#endif

typedef enum {
  TILEWRIGHT_OK,
  TILEWRIGHT_NO_MEMORY,   /* of the heap, or for the accelerator */
  TILEWRIGHT_FILE,        /* it cannot be read */
  TILEWRIGHT_DAMAGED,     /* no artifact, a damaged one, or one of another format version */
  TILEWRIGHT_UNSUPPORTED, /* something that needs Python: operators of an interpreter, programs that exchange */
  TILEWRIGHT_BOARD,       /* no Tilewright at these registers, or one of another Config */
  TILEWRIGHT_FAULT,       /* a program ended with a fault */
  TILEWRIGHT_TIMEOUT,     /* a program did not end in time */
  TILEWRIGHT_INPUT        /* an input or an intermediate value that a step refuses, NaN for example */
} tilewright_code;

#define TILEWRIGHT_TEXT 256 /* bytes that hold any error's text */

typedef struct tilewright tilewright;

/* -- boards ------------------------------------------------------------------------------------------------ */

/* Memory that processor and accelerator share, Normal memory of the processor (unaligned accesses are made). */
typedef struct {
  uint8_t *bytes;   /* where the processor finds it */
  uint64_t address; /* where the accelerator does: a multiple of 4096 below 2^40 */
  size_t size;
} tilewright_buffer;

enum {
  TILEWRIGHT_ALLOCATE,  /* fill in bytes and address for buffer->size bytes; 0 if it worked */
  TILEWRIGHT_RELEASE,   /* give it back */
  TILEWRIGHT_TO_DEVICE, /* what the processor wrote must reach memory: clean the cache from `offset` for `size` bytes */
  TILEWRIGHT_FROM_DEVICE /* the processor is about to read what the accelerator wrote: invalidate it likewise */
};

/* What a board is: three functions. On bare metal they are the user's own. */
typedef struct {
  void *context; /* given to each of them */
  /* Write *value to the 32-bit register at a byte offset, or with a null `value` return what it holds. */
  uint32_t (*registers)(void *context, uint32_t offset, const uint32_t *value);
  int (*memory)(void *context, int what, tilewright_buffer *buffer, size_t offset, size_t size);
  /* Rest for up to so many microseconds, less if the interrupt comes; return microseconds since any fixed moment. */
  uint64_t (*time)(void *context, uint32_t microseconds);
} tilewright_board;

/* A board under Linux. `registers`: a UIO device (/dev/uio0; its interrupt is waited for), or PATH@ADDRESS of a file to
 * map (/dev/mem@0x43c00000; STATUS is polled). `memory`: a u-dma-buf device (/dev/udmabuf0), or PATH@ADDRESS+BYTES of
 * reserved memory that caches do not hold (/dev/mem@0x18000000+0x4000000). On failure `why` says what is wrong. */
TILEWRIGHT_API tilewright_code tilewright_linux_board(tilewright_board *board, const char *registers,
                                                      const char *memory, char why[TILEWRIGHT_TEXT]);
TILEWRIGHT_API void tilewright_linux_close(tilewright_board *board);

/* -- networks ---------------------------------------------------------------------------------------------- */

typedef struct {
  uint32_t per_launch;      /* most inferences of one launch; 0: 8. Memory is reserved for twice as many */
  uint32_t timeout_ms;      /* that a launch may take; 0: 10,000 */
  uint32_t watchdog_cycles; /* after which the accelerator ends an inference itself; 0: 2^32 - 1 */
  uint32_t keep_states;     /* not 0: inferences follow on each other, as in a stream of Python's */
} tilewright_options;

typedef struct {
  const char *name, *type; /* a type as NumPy calls it: int8, uint8, float32 */
  int32_t rank;
  int32_t shape[8];
  size_t bytes; /* of one inference */
  double scale; /* real value = scale * (integer - zero_point) */
  int32_t zero_point;
} tilewright_tensor;

/* Open an artifact in memory, which may be freed afterwards, or in a file. `options` may be null. *network is set on
 * failure too (null where there is no memory at all), so that tilewright_error can say why; close it either way. */
TILEWRIGHT_API tilewright_code tilewright_open(tilewright **network, const void *artifact, size_t size,
                                               const tilewright_board *board, const tilewright_options *options);
TILEWRIGHT_API tilewright_code tilewright_open_file(tilewright **network, const char *path,
                                                    const tilewright_board *board, const tilewright_options *options);
TILEWRIGHT_API void tilewright_close(tilewright *network);

/* How many inputs and outputs there are, and what tensor `index` of them is; null for one that is not there. */
TILEWRIGHT_API int32_t tilewright_inputs(const tilewright *network);
TILEWRIGHT_API int32_t tilewright_outputs(const tilewright *network);
TILEWRIGHT_API const tilewright_tensor *tilewright_input(const tilewright *network, int32_t index);
TILEWRIGHT_API const tilewright_tensor *tilewright_output(const tilewright *network, int32_t index);

/* Run `count` inferences. inputs[i] and outputs[i] hold `count` tensors i one after another, each aligned for its type.
 * While the accelerator works on some inferences the processor prepares the next. */
TILEWRIGHT_API tilewright_code tilewright_run(tilewright *network, size_t count, const void *const *inputs,
                                              void *const *outputs);

/* All states as an inference of its own finds them; of use with keep_states. */
TILEWRIGHT_API void tilewright_reset(tilewright *network);
/* Accelerator cycles of the latest inference, all programs together. */
TILEWRIGHT_API uint64_t tilewright_cycles(const tilewright *network);
/* The text of the latest error, one line. */
TILEWRIGHT_API const char *tilewright_error(const tilewright *network);
TILEWRIGHT_API const char *tilewright_code_name(tilewright_code code);

#ifdef __cplusplus
}
#endif
#endif
