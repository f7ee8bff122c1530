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
#include "step/cache_int.h"

enum { FORMAT = 2, STALE_SECONDS = 3600, NAME = CACHE_NAME, MAX_LABEL = CACHE_LABEL };
static const int64_t DEFAULT_CAP = (int64_t)4 << 30;

/* In front of key and payload. Little-endian and packed as it stands: a cache is of one kind of host. */
typedef struct header {
  char magic[8];
  uint32_t format, header_size;
  uint64_t nname, nkey, npayload;
  uint64_t ops; /* for people: what the program is called, its ops, how long it took to compile */
  double seconds;
  uint64_t sum1, sum2; /* over the fields before, the name, the key and the payload */
} header;
_Static_assert(sizeof(header) == 72, "no padding: the header is hashed and written as bytes");
static const char magic[8] = "TPUPROG";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool configured;
static char *directory; /* owned; NULL: off */
static char *shared;    /* the tier behind it; owned; NULL: none */
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

static void checksum(const header *h, const void *name, const void *key, const void *payload, uint64_t *one,
                     uint64_t *two) {
  uint64_t parts[4] = {hash_bytes(h, offsetof(header, sum1)), hash_bytes(name, h->nname),
                       hash_bytes(key, h->nkey), hash_bytes(payload, h->npayload)};
  *one = hash_bytes(parts, sizeof parts);
  uint64_t s = sum_fnv(0xcbf29ce484222325u, h, offsetof(header, sum1));
  *two = sum_fnv(sum_fnv(sum_fnv(s, name, h->nname), key, h->nkey), payload, h->npayload);
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
  free(shared);
  directory = dir;
  const char *behind = dir || why ? env_get("TORCH_TPU_SHARED_CACHE_DIR") : NULL; /* off is off */
  shared = behind ? tpu_xstrdup(behind) : NULL;
  if (shared) mkdir(shared, 0777); /* not its parents: what it lies on may not be mounted */
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

const char *cache_shared_dir(void) {
  pthread_mutex_lock(&lock);
  dir_locked();
  const char *dir = shared;
  pthread_mutex_unlock(&lock);
  return dir;
}

/* An open directory, or -1: everything below is relative to it, whatever is configured meanwhile. */
static int open_one(bool behind) {
  pthread_mutex_lock(&lock);
  const char *dir = dir_locked();
  if (behind) dir = shared;
  int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  pthread_mutex_unlock(&lock);
  return fd;
}

int cache_open_dir(void) { return open_one(false); }

void cache_name_of(char out[NAME], const void *key, size_t nkey, const char *ending) {
  snprintf(out, NAME, "%016llx%016llx.%s", (unsigned long long)hash_bytes(key, nkey),
           (unsigned long long)sum_fnv(0x84222325cbf29ce4u, key, nkey), ending);
}

/* ---- reading ---- */

static void put_host(const void *key, size_t nkey, const text *parts, int nparts);

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

static bool header_fits(const header *h, uint64_t left) {
  return h->nname <= left && h->nkey <= left - h->nname && h->npayload == left - h->nname - h->nkey;
}

/* Anything odd is damage. */
static cache_verdict check_header(const header *h, size_t n) {
  if (memcmp(h->magic, magic, sizeof magic)) return CACHE_DAMAGED;
  if (h->format != FORMAT) return CACHE_OTHER_VERSION;
  return h->header_size == sizeof *h && header_fits(h, n - sizeof *h) ? CACHE_FINE : CACHE_DAMAGED;
}

cache_verdict cache_check(const char *bytes, size_t n, cache_view *out) {
  header h;
  if (n < sizeof h) return CACHE_DAMAGED;
  memcpy(&h, bytes, sizeof h);
  cache_verdict v = check_header(&h, n);
  if (v != CACHE_FINE) return v;
  const char *name = bytes + sizeof h, *key = name + h.nname, *payload = key + h.nkey;
  uint64_t one, two;
  checksum(&h, name, key, payload, &one, &two);
  if (one != h.sum1 || two != h.sum2) return CACHE_DAMAGED;
  *out = (cache_view){name, key, payload, h.nname, h.nkey, h.npayload};
  return CACHE_FINE;
}

static cache_verdict read_open(int fd, char **bytes, size_t *n, cache_view *out) {
  struct stat st;
  header h;
  if (fstat(fd, &st)) return CACHE_MISS;
  if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof h || !read_whole(fd, &h, sizeof h))
    return CACHE_DAMAGED;
  cache_verdict v = check_header(&h, (size_t)st.st_size);
  if (v != CACHE_FINE) return v;
  *n = (size_t)st.st_size;
  *bytes = malloc(*n); /* not xmalloc: a miss costs less than the process */
  if (!*bytes) return CACHE_MISS;
  memcpy(*bytes, &h, sizeof h);
  if (!read_whole(fd, *bytes + sizeof h, *n - sizeof h)) return CACHE_DAMAGED;
  return cache_check(*bytes, *n, out);
}

