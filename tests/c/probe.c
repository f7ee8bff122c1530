/* Asks a plugin (path: the argument) for the sizes of the structs that we send it, in a child process,
 * since a bad answer may well be a crash. Every size must be at most what we send, tail included, and
 * should be what rt/pjrt.def says. Needs no client and no device. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rt/pjrt_abi.h"
#include "test.h"

TEST_COUNTERS;

/* "Unexpected X size: expected N, got 0": N, or -1. */
static long expected_size(const PJRT_Api *api, int slot) {
  static union {
    size_t struct_size;
    char bytes[1024];
  } zero; /* struct_size 0: refused before anything else is looked at */
  memset(&zero, 0, sizeof zero);
  PJRT_Error *e = api->fn[slot](&zero);
  if (!e) return -1;
  PJRT_ARGS(pjrt_ref_span, words, .object = e);
  api->error_message(words);
  char line[512];
  snprintf(line, sizeof line, "%.*s", (int)words->n, (const char *)words->data);
  PJRT_ARGS(pjrt_ref, destroy, .object = e);
  api->error_destroy(destroy);
  const char *at = strstr(line, ": expected ");
  return at ? strtol(at + 11, NULL, 10) : -1;
}

static int run(const char *path) {
  void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *symbol = lib ? dlsym(lib, "GetPjrtApi") : NULL;
  if (!symbol) {
    printf("%s is no PJRT plugin\n", path);
    return 1;
  }
  const PJRT_Api *(*get)(void);
  memcpy(&get, &symbol, sizeof get);
  const PJRT_Api *api = get();
  CHECK_EQ(api->major, 0);
  CHECK(api->struct_size >= offsetof(PJRT_Api, fn[PJRT_BUFFER_UNSAFE_POINTER + 1]));
  printf("api 0.%d, table of %zu bytes\n", (int)api->minor, api->struct_size);
#define SLOT(n, NAME, type, size)                                                                     \
  if (n > 1) {                                                                                        \
    long want = expected_size(api, n);                                                                \
    CHECK_(want <= (long)(sizeof(type) + PJRT_TAIL), #NAME ": the plugin wants %ld bytes", want);     \
    if (want != (size)) printf("note: " #NAME " is %d here, %ld in the plugin\n", (int)(size), want); \
  }
#include "rt/pjrt.def"
#undef SLOT
  return test_report();
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: probe PLUGIN\n");
    return 2;
  }
  fflush(stdout);
  pid_t pid = fork();
  if (!pid) exit(run(argv[1]));
  int status = 1;
  waitpid(pid, &status, 0);
  if (WIFSIGNALED(status)) printf("the plugin died of signal %d\n", WTERMSIG(status));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
