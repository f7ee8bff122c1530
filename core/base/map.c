/* Bytes -> pointer: see map.h. Linear probing, at most 3/4 full; deletion moves later entries back,
 * so there are no tombstones and a miss stays short. */
#include "base/map.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct map_entry {
  uint64_t h;
  size_t n;
  void *key; /* owned; NULL: the slot is free */
  void *value;
};

__extension__ typedef unsigned __int128 u128;

static uint64_t fold(uint64_t a, uint64_t b) {
  u128 r = (u128)a * b;
  return (uint64_t)r ^ (uint64_t)(r >> 64);
}

static uint64_t load(const unsigned char *p, size_t n) {
  uint64_t v = 0;
  memcpy(&v, p, n);
  return v;
}

/* Folded 64x64 multiplications over 16 bytes at a time. */
uint64_t hash_bytes(const void *p, size_t n) {
  const uint64_t k0 = 0x9e3779b97f4a7c15u, k1 = 0xd1b54a32d192ed03u, k2 = 0x8cb92ba72f3d8dd7u;
  const unsigned char *s = p;
  uint64_t h = fold(n ^ k0, k1);
  for (; n >= 16; s += 16, n -= 16) h = fold(load(s, 8) ^ k1 ^ h, load(s + 8, 8) ^ k2) + (h << 1);
  if (n) {
    uint64_t a = n >= 8 ? load(s, 8) : load(s, n), b = n > 8 ? load(s + 8, n - 8) : 0;
    h = fold(a ^ k1 ^ h, b ^ k2) + (h << 1);
  }
  return fold(h ^ k2, k0);
}

/* The slot of the key, or the free slot where it would go. cap > 0. */
static map_entry *find(const map *m, const void *key, size_t n, uint64_t h) {
  for (size_t i = h & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
    map_entry *e = &m->slots[i];
    if (!e->key) return e;
    if (e->h == h && e->n == n && (!n || !memcmp(e->key, key, n))) return e;
  }
}

void *map_get(const map *m, const void *key, size_t n, uint64_t h) {
  if (!m->cap) return NULL;
  const map_entry *e = find(m, key, n, h);
  return e->key ? e->value : NULL;
}

static void grow(map *m) {
  map old = *m;
  m->cap = old.cap ? old.cap * 2 : 16;
  m->slots = tpu_xcalloc(m->cap, sizeof *m->slots);
  for (size_t i = 0; i < old.cap; i++) {
    if (!old.slots[i].key) continue;
    size_t at = old.slots[i].h & (m->cap - 1);
    while (m->slots[at].key) at = (at + 1) & (m->cap - 1);
    m->slots[at] = old.slots[i];
  }
  free(old.slots);
}

const void *map_put(map *m, const void *key, size_t n, uint64_t h, void *value) {
  if ((m->n + 1) * 4 > m->cap * 3) grow(m);
  map_entry *e = find(m, key, n, h);
  if (!e->key) {
    *e = (map_entry){.h = h, .n = n, .key = tpu_xmalloc(n)};
    if (n) memcpy(e->key, key, n);
    m->n++;
  }
  e->value = value;
  return e->key;
}

void *map_next(const map *m, size_t *it) {
  while (*it < m->cap) {
    const map_entry *e = &m->slots[(*it)++];
    if (e->key) return e->value;
  }
  return NULL;
}

void map_free(map *m) {
  for (size_t i = 0; i < m->cap; i++) free(m->slots[i].key);
  free(m->slots);
  *m = (map){0};
}
