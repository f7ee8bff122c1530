/* See cache.h. Touches one directory: `<hash>.tpu` entries, `<hash>.lock` lock files, `tmp.*` files that
 * are about to become entries. State is under one lock, which is not held during input and output. */
#include "step/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"
#include "base/map.h"

enum { FORMAT = 1, STALE_SECONDS = 3600, NAME = 40 };
static const int64_t DEFAULT_CAP = (int64_t)4 << 30;

/* In front of key and payload. Little-endian and packed as it stands: a cache is of one kind of host. */
typedef struct header {
  char magic[8];
  uint32_t format, header_size;
  uint64_t nkey, npayload;
  uint64_t sum1, sum2; /* over the fields before, the key and the payload */
} header;
_Static_assert(sizeof(header) == 48, "no padding: the header is hashed and written as bytes");
static const char magic[8] = "TPUPROG";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool configured;
static char *directory; /* owned; NULL: off */
static int64_t cap;
static int64_t total = -1; /* bytes in the directory as far as we know; -1: not looked yet */
static const char *trouble;

/* ---- checksums: two that share no constant and no step ---- */

static uint64_t sum_fnv(uint64_t h, const void *p, size_t n) {
  const unsigned char *s = p;
  for (; n >= 8; s += 8, n -= 8) {
    uint64_t w;
    memcpy(&w, s, 8);
    h = (h ^ w) * 0x100000001b3u;
    h ^= h >> 29;
  }
  for (; n; s++, n--) h = (h ^ *s) * 0x100000001b3u;
  return h;
}

static void checksum(const header *h, const void *key, const void *payload, uint64_t *one, uint64_t *two) {
  uint64_t parts[3] = {hash_bytes(h, offsetof(header, sum1)), hash_bytes(key, h->nkey),
                       hash_bytes(payload, h->npayload)};
  *one = hash_bytes(parts, sizeof parts);
  uint64_t s = sum_fnv(0xcbf29ce484222325u, h, offsetof(header, sum1));
  *two = sum_fnv(sum_fnv(s, key, h->nkey), payload, h->npayload);
}

/* ---- where ---- */

static void complain(const char *why) {
  pthread_mutex_lock(&lock);
  if (!trouble) trouble = why;
  pthread_mutex_unlock(&lock);
}

static char *join(const char *a, const char *b) {
  text t = {0};
  text_printf(&t, "%s/%s", a, b);
  return t.p;
}

/* malloc'd, or NULL. */
static char *dir_from_env(const char **why) {
  *why = NULL;
  if (!env_flag("TORCH_TPU_CACHE", true)) return NULL;
  const char *v = env_get("TORCH_TPU_CACHE_DIR");
  if (v) return tpu_xstrdup(v);
  v = getenv("XDG_CACHE_HOME");
  if (v && *v == '/') return join(v, "torch_tpu"); /* relative ones are to be ignored */
  v = getenv("HOME");
  if (v && *v == '/') return join(v, ".cache/torch_tpu");
  *why = "there is no HOME to keep compiled programs in: set TORCH_TPU_CACHE_DIR";
  return NULL;
}

