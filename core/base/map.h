/* Bytes -> pointer, whole keys compared: a hash collision can never give a wrong answer.
 * Open addressing; keys are copied. Thread-compatible. */
#ifndef TPU_BASE_MAP_H
#define TPU_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct map_entry map_entry;
typedef struct map {
  map_entry *slots; /* owned */
  size_t n, cap;
} map; /* zero-initialise */

/* 64-bit hash of bytes; the same in every process of one build. */
uint64_t hash_bytes(const void *p, size_t n);
/* NULL when absent. `h` is hash_bytes(key, n). */
void *map_get(const map *m, const void *key, size_t n, uint64_t h);
/* Adds or replaces. The map's own copy of the key, which lives until map_free. */
const void *map_put(map *m, const void *key, size_t n, uint64_t h, void *value);
/* Walks all values; `it` starts at 0. NULL at the end. */
void *map_next(const map *m, size_t *it);
void map_free(map *m);

#endif
