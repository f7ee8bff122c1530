/* Storages and their addresses. See storage.h. */
#include "value/storage.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/grow.h"
#include "step/step.h"

/* --- address space ---
 * One reservation, cut into REGIONS regions. A region serves one size class (a power of two from MIN_CLASS
 * up); the owner of an address is found by region -> class -> index. Classes above the region size take
 * several regions. Freed ranges go to a free list of their class. Nothing is ever mapped.
 *
 * The reservation is as large as we get, 2^46 bytes where nothing limits address space (ulimit -v, valgrind).
 */
enum { MIN_CLASS = 6, MAX_CLASS = 44, MAX_SPACE = 46, MIN_SPACE = 32, REGIONS = 1 << 12 };

typedef struct pool {
  uintptr_t next, end; /* the part of the current region not handed out yet */
  uintptr_t *free;     /* stack of recycled addresses */
  size_t nfree, cap;
} pool;

static struct {
  uintptr_t base, next, end;
  int region; /* bits of a region */
  pool pools[MAX_CLASS + 1];
  uint8_t region_class[REGIONS];
} space;

/* Live storages by address: open addressing, linear probing, tombstone-free deletion. */
static struct {
  tpu_storage **slots;
  size_t n, cap;
} live;

static size_t live_home(uintptr_t a) {
  return (size_t)((a >> MIN_CLASS) * 0x9E3779B97F4A7C15ull) & (live.cap - 1);
}

static void live_put(tpu_storage *s) {
  if ((live.n + 1) * 2 > live.cap) {
    tpu_storage **old = live.slots;
    size_t n = live.cap;
    live.cap = n ? n * 2 : 1024;
    live.slots = tpu_xcalloc(live.cap, sizeof *live.slots);
    live.n = 0;
    for (size_t i = 0; i < n; i++)
      if (old[i]) live_put(old[i]);
    free(old);
  }
  size_t i = live_home(s->address);
  while (live.slots[i]) i = (i + 1) & (live.cap - 1);
  live.slots[i] = s;
  live.n++;
}

static tpu_storage *live_get(uintptr_t a) {
  if (!live.cap) return NULL;
  for (size_t i = live_home(a); live.slots[i]; i = (i + 1) & (live.cap - 1))
    if (live.slots[i]->address == a) return live.slots[i];
  return NULL;
}

static void live_del(tpu_storage *s) {
  size_t mask = live.cap - 1, i = live_home(s->address);
  while (live.slots[i] != s) i = (i + 1) & mask;
  for (size_t j = (i + 1) & mask; live.slots[j]; j = (j + 1) & mask) {
    size_t home = live_home(live.slots[j]->address);
    if (((j - home) & mask) >= ((j - i) & mask)) {
      live.slots[i] = live.slots[j];
      i = j;
    }
  }
  live.slots[i] = NULL;
  live.n--;
}

void storage_each(void (*fn)(tpu_storage *s, void *ctx), void *ctx) {
  for (size_t i = 0; i < live.cap; i++)
    if (live.slots[i]) fn(live.slots[i], ctx);
}

static uint8_t class_of(size_t nbytes) {
  uint8_t c = MIN_CLASS;
  while (((size_t)1 << c) < nbytes && c < MAX_CLASS) c++;
  return c;
}

