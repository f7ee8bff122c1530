/* An unknown word in XLA_FLAGS makes the CPU plugin call exit(1) when the client is made, and Python
 * would be gone without a traceback. So with XLA_FLAGS set the client is first made in a forked child,
 * whose output is kept for the message. Touches processes and pipes; called once, under rt_open's lock. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rt/rt_int.h"

enum { PATIENCE_MS = 20000 };

static void leave_now(int status, void *unused) {
  (void)unused;
  _exit(status);
}

static _Noreturn void try_in_child(const PJRT_Api *api, const pjrt_named_value *options, size_t n, int fd) {
  dup2(fd, 1);
  dup2(fd, 2);
  on_exit(leave_now, NULL); /* the last handler runs first: nothing of the parent's runs here */
  PJRT_ARGS(pjrt_none, init);
  api->fn[PJRT_PLUGIN_INITIALIZE](init);
  PJRT_ARGS(pjrt_client_create, a, .options = options, .num_options = n);
  api->fn[PJRT_CLIENT_CREATE](a);
  _exit(0); /* also when it returned an error: the parent gets the same one */
}

/* Reads until the child closes the pipe; false when it takes too long. */
static bool read_all(int fd, text *out) {
  struct timespec t0, t;
  clock_gettime(CLOCK_MONOTONIC, &t0);
  for (;;) {
    clock_gettime(CLOCK_MONOTONIC, &t);
    long left = PATIENCE_MS - ((t.tv_sec - t0.tv_sec) * 1000 + (t.tv_nsec - t0.tv_nsec) / 1000000);
    if (left <= 0) return false;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int ready = poll(&p, 1, (int)left);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    char buf[4096];
    ssize_t n = read(fd, buf, sizeof buf);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    if (out->n < 65536) text_add(out, buf, (size_t)n);
  }
}

/* The line of the child's output that names the flag; else its last line. */
static const char *telling_line(text *out) {
  const char *best = "";
  for (char *save = NULL, *line = strtok_r(out->p, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    if (strstr(line, "nknown flag")) return line;
    if (*line) best = line;
  }
  return best;
}

tpu_error *rt_check_xla_flags(const PJRT_Api *api, const pjrt_named_value *options, size_t n) {
  const char *flags = getenv("XLA_FLAGS");
  int fds[2];
  if (!flags || !*flags || pipe(fds)) return NULL;
  pid_t pid = fork();
  if (pid == 0) try_in_child(api, options, n, fds[1]);
  close(fds[1]);
  if (pid < 0) {
    close(fds[0]);
    return NULL;
  }
  text out = {0};
  bool ended = read_all(fds[0], &out);
  if (!ended) kill(pid, SIGKILL); /* stuck: no verdict */
  close(fds[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  tpu_error *e = NULL;
  if (ended && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
    e = tpu_err(TPU_RUNTIME,
                "the PJRT plugin does not accept XLA_FLAGS='%s': %s; correct XLA_FLAGS, or unset it", flags,
                out.n ? telling_line(&out) : "it ended the process");
  }
  text_free(&out);
  return e;
}
