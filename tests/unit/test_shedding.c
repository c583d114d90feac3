/* Shedding: the decisions by table with times of our own; the team with stalls and cores of our own. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "rng.h"
#include "sereno/clock.h"
#include "shedding.h"
#include "support.h"
#include "team.h"
#include "thread.h"

/* ---- Decisions ---- */

static void test_patience(void **state) {
    (void)state;
    static const struct {
        uint64_t job_ns;
        uint32_t n_done;
        int n_members;
        uint64_t wanted_ns;
    } cases[] = {
        {0, 1, 2, SHEDDING_PATIENCE_NS_MIN},
        {20000, 10, 2, SHEDDING_PATIENCE_NS_MIN},             /* tiles of 4 us: a few are below the least */
        {5000000, 10, 2, SHEDDING_PATIENCE_TILES * 1000000u}, /* tiles of 1 ms */
        {5000000, 10, 4, SHEDDING_PATIENCE_TILES * 2000000u},
        {5000000, 0, 2, SHEDDING_NEVER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t got = shedding_patience_ns(cases[i].job_ns, cases[i].n_done, cases[i].n_members);
        if (got != cases[i].wanted_ns) fail_msg("case %zu: %llu ns", i, (unsigned long long)got);
    }
}

/*
 * A member is shed just when, from some stall on, it has stalled for the allowance and a share of the time since:
 * looked for in all stretches of a random history.
 */
static void test_allowance(void **state) {
    (void)state;
    enum { STALLS_MAX = 200 };
    rng r = {test_seed()};
    for (int trial = 0; trial < 300; trial++) {
        shedding s = {0};
        uint64_t end_ns[STALLS_MAX], stall_ns[STALLS_MAX], now_ns = 1;
        uint64_t longest_ns = SHEDDING_ALLOWANCE_NS >> rng_below(&r, 8), share = 1 + rng_below(&r, 20);
        bool shed = false;
        for (int n = 0; n < STALLS_MAX && !shed; n++) {
            stall_ns[n] = rng_below(&r, longest_ns);
            now_ns += stall_ns[n] + stall_ns[n] * share;
            now_ns += SHEDDING_ALLOWANCE_SHARE - now_ns % SHEDDING_ALLOWANCE_SHARE; /* no remainders */
            end_ns[n] = now_ns;
            bool wanted = false;
            uint64_t sum_ns = 0;
            for (int i = n; i >= 0; i--) {
                sum_ns += stall_ns[i];
                wanted |= sum_ns >= SHEDDING_ALLOWANCE_NS + (now_ns - end_ns[i]) / SHEDDING_ALLOWANCE_SHARE;
            }
            uint64_t allowance_ns = shedding_allowance_ns(&s, now_ns);
            assert_in_range(allowance_ns, 1, SHEDDING_ALLOWANCE_NS);
            assert_int_equal(stall_ns[n] >= allowance_ns, wanted);
            shed = shedding_stalled(&s, now_ns, stall_ns[n]);
            assert_int_equal(shed, wanted);
        }
    }
}

/* What happens to a member, one step a letter:
 * s it is shed; p it parks; > an interval later it is due to be woken, and is; . nothing is due
 * ! it was due before, and is woken; o it wakes on time; l late; c on time, but on a core that is taken; B on time, and
 * is back; w a second in the team; then a digit n: n more intervals go by unasked. */
static const struct {
    const char *name, *steps;
} stories[] = {
    {"three wakes on time bring it back", "s p >o >o >B"},
    {"parking does not count, nor is it hurried", "s . p . >o >o >B"},
    {"a late wake starts the row anew", "s p >o >o >l >o >o >B"},
    {"so does one on a core that is taken", "s p >o >o >c >o >o >B"},
    {"one that has not woken yet is not asked again", "s p >... 9. l . >o >o >B"},
    {"nor is time that passes without a wake a merit", "s p >o 9!o 9!B"},
    {"shed again at once, it takes twice as many",
     "s p >o >o >B s p >o >o >o >o >o >B s p >o >o >o >o >o >o >o >o >o >o >o >B"},
    {"one that lasts begins anew", "s p >o >o >B s p >o >o >o >o >o >B w s p >o >o >B"},
};

static void step(const char *name, const char *at, shedding *s, uint64_t *now_ns) {
    bool back = false, as_told = true;
    switch (*at) {
    case 's': as_told = shedding_stalled(s, *now_ns, SHEDDING_ALLOWANCE_NS); break;
    case 'p': back = shedding_woke(s, *now_ns += 5000000, false); break;
    case '.': as_told = !shedding_probe(s, *now_ns); break;
    case '>':
        *now_ns += SHEDDING_PROBE_INTERVAL_NS - 1;
        as_told = !shedding_probe(s, *now_ns);
        *now_ns += 1;
        as_told = shedding_probe(s, *now_ns) && as_told;
        break;
    case '!': as_told = shedding_probe(s, *now_ns); break;
    case 'o':
    case 'B': back = shedding_woke(s, *now_ns += SHEDDING_LATE_NS - 1, false); break;
    case 'l': back = shedding_woke(s, *now_ns += SHEDDING_LATE_NS, false); break;
    case 'c': back = shedding_woke(s, *now_ns, true); break;
    case 'w': *now_ns += 1000000000; break;
    default: *now_ns += (uint64_t)(*at - '0') * SHEDDING_PROBE_INTERVAL_NS; break;
    }
    as_told = as_told && back == (*at == 'B') && (s->state == SHEDDING_IN) == (*at == 'B' || *at == 'w');
    if (!as_told) fail_msg("%s: not so at '%s'", name, at);
}

static void test_stories(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
        shedding s = {0};
        uint64_t now_ns = 1;
        for (const char *at = stories[i].steps; *at; at++) {
            if (*at != ' ') step(stories[i].name, at, &s, &now_ns);
        }
    }
}

