/* A file that is cut short, as an interrupted download or a full disk leaves it, is mapped by dlopen beyond
 * its end, and the process dies of SIGBUS. So the headers are read first, and all that they speak of must lie
 * in the file. Touches the file only. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rt/rt_int.h"

#if UINTPTR_MAX == UINT64_MAX
typedef Elf64_Ehdr elf_header;
typedef Elf64_Phdr elf_segment;
typedef Elf64_Shdr elf_section;
enum { OUR_CLASS = ELFCLASS64 };
#else
typedef Elf32_Ehdr elf_header;
typedef Elf32_Phdr elf_segment;
typedef Elf32_Shdr elf_section;
enum { OUR_CLASS = ELFCLASS32 };
#endif

#if defined(__x86_64__)
enum { OUR_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { OUR_MACHINE = EM_AARCH64 };
#else
enum { OUR_MACHINE = EM_NONE }; /* dlopen's own words have to do */
#endif

static const uint16_t one = 1;

/* False: the file ends before. */
static bool read_at(int fd, void *to, size_t n, uint64_t at) {
  for (char *p = to; n;) {
    ssize_t got = pread(fd, p, n, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    p += got, n -= (size_t)got, at += (uint64_t)got;
  }
  return true;
}

/* The end of [at, at + n) when that is beyond *end. */
static void reaches(uint64_t *end, uint64_t at, uint64_t n) {
  uint64_t to = n > UINT64_MAX - at ? UINT64_MAX : at + n;
  if (n && to > *end) *end = to;
}

/* How long the file must be by its headers; false: not even those are there. */
static bool wanted_size(int fd, const elf_header *h, uint64_t size, uint64_t *end) {
  reaches(end, h->e_phoff, (uint64_t)h->e_phnum * h->e_phentsize);
  reaches(end, h->e_shoff, (uint64_t)h->e_shnum * h->e_shentsize);
  if (*end > size) return true;
  bool whole = true;
  for (unsigned i = 0; i < h->e_phnum && whole; i++) {
    elf_segment s;
    whole = read_at(fd, &s, sizeof s, h->e_phoff + (uint64_t)i * h->e_phentsize);
    if (whole && s.p_type != PT_NULL) reaches(end, s.p_offset, s.p_filesz);
  }
  for (unsigned i = 0; i < h->e_shnum && whole; i++) {
    elf_section s;
    whole = read_at(fd, &s, sizeof s, h->e_shoff + (uint64_t)i * h->e_shentsize);
    if (whole && s.sh_type != SHT_NULL && s.sh_type != SHT_NOBITS) reaches(end, s.sh_offset, s.sh_size);
  }
  return whole;
}

static tpu_error *check(int fd, uint64_t size) {
  elf_header h;
  memset(&h, 0, sizeof h);
  if (!size) return tpu_err(TPU_RUNTIME, "the file is empty");
  bool whole = read_at(fd, &h, sizeof h, 0);
  if (memcmp(h.e_ident, ELFMAG, SELFMAG)) return tpu_err(TPU_RUNTIME, "the file is not in ELF format");
  bool little = *(const char *)&one;
  bool ours = h.e_ident[EI_CLASS] == OUR_CLASS && h.e_ident[EI_DATA] == (little ? ELFDATA2LSB : ELFDATA2MSB);
  if (whole && (!ours || (OUR_MACHINE && h.e_machine != OUR_MACHINE)))
    return tpu_err(TPU_RUNTIME, "the file is for another kind of processor");
  if (whole && h.e_type != ET_DYN) return tpu_err(TPU_RUNTIME, "the file is in ELF format, but no library");
  if (whole && (!h.e_phnum || h.e_phentsize != sizeof(elf_segment) ||
                (h.e_shnum && h.e_shentsize != sizeof(elf_section))))
    return tpu_err(TPU_RUNTIME, "the file is damaged: its headers are of no known size");
  uint64_t end = sizeof h;
  if (whole) whole = wanted_size(fd, &h, size, &end);
  return whole && end <= size
             ? NULL
             : tpu_err(TPU_RUNTIME, "the file is cut short: it has %llu bytes of at least %llu",
                       (unsigned long long)size, (unsigned long long)end);
}

tpu_error *rt_check_elf(const char *path) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return tpu_err(TPU_RUNTIME, "%s", strerror(errno));
  tpu_error *e =
      fstat(fd, &st) ? tpu_err(TPU_RUNTIME, "%s", strerror(errno)) : check(fd, (uint64_t)st.st_size);
  close(fd);
  return e;
}
