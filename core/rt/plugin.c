/* Finding and loading the plugin: environment, PCI bus, candidates given by Python; every way in which
 * that can fail is one sentence that says what to do. Touches the file system and dlopen; candidates
 * are under a lock. A plugin is never unloaded: its threads and registries live on. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "rt/rt_int.h"

typedef struct candidate {
  char *path, *why;
  bool is_cpu;
} candidate;

enum { MAX_CANDIDATES = 16, MAX_DEVICES = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static candidate candidates[MAX_CANDIDATES];
static int ncandidates;

void rt_add_candidate(const char *path, const char *why, bool is_cpu) {
  pthread_mutex_lock(&lock);
  bool known = false;
  for (int i = 0; i < ncandidates; i++) known |= !strcmp(candidates[i].path, path);
  if (!known && ncandidates < MAX_CANDIDATES) {
    candidates[ncandidates++] = (candidate){tpu_xstrdup(path), tpu_xstrdup(why), is_cpu};
  }
  pthread_mutex_unlock(&lock);
}

void rt_forget_candidates(void) {
  pthread_mutex_lock(&lock);
  while (ncandidates) {
    candidate *c = &candidates[--ncandidates];
    free(c->path);
    free(c->why);
  }
  pthread_mutex_unlock(&lock);
}

/* The number in a file like /sys/bus/pci/devices/X/vendor, or -1. */
static long pci_number(const char *device, const char *field) {
  char path[512], line[32];
  snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", device, field);
  FILE *f = fopen(path, "re");
  if (!f) return -1;
  long v = fgets(line, sizeof line, f) ? strtol(line, NULL, 16) : -1;
  fclose(f);
  return v;
}

int rt_tpu_chips(void) {
  static const struct {
    long id;
    int devices; /* of the client, for each chip */
  } kinds[] = {{0x005e, 1}, {0x0062, 1}, {0x0063, 1}, {0x006f, 1}, {0x0076, 2}, {0x0083, 1}, {0x007c, 1}};
  DIR *dir = opendir("/sys/bus/pci/devices");
  if (!dir) return 0;
  int n = 0;
  for (struct dirent *e; (e = readdir(dir));) {
    if (e->d_name[0] == '.' || pci_number(e->d_name, "vendor") != 0x1ae0) continue;
    long id = pci_number(e->d_name, "device");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
      if (kinds[i].id == id) n += kinds[i].devices;
    }
  }
  closedir(dir);
  return n;
}

static bool looks_like_libtpu(const char *path) {
  const char *base = strrchr(path, '/');
  return strstr(base ? base : path, "libtpu") != NULL;
}

rt_found rt_find_plugin(void) {
  const char *p = env_get("TORCH_TPU_PJRT_PLUGIN");
  if (p) return (rt_found){p, "TORCH_TPU_PJRT_PLUGIN is set", !looks_like_libtpu(p)};
  bool tpu_host = rt_tpu_chips() > 0;
  p = env_get("TPU_LIBRARY_PATH");
  if (tpu_host && p) return (rt_found){p, "TPU_LIBRARY_PATH is set", false};
  rt_found found = {NULL, NULL, false};
  pthread_mutex_lock(&lock);
  for (int i = 0; i < ncandidates && !found.path; i++) {
    const candidate *c = &candidates[i];
    if (c->is_cpu == !tpu_host && !access(c->path, R_OK)) {
      found = (rt_found){c->path, c->why, c->is_cpu};
    }
  }
  pthread_mutex_unlock(&lock);
  if (!found.path) {
    found.why = tpu_host ? "this host has a TPU but no libtpu: run `pip install libtpu`, or name another "
                           "PJRT plugin in TORCH_TPU_PJRT_PLUGIN"
                         : "no PJRT plugin is installed: run `pip install lammps-jax-pjrt-cpu`, or name the "
                           "path of one in TORCH_TPU_PJRT_PLUGIN";
  }
  return found;
}

