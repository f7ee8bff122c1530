/* Switches from the environment. See env.h. */
#include "base/env.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *env_get(const char *name) {
  const char *s = getenv(name);
  return s && *s ? s : NULL;
}

bool env_is(const char *name, const char *word) {
  const char *s = env_get(name);
  return s && !strcmp(s, word);
}

static bool parse_bytes(const char *s, int64_t *out) {
  static const char units[] = "KkMmGgTt";
  char *end;
  double v = strtod(s, &end);
  if (end == s) return false;
  const char *unit = *end ? strchr(units, *end) : NULL;
  if (unit) {
    v *= (double)((int64_t)1 << 10 * ((unit - units) / 2 + 1));
    end += end[1] == 'i' ? 2 : 1;
    end += *end == 'B' || *end == 'b';
  }
  if (*end || !(v >= 0 && v < 0x1p62)) return false;
  *out = (int64_t)v;
  return true;
}

int64_t env_bytes(const char *name, int64_t unset) {
  const char *s = env_get(name);
  int64_t n;
  return s && parse_bytes(s, &n) ? n : unset;
}

#define FLAG "1", "0", "on", "off", "true", "false", "True", "False"

bool env_flag(const char *name, bool unset) {
  static const char *const words[] = {FLAG};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (env_is(name, words[i])) return i % 2 == 0;
  return unset;
}

/* NULL words: a size in bytes. */
static const struct {
  const char *name, *words[9];
} switches[] = {
    {"TORCH_TPU_EAGER_MODE", {"strict", "debug", "fused"}},
    {"TPU_LAUNCH_BLOCKING", {FLAG}},
    {"TORCH_TPU_DEFER_AND_FUSE", {FLAG}},
    {"TPU_DEFER_AND_FUSE", {FLAG}},
    {"TORCH_TPU_FALLBACK", {"warn", "error", "silent"}},
    {"TORCH_TPU_SIZES", {"exact", "auto"}},
    {"TORCH_TPU_CACHE", {FLAG}},
    {"TORCH_TPU_MEMORY_LIMIT", {NULL}},
    {"TORCH_TPU_CACHE_MAX_BYTES", {NULL}},
};

static tpu_error *check_words(const char *name, const char *value, const char *const *words) {
  char list[96] = "";
  for (; *words; words++) {
    if (!strcmp(value, *words)) return NULL;
    strcat(strcat(list, *list ? ", " : ""), *words);
  }
  return tpu_err(TPU_VALUE, "%s is '%s': set it to one of %s, or unset it", name, value, list);
}

tpu_error *env_check(void) {
  for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
    const char *name = switches[i].name, *value = env_get(name);
    int64_t n;
    if (value && switches[i].words[0]) TRY(check_words(name, value, switches[i].words));
    if (value && !switches[i].words[0] && !parse_bytes(value, &n))
      return tpu_err(TPU_VALUE, "%s is '%s': set it to bytes, as in 1500000, 512M or 2G, or unset it", name,
                     value);
  }
  const char *dump = env_get("TORCH_TPU_DUMP");
  struct stat st;
  if (dump && (stat(dump, &st) || !S_ISDIR(st.st_mode) || access(dump, W_OK | X_OK)))
    return tpu_err(TPU_VALUE,
                   "TORCH_TPU_DUMP is '%s': set it to a directory that can be written, or unset it", dump);
  return NULL;
}