/* mkdir -p; the last one private to the user. */
static bool make_dir(const char *path) {
  char *p = tpu_xstrdup(path);
  for (char *s = p + 1; *s; s++) {
    if (*s != '/') continue;
    *s = 0;
    mkdir(p, 0777);
    *s = '/';
  }
  bool ok = !mkdir(p, 0700) || errno == EEXIST;
  free(p);
  struct stat st;
  return ok && !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* Under the lock. Takes `dir`. */
static void configure(char *dir, const char *why) {
  free(directory);
  directory = dir;
  configured = true;
  total = -1;
  cap = env_bytes("TORCH_TPU_CACHE_MAX_BYTES", DEFAULT_CAP);
  trouble = why;
  if (dir && !make_dir(dir)) {
    trouble =
        "the directory for compiled programs cannot be made: set TORCH_TPU_CACHE_DIR to one that can be "
        "written";
    free(directory);
    directory = NULL;
  }
}

void cache_configure(const char *dir) {
  pthread_mutex_lock(&lock);
  configure(dir ? tpu_xstrdup(dir) : NULL, NULL);
  pthread_mutex_unlock(&lock);
}

/* Under the lock. */
static void configure_from_env(void) {
  const char *why;
  char *dir = dir_from_env(&why);
  configure(dir, why);
}

void cache_configure_from_env(void) {
  pthread_mutex_lock(&lock);
  configure_from_env();
  pthread_mutex_unlock(&lock);
}

/* Under the lock. */
static const char *dir_locked(void) {
  if (!configured) configure_from_env();
  return directory;
}

const char *cache_dir(void) {
  pthread_mutex_lock(&lock);
  const char *dir = dir_locked();
  pthread_mutex_unlock(&lock);
  return dir;
}

const char *cache_trouble(void) {
  pthread_mutex_lock(&lock);
  const char *t = trouble;
  pthread_mutex_unlock(&lock);
  return t;
}

/* An open directory, or -1: everything below is relative to it, whatever is configured meanwhile. */
static int open_dir(void) {
  pthread_mutex_lock(&lock);
  const char *dir = dir_locked();
  int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  pthread_mutex_unlock(&lock);
  return fd;
}

static void name_of(char out[NAME], const void *key, size_t nkey, const char *ending) {
  snprintf(out, NAME, "%016llx%016llx.%s", (unsigned long long)hash_bytes(key, nkey),
           (unsigned long long)sum_fnv(0x84222325cbf29ce4u, key, nkey), ending);
}

/* ---- reading ---- */

static bool read_whole(int fd, void *to, size_t n) {
  char *p = to;
  while (n) {
    ssize_t got = read(fd, p, n);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    p += got;
    n -= (size_t)got;
  }
  return true;
}

typedef enum verdict { MISS, HIT, DAMAGED } verdict;

/* `body` receives key and payload. Another key with the same name is a miss, anything odd is damage. */
static verdict read_entry(int fd, const void *key, size_t nkey, char **body, header *h) {
  struct stat st;
  if (fstat(fd, &st)) return MISS;
  if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof *h || !read_whole(fd, h, sizeof *h)) return DAMAGED;
  uint64_t left = (uint64_t)st.st_size - sizeof *h;
  bool fits = h->nkey <= left && h->npayload == left - h->nkey;
  if (memcmp(h->magic, magic, sizeof magic) || h->format != FORMAT || h->header_size != sizeof *h || !fits)
    return DAMAGED;
  *body = malloc(left ? left : 1); /* not xmalloc: a miss costs less than the process */
  if (!*body) return MISS;
  if (!read_whole(fd, *body, left)) return DAMAGED;
  uint64_t one, two;
  checksum(h, *body, *body + h->nkey, &one, &two);
  if (one != h->sum1 || two != h->sum2) return DAMAGED;
  return h->nkey == nkey && !memcmp(*body, key, nkey) ? HIT : MISS;
}

bool cache_get(const void *key, size_t nkey, text *out) {
  int dir = open_dir();
  if (dir < 0) return false;
  char name[NAME], *body = NULL;
  name_of(name, key, nkey, "tpu");
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  verdict v = fd < 0 ? MISS : DAMAGED;
  header h;
  if (fd >= 0) v = read_entry(fd, key, nkey, &body, &h);
  if (v == HIT) {
    text_add(out, body + h.nkey, h.npayload);
    futimens(fd, NULL); /* used now: what pruning goes by */
  }
  if (v == DAMAGED) unlinkat(dir, name, 0);
  free(body);
  if (fd >= 0) close(fd);
  close(dir);
  return v == HIT;
}

/* ---- pruning ---- */

typedef struct entry {
  char name[NAME];
  int64_t bytes;
  struct timespec used;
} entry;

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), k = strlen(end);
  return n >= k && !strcmp(s + n - k, end);
}

/* All entries (owned array in *out, when wanted), their bytes; throws away stale temporaries and locks. */
static size_t list_entries(int dir, entry **out, int64_t *bytes) {
  *bytes = 0;
  int copy = dup(dir);
  DIR *d = copy < 0 ? NULL : fdopendir(copy);
  if (!d) {
    if (copy >= 0) close(copy);
    return 0;
  }
  rewinddir(d);
  size_t n = 0, room = 0;
  time_t now = time(NULL);
  for (struct dirent *e; (e = readdir(d));) {
    struct stat st;
    if (strlen(e->d_name) >= NAME || e->d_name[0] == '.') continue;
    if (fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode)) continue;
    bool stale = (!strncmp(e->d_name, "tmp.", 4) || ends_with(e->d_name, ".lock")) &&
                 now - st.st_mtime > STALE_SECONDS;
    if (stale) unlinkat(dir, e->d_name, 0);
    if (!ends_with(e->d_name, ".tpu")) continue;
    *bytes += st.st_size;
    n++;
    if (!out) continue;
    if (n > room) *out = tpu_xrealloc(*out, (room = room ? room * 2 : 64) * sizeof **out);
    entry *to = &(*out)[n - 1];
    *to = (entry){.bytes = st.st_size, .used = st.st_mtim};
    strcpy(to->name, e->d_name);
  }
  closedir(d);
  return n;
}