cache_verdict cache_peek(int dir, const char *name, cache_label *out, char label[MAX_LABEL + 1]) {
  header h;
  struct stat st;
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return CACHE_MISS;
  bool read = !fstat(fd, &st) && st.st_size >= (off_t)sizeof h && read_whole(fd, &h, sizeof h);
  cache_verdict v = read ? check_header(&h, (size_t)st.st_size) : CACHE_DAMAGED;
  if (v == CACHE_FINE && (h.nname > MAX_LABEL || !read_whole(fd, label, h.nname))) v = CACHE_DAMAGED;
  close(fd);
  label[v == CACHE_FINE ? h.nname : 0] = 0;
  *out = (cache_label){label, v == CACHE_FINE ? (int)h.ops : 0, v == CACHE_FINE ? h.seconds : 0};
  return v;
}

cache_verdict cache_read_file(int dir, const char *name, char **bytes, size_t *n, cache_view *out) {
  *bytes = NULL;
  *n = 0;
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return CACHE_MISS;
  cache_verdict v = read_open(fd, bytes, n, out);
  close(fd);
  return v;
}

/* Another key under the same name is a miss. */
static cache_verdict find(int dir, const char *name, const void *key, size_t nkey, char **bytes, size_t *n,
                          cache_view *out) {
  cache_verdict v = cache_read_file(dir, name, bytes, n, out);
  bool other = v == CACHE_FINE && (out->nkey != nkey || memcmp(out->key, key, nkey));
  return other ? CACHE_MISS : v;
}

/* The host's own directory: what is used is marked (pruning goes by that), what is odd is thrown away. */
static bool get_host(const void *key, size_t nkey, text *out) {
  int dir = open_one(false);
  if (dir < 0) return false;
  char name[NAME], *bytes;
  size_t n;
  cache_view view;
  cache_name_of(name, key, nkey, "tpu");
  cache_verdict v = find(dir, name, key, nkey, &bytes, &n, &view);
  if (v == CACHE_FINE) {
    text_add(out, view.payload, view.npayload);
    utimensat(dir, name, NULL, AT_SYMLINK_NOFOLLOW);
  }
  if (v > CACHE_FINE) unlinkat(dir, name, 0);
  free(bytes);
  close(dir);
  return v == CACHE_FINE;
}

/* The tier behind it: nothing there is touched, and a hit becomes an entry of the host. */
static bool get_shared(const void *key, size_t nkey, text *out) {
  int dir = open_one(true);
  if (dir < 0) return false;
  char name[NAME], *bytes;
  size_t n;
  cache_view view;
  cache_name_of(name, key, nkey, "tpu");
  bool hit = find(dir, name, key, nkey, &bytes, &n, &view) == CACHE_FINE;
  close(dir);
  if (hit) {
    text_add(out, view.payload, view.npayload);
    put_host(key, nkey, &(text){bytes, n, 0}, 1);
  }
  free(bytes);
  return hit;
}

bool cache_get(const void *key, size_t nkey, text *out) {
  return get_host(key, nkey, out) || get_shared(key, nkey, out);
}

/* ---- pruning ---- */

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), k = strlen(end);
  return n >= k && !strcmp(s + n - k, end);
}

size_t cache_list_entries(int dir, cache_entry **out, int64_t *bytes) {
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
    cache_entry *to = &(*out)[n - 1];
    *to = (cache_entry){.bytes = st.st_size, .used = st.st_mtim};
    strcpy(to->name, e->d_name);
  }
  closedir(d);
  return n;
}

