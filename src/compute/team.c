#include "team.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "float_mode.h"
#include "futex.h"
#include "procfs.h"
#include "sereno/clock.h"
#include "shedding.h"
#include "thread.h"

/*
 * The claim word: number of the job, number of its tiles, next tile. A fetch_add claims a tile of the current job, so
 * a member that is late for one job works on the next. The owner writes the job's fields before it stores the word,
 * and does not change them until all tiles are done.
 */
enum { CLAIM_TILES_SHIFT = 16, CLAIM_JOB_SHIFT = 32, CLAIM_MASK = 0xFFFF, CACHE_LINE = 64 };

/* The owner's order to a member: be in the team, or (odd numbers) sit out. Each new odd number also asks the member
 * to wake. */
enum { ORDER_IN_TEAM = 0, ORDER_FIRST = 1, ORDER_STEP = 2 };

typedef struct team_member {
    /* Written by the member. */
    _Alignas(CACHE_LINE) _Atomic uint32_t working; /* it claims tiles, so it may hold one */
    _Atomic int32_t cpu;                           /* where it last began to work, or woke */
    _Atomic uint32_t answered;                     /* the last order to sit out that it has seen, at woke_ns */
    _Atomic uint64_t woke_ns;
    /* Written by the owner. */
    _Alignas(CACHE_LINE) _Atomic uint32_t order; /* shed members park on it */
    uint32_t last_order;                         /* to sit out */
    shedding shedding;

    team *team;
    pthread_t thread;
    int index;
    int schedstat; /* file, or -1 */
    bool has_class;
    sereno_error error;
} team_member;

struct team {
    /* Read-mostly. */
    team_fn fn;
    void *ctx;
    const sereno_clock *clock;
    uint64_t spin_ns_max;
    int size, n_started;
    _Atomic int n_active; /* members that are not shed */
    _Atomic uint64_t n_sheds;
    const team_options *options; /* while opening */
    sereno_sched sched;
    bool keep_owner;
    thread_undo owner_undo;
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

static bool is_shed(const team_member *m) {
    return atomic_load_explicit(&m->order, memory_order_acquire) != ORDER_IN_TEAM;
}

/* Works on the current job until its tiles are all claimed, or the member is shed. */
static void work(team *t, team_member *m) {
    /* the claim publishes this: a thread that finds no tile left sees which members may hold one */
    atomic_store_explicit(&m->working, 1, memory_order_relaxed);
    atomic_store_explicit(&m->cpu, thread_cpu(), memory_order_relaxed);
    while (!is_shed(m)) {
        uint64_t claim = atomic_fetch_add_explicit(&t->claim, 1, memory_order_acq_rel);
        uint32_t n_tiles = (uint32_t)(claim >> CLAIM_TILES_SHIFT) & CLAIM_MASK, tile = (uint32_t)claim & CLAIM_MASK;
        if (tile >= n_tiles) break;
        t->fn(t->ctx, (int32_t)tile, m->index);
        uint32_t done = atomic_fetch_add_explicit(&t->done, 1, memory_order_seq_cst) + 1;
        if (done == n_tiles && atomic_load_explicit(&t->owner_parked, memory_order_seq_cst)) {
            futex_wake(&t->done);
        }
    }
    atomic_store_explicit(&m->working, 0, memory_order_relaxed);
}

/* While the member is shed: parks without a tile, and reports when and where it woke for each order. */
static void sit_out(team *t, team_member *m) {
    uint32_t order, seen = ORDER_IN_TEAM;
    while ((order = atomic_load_explicit(&m->order, memory_order_seq_cst)) != ORDER_IN_TEAM) {
        if (order != seen) {
            atomic_store_explicit(&m->woke_ns, sereno_now_ns(t->clock), memory_order_relaxed);
            atomic_store_explicit(&m->cpu, thread_cpu(), memory_order_relaxed);
            atomic_store_explicit(&m->answered, order, memory_order_release);
            seen = order;
        }
        futex_wait(&m->order, order, FUTEX_FOREVER);
    }
}

/*
 * Spins while `job` is the current one and the member is in the team, at most spin_ns_max and not while the team
 * rests. False: there is nothing to do yet.
 */
static bool spin_while_job(team *t, const team_member *m, uint32_t job) {
    uint64_t start = 0;
    for (unsigned i = 0;; i++) {
        if (job_of(atomic_load_explicit(&t->claim, memory_order_acquire)) != job || is_shed(m)) return true;
        if (atomic_load_explicit(&t->resting, memory_order_relaxed)) return false;
        cpu_relax();
        if (i % 32 == 0) {
            uint64_t now = sereno_now_ns(t->clock);
            if (start == 0) start = now;
            if (now - start >= t->spin_ns_max) return false;
        }
    }
}

/* Parks until there is a job other than `job`, the member is shed, or the team closes. */
static void park_while_job(team *t, const team_member *m, uint32_t job) {
    atomic_fetch_add_explicit(&t->n_parked, 1, memory_order_seq_cst);
    for (;;) {
        uint32_t wake = atomic_load_explicit(&t->wake, memory_order_seq_cst);
        if (job_of(atomic_load_explicit(&t->claim, memory_order_seq_cst)) != job) break;
        if (atomic_load_explicit(&m->order, memory_order_seq_cst) != ORDER_IN_TEAM) break;
        if (atomic_load_explicit(&t->closing, memory_order_seq_cst)) break;
        futex_wait(&t->wake, wake, FUTEX_FOREVER);
    }
    atomic_fetch_sub_explicit(&t->n_parked, 1, memory_order_seq_cst);
}

static void wake_members(team *t) {
    atomic_fetch_add_explicit(&t->wake, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&t->n_parked, memory_order_seq_cst) > 0) futex_wake(&t->wake);
}

