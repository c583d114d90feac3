#include "team.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "futex.h"
#include "procfs.h"
#include "sereno/clock.h"
#include "thread.h"

/*
 * The claim word: which job, how many tiles it has, and which is next. A fetch_add claims a tile of
 * whatever job is current, so a member that is late for one job simply works on the next. The job's
 * fields are written before the word is stored and are not touched again until all its tiles are done.
 */
enum { CLAIM_TILES_SHIFT = 16, CLAIM_JOB_SHIFT = 32, CLAIM_MASK = 0xFFFF, CACHE_LINE = 64 };

typedef struct team_member {
    team *team;
    pthread_t thread;
    int index;
    int schedstat; /* file, or -1 */
    sereno_error error;
} team_member;

struct team {
    /* Read-mostly. */
    team_fn fn;
    void *ctx;
    const sereno_clock *clock;
    uint64_t spin_ns_max;
    int size, n_started;
    const team_options *options; /* while opening */
    int tids[TEAM_MAX];
    team_member members[TEAM_MAX];

    _Alignas(CACHE_LINE) _Atomic uint64_t claim;
    _Alignas(CACHE_LINE) _Atomic uint32_t done; /* tiles of the current job that are finished */
    _Atomic uint32_t owner_parked;
    _Alignas(CACHE_LINE) _Atomic uint32_t wake; /* members park on it */
    _Atomic uint32_t n_parked;
    _Atomic uint32_t resting; /* members park at once instead of spinning */
    _Atomic uint32_t closing;
    _Atomic uint32_t n_ready;     /* members that have started, or failed to */
    _Atomic uint32_t interrupted; /* the owner rests on it */
};

static uint32_t job_of(uint64_t claim) {
    return (uint32_t)(claim >> CLAIM_JOB_SHIFT);
}

/* Works on the current job until its tiles are all claimed. */
static void work(team *t, int32_t member) {
    for (;;) {
        uint64_t claim = atomic_fetch_add_explicit(&t->claim, 1, memory_order_acq_rel);
        uint32_t n_tiles = (uint32_t)(claim >> CLAIM_TILES_SHIFT) & CLAIM_MASK, tile = (uint32_t)claim & CLAIM_MASK;
        if (tile >= n_tiles) return;
        t->fn(t->ctx, (int32_t)tile, member);
        uint32_t done = atomic_fetch_add_explicit(&t->done, 1, memory_order_seq_cst) + 1;
        if (done == n_tiles && atomic_load_explicit(&t->owner_parked, memory_order_seq_cst)) {
            futex_wake(&t->done);
        }
    }
}

/* Spins while `job` is the current one, at most spin_ns_max and not while the team rests. True: there is a new job. */
static bool spin_while_job(team *t, uint32_t job) {
    uint64_t start = 0;
    for (unsigned i = 0;; i++) {
        if (job_of(atomic_load_explicit(&t->claim, memory_order_acquire)) != job) return true;
        if (atomic_load_explicit(&t->resting, memory_order_relaxed)) return false;
        cpu_relax();
        if (i % 32 == 0) {
            uint64_t now = sereno_now_ns(t->clock);
            if (start == 0) start = now;
            if (now - start >= t->spin_ns_max) return false;
        }
    }
}

/* Parks until there is a job other than `job`, or the team closes. */
static void park_while_job(team *t, uint32_t job) {
    atomic_fetch_add_explicit(&t->n_parked, 1, memory_order_seq_cst);
    for (;;) {
        uint32_t wake = atomic_load_explicit(&t->wake, memory_order_seq_cst);
        if (job_of(atomic_load_explicit(&t->claim, memory_order_seq_cst)) != job) break;
        if (atomic_load_explicit(&t->closing, memory_order_seq_cst)) break;
        futex_wait(&t->wake, wake, FUTEX_FOREVER);
    }
    atomic_fetch_sub_explicit(&t->n_parked, 1, memory_order_seq_cst);
}

static void wake_members(team *t) {
    atomic_fetch_add_explicit(&t->wake, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&t->n_parked, memory_order_seq_cst) > 0) futex_wake(&t->wake);
}

static int join_team(team_member *m, const team_options *options) {
    m->team->tids[m->index] = thread_id();
    m->schedstat = schedstat_open(thread_id());
    thread_class wanted = {options->sched, options->cpus, options->n_cpus};
    return thread_apply_class(&wanted, &m->error);
}

static void *member_main(void *arg) {
    team_member *m = arg;
    team *t = m->team;
    int status = join_team(m, t->options);
    atomic_fetch_add_explicit(&t->n_ready, 1, memory_order_seq_cst);
    futex_wake(&t->n_ready);
    if (status) return NULL;
    while (!atomic_load_explicit(&t->closing, memory_order_acquire)) {
        uint32_t job = job_of(atomic_load_explicit(&t->claim, memory_order_acquire));
        work(t, m->index);
        if (!spin_while_job(t, job)) park_while_job(t, job);
    }
    return NULL;
}

static int start_members(team *t, sereno_error *err) {
    for (int i = 1; i < t->size; i++) {
        if (thread_start(&t->members[i].thread, member_main, &t->members[i]) != 0) {
            return err_set(err, SERENO_ERR_SYSTEM, "cannot start compute thread %d of %d", i + 1, t->size);
        }
        t->n_started++;
    }
    return SERENO_OK;
}

