/* Writes and reads the boundaries of a recording. */
#include <stdlib.h>
#include <string.h>

#include "calibration.h"
#include "hash.h"
#include "recording.h"
#include "varint.h"

enum {
    SLOTS = 4096, /* subgraphs that share a slot take more bytes, that is all */
    SUBGRAPHS_MAX = 1 << 20,
    HAS_POSITION = 1,
    HAS_KIND = 2,
    HAS_SLEPT = 4,
    HAS_SAMPLE = 8,
    HAS_VERDICT = 16,
    HAS_FAULTS = 32,
    HAS_PROBE = 64,
    FLAGS_END = 128,
};

static const uint64_t wall_end = UINT64_C(1) << 62; /* the number has one bit for the flags and one for the sign */

struct recording_codec {
    sereno_boundary last;
    uint64_t faults, shape; /* shape: hash of plan, batch and n_subgraphs */
    uint64_t wall_ns[SLOTS], gap_ns[SLOTS];
    uint8_t kind[SLOTS];
};

recording_codec *recording_codec_open(void) {
    recording_codec *c = malloc(sizeof *c);
    if (c) memset(c, 0, sizeof *c);
    return c;
}

void recording_codec_close(recording_codec **c) {
    free(*c);
    *c = NULL;
}

bool recording_takes(const sereno_boundary *b) {
    return b->plan <= SERENO_PLAN_PREFILL && b->kind <= SERENO_SUBGRAPH_HEAD && b->batch >= 1 &&
           b->batch <= SERENO_PREFILL_BATCH_MAX && b->n_subgraphs >= 1 && b->n_subgraphs <= SUBGRAPHS_MAX &&
           b->subgraph >= 0 && b->subgraph < b->n_subgraphs && b->wall_ns < wall_end;
}

/* ---- What both sides expect ---- */

/* The next subgraph of the pass, or the first of another pass like it. All 0 at the beginning. */
static sereno_boundary expected_position(const recording_codec *c) {
    sereno_boundary b = {.plan = c->last.plan, .batch = c->last.batch, .n_subgraphs = c->last.n_subgraphs};
    if (c->last.subgraph + 1 < b.n_subgraphs) b.subgraph = c->last.subgraph + 1;
    return b;
}

static void enter_plan(recording_codec *c, const sereno_boundary *b) {
    c->shape = hash_u64((uint64_t)b->plan << 40 | (uint64_t)b->batch << 32 | (uint64_t)b->n_subgraphs);
}

static size_t slot_of(const recording_codec *c, const sereno_boundary *b) {
    return (c->shape + (uint64_t)b->subgraph) % SLOTS;
}

/* sample_age_ns of a boundary without a new sample; 0 if there was no sample yet. */
static uint64_t expected_age(const recording_codec *c, uint64_t now_ns) {
    const sereno_boundary *last = &c->last;
    bool sampled = last->cpu_ns > 0 || last->run_delay_ns > 0 || last->sample_age_ns > 0;
    return sampled ? now_ns - (last->now_ns - last->sample_age_ns) : 0;
}

static uint64_t gap_of(const recording_codec *c, const sereno_boundary *b) {
    return b->now_ns - c->last.now_ns - b->wall_ns;
}

static void remember(recording_codec *c, const recording_event *e, size_t slot) {
    c->wall_ns[slot] = e->boundary.wall_ns;
    c->gap_ns[slot] = gap_of(c, &e->boundary);
    c->kind[slot] = (uint8_t)e->boundary.kind;
    c->last = e->boundary;
    if (e->n_faults > 0) c->faults = e->faults[e->n_faults - 1];
}

/* ---- Writing ---- */

static unsigned flags_of(const recording_codec *c, const recording_event *e, bool moved, size_t slot) {
    const sereno_boundary *b = &e->boundary;
    unsigned flags = moved ? HAS_POSITION : 0;
    if (b->kind != c->kind[slot]) flags |= HAS_KIND;
    if (b->slept_ns > 0) flags |= HAS_SLEPT;
    if (b->cpu_ns != c->last.cpu_ns || b->run_delay_ns != c->last.run_delay_ns ||
        b->sample_age_ns != expected_age(c, b->now_ns)) {
        flags |= HAS_SAMPLE;
    }
    if (e->verdict.action != SERENO_CONTINUE || e->verdict.sleep_us > 0) flags |= HAS_VERDICT;
    if (e->n_faults > 0) flags |= HAS_FAULTS;
    if (e->probed) flags |= HAS_PROBE;
    return flags;
}