/* ---- Shedding ---- */

static void give_order(team_member *m, uint32_t order) {
    atomic_store_explicit(&m->order, order, memory_order_seq_cst);
    futex_wake(&m->order);
}

static void order_out(team_member *m) {
    m->last_order = m->last_order == ORDER_IN_TEAM ? ORDER_FIRST : m->last_order + ORDER_STEP;
    give_order(m, m->last_order);
}

/* A bit for each member of the team, but the owner, that may hold a tile. */
static uint64_t holders(const team *t) {
    uint64_t found = 0;
    for (int i = 1; i < t->size; i++) {
        const team_member *m = &t->members[i];
        bool working = atomic_load_explicit(&m->working, memory_order_relaxed);
        if (working && m->shedding.state == SHEDDING_IN) found |= (uint64_t)1 << i;
    }
    return found;
}

/* Longest time that a stall may go on before the first of the members `who` is shed. */
static uint64_t least_allowance_ns(const team *t, uint64_t who, uint64_t now_ns) {
    uint64_t least = SHEDDING_NEVER;
    for (int i = 1; i < t->size; i++) {
        if (!(who >> i & 1)) continue;
        uint64_t ns = shedding_allowance_ns(&t->members[i].shedding, now_ns);
        if (ns < least) least = ns;
    }
    return least;
}

/* Charges the members `who` with a stall of stall_ns, and sheds those that exceed their allowance. */
static void charge(team *t, uint64_t who, uint64_t now_ns, uint64_t stall_ns) {
    for (int i = 1; i < t->size; i++) {
        team_member *m = &t->members[i];
        if (!(who >> i & 1) || !shedding_stalled(&m->shedding, now_ns, stall_ns)) continue;
        atomic_fetch_sub_explicit(&t->n_active, 1, memory_order_relaxed);
        order_out(m);
        wake_members(t); /* it may have finished meanwhile and parked without seeing the order */
        atomic_fetch_add_explicit(&t->n_sheds, 1, memory_order_release); /* last: after the order is visible */
    }
}

/* Whether a member of the team works where m woke. */
static bool core_taken(const team *t, const team_member *m) {
    int32_t cpu = atomic_load_explicit(&m->cpu, memory_order_relaxed);
    for (int i = 0; i < t->size; i++) {
        const team_member *other = &t->members[i];
        if (other->shedding.state == SHEDDING_IN && atomic_load_explicit(&other->cpu, memory_order_relaxed) == cpu) {
            return true;
        }
    }
    return false;
}

