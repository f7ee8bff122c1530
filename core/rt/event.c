/* What has been launched and is not known to be done: a ring a device, rt_sync, and events.
 *
 * A launch leaves the ready event of its first output in the ring of its device. An rt_event counts the
 * entries that were not ready when it was recorded; each tells it through OnReady, from a thread of the
 * plugin, so the time of completion is exact however late somebody asks. rt_sync records and waits. */
#include <stdlib.h>
#include <time.h>

#include "rt/rt_int.h"

/* All events are under one lock: they are few, and rt_sync looks at several. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static rt_event *unfinished; /* those with pending > 0 */

struct rt_event {
  rt_event *next, **link; /* among the unfinished */
  const rt_device *device;
  uint64_t number;  /* in the order of recording */
  int pending;      /* entries not ready yet, and one while it is being recorded */
  int refs;         /* the owner and every pending callback */
  int64_t time_ns;  /* when pending became 0 */
  tpu_error *error; /* the first failure among the entries; owned */
};

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void keep_first(tpu_error **slot, tpu_error *e) {
  if (*slot)
    tpu_error_free(e);
  else
    *slot = e;
}

tpu_error *rt_event_finish(PJRT_Event *e) {
  if (!e) return NULL;
  PJRT_ARGS(pjrt_ref, wait, .object = e);
  tpu_error *error = rt_call(PJRT_EVENT_AWAIT, wait);
  rt_destroy(PJRT_EVENT_DESTROY, e);
  return error;
}

static tpu_error *is_ready(PJRT_Event *e, bool *out) {
  PJRT_ARGS(pjrt_ref_flag, a, .object = e);
  TRY(rt_call(PJRT_EVENT_IS_READY, a));
  *out = a->flag;
  return NULL;
}

/* Makes room in a full ring: the oldest launch is waited for, which is also what bounds the queue. */
static void drop_oldest(rt_ring *r) {
  tpu_error *e = rt_event_finish(r->slot[r->first]);
  if (e) keep_first(&r->failed, e);
  r->first = (r->first + 1) % RT_IN_FLIGHT;
  r->n--;
}

/* A launch that is over already. Its failure is in its outputs; rt_sync is to see it too. */
static void finish_now(rt_ring *r, PJRT_Event *done) {
  tpu_error *e = rt_event_finish(done);
  if (!e) return;
  pthread_mutex_lock(&r->lock);
  keep_first(&r->failed, e);
  pthread_mutex_unlock(&r->lock);
}

void rt_ring_push(rt_device *d, PJRT_Event *done) {
  rt_ring *r = &d->ring;
  if (rt.is_cpu) { /* small programs run inside the launch: their event need not grow cold in the ring */
    bool ready = false;
    tpu_error_free(is_ready(done, &ready));
    if (ready) {
      finish_now(r, done);
      return;
    }
  }
  pthread_mutex_lock(&r->lock);
  if (r->n == RT_IN_FLIGHT) drop_oldest(r);
  r->slot[(r->first + r->n++) % RT_IN_FLIGHT] = done;
  pthread_mutex_unlock(&r->lock);
}

/* Takes finished entries out of the ring; keeps the order of the others. Under the ring's lock. */
static tpu_error *reap(rt_ring *r) {
  tpu_error *trouble = NULL;
  unsigned kept = 0;
  for (unsigned i = 0; i < r->n; i++) {
    PJRT_Event *e = r->slot[(r->first + i) % RT_IN_FLIGHT];
    bool ready = false;
    tpu_error *asked = is_ready(e, &ready);
    if (asked) keep_first(&trouble, asked);
    if (ready) {
      tpu_error *failed = rt_event_finish(e);
      if (failed) keep_first(&r->failed, failed);
    } else {
      r->slot[(r->first + kept++) % RT_IN_FLIGHT] = e;
    }
  }
  r->n = kept;
  return trouble;
}

/* Under the lock. */
static void unref(rt_event *e) {
  if (--e->refs) return;
  tpu_error_free(e->error);
  free(e);
}

static void link_event(rt_event *e) {
  e->next = unfinished;
  e->link = &unfinished;
  if (e->next) e->next->link = &e->next;
  unfinished = e;
}

static void unlink_event(rt_event *e) {
  *e->link = e->next;
  if (e->next) e->next->link = e->link;
}