size_t recording_put(recording_codec *c, const recording_event *e, uint8_t *to) {
    const sereno_boundary *b = &e->boundary, at = expected_position(c);
    bool moved =
        b->plan != at.plan || b->batch != at.batch || b->n_subgraphs != at.n_subgraphs || b->subgraph != at.subgraph;
    if (moved) enter_plan(c, b);
    size_t slot = slot_of(c, b), n = 0;
    unsigned flags = flags_of(c, e, moved, slot);
    n += varint_put(to + n, zigzag(b->wall_ns - c->wall_ns[slot]) << 1 | (flags != 0));
    if (flags) n += varint_put(to + n, flags);
    if (flags & HAS_POSITION) {
        n += varint_put(to + n, (uint64_t)b->plan);
        n += varint_put(to + n, (uint64_t)b->batch);
        n += varint_put(to + n, (uint64_t)b->n_subgraphs);
        n += varint_put(to + n, (uint64_t)b->subgraph);
    }
    if (flags & HAS_KIND) n += varint_put(to + n, (uint64_t)b->kind);
    if (flags & HAS_SLEPT) n += varint_put(to + n, b->slept_ns);
    n += varint_put(to + n, zigzag(gap_of(c, b) - c->gap_ns[slot]));
    if (flags & HAS_SAMPLE) {
        n += varint_put(to + n, zigzag(b->cpu_ns - c->last.cpu_ns));
        n += varint_put(to + n, zigzag(b->run_delay_ns - c->last.run_delay_ns));
        n += varint_put(to + n, b->sample_age_ns);
    }
    if (flags & HAS_VERDICT) {
        n += varint_put(to + n, (uint64_t)e->verdict.action);
        n += varint_put(to + n, e->verdict.sleep_us);
    }
    if (flags & HAS_FAULTS) n += varint_put(to + n, (uint64_t)e->n_faults);
    for (int i = 0; i < e->n_faults; i++) {
        n += varint_put(to + n, zigzag(e->faults[i] - (i > 0 ? e->faults[i - 1] : c->faults)));
    }
    if (flags & HAS_PROBE) {
        n += varint_put(to + n, e->probe.loads_ns);
        n += varint_put(to + n, zigzag(e->probe.all_ns - e->probe.loads_ns));
    }
    remember(c, e, slot);
    return n;
}

/* ---- Reading ---- */

/* The rest of the bytes. After a number that is missing or too large, all numbers are 0. */
typedef struct numbers {
    const uint8_t **at, *end;
    bool failed;
} numbers;

static uint64_t number(numbers *s, uint64_t most) {
    uint64_t value;
    if (!s->failed && varint_take(s->at, s->end, &value) && value <= most) return value;
    s->failed = true;
    return 0;
}

static uint64_t difference(numbers *s) {
    return unzigzag(number(s, UINT64_MAX));
}

static void take_position(numbers *s, sereno_boundary *b) {
    b->plan = (sereno_plan_kind)number(s, SERENO_PLAN_PREFILL);
    b->batch = (int32_t)number(s, SERENO_PREFILL_BATCH_MAX);
    b->n_subgraphs = (int32_t)number(s, SUBGRAPHS_MAX);
    b->subgraph = (int32_t)number(s, SUBGRAPHS_MAX);
}

static void take_sample(recording_codec *c, numbers *s, bool is_new, sereno_boundary *b) {
    b->cpu_ns = c->last.cpu_ns;
    b->run_delay_ns = c->last.run_delay_ns;
    b->sample_age_ns = expected_age(c, b->now_ns);
    if (!is_new) return;
    b->cpu_ns += difference(s);
    b->run_delay_ns += difference(s);
    b->sample_age_ns = number(s, UINT64_MAX);
}

/* Takes the verdict and the machine's answers. */
static void take_rest(const recording_codec *c, numbers *s, unsigned flags, recording_event *e) {
    if (flags & HAS_VERDICT) {
        e->verdict.action = (sereno_action)number(s, SERENO_ABANDON);
        e->verdict.sleep_us = (uint32_t)number(s, UINT32_MAX);
    }
    if (flags & HAS_FAULTS) e->n_faults = (int)number(s, SENSOR_FAULTS_MAX);
    for (int i = 0; i < e->n_faults; i++) {
        e->faults[i] = (i > 0 ? e->faults[i - 1] : c->faults) + difference(s);
    }
    if (flags & HAS_PROBE) {
        e->probed = true;
        e->probe.loads_ns = number(s, UINT64_MAX);
        e->probe.all_ns = e->probe.loads_ns + difference(s);
    }
}

const char *recording_take(recording_codec *c, const uint8_t **at, const uint8_t *end, recording_event *e) {
    numbers s = {.at = at, .end = end};
    sereno_boundary *b = &e->boundary;
    *e = (recording_event){.boundary = expected_position(c)};
    uint64_t first = number(&s, UINT64_MAX);
    unsigned flags = first & 1 ? (unsigned)number(&s, FLAGS_END - 1) : 0;
    if (flags & HAS_POSITION) {
        take_position(&s, b);
        enter_plan(c, b);
    }
    size_t slot = slot_of(c, b);
    b->kind = (sereno_subgraph_kind)(flags & HAS_KIND ? number(&s, SUBGRAPH_KINDS - 1) : c->kind[slot]);
    if (flags & HAS_SLEPT) b->slept_ns = number(&s, UINT64_MAX);
    b->wall_ns = c->wall_ns[slot] + unzigzag(first >> 1);
    b->now_ns = c->last.now_ns + b->wall_ns + c->gap_ns[slot] + difference(&s);
    take_sample(c, &s, flags & HAS_SAMPLE, b);
    take_rest(c, &s, flags, e);
    if (s.failed) return "it ends too early, or has a number that cannot be";
    if (!recording_takes(b)) return "it is of no subgraph of a plan";
    remember(c, e, slot);
    return NULL;
}