/* Wakes shed members that are due, and takes back those that have woken on time often enough. */
static void review_shed(team *t) {
    uint64_t now_ns = sereno_now_ns(t->clock);
    for (int i = 1; i < t->size; i++) {
        team_member *m = &t->members[i];
        if (m->shedding.state == SHEDDING_IN) continue;
        if (m->shedding.state == SHEDDING_ASKED) {
            if (atomic_load_explicit(&m->answered, memory_order_acquire) != m->last_order) continue;
            uint64_t woke_ns = atomic_load_explicit(&m->woke_ns, memory_order_relaxed);
            if (shedding_woke(&m->shedding, woke_ns, core_taken(t, m))) {
                atomic_fetch_add_explicit(&t->n_active, 1, memory_order_relaxed);
                give_order(m, ORDER_IN_TEAM);
                continue;
            }
        }
        if (shedding_probe(&m->shedding, now_ns)) {
            atomic_store_explicit(&t->members[0].cpu, thread_cpu(), memory_order_relaxed);
            order_out(m);
        }
    }
}

int team_active(const team *t) {
    return atomic_load_explicit(&t->n_active, memory_order_relaxed);
}

uint64_t team_shed_count(const team *t) {
    return atomic_load_explicit(&t->n_sheds, memory_order_acquire);
}

/* ---- Opening and closing ---- */

static void join_team(team_member *m) {
    m->schedstat = schedstat_open(thread_id());
}