static int by_use(const void *a, const void *b) {
  const struct timespec *x = &((const cache_entry *)a)->used, *y = &((const cache_entry *)b)->used;
  if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
  return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

int64_t cache_prune_dir(int dir, const cache_limits *l, int64_t *removed) {
  cache_entry *all = NULL;
  int64_t bytes;
  size_t n = cache_list_entries(dir, &all, &bytes);
  if (n) qsort(all, n, sizeof *all, by_use);
  bool over = bytes > l->most;
  for (size_t i = 0; i < n; i++) {
    if (!(over && bytes > l->until) && all[i].used.tv_sec >= l->before) break;
    if ((l->keep && !strcmp(all[i].name, l->keep)) || unlinkat(dir, all[i].name, 0)) continue;
    bytes -= all[i].bytes;
    ++*removed;
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
  int64_t removed = 0; /* down to 7/8, so that not every put has to list the directory */
  int64_t bytes = cache_prune_dir(dir, &(cache_limits){max, max - max / 8, INT64_MIN, name}, &removed);
  pthread_mutex_lock(&lock);
  total = bytes;
  pthread_mutex_unlock(&lock);
}

void cache_stats(int64_t *entries, int64_t *bytes) {
  *entries = *bytes = 0;
  int dir = open_one(false);
  if (dir < 0) return;
  *entries = (int64_t)cache_list_entries(dir, NULL, bytes);
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

int cache_write_file(int dir, const char *name, int mode, const text *parts, int nparts) {
  static atomic_uint counter;
  char temporary[NAME];
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t); /* pids of two hosts may meet in a shared directory */
  snprintf(temporary, sizeof temporary, "tmp.%d.%u.%lx", (int)getpid(), atomic_fetch_add(&counter, 1),
           (unsigned long)t.tv_nsec);
  int fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return errno;
  int code = 0;
  for (int i = 0; i < nparts && !code; i++)
    if (!write_whole(fd, parts[i].p, parts[i].n)) code = errno ? errno : EIO;
  if (close(fd) && !code) code = errno; /* network file systems say it here */
  if (!code && renameat(dir, temporary, dir, name)) code = errno;
  if (code) unlinkat(dir, temporary, 0);
  return code;
}

static void put_host(const void *key, size_t nkey, const text *parts, int nparts) {
  int dir = open_one(false);
  if (dir < 0) return;
  int64_t bytes = 0;
  for (int i = 0; i < nparts; i++) bytes += (int64_t)parts[i].n;
  pthread_mutex_lock(&lock);
  bool too_large = bytes - (int64_t)sizeof(header) > cap;
  pthread_mutex_unlock(&lock);
  char name[NAME];
  cache_name_of(name, key, nkey, "tpu");
  int code = too_large ? 0 : cache_write_file(dir, name, 0600, parts, nparts);
  if (code) complain(reason(code));
  if (!code && !too_large) account(dir, bytes, name);
  close(dir);
}

/* One that may only be read is as good as any. */
static void put_shared(const void *key, size_t nkey, const text *parts, int nparts) {
  int dir = open_one(true);
  if (dir < 0) return;
  char name[NAME];
  cache_name_of(name, key, nkey, "tpu");
  int code = cache_write_file(dir, name, 0666, parts, nparts);
  if (code && code != EROFS && code != EACCES && code != EPERM)
    complain("compiled programs are not shared: writing to TORCH_TPU_SHARED_CACHE_DIR failed");
  close(dir);
}

void cache_put(const void *key, size_t nkey, const void *payload, size_t n, const cache_label *label) {
  header h = {.format = FORMAT, .header_size = sizeof h, .nkey = nkey, .npayload = n};
  const char *name = label ? label->name : "";
  if (label) h.ops = (uint64_t)label->ops, h.seconds = label->seconds;
  h.nname = strnlen(name, MAX_LABEL);
  memcpy(h.magic, magic, sizeof magic);
  checksum(&h, name, key, payload, &h.sum1, &h.sum2);
  const text parts[] = {{(char *)&h, sizeof h, 0},
                        {(char *)(uintptr_t)name, h.nname, 0},
                        {(char *)(uintptr_t)key, nkey, 0},
                        {(char *)(uintptr_t)payload, n, 0}};
  put_host(key, nkey, parts, 4);
  put_shared(key, nkey, parts, 4);
}

bool cache_import(const void *bytes, size_t n) {
  cache_view v;
  if (cache_check(bytes, n, &v) != CACHE_FINE) return false;
  put_host(v.key, v.nkey, &(text){(char *)(uintptr_t)bytes, n, 0}, 1);
  return true;
}

bool cache_export(const char *name, text *out) {
  int dir = open_one(false);
  if (dir < 0) return false;
  char *bytes = NULL;
  size_t n;
  cache_view v;
  bool fine = !strchr(name, '/') && cache_read_file(dir, name, &bytes, &n, &v) == CACHE_FINE;
  if (fine) text_add(out, bytes, n);
  free(bytes);
  close(dir);
  return fine;
}

/* ---- locks ---- */

struct cache_lock {
  int fd;
};

cache_lock *cache_lock_key(const void *key, size_t nkey, int timeout_ms, int (*interrupted)(void)) {
  int dir = open_one(false);
  if (dir < 0) return NULL;
  char name[NAME];
  cache_name_of(name, key, nkey, "lock");
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