/* However often it is shed, it comes back in less than a second once it wakes on time. */
static void test_back_within_a_second(void **state) {
    (void)state;
    shedding s = {0};
    uint64_t now_ns = 1;
    for (int i = 0; i < 100; i++) {
        assert_true(shedding_stalled(&s, now_ns, SHEDDING_ALLOWANCE_NS));
        uint64_t begun_ns = now_ns;
        bool back = shedding_woke(&s, now_ns, false);
        while (!back) {
            now_ns += 1000000;
            back = shedding_probe(&s, now_ns) && shedding_woke(&s, now_ns, false);
        }
        assert_true(now_ns - begun_ns < 1000000000);
        if (i == 99) assert_int_equal(s.n_needed, SHEDDING_WAKES_MAX);
    }
}

/* ---- The team ---- */

enum { OWNER_LATE_NS = 100000000 };

/* A clock and cores of our own. Every thread has a core to itself, unless they are crowded. */
typedef struct world {
    pthread_t owner;
    _Atomic uint64_t now_ns;
    _Atomic uint64_t owner_step_ns;   /* each look of the owner at the clock takes that long */
    _Atomic uint64_t late_ns;         /* how far ahead the clock is for others */
    _Atomic uint32_t looks_of_others; /* at the clock */
    /* The owner is late once: from this time on, either in that look at the clock or in the next one, it comes back
     * only after others have looked, and long after. 0: it is not. */
    uint64_t late_from_ns;
    bool late_at_once;
    uint32_t seen_of_others; /* looks, at the owner's last */
} world;

static atomic_bool crowded;
static atomic_int n_cores_given;

int __wrap_thread_cpu(void);

int __wrap_thread_cpu(void) {
    static _Thread_local int core = -1;
    if (core < 0) core = atomic_fetch_add(&n_cores_given, 1);
    return crowded ? 0 : core;
}

static uint64_t world_now_ns(void *ctx) {
    world *w = ctx;
    if (pthread_equal(pthread_self(), w->owner)) {
        uint32_t others = w->looks_of_others, seen = w->late_at_once ? others : w->seen_of_others;
        uint64_t before_ns = atomic_fetch_add(&w->now_ns, w->owner_step_ns), now_ns = before_ns + w->owner_step_ns;
        w->seen_of_others = others;
        if (w->late_from_ns == 0 || (w->late_at_once ? now_ns : before_ns) < w->late_from_ns) return now_ns;
        while (w->looks_of_others == seen) sched_yield();
        w->late_from_ns = 0;
        return w->now_ns += OWNER_LATE_NS;
    }
    atomic_fetch_add(&w->looks_of_others, 1);
    return w->now_ns + w->late_ns;
}

static team *open_team(int n_threads, const sereno_clock *clock) {
    team_options options = {.n_threads = n_threads, .sched = SERENO_SCHED_NORMAL, .spin_us_max = 50, .clock = clock};
    team *t;
    assert_ok(team_open(&options, &t, err));
    return t;
}

enum { MEMBERS_MAX = 4, TILES_MAX = 64 };