/* One of what the event waits for is done; drops one reference. Takes `error`. */
static void arrived(rt_event *e, tpu_error *error) {
  pthread_mutex_lock(&lock);
  if (error) keep_first(&e->error, error);
  if (--e->pending == 0) {
    e->time_ns = now_ns();
    unlink_event(e);
    pthread_cond_broadcast(&changed);
  }
  unref(e);
  pthread_mutex_unlock(&lock);
}

static void on_ready(PJRT_Error *error, void *arg) {
  arrived(arg, error ? rt_take_error(rt.api, error) : NULL);
}

static void watch(rt_event *e, PJRT_Event *pjrt) {
  pthread_mutex_lock(&lock);
  e->pending++;
  e->refs++;
  pthread_mutex_unlock(&lock);
  PJRT_ARGS(pjrt_on_ready, a, .event = pjrt, .callback = on_ready, .user_arg = e);
  tpu_error *error = rt_call(PJRT_EVENT_ON_READY, a);
  if (error) arrived(e, error); /* the callback will not come */
}

static rt_event *record(rt_device *d) {
  rt_event *e = tpu_xcalloc(1, sizeof *e);
  e->device = d;
  e->refs = 2; /* the caller's, and the one that arrived() drops below */
  e->pending = 1;
  pthread_mutex_lock(&lock);
  static uint64_t recorded; /* under the lock */
  e->number = ++recorded;
  link_event(e);
  pthread_mutex_unlock(&lock);
  tpu_error *trouble = NULL;
  if (d) {
    pthread_mutex_lock(&d->ring.lock);
    trouble = reap(&d->ring);
    for (unsigned i = 0; i < d->ring.n; i++) watch(e, d->ring.slot[(d->ring.first + i) % RT_IN_FLIGHT]);
    pthread_mutex_unlock(&d->ring.lock);
  }
  arrived(e, trouble);
  return e;
}

rt_event *rt_event_record(int device) {
  return record(rt_usable() && rt_has_device(device) ? &rt.devices[device] : NULL);
}

bool rt_event_ready(const rt_event *e) {
  if (atomic_load(&rt_forked)) return true;
  pthread_mutex_lock(&lock);
  bool ready = e->pending == 0;
  pthread_mutex_unlock(&lock);
  return ready;
}

tpu_error *rt_event_wait(rt_event *e) {
  if (atomic_load(&rt_forked)) return rt_not_open();
  pthread_mutex_lock(&lock);
  while (e->pending) pthread_cond_wait(&changed, &lock);
  tpu_error *error = tpu_error_copy(e->error);
  pthread_mutex_unlock(&lock);
  return error;
}

int64_t rt_event_time_ns(rt_event *e) {
  tpu_error_free(rt_event_wait(e));
  return e->time_ns;
}

void rt_event_free(rt_event *e) {
  if (!e || atomic_load(&rt_forked)) return;
  pthread_mutex_lock(&lock);
  unref(e);
  pthread_mutex_unlock(&lock);
}

/* An event of the device that was recorded up to `last` and is not finished; under the lock. */
static const rt_event *unfinished_of(const rt_device *d, uint64_t last) {
  for (const rt_event *e = unfinished; e; e = e->next) {
    if (e->device == d && e->number <= last) return e;
  }
  return NULL;
}

/* Waits for the whole ring, and for the callbacks of events recorded before, so that they are ready. */
static tpu_error *sync_one(rt_device *d) {
  rt_event *e = record(d);
  pthread_mutex_lock(&lock);
  while (unfinished_of(d, e->number)) pthread_cond_wait(&changed, &lock);
  tpu_error *first = e->error;
  e->error = NULL;
  unref(e);
  pthread_mutex_unlock(&lock);
  pthread_mutex_lock(&d->ring.lock);
  tpu_error *trouble = reap(&d->ring);
  tpu_error *failed = d->ring.failed;
  d->ring.failed = NULL;
  pthread_mutex_unlock(&d->ring.lock);
  if (failed) { /* says the same as `first`, or came before it */
    tpu_error_free(first);
    first = failed;
  }
  if (trouble) keep_first(&first, trouble);
  return first;
}

tpu_error *rt_sync(int device) {
  if (!rt_usable()) return atomic_load(&rt_forked) ? rt_not_open() : NULL; /* nothing was launched */
  if (device != -1 && !rt_has_device(device)) return rt_bad_device(device);
  tpu_error *first = NULL;
  for (int i = 0; i < rt.ndevices; i++) {
    if (device != -1 && i != device) continue;
    tpu_error *e = sync_one(&rt.devices[i]);
    if (e) keep_first(&first, e);
  }
  return first;
}
