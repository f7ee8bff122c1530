/* Unit tests of the disk cache, with real files, processes and limits. */
#include "step/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

static char root[] = "/tmp/cache_test_XXXXXX";

static const char *at(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", root, name);
  return path;
}

static void empty_root(void) {
  char command[256];
  snprintf(command, sizeof command, "chmod -R u+w %s; rm -rf %s/*", root, root);
  CHECK(!system(command));
}

static void put(const char *key, const char *value) {
  cache_put(key, strlen(key), value, strlen(value), NULL);
}

static bool has(const char *key, const char *value) {
  text t = {0};
  text_str(&t, ">");
  bool hit = cache_get(key, strlen(key), &t);
  bool right = hit ? !strcmp(t.p + 1, value) && t.n == strlen(value) + 1 : t.n == 1;
  CHECK(right);
  text_free(&t);
  return hit;
}

static int64_t entries(void) {
  int64_t n, bytes;
  cache_stats(&n, &bytes);
  return n;
}

/* Names in the directory that end like this. */
static int count(const char *dir, const char *part, char *last) {
  DIR *d = opendir(dir);
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] == '.' || !strstr(e->d_name, part)) continue;
    n++;
    if (last) strcpy(last, e->d_name);
  }
  if (d) closedir(d);
  return n;
}

static void plain(void) {
  cache_configure(at("a/b/c"));
  CHECK_STR(cache_dir(), at("a/b/c"));
  CHECK(!has("k", ""));
  put("k", "value");
  CHECK(has("k", "value"));
  put("k", "other");
  CHECK(has("k", "other"));
  put("", "");
  CHECK(has("", ""));
  put("k2", "");
  CHECK(has("k2", ""));
  CHECK_EQ(entries(), 3);
  size_t n = 3 << 20;
  char *big = malloc(n);
  for (size_t i = 0; i < n; i++) big[i] = (char)(i * 7 + (i >> 12));
  cache_put("big", 3, big, n, NULL);
  text t = {0};
  CHECK(cache_get("big", 3, &t) && t.n == n && !memcmp(t.p, big, n));
  text_free(&t);
  free(big);
  CHECK(!cache_trouble());
  CHECK_EQ(count(cache_dir(), "tmp.", NULL), 0);
  cache_configure(NULL);
  CHECK(!cache_dir());
  put("k", "v");
  CHECK(!has("k", ""));
  CHECK_EQ(entries(), 0);
}

/* Every way to spoil a file: each byte flipped, each length, other contents. Never a wrong answer. */
static void damage(void) {
  char name[256], path[1024];
  cache_configure(at("damage"));
  put("key", "payload");
  CHECK_EQ(count(cache_dir(), ".tpu", name), 1);
  snprintf(path, sizeof path, "%s/%s", cache_dir(), name);
  char good[256];
  int fd = open(path, O_RDONLY);
  ssize_t n = read(fd, good, sizeof good);
  close(fd);
  CHECK(n > 50 && n < 200);
  for (ssize_t i = 0; i < 2 * n; i++) {
    char bad[256];
    memcpy(bad, good, sizeof bad);
    bool flip = i < n;
    if (flip) bad[i] ^= (char)(1 << (i % 8));
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(write(fd, bad, (size_t)(flip ? n : i - n)) >= 0);
    close(fd);
    CHECK(!has("key", ""));
    CHECK(access(path, F_OK) != 0); /* thrown away */
    if (i % 20 == 0) {
      put("key", "payload");
      CHECK(has("key", "payload"));
    }
  }
  fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  CHECK(write(fd, good, (size_t)n) == n && write(fd, "x", 1) == 1); /* too long */
  close(fd);
  CHECK(!has("key", ""));
  CHECK(!symlink("/dev/zero", path)); /* foreign things in its place */
  CHECK(!has("key", ""));
  unlink(path);
  CHECK(!mkfifo(path, 0600));
  CHECK(!has("key", ""));
  unlink(path);
  CHECK(!mkdir(path, 0700));
  CHECK(!has("key", ""));
  put("key", "payload"); /* cannot replace a directory */
  CHECK(!has("key", ""));
  rmdir(path);
  put("key", "payload");
  CHECK(has("key", "payload"));
  char other[1024];
  put("key2", "payload2");
  snprintf(other, sizeof other, "%s/%s", cache_dir(), name);
  cache_put("x", 1, "y", 1, NULL); /* an entry under the name of another key: its bytes are compared */
  DIR *d = opendir(cache_dir());
  for (struct dirent *e; (e = readdir(d));) {
    char from[1300];
    snprintf(from, sizeof from, "%s/%s", cache_dir(), e->d_name);
    if (strstr(e->d_name, ".tpu") && strcmp(e->d_name, name)) CHECK(!rename(from, other));
  }
  closedir(d);
  CHECK(!has("key", ""));
}

