/* Finding equal blocks. See repeat.h. */
#include "step/repeat.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"

typedef struct region { /* of calls that equal the ones `period` before them, those included */
  uint32_t begin, end, period;
} region;

/* The longest region of a period within [from, to). */
static region longest(uint32_t from, uint32_t to, const uint32_t *ids, uint32_t period) {
  region best = {0, 0, period};
  uint32_t run = 0;
  for (uint32_t i = from + period; i <= to; i++) {
    if (i < to && ids[i] == ids[i - period]) {
      run++;
      continue;
    }
    if (run && run + period > best.end - best.begin) best = (region){i - run - period, i, period};
    run = 0;
  }
  return best;
}

static uint32_t copies(const region *r) { return (r->end - r->begin) / r->period; }
static uint32_t gain(const region *r) { return (copies(r) - 1) * r->period; }

static bool good(const region *r) {
  return r->end > r->begin && copies(r) >= REPEAT_MIN_COPIES && copies(r) * r->period >= REPEAT_MIN_ALL;
}

/* Distances at which an op comes again, each once: an op that stands once in a block comes again at the
 * period. */
static uint32_t periods(uint32_t from, uint32_t to, const uint32_t *ids, uint32_t *out) {
  uint32_t top = 0, n = 0;
  for (uint32_t i = from; i < to; i++)
    if (ids[i] > top) top = ids[i];
  uint32_t *last = tpu_xcalloc(top + 1u, sizeof *last);
  uint8_t *seen = tpu_xcalloc(to - from + 1u, 1);
  for (uint32_t i = from; i < to; i++) {
    uint32_t p = last[ids[i]] ? i + 1 - last[ids[i]] : 0;
    last[ids[i]] = i + 1;
    if (p < REPEAT_MIN_OPS || seen[p] || (to - from) / p < REPEAT_MIN_COPIES) continue;
    seen[p] = 1;
    out[n++] = p;
  }
  free(last);
  free(seen);
  return n;
}

static region best_region(uint32_t from, uint32_t to, const uint32_t *ids) {
  region best = {0, 0, 1};
  uint32_t *p = tpu_xmalloc((to - from + 1u) * sizeof *p), n = periods(from, to, ids, p);
  for (uint32_t k = 0; k < n; k++) {
    region r = longest(from, to, ids, p[k]);
    if (good(&r) &&
        (!good(&best) || gain(&r) > gain(&best) || (gain(&r) == gain(&best) && p[k] < best.period)))
      best = r;
  }
  free(p);
  return best;
}

/* Blocks may begin anywhere within the first copy: where the fewest values cross, and the most copies fit. */
static uint32_t phase(const region *r, const uint32_t *crossing) {
  uint32_t best = 0, rest = (r->end - r->begin) % r->period;
  for (uint32_t f = 1; f < r->period; f++) {
    uint32_t at = r->begin + r->period;
    if (copies(r) - (f > rest) < REPEAT_MIN_COPIES) break;
    if (crossing[at + f] < crossing[at + best]) best = f;
  }
  return best;
}

static uint32_t cut_between(uint32_t from, uint32_t to, const uint32_t *ids, const uint32_t *crossing,
                            uint32_t *cuts, uint32_t n, int depth) {
  if (depth == 4 || to - from < REPEAT_MIN_ALL) return n;
  region r = best_region(from, to, ids);
  if (!good(&r)) return n;
  uint32_t first = r.begin + phase(&r, crossing), count = (r.end - first) / r.period,
           end = first + count * r.period;
  n = cut_between(from, first, ids, crossing, cuts, n, depth + 1);
  for (uint32_t k = 0; k <= count; k++) {
    uint32_t at = first + k * r.period;
    if (at > from && at < to) cuts[n++] = at;
  }
  return cut_between(end, to, ids, crossing, cuts, n, depth + 1);
}

uint32_t repeat_cuts(uint32_t n, const uint32_t *ids, const uint32_t *crossing, uint32_t *cuts) {
  return cut_between(0, n, ids, crossing, cuts, 0, 0);
}
