/* Unit tests of storages' addresses. */
#include "value/storage.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

/* With little address space (ulimit -v, valgrind) the reservation is smaller, not missing. */
static void limited_space(void) {
  pid_t child = fork();
  if (!child) {
    unsigned long pages = 0; /* what the process has already: a lot with the address sanitizer */
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu", &pages) != 1) _exit(3);
    rlim_t bytes = pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)1 << 40);
    if (setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes})) _exit(2);
    tpu_storage *s = storage_create(0, 100), *t = storage_create(0, 100);
    bool fine = s && t && s->address != t->address && tpu_storage_find((char *)t->address + 99) == t;
    bool refused = !storage_create(0, (size_t)1 << 41);
    _exit(fine && refused ? 0 : 1);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void test_storage(void);
void test_storage(void) { limited_space(); }
