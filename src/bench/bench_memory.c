#include "bench_memory.h"

#include <stdatomic.h>
#include <string.h>

#include "errors.h"
#include "samples.h"

enum { CHUNK_BYTES = 1 << 20, LINE_BYTES = 64, SPIN_US = 50, LATENCY_LOADS = 1 << 17 };

/* Hardware prefetchers differ in how many streams they follow, and in how far ahead software prefetch helps. */
const read_loop read_loops[READ_LOOPS] = {
    {"plain", 1, 0},
    {"2 streams", 2, 0},
    {"4 streams", 4, 0},
    {"prefetch 512", 1, 512},
    {"prefetch 1024", 1, 1024},
    {"prefetch 2048", 1, 2048},
    {"prefetch 4096", 1, 4096},
    {"2 streams, prefetch 1024", 2, 1024},
    {"4 streams, prefetch 1024", 4, 1024},
    {"8 streams", 8, 0},
    {"8 streams, prefetch 1024", 8, 1024},
};

int memory_buffer_open(region *buffer, size_t bytes, sereno_error *err) {
    if (!region_open(buffer, bytes, REGION_FULL)) return err_no_memory(err, "the buffer to read", bytes);
    memset(buffer->data, 1, bytes); /* pages that were never written share one page of zeros */
    return SERENO_OK;
}

typedef struct reading {
    const kernels *kernels;
    const region *buffer;
    const read_loop *loop;
    _Atomic uint64_t sum;
} reading;

static void read_chunk(void *ctx, int32_t chunk, int32_t member) {
    (void)member;
    reading *r = ctx;
    size_t chunks = r->buffer->size / CHUNK_BYTES;
    uint64_t sum = 0;
    for (size_t i = (size_t)chunk; i < chunks; i += TEAM_TILES_MAX) {
        sum +=
            r->kernels->read(r->buffer->data + i * CHUNK_BYTES, CHUNK_BYTES, r->loop->streams, r->loop->prefetch_bytes);
    }
    atomic_fetch_add_explicit(&r->sum, sum, memory_order_relaxed);
}

void memory_read_once(team *team, const kernels *k, const region *buffer, read_rates *rates) {
    size_t chunks = buffer->size / CHUNK_BYTES;
    for (int i = 0; i < READ_LOOPS; i++) {
        reading r = {.kernels = k, .buffer = buffer, .loop = &read_loops[i]};
        uint64_t start = sereno_system_now_ns();
        team_run(team, read_chunk, &r, (int32_t)(chunks < TEAM_TILES_MAX ? chunks : TEAM_TILES_MAX));
        rates->sample[i][rates->n % READ_SAMPLES] = (double)buffer->size / (double)(sereno_system_now_ns() - start + 1);
    }
    rates->n++;
}

void memory_settle(read_rates *rates) {
    size_t n = (size_t)(rates->n < READ_SAMPLES ? rates->n : READ_SAMPLES);
    for (int i = 0; i < READ_LOOPS; i++) {
        double sorted[READ_SAMPLES];
        memcpy(sorted, rates->sample[i], sizeof sorted);
        samples_sort(sorted, n);
        rates->gbs[i] = samples_quantile(sorted, n, 0.5);
        if (rates->gbs[i] > rates->gbs[rates->best]) rates->best = i;
    }
}

/* ---- Latency ---- */

/* Mixes the low `bits` bits of x; distinct numbers stay distinct. */
static uint32_t scatter(uint32_t x, int bits) {
    uint32_t mask = (uint32_t)((1ull << bits) - 1);
    for (int round = 0; round < 3; round++) {
        x ^= x >> ((bits + 1) / 2);
        x = x * 0x9E3779B1u & mask;
    }
    return x;
}

/* Writes into each line of the buffer the number of another line, so that all lines form one cycle; returns how
 * many. */
static uint64_t link_lines(const region *buffer) {
    int bits = 0;
    while (bits < 32 && (uint64_t)LINE_BYTES << (bits + 1) <= buffer->size) bits++;
    uint64_t n = 1ull << bits;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t next = scatter((uint32_t)((i + 1) % n), bits);
        memcpy(buffer->data + (size_t)scatter((uint32_t)i, bits) * LINE_BYTES, &next, sizeof next);
    }
    return n;
}

static uint32_t follow(const region *buffer, uint32_t line, uint64_t loads) {
    for (uint64_t i = 0; i < loads; i++) {
        memcpy(&line, buffer->data + (size_t)line * LINE_BYTES, sizeof line);
    }
    return line;
}

static double latency_ns(const region *buffer, const memory_options *o) {
    uint64_t n = link_lines(buffer), loads = n < LATENCY_LOADS ? n : LATENCY_LOADS;
    double best = 0;
    uint32_t line = 0;
    for (int i = 0; i < o->repeats && !watch_cancelled(&o->watch); i++) {
        uint64_t start = sereno_system_now_ns();
        line = follow(buffer, line, loads); /* goes on from the last line, so that each load is of a new line */
        double ns = (double)(sereno_system_now_ns() - start) / (double)loads;
        if (best == 0 || ns < best) best = ns;
    }
    __asm__ volatile("" : : "r"(line));
    return best;
}

static double dot_gmacs(const kernels *k, const memory_options *o) {
    enum { ROUNDS = 10000, SAMPLE_NS = 5000000 };
    double best = 0;
    for (int i = 0; i < o->repeats && !watch_cancelled(&o->watch); i++) {
        uint64_t start = sereno_system_now_ns(), took = 0, macs = 0;
        while (took < SAMPLE_NS) {
            macs += k->dot_peak(ROUNDS);
            took = sereno_system_now_ns() - start;
        }
        if ((double)macs / (double)took > best) best = (double)macs / (double)took;
    }
    return best;
}

/* ---- All of it ---- */

static int read_with(const memory_options *o, const kernels *k, const region *buffer, int n, read_rates *rates,
                     sereno_error *err) {
    team *team;
    uint64_t repeats = (uint64_t)o->repeats;
    team_options t = {.n_threads = n, .sched = SERENO_SCHED_NORMAL, .spin_us_max = SPIN_US};
    int status = team_open(&t, &team, err);
    if (!status) team_take_class(team);
    for (int i = 0; i < o->repeats && !status; i++) {
        memory_read_once(team, k, buffer, rates);
        watch_progress(&o->watch, repeats * (uint64_t)(n - 1) + (uint64_t)i + 1, repeats * (uint64_t)o->n_threads);
        if (watch_cancelled(&o->watch)) status = err_set(err, SERENO_ERR_ABANDONED, "the bench was cancelled");
    }
    memory_settle(rates);
    team_close(&team);
    return status;
}

int bench_memory(const memory_options *o, memory_result *out, sereno_error *err) {
    *out = (memory_result){.n = o->n_threads};
    const kernels *k;
    region buffer = {0};
    int status = kernels_find(o->isa, &k, err);
    if (!status) status = memory_buffer_open(&buffer, o->buffer_bytes, err);
    for (int n = 1; n <= o->n_threads && !status; n++) {
        status = read_with(o, k, &buffer, n, &out->reads[n - 1], err);
    }
    if (!status) {
        out->isa = k->name;
        out->latency_ns = latency_ns(&buffer, o);
        out->dot_gmacs = dot_gmacs(k, o);
        if (watch_cancelled(&o->watch)) status = err_set(err, SERENO_ERR_ABANDONED, "the bench was cancelled");
    }
    region_close(&buffer);
    return status;
}
