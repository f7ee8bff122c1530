/* What people do with a directory of programs: look, check, throw away. Other processes may be at work in it:
 * an entry that goes while one reads it is compiled again, and locks and files in the making are left alone.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "step/cache_int.h"
#include "tpu.h"

static int open_named(const char *dir) {
  return dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : cache_open_dir();
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const cache_entry *)a)->name, ((const cache_entry *)b)->name);
}

/* Every byte, and whether the entry lies under the name that its key has. */
static cache_verdict verify(int dir, const char *name) {
  char *bytes, right[CACHE_NAME];
  size_t n;
  cache_view v;
  cache_verdict verdict = cache_read_file(dir, name, &bytes, &n, &v);
  if (verdict == CACHE_FINE) {
    cache_name_of(right, v.key, v.nkey, "tpu");
    if (strcmp(right, name)) verdict = CACHE_DAMAGED;
  }
  free(bytes);
  return verdict;
}

char *tpu_cache_list_json(const char *where, bool check, bool fix) {
  static const char *const states[] = {"unreadable", "fine", "of another version", "damaged"};
  text t = {0};
  int dir = open_named(where);
  cache_entry *all = NULL;
  int64_t bytes = 0;
  size_t n = dir < 0 ? 0 : cache_list_entries(dir, &all, &bytes);
  if (n) qsort(all, n, sizeof *all, by_name);
  text_str(&t, "{\"dir\": ");
  text_json(&t, where ? where : cache_dir());
  text_printf(&t, ", \"found\": %s, \"entries\": [", dir < 0 ? "false" : "true");
  for (size_t i = 0; i < n; i++) {
    cache_label label;
    char name[CACHE_LABEL + 1];
    cache_verdict v = cache_peek(dir, all[i].name, &label, name);
    if (check && v == CACHE_FINE) v = verify(dir, all[i].name);
    bool removed = check && fix && v == CACHE_DAMAGED && !unlinkat(dir, all[i].name, 0);
    text_printf(&t, "%s{\"file\": \"%s\", \"name\": ", i ? ", " : "", all[i].name);
    text_json(&t, name);
    text_printf(&t,
                ", \"ops\": %d, \"seconds\": %.3f, \"bytes\": %lld, \"used\": %lld, \"state\": \"%s\", "
                "\"removed\": %s}",
                label.ops, label.seconds, (long long)all[i].bytes, (long long)all[i].used.tv_sec,
                !check && v == CACHE_FINE ? "not checked" : states[v], removed ? "true" : "false");
  }
  text_str(&t, "]}");
  free(all);
  if (dir >= 0) close(dir);
  return t.p;
}

char *tpu_cache_prune_json(const char *where, int64_t most, int64_t seconds) {
  text t = {0};
  int dir = open_named(where);
  int64_t before = seconds < 0 ? INT64_MIN : (int64_t)time(NULL) - seconds, removed = 0, bytes = 0, left = 0;
  if (most < 0) most = INT64_MAX;
  if (dir >= 0) {
    size_t n = cache_list_entries(dir, NULL, &bytes);
    left = cache_prune_dir(dir, &(cache_limits){most, most, before, NULL}, &removed);
    text_printf(&t, "{\"entries\": %zu, ", n);
    close(dir);
  } else {
    text_str(&t, "{\"entries\": 0, ");
  }
  text_str(&t, "\"dir\": ");
  text_json(&t, where ? where : cache_dir());
  text_printf(&t, ", \"found\": %s, \"removed\": %lld, \"bytes\": %lld, \"left\": %lld}",
              dir < 0 ? "false" : "true", (long long)removed, (long long)bytes, (long long)left);
  return t.p;
}

bool tpu_cache_export(const char *name, char **bytes, size_t *n) {
  text t = {0};
  bool found = cache_export(name, &t);
  *bytes = t.p;
  *n = t.n;
  return found;
}

bool tpu_cache_import(const void *bytes, size_t n) { return cache_import(bytes, n); }