/* A job of as many tiles as members; each member gets one. */
typedef struct meeting {
    team *team;
    int n_members;
    int32_t staller; /* keeps its tile until someone was shed; -1: nobody */
    uint64_t sheds_before;
    const world *world; /* with it, the staller keeps its tile only until release_ns */
    uint64_t release_ns;
    atomic_int n_here;
    atomic_int seen[MEMBERS_MAX];
} meeting;

static void meet(void *ctx, int32_t tile, int32_t member) {
    meeting *m = ctx;
    atomic_fetch_add(&m->seen[tile], 1);
    atomic_fetch_add(&m->n_here, 1);
    while (m->n_here < m->n_members) sched_yield();
    if (member != m->staller) return;
    while (m->world ? m->world->now_ns < m->release_ns : team_shed_count(m->team) == m->sheds_before) sched_yield();
}

/* All members work on a job together; `staller` stalls it. Others are shed too if the system deschedules them then. */
static void run_meeting(team *t, int32_t staller) {
    int n_sheds_max = staller < 0 ? 0 : team_size(t) - 1;
    meeting m = {.team = t, .n_members = team_size(t), .staller = staller, .sheds_before = team_shed_count(t)};
    assert_int_equal(team_active(t), team_size(t));
    team_run(t, meet, &m, m.n_members);
    for (int i = 0; i < m.n_members; i++) {
        assert_int_equal(m.seen[i], 1);
    }
    int n_sheds = (int)(team_shed_count(t) - m.sheds_before);
    assert_in_range(n_sheds, staller >= 0, n_sheds_max);
    assert_int_equal(team_active(t), team_size(t) - n_sheds);
}

typedef struct tally {
    atomic_int of_member[MEMBERS_MAX];
    int seen[TILES_MAX]; /* written without a lock: the thread sanitizer sees whether tiles are handed over */
    int spin;            /* how much slower members other than the owner are */
} tally;

static void count(void *ctx, int32_t tile, int32_t member) {
    tally *t = ctx;
    atomic_fetch_add(&t->of_member[member], 1);
    t->seen[tile]++;
    for (volatile int i = 0; member > 0 && i < t->spin; i++) {}
}

static tally run_tally(team *t, int32_t n_tiles, int spin) {
    tally of = {.spin = spin};
    team_run(t, count, &of, n_tiles);
    for (int32_t i = 0; i < TILES_MAX; i++) {
        assert_int_equal(of.seen[i], i < n_tiles);
    }
    return of;
}

/* Lets time pass in jobs until member 1 of 2 is back; how often it was woken, about, or wakes_max if it is not. */
static int wakes_until_back(team *t, world *w, int wakes_max) {
    int wakes = 0;
    for (; team_active(t) < 2 && wakes < wakes_max; wakes++) {
        uint32_t before = w->looks_of_others;
        w->now_ns += 2 * SHEDDING_PROBE_INTERVAL_NS; /* more than it may have been late */
        int patience = 100000;
        do {
            tally of = run_tally(t, TILES_MAX, 0);
            if (team_active(t) < 2) assert_int_equal(of.of_member[0], TILES_MAX);
            /* It may have looked for this order before `before` was read, if the one before reached it late. */
        } while (w->looks_of_others == before && --patience > 0);
    }
    return wakes;
}

static void test_shed_and_back(void **state) {
    (void)state;
    world w = {.owner = pthread_self(), .now_ns = 1};
    sereno_clock clock = {world_now_ns, &w};
    team *t = open_team(2, &clock);
    for (int i = 0; i < 5; i++) {
        run_meeting(t, -1);
        w.owner_step_ns = 10000;
        run_meeting(t, 1);
        w.owner_step_ns = 0;
        w.late_ns = SHEDDING_LATE_NS;
        assert_int_equal(wakes_until_back(t, &w, 50), 50);
        w.late_ns = 0;
        crowded = true;
        assert_int_equal(wakes_until_back(t, &w, 50), 50);
        crowded = false;
        int wakes = wakes_until_back(t, &w, 50);
        assert_true(wakes >= SHEDDING_WAKES_MIN && wakes < 50);
        run_meeting(t, -1);
    }
    team_close(&t);
}

