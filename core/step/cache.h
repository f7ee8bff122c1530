/* The host-disk tier of the program cache: key bytes -> payload bytes, in a directory.
 *
 * Never fatal and never wrong: an entry holds the whole key and checksums over everything, is written to
 * a temporary name and renamed, and is thrown away when anything about it is off. No space, no HOME, a
 * read-only directory: there is no caching, and cache_trouble says why. Thread-safe; several processes
 * may share the directory, also over a network file system. cache_tools.c is what people do with it. */
#ifndef TPU_STEP_CACHE_H
#define TPU_STEP_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* Uses this directory (made when missing); NULL: no disk cache. Without a call the environment decides
 * at first use: TORCH_TPU_CACHE=off, TORCH_TPU_CACHE_DIR, $XDG_CACHE_HOME/torch_tpu, ~/.cache/torch_tpu;
 * TORCH_TPU_CACHE_MAX_BYTES (default 4 GiB, may end in K, M, G) caps the size either way. */
void cache_configure(const char *dir_or_null_for_off);
void cache_configure_from_env(void); /* reads the environment again */
/* The directory in use, or NULL. Valid until the next cache_configure. */
const char *cache_dir(void);

/* The tier behind it (TORCH_TPU_SHARED_CACHE_DIR), or NULL: a directory of several hosts, read after a miss
 * and written after a compile. It is nobody's to prune; entries that are damaged are not looked at. */
const char *cache_shared_dir(void);

/* Appends the payload of the key to `out`; false (and `out` as it was) when there is none. */
bool cache_get(const void *key, size_t nkey, text *out);
/* Adds or replaces; least recently used entries go when the cap is passed. */
typedef struct cache_label { /* for people */
  const char *name;
  int ops;
  double seconds; /* of the compile */
} cache_label;
void cache_put(const void *key, size_t nkey, const void *payload, size_t n, const cache_label *label_or_null);

enum { CACHE_NAME = 40 };
/* The file of a key: an entry's ends in "tpu". */
void cache_name_of(char out[CACHE_NAME], const void *key, size_t nkey, const char *ending);

/* Whole entries as bytes, checked on both ends: `name` as the tools list it. */
bool cache_export(const char *name, text *out);
bool cache_import(const void *bytes, size_t n);

/* One process compiles a program while the others wait for it: lock, cache_get again, compile, cache_put,
 * unlock. The lock dies with its process. NULL when it could not be had (also after `timeout_ms`): go on
 * without it. `interrupted` (may be NULL) is asked every 20 ms while waiting; nonzero gives up. */
typedef struct cache_lock cache_lock;
cache_lock *cache_lock_key(const void *key, size_t nkey, int timeout_ms, int (*interrupted)(void));
void cache_unlock(cache_lock *l); /* NULL is fine */

/* Entries and bytes in the directory now (it is read). */
void cache_stats(int64_t *entries, int64_t *bytes);
/* The first reason for which an entry could not be kept since cache_configure, or NULL. A static string. */
const char *cache_trouble(void);

#endif
