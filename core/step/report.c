/* The text answers that are nobody else's: what the runtime is, and which ops fell back to the CPU. */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "rt/rt.h"
#include "step/cache.h"
#include "tpu.h"
#include "value/value.h"

static void field(text *t, const char *name, const char *value) {
  text_printf(t, ", \"%s\": ", name);
  text_json(t, value);
}

char *tpu_info_json(void) {
  text t = {0};
  rt_found f = rt_find_plugin();
  int64_t entries = 0, bytes = 0;
  cache_stats(&entries, &bytes);
  text_printf(&t, "{\"device_count\": %d, \"open\": %s", rt_device_count(), rt_is_open() ? "true" : "false");
  field(&t, "plugin", f.path);
  field(&t, "why", f.why);
  text_printf(&t, ", \"is_cpu\": %s", (rt_is_open() ? rt_get_info()->is_cpu : f.is_cpu) ? "true" : "false");
  field(&t, "cache_dir", cache_dir());
  field(&t, "shared_cache_dir", cache_shared_dir());
  field(&t, "cache_trouble", cache_trouble());
  text_printf(&t, ", \"cache_entries\": %lld, \"cache_bytes\": %lld", (long long)entries, (long long)bytes);
  if (rt_is_open()) {
    const rt_info *i = rt_get_info();
    field(&t, "platform", i->platform);
    field(&t, "platform_version", i->platform_version);
    field(&t, "stablehlo_version", i->stablehlo_version);
    field(&t, "kind", rt_device_kind(0));
    text_printf(&t, ", \"api_minor\": %d", i->api_minor);
  }
  text_str(&t, "}");
  return t.p;
}

typedef struct fallback {
  char *op, *why;
  int64_t count;
} fallback;
static map fallbacks;

void tpu_fallback_count(const char *op, const char *why) {
  core_lock();
  uint64_t h = hash_bytes(op, strlen(op));
  fallback *f = map_get(&fallbacks, op, strlen(op), h);
  if (!f) {
    f = tpu_xcalloc(1, sizeof *f);
    f->op = tpu_xstrdup(op);
    f->why = tpu_xstrdup(why ? why : "");
    map_put(&fallbacks, op, strlen(op), h, f);
  }
  f->count++;
  core_unlock();
}

char *tpu_fallback_json(void) {
  text t = {0};
  size_t it = 0;
  bool first = true;
  text_str(&t, "{");
  core_lock();
  for (fallback *f; (f = map_next(&fallbacks, &it)); first = false) {
    if (!first) text_str(&t, ", ");
    text_json(&t, f->op);
    text_printf(&t, ": {\"count\": %lld, \"why\": ", (long long)f->count);
    text_json(&t, f->why);
    text_str(&t, "}");
  }
  core_unlock();
  text_str(&t, "}");
  return t.p;
}

void tpu_fallback_reset(void) {
  core_lock();
  size_t it = 0;
  for (fallback *f; (f = map_next(&fallbacks, &it));) {
    free(f->op);
    free(f->why);
    free(f);
  }
  map_free(&fallbacks);
  fallbacks = (map){0};
  core_unlock();
}
