/* The identity of a plugin build, for cache keys: the same on every host and in every install path.
 * Size and GNU build id of the file (a hash of both ends where it has none), the plugin's versions, and
 * what else changes the code that it makes: XLA_FLAGS, LIBTPU_INIT_ARGS, the CPU's features. */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "rt/rt_int.h"

static void add_hex(text *t, const unsigned char *p, size_t n) {
  for (size_t i = 0; i < n; i++) text_printf(t, "%02x", p[i]);
}

/* The build id among the notes of one segment. */
static bool note_in(text *t, const unsigned char *p, size_t n) {
  while (n >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr h;
    memcpy(&h, p, sizeof h);
    size_t name = ((size_t)h.n_namesz + 3) & ~(size_t)3, desc = ((size_t)h.n_descsz + 3) & ~(size_t)3;
    if (name > n || desc > n || sizeof h + name + desc > n) return false;
    if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 && !memcmp(p + sizeof h, "GNU", 4)) {
      add_hex(t, p + sizeof h + name, h.n_descsz);
      return true;
    }
    p += sizeof h + name + desc;
    n -= sizeof h + name + desc;
  }
  return false;
}

static bool add_build_id(text *t, const unsigned char *p, size_t n) {
  Elf64_Ehdr h;
  if (n < sizeof h) return false;
  memcpy(&h, p, sizeof h);
  if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64) return false;
  for (size_t i = 0; i < h.e_phnum; i++) {
    Elf64_Phdr s;
    size_t at = h.e_phoff + i * h.e_phentsize;
    if (at > n || n - at < sizeof s) return false;
    memcpy(&s, p + at, sizeof s);
    if (s.p_type != PT_NOTE || s.p_offset > n || s.p_filesz > n - s.p_offset) continue;
    if (note_in(t, p + s.p_offset, s.p_filesz)) return true;
  }
  return false;
}

static void add_ends(text *t, const unsigned char *p, size_t n) {
  size_t end = n < 1 << 20 ? n : 1 << 20;
  text_printf(t, "%016llx%016llx", (unsigned long long)hash_bytes(p, end),
              (unsigned long long)hash_bytes(p + n - end, end));
}

static void add_file(text *t, const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat st;
  if (fd >= 0 && !fstat(fd, &st) && st.st_size > 0) {
    size_t n = (size_t)st.st_size;
    text_printf(t, "size=%zu;build=", n);
    unsigned char *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p != MAP_FAILED) {
      if (!add_build_id(t, p, n)) add_ends(t, p, n);
      munmap(p, n);
    }
  }
  if (fd >= 0) close(fd);
}

/* Both hashes of the line that lists the features: 128 bits instead of 1.5 KB in every key. */
static void add_cpu(text *t) {
  FILE *f = fopen("/proc/cpuinfo", "re");
  if (!f) return;
  char *line = NULL;
  size_t cap = 0;
  for (ssize_t n; (n = getline(&line, &cap, f)) > 0;) {
    if (strncmp(line, "flags", 5) && strncmp(line, "Features", 8)) continue;
    uint64_t one = hash_bytes(line, (size_t)n);
    for (ssize_t i = 0, k = n - 1; i < k; i++, k--) { /* the second hash reads the line backwards */
      char c = line[i];
      line[i] = line[k];
      line[k] = c;
    }
    text_printf(t, ";cpu=%016llx%016llx", (unsigned long long)one,
                (unsigned long long)hash_bytes(line, (size_t)n));
    break;
  }
  free(line);
  fclose(f);
}

static void add_env(text *t, const char *name) {
  const char *v = getenv(name);
  text_printf(t, ";%s=%s", name, v ? v : "");
}

char *rt_make_fingerprint(const char *path, const PJRT_Api *api, const rt_info *info,
                          const char *attributes) {
  text t = {0};
  if (path) add_file(&t, path);
  text_printf(&t, ";api=0.%d;platform=%s;version=%s;%s", (int)api->minor, info->platform,
              info->platform_version, attributes);
  text_str(&t, rt_portable() ? ";portable" : ";bound");
  add_env(&t, "XLA_FLAGS");
  if (info->is_cpu)
    add_cpu(&t);
  else
    add_env(&t, "LIBTPU_INIT_ARGS");
  return t.p;
}
