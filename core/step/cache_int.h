/* The cache's files, for cache.c and cache_tools.c alone. */
#ifndef TPU_STEP_CACHE_INT_H
#define TPU_STEP_CACHE_INT_H

#include <time.h>

#include "step/cache.h"

enum { CACHE_LABEL = 200 };

/* An entry in memory: a header, what it is called, the key, the payload. */
typedef struct cache_view {
  const char *name, *key, *payload;
  uint64_t nname, nkey, npayload;
} cache_view;

typedef enum cache_verdict { CACHE_MISS, CACHE_FINE, CACHE_OTHER_VERSION, CACHE_DAMAGED } cache_verdict;

/* The file's bytes (malloc'd, also when damaged) and what they say. */
cache_verdict cache_read_file(int dir, const char *name, char **bytes, size_t *n, cache_view *out);
/* What stands in front, unchecked. */
cache_verdict cache_peek(int dir, const char *name, cache_label *out, char label[CACHE_LABEL + 1]);
cache_verdict cache_check(const char *bytes, size_t n, cache_view *out);

typedef struct cache_entry {
  char name[CACHE_NAME];
  int64_t bytes;
  struct timespec used;
} cache_entry;

/* All entries (owned array in *out, when wanted), their bytes; throws away stale temporaries and locks. */
size_t cache_list_entries(int dir, cache_entry **out, int64_t *bytes);

typedef struct cache_limits {
  int64_t most, until; /* above so many bytes the least recently used go, until so many are left */
  int64_t before;      /* entries last used before this moment go anyway */
  const char *keep;    /* this one stays; may be NULL */
} cache_limits;
/* The bytes that are left. */
int64_t cache_prune_dir(int dir, const cache_limits *l, int64_t *removed);

int cache_open_dir(void); /* the host's directory, or -1 */
int cache_write_file(int dir, const char *name, int mode, const text *parts, int nparts); /* 0 or errno */

#endif