/* A member that has used a part of its allowance is shed by a long stall like one that has not. */
static void test_shed_after_a_short_stall(void **state) {
    (void)state;
    world w = {.owner = pthread_self(), .now_ns = 1};
    sereno_clock clock = {world_now_ns, &w};
    team *t = open_team(2, &clock);
    w.owner_step_ns = SHEDDING_PATIENCE_NS_MIN;
    meeting m = {.team = t, .n_members = 2, .staller = 1, .world = &w};
    m.release_ns = w.now_ns + 10 * SHEDDING_PATIENCE_NS_MIN + SHEDDING_ALLOWANCE_NS / 2;
    team_run(t, meet, &m, 2);
    assert_int_equal(team_shed_count(t), 0);
    run_meeting(t, 1); /* hangs if nobody is shed */
    team_close(&t);
}

/* A member has stalled for less than it may, and has finished before the owner, which lost its core meanwhile, sees
 * it. Where the owner is when it loses it is for chance, so it is made to more than once. */
static void test_late_owner_sheds_nobody(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        world w = {.owner = pthread_self(), .now_ns = 1};
        sereno_clock clock = {world_now_ns, &w};
        team *t = open_team(2, &clock);
        meeting m = {.team = t, .n_members = 2, .staller = 1, .world = &w};
        m.release_ns = w.now_ns + 10 * SHEDDING_PATIENCE_NS_MIN + SHEDDING_ALLOWANCE_NS / 2;
        w.owner_step_ns = SHEDDING_PATIENCE_NS_MIN;
        w.late_from_ns = m.release_ns;
        w.late_at_once = i % 2;
        team_run(t, meet, &m, 2);
        assert_true(w.late_from_ns == 0 && w.now_ns > OWNER_LATE_NS);
        assert_int_equal(team_shed_count(t), 0);
        team_close(&t);
    }
}

/* The others go on without the one that stalled. */
static void test_only_who_stalls(void **state) {
    (void)state;
    world w = {.owner = pthread_self(), .now_ns = 1};
    sereno_clock clock = {world_now_ns, &w};
    for (int32_t staller = 1; staller < MEMBERS_MAX; staller++) {
        team *t = open_team(MEMBERS_MAX, &clock);
        w.owner_step_ns = 10000;
        run_meeting(t, staller);
        w.owner_step_ns = 0;
        for (int i = 0; i < 100; i++) {
            assert_int_equal(run_tally(t, TILES_MAX, 0).of_member[staller], 0);
        }
        team_close(&t);
    }
}

/* A clock that leaps makes members come and go all the time: each tile still runs exactly once. */
static void test_coming_and_going(void **state) {
    (void)state;
    rng r = {test_seed()};
    uint64_t n_sheds = 0;
    for (int n_threads = 2; n_threads <= MEMBERS_MAX; n_threads++) {
        world w = {.owner = pthread_self(), .now_ns = 1};
        sereno_clock clock = {world_now_ns, &w};
        team *t = open_team(n_threads, &clock);
        for (int job = 0; job < 5000; job++) {
            w.owner_step_ns = rng_below(&r, 4) ? 1000 : SHEDDING_PROBE_INTERVAL_NS;
            run_tally(t, (int32_t)rng_below(&r, TILES_MAX + 1), (int)rng_below(&r, 5000));
            if (rng_below(&r, 50) == 0) team_rest(t, 1 + rng_below(&r, 200000));
        }
        n_sheds += team_shed_count(t);
        team_close(&t);
    }
    print_message("shed %llu times\n", (unsigned long long)n_sheds);
}

/* In a rest of 10 intervals, and outside jobs, a shed member is not woken: under 1 ms of CPU each. */
static void test_rest_while_shed(void **state) {
    (void)state;
    team *t = open_team(2, NULL);
    run_meeting(t, 1);
    uint64_t cpu_ns = process_cpu_ns();
    team_rest(t, 10ull * SHEDDING_PROBE_INTERVAL_NS);
    cpu_ns = process_cpu_ns() - cpu_ns;
    print_message("%.0f us of CPU\n", (double)cpu_ns / 1e3);
    assert_true(cpu_ns < 1000000);
    assert_int_equal(team_active(t), 1);
    team_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patience),
        cmocka_unit_test(test_allowance),
        cmocka_unit_test(test_stories),
        cmocka_unit_test(test_back_within_a_second),
        cmocka_unit_test(test_shed_after_a_short_stall),
        cmocka_unit_test(test_late_owner_sheds_nobody),
        cmocka_unit_test(test_shed_and_back),
        cmocka_unit_test(test_only_who_stalls),
        cmocka_unit_test(test_coming_and_going),
        cmocka_unit_test(test_rest_while_shed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