static void *member_main(void *arg) {
    team_member *m = arg;
    team *t = m->team;
    join_team(m);
    int status = thread_pin(t->options->cpus, t->options->n_cpus, NULL, &m->error);
    thread_precise_timers(NULL);
    float_mode_enter();
    m->has_class = thread_take_class(t->sched);
    atomic_fetch_add_explicit(&t->n_ready, 1, memory_order_seq_cst);
    futex_wake(&t->n_ready);
    if (status) return NULL;
    while (!atomic_load_explicit(&t->closing, memory_order_acquire)) {
        sit_out(t, m);
        uint32_t job = job_of(atomic_load_explicit(&t->claim, memory_order_acquire));
        work(t, m);
        if (!spin_while_job(t, m, job)) park_while_job(t, m, job);
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
    t->clock = options->clock ? options->clock : sereno_clock_system();
    t->spin_ns_max = (uint64_t)options->spin_us_max * 1000;
    t->size = options->n_threads;
    t->n_active = options->n_threads;
    t->options = options;
    for (int i = 0; i < t->size; i++) {
        t->members[i] = (team_member){.cpu = -1, .team = t, .index = i, .schedstat = -1};
    }
    t->sched = options->sched;
    t->keep_owner = t->members[0].has_class = options->keep_owner;
    join_team(&t->members[0]);
    int status = t->keep_owner ? SERENO_OK : thread_pin(options->cpus, options->n_cpus, &t->owner_undo, err);
    if (!status) status = open_members(t, err);
    t->options = NULL;
    if (status) {
        team_close(&t);
        return status;
    }
    *out = t;
    return SERENO_OK;
}

void team_take_class(team *t) {
    if (t->keep_owner) return;
    thread_precise_timers(&t->owner_undo);
    t->members[0].has_class = thread_take_class(t->sched);
}

bool team_has_class(const team *t) {
    for (int i = 0; i < t->size; i++) {
        if (!t->members[i].has_class) return false;
    }
    return true;
}

void team_close(team **team_) {
    team *t = *team_;
    *team_ = NULL;
    if (!t) return;
    atomic_store_explicit(&t->closing, 1, memory_order_seq_cst);
    atomic_store_explicit(&t->resting, 1, memory_order_seq_cst);
    /* An empty job ends the spinning of members, and parked members are woken. */
    atomic_fetch_add_explicit(&t->claim, (uint64_t)1 << CLAIM_JOB_SHIFT, memory_order_seq_cst);
    atomic_fetch_add_explicit(&t->wake, 1, memory_order_seq_cst);
    futex_wake(&t->wake);
    for (int i = 1; i <= t->n_started; i++) {
        give_order(&t->members[i], ORDER_IN_TEAM);
        pthread_join(t->members[i].thread, NULL);
    }
    for (int i = 0; i < t->size; i++) {
        procfs_close(t->members[i].schedstat);
    }
    thread_restore(&t->owner_undo);
    free(t);
}

/* Both wait until all tiles are done (true), or until waited_ns_max after start_ns. */
static bool spin_for_tiles(team *t, uint32_t n_tiles, uint64_t start_ns, uint64_t waited_ns_max) {
    for (unsigned i = 0; atomic_load_explicit(&t->done, memory_order_acquire) != n_tiles; i++) {
        cpu_relax();
        if (i % 32 == 31 && sereno_now_ns(t->clock) - start_ns >= waited_ns_max) return false;
    }
    return true;
}

static bool park_for_tiles(team *t, uint32_t n_tiles, uint64_t start_ns, uint64_t waited_ns_max) {
    uint32_t done;
    atomic_store_explicit(&t->owner_parked, 1, memory_order_seq_cst);
    while ((done = atomic_load_explicit(&t->done, memory_order_seq_cst)) != n_tiles) {
        uint64_t waited_ns = sereno_now_ns(t->clock) - start_ns;
        if (waited_ns >= waited_ns_max) break;
        futex_wait(&t->done, done, waited_ns_max == SHEDDING_NEVER ? FUTEX_FOREVER : waited_ns_max - waited_ns);
    }
    atomic_store_explicit(&t->owner_parked, 0, memory_order_seq_cst);
    return done == n_tiles;
}

/* Waits for tiles that should have been done by stall_ns, and charges the members that hold them. */
static void wait_out_stall(team *t, uint32_t n_tiles, uint64_t stall_ns) {
    uint64_t who = holders(t), allowance_ns = least_allowance_ns(t, who, stall_ns);
    if (park_for_tiles(t, n_tiles, stall_ns, allowance_ns)) {
        /* if it took longer than that, the owner itself may have been late */
        uint64_t now_ns = sereno_now_ns(t->clock), waited_ns = now_ns - stall_ns;
        charge(t, who, now_ns, waited_ns < allowance_ns ? waited_ns : allowance_ns - 1);
        return;
    }
    charge(t, who & holders(t), stall_ns, allowance_ns); /* as of stall_ns: a stall regains no allowance */
    park_for_tiles(t, n_tiles, stall_ns, SHEDDING_NEVER);
}

/* Waits for the tiles of a job that began at job_ns. */
static void wait_for_tiles(team *t, uint32_t n_tiles, uint64_t job_ns) {
    uint32_t done = atomic_load_explicit(&t->done, memory_order_acquire);
    if (done == n_tiles) return;
    uint64_t start_ns = sereno_now_ns(t->clock);
    uint64_t patience_ns = shedding_patience_ns(start_ns - job_ns, done, team_active(t));
    uint64_t spin_ns = t->spin_ns_max < patience_ns ? t->spin_ns_max : patience_ns;
    if (spin_for_tiles(t, n_tiles, start_ns, spin_ns) || park_for_tiles(t, n_tiles, start_ns, patience_ns)) return;
    wait_out_stall(t, n_tiles, start_ns + patience_ns);
}

static void run_alone(team_fn fn, void *ctx, int32_t n_tiles) {
    for (int32_t tile = 0; tile < n_tiles; tile++) {
        fn(ctx, tile, 0);
    }
}

static void run_together(team *t, team_fn fn, void *ctx, int32_t n_tiles) {
    t->fn = fn;
    t->ctx = ctx;
    atomic_store_explicit(&t->resting, 0, memory_order_relaxed);
    atomic_store_explicit(&t->done, 0, memory_order_relaxed);
    uint32_t job = job_of(atomic_load_explicit(&t->claim, memory_order_relaxed)) + 1;
    uint64_t claim = (uint64_t)job << CLAIM_JOB_SHIFT | (uint64_t)n_tiles << CLAIM_TILES_SHIFT;
    atomic_store_explicit(&t->claim, claim, memory_order_seq_cst);
    wake_members(t);
    uint64_t now_ns = sereno_now_ns(t->clock); /* after the others have begun, so that they do not wait for this */
    work(t, &t->members[0]);
    wait_for_tiles(t, (uint32_t)n_tiles, now_ns);
}

void team_run(team *t, team_fn fn, void *ctx, int32_t n_tiles) {
    assert(n_tiles >= 0 && n_tiles <= TEAM_TILES_MAX);
    if (n_tiles > 1 && team_active(t) < t->size) review_shed(t);
    float_mode callers = float_mode_enter();
    if (n_tiles <= 1 || team_active(t) == 1) run_alone(fn, ctx, n_tiles);
    else run_together(t, fn, ctx, n_tiles);
    float_mode_leave(callers);
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