static void *reserve(int bits) {
  void *p = mmap(NULL, (size_t)1 << bits, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

static void reserve_space(void) {
  int bits = MAX_SPACE;
  void *p = reserve(bits);
  while (!p && bits > MIN_SPACE) p = reserve(--bits);
  if (p && bits < MAX_SPACE) { /* others need some of what is left, too */
    munmap(p, (size_t)1 << bits);
    bits -= 2;
    p = reserve(bits);
  }
  if (!p) return;
  uintptr_t region = ((uintptr_t)1 << bits) / REGIONS;
  space.region = __builtin_ctzl(region);
  space.base = space.next = ((uintptr_t)p + region - 1) & ~(region - 1);
  space.end = ((uintptr_t)p + ((uintptr_t)1 << bits)) & ~(region - 1);
}

static uintptr_t region_bytes(uint8_t c) { return (uintptr_t)1 << (c > space.region ? c : space.region); }

static uintptr_t regions_take(uint8_t c) {
  if (!space.base) reserve_space();
  uintptr_t bytes = region_bytes(c);
  if (!space.base || space.end - space.next < bytes) return 0;
  uintptr_t a = space.next;
  space.next += bytes;
  for (uintptr_t r = a; r < a + bytes; r += (uintptr_t)1 << space.region)
    space.region_class[(r - space.base) >> space.region] = c;
  return a;
}

/* 0 when the address space is used up. */
static uintptr_t address_take(uint8_t c) {
  pool *p = &space.pools[c];
  if (p->nfree) return p->free[--p->nfree];
  if (p->next == p->end) {
    uintptr_t a = regions_take(c);
    if (!a) return 0;
    p->next = a;
    p->end = a + region_bytes(c);
  }
  uintptr_t a = p->next;
  p->next += (uintptr_t)1 << c;
  return a;
}

static void address_give(uintptr_t a, uint8_t c) {
  pool *p = &space.pools[c];
  GROW(p->free, p->nfree, p->cap, 256);
  p->free[p->nfree++] = a;
}

/* --- storages --- */
tpu_storage *storage_create(int device, size_t nbytes) {
  uint8_t c = class_of(nbytes);
  uintptr_t a = nbytes <= (size_t)1 << MAX_CLASS ? address_take(c) : 0;
  if (!a) return NULL;
  tpu_storage *s = tpu_xmalloc(sizeof *s);
  *s = (tpu_storage){.nbytes = nbytes, .address = a, .size_class = c, .device = (int16_t)device};
  live_put(s);
  return s;
}

void storage_destroy(tpu_storage *s) {
  live_del(s);
  address_give(s->address, s->size_class);
  value_release(s->value);
  free(s);
}

void storage_bind(tpu_storage *s, tpu_value *v) {
  tpu_value *old = s->value;
  s->value = v;
  s->version++;
  value_release(old);
}

tpu_error *tpu_storage_new(int device, size_t nbytes, tpu_storage **out) {
  core_lock();
  *out = storage_create(device, nbytes);
  core_unlock();
  if (*out) return NULL;
  return tpu_err(
      TPU_OUT_OF_MEMORY,
      "TPU out of memory. Tried to allocate %zu bytes: more than the address space of a device holds.",
      nbytes);
}

void tpu_storage_free(tpu_storage *s) {
  if (!s || step_is_shut_down()) return;
  core_lock();
  storage_destroy(s);
  core_unlock();
}

void *tpu_storage_address(const tpu_storage *s) { return (void *)s->address; }
size_t tpu_storage_nbytes(const tpu_storage *s) { return s->nbytes; }
int tpu_storage_device(const tpu_storage *s) { return s->device; }
uint64_t tpu_storage_version(const tpu_storage *s) { return s->version; }

tpu_error *tpu_storage_resize(tpu_storage *s, size_t nbytes) {
  TRY(step_resize_value(s, nbytes));
  core_lock();
  uint8_t c = class_of(nbytes);
  uintptr_t a = s->address;
  if (c > s->size_class) {
    a = nbytes <= (size_t)1 << MAX_CLASS ? address_take(c) : 0;
    if (a) {
      live_del(s);
      address_give(s->address, s->size_class);
      s->address = a;
      s->size_class = c;
      live_put(s);
    }
  }
  if (a) s->nbytes = nbytes;
  core_unlock();
  return a ? NULL : tpu_err(TPU_OUT_OF_MEMORY, "TPU out of memory. Tried to allocate %zu bytes.", nbytes);
}

tpu_storage *tpu_storage_find(const void *address) {
  uintptr_t a = (uintptr_t)address;
  core_lock();
  tpu_storage *s = NULL;
  if (space.base && a >= space.base && a < space.next) {
    uint8_t c = space.region_class[(a - space.base) >> space.region];
    uintptr_t mask = ((uintptr_t)1 << c) - 1;
    s = live_get(space.base + ((a - space.base) & ~mask));
    if (!s && c > space.region) s = live_get(a & ~mask);
  }
  core_unlock();
  return s;
}