static void prune(void) {
  int64_t n, bytes;
  setenv("TORCH_TPU_CACHE_MAX_BYTES", "64K", 1);
  cache_configure(at("prune"));
  char *block = calloc(1, 4000);
  for (int i = 0; i < 100; i++) {
    cache_put(&i, sizeof i, block, 4000, NULL);
    text t = {0};
    int first = 0;
    CHECK(cache_get(&first, sizeof first, &t)); /* always used: stays */
    CHECK(i < 20 || t.n == 4000);
    text_free(&t);
    usleep(1000);
  }
  cache_stats(&n, &bytes);
  CHECK(bytes <= 64 << 10 && n >= 8 && n <= 16);
  text t = {0};
  int last = 99, old = 1;
  CHECK(cache_get(&last, sizeof last, &t));
  CHECK(!cache_get(&old, sizeof old, &t));
  text_free(&t);
  free(block);
  block = calloc(1, 100000);
  cache_put("large", 5, block, 100000, NULL); /* more than the cap */
  CHECK(!has("large", ""));
  free(block);
  setenv("TORCH_TPU_CACHE_MAX_BYTES", "nonsense", 1);
  cache_configure(at("prune"));
  put("a", "b");
  CHECK(has("a", "b"));
  unsetenv("TORCH_TPU_CACHE_MAX_BYTES");
}

/* Stale temporaries of killed processes are swept. */
static void sweep(void) {
  cache_configure(at("sweep"));
  const char *names[] = {"sweep/tmp.1.2.3", "sweep/tmp.9.9.9", "sweep/old.lock"};
  struct timespec old[2] = {{.tv_sec = time(NULL) - 7200}, {.tv_sec = time(NULL) - 7200}};
  for (int i = 0; i < 3; i++) {
    int fd = open(at(names[i]), O_CREAT | O_WRONLY, 0600);
    if (i != 1) CHECK(!futimens(fd, old));
    close(fd);
  }
  CHECK_EQ(entries(), 0);
  CHECK_EQ(count(at("sweep"), "tmp.", NULL), 1); /* the young one may be in use */
  CHECK_EQ(count(at("sweep"), ".lock", NULL), 0);
}

/* Runs f in a child; what it exits with. */
static int in_child(int (*f)(void)) {
  fflush(stdout);
  pid_t pid = fork();
  if (!pid) _exit(f());
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int full_disk(void) {
  signal(SIGXFSZ, SIG_IGN);
  cache_configure(at("full"));
  put("before", "small");
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, 1000});
  char *block = calloc(1, 5000);
  cache_put("key", 3, block, 5000, NULL);
  free(block);
  text t = {0};
  bool ok = !cache_get("key", 3, &t) && cache_get("before", 6, &t) && cache_trouble() &&
            strstr(cache_trouble(), "disk is full") && !count(cache_dir(), "tmp.", NULL);
  text_free(&t);
  return !ok;
}

static int no_files(void) {
  cache_configure(at("full"));
  setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, 3}); /* not one more can be opened */
  put("k", "v");
  text t = {0};
  bool ok = !cache_get("k", 1, &t) && !cache_lock_key("k", 1, 50, NULL);
  return !ok;
}

static int read_only(void) {
  cache_configure(at("ro"));
  put("k", "v");
  CHECK(!chmod(at("ro"), 0500));
  if (!geteuid() && setresuid(65534, 65534, 65534)) return 0; /* root would not notice */
  put("k2", "v");
  text t = {0};
  bool ok = !cache_get("k2", 2, &t) && !cache_lock_key("k2", 2, 50, NULL);
  text_free(&t);
  return !ok;
}

static int not_a_dir(void) {
  int fd = open(at("file"), O_CREAT | O_WRONLY, 0600);
  close(fd);
  cache_configure(at("file/below"));
  put("k", "v");
  text t = {0};
  return !(!cache_dir() && cache_trouble() && !cache_get("k", 1, &t));
}