static int by_use(const void *a, const void *b) {
  const struct timespec *x = &((const entry *)a)->used, *y = &((const entry *)b)->used;
  if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
  return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Down to 7/8 of the cap, so that not every put has to list the directory. `keep` was just written. */
static int64_t prune(int dir, int64_t max, const char *keep) {
  entry *all = NULL;
  int64_t bytes;
  size_t n = list_entries(dir, &all, &bytes);
  if (bytes > max) {
    qsort(all, n, sizeof *all, by_use);
    for (size_t i = 0; i < n && bytes > max - max / 8; i++) {
      if (!strcmp(all[i].name, keep) || unlinkat(dir, all[i].name, 0)) continue;
      bytes -= all[i].bytes;
    }
  }
  free(all);
  return bytes;
}

/* Adds `n` to what we believe is there, and looks when that passes the cap (or nobody has looked yet). */
static void account(int dir, int64_t n, const char *name) {
  pthread_mutex_lock(&lock);
  bool look = total < 0 || total + n > cap;
  if (!look) total += n;
  int64_t max = cap;
  pthread_mutex_unlock(&lock);
  if (!look) return;
  int64_t bytes = prune(dir, max, name);
  pthread_mutex_lock(&lock);
  total = bytes;
  pthread_mutex_unlock(&lock);
}

void cache_stats(int64_t *entries, int64_t *bytes) {
  *entries = *bytes = 0;
  int dir = open_dir();
  if (dir < 0) return;
  *entries = (int64_t)list_entries(dir, NULL, bytes);
  close(dir);
}

/* ---- writing ---- */

static bool write_whole(int fd, const void *from, size_t n) {
  const char *p = from;
  while (n) {
    ssize_t put = write(fd, p, n);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    p += put;
    n -= (size_t)put;
  }
  return true;
}

static const char *reason(int code) {
  switch (code) {
  case ENOSPC:
  case EDQUOT:
  case EFBIG: return "compiled programs are not kept: the disk is full";
  case EROFS:
  case EACCES:
  case EPERM: return "compiled programs are not kept: the cache directory cannot be written";
  default: return "compiled programs are not kept: writing to the cache directory failed";
  }
}

void cache_put(const void *key, size_t nkey, const void *payload, size_t n) {
  int dir = open_dir();
  if (dir < 0) return;
  pthread_mutex_lock(&lock);
  bool too_large = (int64_t)(nkey + n) > cap;
  pthread_mutex_unlock(&lock);
  static atomic_uint counter;
  char name[NAME], temporary[NAME];
  name_of(name, key, nkey, "tpu");
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t); /* pids of two hosts may meet in a shared directory */
  snprintf(temporary, sizeof temporary, "tmp.%d.%u.%lx", (int)getpid(), atomic_fetch_add(&counter, 1),
           (unsigned long)t.tv_nsec);
  int fd = too_large ? -1 : openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) {
    if (!too_large) complain(reason(errno));
    close(dir);
    return;
  }
  header h = {.format = FORMAT, .header_size = sizeof h, .nkey = nkey, .npayload = n};
  memcpy(h.magic, magic, sizeof magic);
  checksum(&h, key, payload, &h.sum1, &h.sum2);
  bool ok = write_whole(fd, &h, sizeof h) && write_whole(fd, key, nkey) && write_whole(fd, payload, n);
  int code = errno;
  if (close(fd) && ok) ok = false, code = errno; /* network file systems say it here */
  if (ok && renameat(dir, temporary, dir, name)) ok = false, code = errno;
  if (ok)
    account(dir, (int64_t)(sizeof h + nkey + n), name);
  else
    complain(reason(code)), unlinkat(dir, temporary, 0);
  close(dir);
}

/* ---- locks ---- */

struct cache_lock {
  int fd;
};

cache_lock *cache_lock_key(const void *key, size_t nkey, int timeout_ms, int (*interrupted)(void)) {
  int dir = open_dir();
  if (dir < 0) return NULL;
  char name[NAME];
  name_of(name, key, nkey, "lock");
  int fd = openat(dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  close(dir);
  if (fd < 0) return NULL;
  for (int ms = 0;; ms += 20) {
    if (!flock(fd, LOCK_EX | LOCK_NB)) break;
    bool busy = errno == EWOULDBLOCK || errno == EINTR;
    if (!busy || ms >= timeout_ms || (interrupted && interrupted())) {
      close(fd);
      return NULL;
    }
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  }
  futimens(fd, NULL); /* in use: not stale */
  cache_lock *l = tpu_xmalloc(sizeof *l);
  l->fd = fd;
  return l;
}

/* The file stays for the next one (unlinking it would let two processes hold "the" lock); old ones are
 * swept when the directory is listed. */
void cache_unlock(cache_lock *l) {
  if (!l) return;
  flock(l->fd, LOCK_UN); /* a forked child may hold the descriptor open */
  close(l->fd);
  free(l);
}
