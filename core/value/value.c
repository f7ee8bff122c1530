/* Values, cells, the core lock. See value.h for the invariants. */
#include "value/value.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "value/memory.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t pauses;

void core_lock(void) { pthread_mutex_lock(&lock); }
void core_unlock(void) { pthread_mutex_unlock(&lock); }

void core_pause(void) {
  pauses++;
  core_unlock();
}

void core_wait(pthread_cond_t *c) {
  pauses++;
  pthread_cond_wait(c, &lock);
}

uint32_t core_serial(void) {
  static uint32_t serials;
  return ++serials;
}

uint64_t core_pauses(void) { return pauses; }

/* A fork while another thread holds the lock must not leave the child with a lock that nobody will give back.
 */
static void after_fork_child(void) { pthread_mutex_init(&lock, NULL); }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, after_fork_child); }

tpu_cell *cell_create(PJRT_Buffer *buf, int device, int64_t bytes) {
  tpu_cell *c = tpu_xmalloc(sizeof *c);
  *c = (tpu_cell){.refs = 1, .device = (int16_t)device, .buf = buf, .bytes = bytes};
  memory_count(device, bytes);
  return c;
}

void cell_retain(tpu_cell *c) { c->refs++; }

static void cell_release(tpu_cell *c) {
  if (!c || --c->refs) return;
  if (c->bytes >= 0) memory_count(c->device, -c->bytes);
  if (c->buf) rt_buffer_free(c->buf);
  free(c);
}

void cell_append(tpu_cell *c, PJRT_Buffer *buf, int axis, int64_t claimed) {
  rt_buffer_free(c->buf);
  c->buf = buf;
  c->claim_axis = (int8_t)axis;
  c->claimed = claimed;
  c->refs++;
}

void cell_give(tpu_cell *c) {
  memory_count(c->device, -c->bytes);
  rt_buffer_free(c->buf);
  c->buf = NULL;
  c->bytes = -1;
}

void cell_lose(tpu_cell *c) {
  rt_buffer_free(c->buf);
  c->buf = NULL;
}

tpu_value *value_create(tpu_dtype dt, int rank, const vdim *d, int device) {
  tpu_value *v = tpu_xmalloc(sizeof *v + (size_t)rank * sizeof(vdim));
  *v = (tpu_value){
      .refs = 1, .state = V_PENDING, .rank = (uint8_t)rank, .dtype = (int8_t)dt, .device = (int16_t)device};
  if (rank) memcpy(v->d, d, (size_t)rank * sizeof(vdim));
  return v;
}

void value_retain(tpu_value *v) { v->refs++; }

void value_release(tpu_value *v) {
  if (!v || --v->refs) return;
  cell_release(v->cell);
  tpu_error_free(v->error);
  value_release(v->twin);
  free(v);
}

void value_set_cell(tpu_value *v, tpu_cell *c) {
  v->cell = c;
  v->state = V_CELL;
  v->trace = NULL;
}

void value_set_error(tpu_value *v, const tpu_error *e) {
  v->error = tpu_error_copy(e);
  v->state = V_ERROR;
  v->trace = NULL;
}

int64_t dims_bytes(tpu_dtype dt, int rank, const vdim *d) {
  int64_t n = dt_bytes(dt);
  for (int i = 0; i < rank; i++) n *= d[i].n;
  return n;
}

int64_t value_bytes(const tpu_value *v) { return dims_bytes((tpu_dtype)v->dtype, v->rank, v->d); }

bool value_is_generic(const tpu_value *v) {
  for (int i = 0; i < v->rank; i++)
    if (v->d[i].sym) return true;
  return false;
}

tpu_error *value_error(const tpu_value *v) { return v->state == V_ERROR ? tpu_error_copy(v->error) : NULL; }

vdim vdim_static(int64_t n) { return (vdim){n, n, 0}; }

int64_t ladder_rung(int64_t n) {
  if (n <= 2) return n < 1 ? n : 2;
  int64_t p = 2;
  while (p < n) {
    if (p + p / 2 >= n) return p + p / 2;
    p *= 2;
  }
  return p;
}