static int from_env(void) {
  unsetenv("TORCH_TPU_CACHE");
  setenv("TORCH_TPU_CACHE_DIR", at("env"), 1);
  cache_configure_from_env();
  put("k", "v");
  text t = {0};
  bool ok = cache_get("k", 1, &t) && !strcmp(cache_dir(), at("env"));
  text_free(&t);
  return !ok;
}

static int from_xdg(void) {
  unsetenv("TORCH_TPU_CACHE");
  unsetenv("TORCH_TPU_CACHE_DIR");
  setenv("XDG_CACHE_HOME", root, 1);
  cache_configure_from_env();
  return !(cache_dir() && !strcmp(cache_dir(), at("torch_tpu")));
}

static int from_home(void) {
  unsetenv("TORCH_TPU_CACHE");
  unsetenv("TORCH_TPU_CACHE_DIR");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", root, 1);
  cache_configure_from_env();
  return !(cache_dir() && !strcmp(cache_dir(), at(".cache/torch_tpu")));
}

static int no_home(void) {
  unsetenv("TORCH_TPU_CACHE");
  unsetenv("TORCH_TPU_CACHE_DIR");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  cache_configure_from_env();
  put("k", "v");
  return !(!cache_dir() && cache_trouble() && strstr(cache_trouble(), "HOME"));
}

static int turned_off(void) {
  setenv("TORCH_TPU_CACHE", "off", 1);
  cache_configure_from_env();
  put("k", "v");
  return !(!cache_dir() && !cache_trouble());
}

static void environment(void) {
  CHECK_EQ(in_child(full_disk), 0);
  CHECK_EQ(in_child(no_files), 0);
  CHECK_EQ(in_child(read_only), 0);
  CHECK_EQ(in_child(not_a_dir), 0);
}

static void defaults(void) {
  CHECK_EQ(in_child(from_env), 0);
  CHECK_EQ(in_child(from_xdg), 0);
  CHECK_EQ(in_child(from_home), 0);
  CHECK_EQ(in_child(no_home), 0);
  CHECK_EQ(in_child(turned_off), 0);
}

static void fill(char *block, size_t n, unsigned seed) {
  for (size_t i = 0; i < n; i++) block[i] = (char)(seed + i % 251);
}

enum { SHARED_KEYS = 8, SHARED_BYTES = 300000 };

static int write_for_ever(void) {
  char *block = malloc(SHARED_BYTES);
  for (unsigned i = 0;; i++) {
    fill(block, SHARED_BYTES, i);
    int key = (int)(i % SHARED_KEYS);
    cache_put(&key, sizeof key, block, SHARED_BYTES, NULL);
  }
  return 0;
}

/* Writers are killed at any moment while this process reads: each hit is one whole payload. */
static void killed_writers(void) {
  cache_configure(at("killed"));
  int hits = 0, wrong = 0;
  for (int round = 0; round < 12; round++) {
    pid_t pids[2];
    for (int i = 0; i < 2; i++) {
      fflush(stdout);
      pids[i] = fork();
      if (!pids[i]) _exit(write_for_ever());
    }
    struct timespec t0, t;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    do {
      for (int key = 0; key < SHARED_KEYS; key++) {
        text got = {0};
        if (cache_get(&key, sizeof key, &got)) {
          hits++;
          char *want = malloc(SHARED_BYTES);
          fill(want, SHARED_BYTES, (unsigned char)got.p[0]);
          wrong += got.n != SHARED_BYTES || memcmp(got.p, want, SHARED_BYTES) != 0;
          free(want);
        }
        text_free(&got);
      }
      clock_gettime(CLOCK_MONOTONIC, &t);
    } while ((t.tv_sec - t0.tv_sec) * 1000000000L + t.tv_nsec - t0.tv_nsec < 30000000 + round * 1000000);
    for (int i = 0; i < 2; i++) {
      kill(pids[i], SIGKILL);
      waitpid(pids[i], NULL, 0);
    }
  }
  CHECK(hits > 5);
  CHECK_EQ(wrong, 0);
}

static int compile_once(void) {
  text t = {0};
  cache_lock *l = cache_lock_key("program", 7, 5000, NULL);
  if (!l) return 2;
  bool hit = cache_get("program", 7, &t);
  if (!hit) {
    usleep(100000);
    put("program", "compiled");
  }
  cache_unlock(l);
  return hit;
}