tpu_error *rt_wanted_devices(int *out, bool *is_set) {
  const char *v = env_get("TORCH_TPU_NUM_DEVICES");
  *out = 1;
  *is_set = v != NULL;
  if (!v) return NULL;
  char *end;
  long n = strtol(v, &end, 10);
  if (*end || n < 1 || n > MAX_DEVICES) {
    return tpu_err(TPU_VALUE, "TORCH_TPU_NUM_DEVICES is '%s': set it to a number from 1 to %d, or unset it",
                   v, MAX_DEVICES);
  }
  *out = (int)n;
  return NULL;
}

tpu_error *rt_check_api(const char *path, const PJRT_Api *api) {
  if (!api) return tpu_err(TPU_RUNTIME, "'%s' gives no PJRT function table: reinstall that plugin", path);
  size_t to_version = offsetof(PJRT_Api, fn);
  if (api->struct_size < to_version || api->major != 0) {
    return tpu_err(
        TPU_RUNTIME,
        "'%s' speaks PJRT API %d.%d, and this torch_tpu needs 0.x: install a plugin and a torch_tpu "
        "of about the same date",
        path, api->struct_size < to_version ? -1 : (int)api->major,
        api->struct_size < to_version ? -1 : (int)api->minor);
  }
  static const struct {
    int n;
    const char *name;
  } needed[] = {
#define SLOT(n, NAME, type, size) {n, #NAME},
#include "rt/pjrt.def"
#undef SLOT
  };
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
    size_t end = to_version + sizeof(pjrt_fn) * ((size_t)needed[i].n + 1);
    if (end > api->struct_size || !api->fn[needed[i].n]) {
      return tpu_err(TPU_RUNTIME,
                     "'%s' is too old (PJRT API 0.%d without %s): upgrade it, for the CPU plugin with "
                     "`pip install -U lammps-jax-pjrt-cpu`",
                     path, (int)api->minor, needed[i].name);
    }
  }
  return NULL;
}

/* Where a bad path came from, for the advice at the end of a sentence. */
static const char *advice(rt_found found) {
  return strncmp(found.why, "TORCH_TPU_PJRT_PLUGIN", 21)
             ? "reinstall that package, or name another plugin in TORCH_TPU_PJRT_PLUGIN"
             : "correct TORCH_TPU_PJRT_PLUGIN, or unset it";
}

tpu_error *rt_load_plugin(rt_found found, const PJRT_Api **out) {
  *out = NULL;
  if (!found.path) return tpu_err(TPU_RUNTIME, "%s", found.why);
  struct stat st;
  if (stat(found.path, &st)) {
    return tpu_err(TPU_RUNTIME, "the PJRT plugin '%s' (%s) cannot be opened: %s; %s", found.path, found.why,
                   strerror(errno), advice(found));
  }
  if (!S_ISREG(st.st_mode)) {
    return tpu_err(TPU_RUNTIME, "the PJRT plugin '%s' (%s) is not a file; %s", found.path, found.why,
                   advice(found));
  }
  tpu_error *bad = rt_check_elf(found.path);
  if (bad) {
    tpu_error *e = tpu_err(TPU_RUNTIME, "the PJRT plugin '%s' (%s) cannot be loaded: %s; %s", found.path,
                           found.why, tpu_error_message(bad), advice(found));
    tpu_error_free(bad);
    return e;
  }
  setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0);  /* XLA logs errors that we raise; read when the library loads */
  char *path = realpath(found.path, NULL); /* dlopen would look up a name without a slash elsewhere */
  void *lib = dlopen(path ? path : found.path, RTLD_NOW | RTLD_LOCAL);
  free(path);
  if (!lib) {
    const char *why = dlerror();
    return tpu_err(TPU_RUNTIME,
                   "the PJRT plugin '%s' (%s) is not a shared library that can be loaded: %s; %s", found.path,
                   found.why, why ? why : "no reason given", advice(found));
  }
  void *symbol = dlsym(lib, "GetPjrtApi");
  if (!symbol) {
    dlclose(lib); /* never ran: no threads of it to keep */
    return tpu_err(TPU_RUNTIME, "'%s' (%s) is a shared library but no PJRT plugin: it has no GetPjrtApi; %s",
                   found.path, found.why, advice(found));
  }
  const PJRT_Api *(*get)(void);
  memcpy(&get, &symbol, sizeof get);
  const PJRT_Api *api = get();
  TRY(rt_check_api(found.path, api));
  *out = api;
  return NULL;
}