static int open_members(team *t, sereno_error *err) {
    int status = start_members(t, err);
    uint32_t ready;
    while ((ready = atomic_load_explicit(&t->n_ready, memory_order_seq_cst)) < (uint32_t)t->n_started) {
        futex_wait(&t->n_ready, ready, FUTEX_FOREVER);
    }
    for (int i = 1; i <= t->n_started && !status; i++) {
        if (t->members[i].error.code) {
            status = err_set(err, t->members[i].error.code, "%s", t->members[i].error.message);
        }
    }
    return status;
}

int team_open(const team_options *options, team **out, sereno_error *err) {
    *out = NULL;
    if (options->n_threads < 1 || options->n_threads > TEAM_MAX) {
        return err_set(err, SERENO_ERR_INVALID, "%d threads; 1 to %d are allowed", options->n_threads, TEAM_MAX);
    }
    size_t size = (sizeof(team) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    team *t = aligned_alloc(CACHE_LINE, size);
    if (!t) return err_no_memory(err, "a team of threads", size);
    memset(t, 0, size);
    t->clock = sereno_clock_system();
    t->spin_ns_max = (uint64_t)options->spin_us_max * 1000;
    t->size = options->n_threads;
    t->options = options;
    for (int i = 0; i < t->size; i++) {
        t->members[i] = (team_member){.team = t, .index = i, .schedstat = -1};
    }
    timer_precise();
    int status = join_team(&t->members[0], options);
    if (status) {
        err_set(err, status, "%s", t->members[0].error.message);
    } else {
        status = open_members(t, err);
    }
    t->options = NULL;
    if (status) {
        team_close(&t);
        return status;
    }
    *out = t;
    return SERENO_OK;
}

void team_close(team **team_) {
    team *t = *team_;
    *team_ = NULL;
    if (!t) return;
    atomic_store_explicit(&t->closing, 1, memory_order_seq_cst);
    /* An empty job makes those who spin look up; those who park are woken. */
    atomic_fetch_add_explicit(&t->claim, (uint64_t)1 << CLAIM_JOB_SHIFT, memory_order_seq_cst);
    atomic_fetch_add_explicit(&t->wake, 1, memory_order_seq_cst);
    futex_wake(&t->wake);
    for (int i = 1; i <= t->n_started; i++) {
        pthread_join(t->members[i].thread, NULL);
    }
    for (int i = 0; i < t->size; i++) {
        procfs_close(t->members[i].schedstat);
    }
    free(t);
}

static void wait_for_tiles(team *t, uint32_t n_tiles) {
    uint64_t start = 0;
    for (unsigned i = 0; atomic_load_explicit(&t->done, memory_order_acquire) != n_tiles; i++) {
        cpu_relax();
        if (i % 32 != 0) continue;
        uint64_t now = sereno_now_ns(t->clock);
        if (start == 0) start = now;
        if (now - start < t->spin_ns_max) continue;
        uint32_t done;
        atomic_store_explicit(&t->owner_parked, 1, memory_order_seq_cst);
        while ((done = atomic_load_explicit(&t->done, memory_order_seq_cst)) != n_tiles) {
            futex_wait(&t->done, done, FUTEX_FOREVER);
        }
        atomic_store_explicit(&t->owner_parked, 0, memory_order_seq_cst);
        return;
    }
}

void team_run(team *t, team_fn fn, void *ctx, int32_t n_tiles) {
    assert(n_tiles >= 0 && n_tiles <= TEAM_TILES_MAX);
    if (n_tiles <= 1 || t->size == 1) {
        for (int32_t tile = 0; tile < n_tiles; tile++) {
            fn(ctx, tile, 0);
        }
        return;
    }
    t->fn = fn;
    t->ctx = ctx;
    atomic_store_explicit(&t->resting, 0, memory_order_relaxed);
    atomic_store_explicit(&t->done, 0, memory_order_relaxed);
    uint32_t job = job_of(atomic_load_explicit(&t->claim, memory_order_relaxed)) + 1;
    uint64_t claim = (uint64_t)job << CLAIM_JOB_SHIFT | (uint64_t)n_tiles << CLAIM_TILES_SHIFT;
    atomic_store_explicit(&t->claim, claim, memory_order_seq_cst);
    wake_members(t);
    work(t, 0);
    wait_for_tiles(t, (uint32_t)n_tiles);
}

void team_rest(team *t, uint64_t duration_ns) {
    atomic_store_explicit(&t->resting, 1, memory_order_seq_cst);
    uint64_t end = sereno_now_ns(t->clock) + duration_ns, now;
    while (!atomic_load_explicit(&t->interrupted, memory_order_seq_cst) && (now = sereno_now_ns(t->clock)) < end) {
        futex_wait(&t->interrupted, 0, end - now);
    }
    atomic_store_explicit(&t->interrupted, 0, memory_order_seq_cst);
}

void team_interrupt(team *t) {
    atomic_store_explicit(&t->interrupted, 1, memory_order_seq_cst);
    futex_wake(&t->interrupted);
}

int team_size(const team *t) {
    return t->size;
}

const int *team_thread_ids(const team *t) {
    return t->tids;
}

bool team_sample(team *t, uint64_t *cpu_ns, uint64_t *run_delay_ns) {
    *cpu_ns = *run_delay_ns = 0;
    for (int i = 0; i < t->size; i++) {
        schedstat s;
        if (!schedstat_read(t->members[i].schedstat, &s)) return false;
        *cpu_ns += s.cpu_ns;
        *run_delay_ns += s.run_delay_ns;
    }
    return true;
}