static int give_up(void) { return 1; }

static void locks(void) {
  cache_configure(at("locks"));
  pid_t pids[4];
  fflush(stdout);
  for (int i = 0; i < 4; i++) {
    pids[i] = fork();
    if (!pids[i]) _exit(compile_once());
  }
  int compiled = 0, hits = 0;
  for (int i = 0; i < 4; i++) {
    int status;
    waitpid(pids[i], &status, 0);
    compiled += status == 0;
    hits += WIFEXITED(status) && WEXITSTATUS(status) == 1;
  }
  CHECK(compiled == 1 && hits == 3);
  cache_lock *l = cache_lock_key("a", 1, 0, NULL);
  CHECK(l != NULL);
  CHECK(!cache_lock_key("a", 1, 40, NULL));
  CHECK(!cache_lock_key("a", 1, 100000, give_up));
  cache_lock *other = cache_lock_key("b", 1, 0, NULL);
  CHECK(other != NULL);
  cache_unlock(other);
  cache_unlock(l);
  l = cache_lock_key("a", 1, 0, NULL);
  CHECK(l != NULL);
  cache_unlock(l);
  cache_unlock(NULL);
}

static void *use_cache(void *arg) {
  unsigned seed = (unsigned)(uintptr_t)arg;
  for (unsigned i = 0; i < 200; i++) {
    int key = (int)((i * 7 + seed) % 16);
    char value[16];
    int n = snprintf(value, sizeof value, "value %d", key);
    text t = {0};
    if (cache_get(&key, sizeof key, &t))
      CHECK(t.n == (size_t)n && !memcmp(t.p, value, t.n));
    else
      cache_put(&key, sizeof key, value, (size_t)n, NULL);
    text_free(&t);
  }
  return NULL;
}

static void threads(void) {
  cache_configure(at("threads"));
  pthread_t t[4];
  for (uintptr_t i = 0; i < 4; i++) CHECK(!pthread_create(&t[i], NULL, use_cache, (void *)i));
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  CHECK_EQ(entries(), 16);
}

/* Two hosts, one directory behind both. */
static void shared_tier(void) {
  char behind[512], name[256], path[1024];
  strcpy(behind, at("behind"));
  setenv("TORCH_TPU_SHARED_CACHE_DIR", behind, 1);
  cache_configure(at("host1"));
  CHECK_STR(cache_shared_dir(), behind);
  put("key", "payload");
  CHECK_EQ(count(behind, ".tpu", name), 1);
  cache_configure(at("host2"));
  CHECK_EQ(entries(), 0);
  CHECK(has("key", "payload"));
  CHECK_EQ(entries(), 1); /* its own from now on */
  CHECK_EQ(count(behind, "", NULL), 1);
  text whole = {0};
  CHECK(cache_export(name, &whole));
  CHECK(!cache_export("../host1", &whole) && !cache_export("missing.tpu", &whole));

  snprintf(path, sizeof path, "%s/%s", behind, name);
  CHECK(!truncate(path, 60)); /* damage there is a miss, and nobody's to remove */
  cache_configure(at("host3"));
  CHECK(!has("key", ""));
  CHECK(!access(path, F_OK));
  put("key", "payload");
  cache_configure(at("host4"));
  CHECK(has("key", "payload"));

  unsetenv("TORCH_TPU_SHARED_CACHE_DIR");
  cache_configure(at("host5"));
  CHECK(!cache_shared_dir());
  CHECK(!has("key", ""));
  CHECK(cache_import(whole.p, whole.n));
  CHECK(has("key", "payload"));
  whole.p[whole.n - 1] ^= 1;
  CHECK(!cache_import(whole.p, whole.n) && !cache_import(whole.p, 10));
  text_free(&whole);
}

void test_cache(void);
void test_cache(void) {
  CHECK(mkdtemp(root) != NULL);
  RUN(defaults);
  RUN(plain);
  RUN(damage);
  RUN(prune);
  RUN(sweep);
  RUN(environment);
  RUN(killed_writers);
  RUN(locks);
  RUN(threads);
  RUN(shared_tier);
  cache_configure(NULL);
  empty_root();
  char command[256];
  snprintf(command, sizeof command, "rm -rf %s", root);
  CHECK(!system(command));
}
