/* Artifacts in files. */
#include "tilewright.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* The whole file; null and an error where that fails. */
static uint8_t *read_file(tilewright *t, const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  uint8_t *data = NULL;
  size_t room = 1 << 16;
  *size = 0;
  while (file && !ferror(file) && !feof(file)) {
    uint8_t *more = realloc(data, room);
    if (!more) {
      free(data), fclose(file);
      tw_fail(t, TILEWRIGHT_NO_MEMORY, "%.120s: there is no memory to read it", path);
      return NULL;
    }
    data = more;
    *size += fread(data + *size, 1, room - *size, file);
    if (*size == room) room *= 2;
  }
  if (file && !ferror(file)) {
    fclose(file);
    return data;
  }
  tw_fail(t, TILEWRIGHT_FILE, "%.120s: cannot be read: %s", path, strerror(errno));
  if (file) fclose(file);
  free(data);
  return NULL;
}

tilewright_code tilewright_open_file(tilewright **network, const char *path, const tilewright_board *board,
                                     const tilewright_options *options) {
  size_t size = 0;
  tilewright unread = {0};
  uint8_t *data = read_file(&unread, path, &size);
  if (data) {
    const tilewright_code code = tilewright_open(network, data, size, board, options);
    free(data);
    return code;
  }
  if ((*network = calloc(1, sizeof **network))) **network = unread;
  return unread.code;
}
