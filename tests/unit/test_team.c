#include <fenv.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "procfs.h"
#include "rng.h"
#include "sereno/clock.h"
#include "support.h"
#include "team.h"
#include "thread.h"

static team *open_team(int n_threads, sereno_sched sched) {
    team_options options = {.n_threads = n_threads, .sched = sched, .spin_us_max = 50};
    team *t;
    assert_ok(team_open(&options, &t, err));
    team_take_class(t);
    return t;
}

enum { TILES_MAX = 300 };

typedef struct tally {
    atomic_int seen[TILES_MAX];
    int plain[TILES_MAX]; /* written without a lock: the thread sanitizer sees whether tiles are handed over */
    int spin;
} tally;

static void count_tile(void *ctx, int32_t tile, int32_t member) {
    tally *t = ctx;
    (void)member;
    atomic_fetch_add(&t->seen[tile], 1);
    t->plain[tile]++;
    for (volatile int i = 0; i < t->spin * (tile % 3); i++) {}
}

/* Each tile exactly once, in thousands of jobs of all sizes, with members that park and wake in between. */
static void test_every_tile_once(void **state) {
    (void)state;
    static tally t;
    rng r = {test_seed()};
    for (int n_threads = 1; n_threads <= 6; n_threads++) {
        team *team = open_team(n_threads, SERENO_SCHED_NORMAL);
        for (int job = 0; job < 2000; job++) {
            int32_t n = (int32_t)rng_below(&r, job % 10 ? 20 : TILES_MAX);
            memset(&t, 0, sizeof t);
            t.spin = (int)rng_below(&r, 50);
            team_run(team, count_tile, &t, n);
            for (int32_t i = 0; i < TILES_MAX; i++) {
                if (t.plain[i] != (i < n) || atomic_load(&t.seen[i]) != (i < n)) fail_msg("job %d tile %d", job, i);
            }
            if (rng_below(&r, 50) == 0) team_rest(team, 1 + rng_below(&r, 200000));
        }
        team_close(&team);
    }
}

/* During a rest of a second the whole process uses under 2 ms of CPU. */
static void test_rest_uses_no_cpu(void **state) {
    (void)state;
    static tally t;
    team *team = open_team(4, SERENO_SCHED_NORMAL);
    team_run(team, count_tile, &t, 100);
    uint64_t cpu = process_cpu_ns(), wall = sereno_system_now_ns();
    team_rest(team, 1000000000);
    cpu = process_cpu_ns() - cpu;
    wall = sereno_system_now_ns() - wall;
    print_message("%.0f us of CPU in %.0f ms of rest\n", (double)cpu / 1e3, (double)wall / 1e6);
    assert_true(wall >= 1000000000);
    assert_true(cpu < 2000000);
    team_close(&team);
}

/* An interrupt that came before a rest ends that rest at once, and only that one. */
static void test_interrupt_ends_a_rest(void **state) {
    (void)state;
    team *team = open_team(2, SERENO_SCHED_NORMAL);
    uint64_t start = sereno_system_now_ns();
    team_interrupt(team);
    team_rest(team, 60000000000);
    assert_true(sereno_system_now_ns() - start < 30000000000);
    start = sereno_system_now_ns();
    team_rest(team, 1000000);
    assert_true(sereno_system_now_ns() - start >= 1000000);
    team_close(&team);
}

/* ---- What the members are ---- */

typedef struct roll {
    atomic_int id[SERENO_THREADS_MAX]; /* by member; 0: not heard of yet */
} roll;

static void answer_roll(void *ctx, int32_t tile, int32_t member) {
    roll *r = ctx;
    (void)tile;
    atomic_store(&r->id[member], thread_id());
}

/* Jobs until each member has had a tile. False: one was shed, and may have no core to come back on. */
static bool call_roll(team *t, roll *r) {
    for (int i = 0; i < team_size(t); i++) {
        while (atomic_load(&r->id[i]) == 0) {
            if (team_active(t) < team_size(t)) return false;
            team_run(t, answer_roll, r, TILES_MAX);
        }
    }
    return true;
}

/* A team whose members have all answered. */
static team *open_known_team(int n_threads, sereno_sched sched, roll *r) {
    for (;;) {
        team *t = open_team(n_threads, sched);
        memset(r, 0, sizeof *r);
        if (call_roll(t, r)) return t;
        team_close(&t);
    }
}

/* ---- How floats are computed ---- */

typedef struct arithmetic {
    volatile float tiny, subnormal, above_1; /* 1e-30, 1e-40, 2^-30 */
    atomic_int tiles[SERENO_THREADS_MAX], wrong;
} arithmetic;

/* A product that is subnormal, an operand that is, and a sum that is rounded. */
static bool is_ours(const arithmetic *a) {
    return a->tiny * a->tiny * 1e20F == 0 && a->subnormal * 1e30F == 0 && 1 + a->above_1 == 1;
}

static void compute(void *ctx, int32_t tile, int32_t member) {
    arithmetic *a = ctx;
    (void)tile;
    atomic_fetch_add(&a->tiles[member], 1);
    if (!is_ours(a)) atomic_fetch_add(&a->wrong, 1);
}

/* On every member alike, whatever the caller has set, who has it back afterwards. */
static void test_float_mode(void **state) {
    (void)state;
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        roll members;
        team *t = open_known_team(n_threads, SERENO_SCHED_NORMAL, &members);
        arithmetic a = {.tiny = 1e-30F, .subnormal = 1e-40F, .above_1 = 1.0F / (1 << 30)};
        assert_int_equal(fesetround(FE_UPWARD), 0);
        assert_false(is_ours(&a));
        for (int i = 0; i < n_threads; i++) {
            while (atomic_load(&a.tiles[i]) == 0 && team_active(t) == n_threads) team_run(t, compute, &a, TILES_MAX);
        }
        team_run(t, compute, &a, 1);
        assert_int_equal(atomic_load(&a.wrong), 0);
        assert_int_equal(fegetround(), FE_UPWARD);
        assert_false(is_ours(&a) || a.subnormal * 1e30F == 0);
        assert_int_equal(fesetround(FE_TONEAREST), 0);
        team_close(&t);
    }
}

/* As the threads' own figures before and after, added up. */
static schedstat sum_schedstat(const team *t, const roll *r) {
    schedstat sum = {0, 0}, s;
    for (int i = 0; i < team_size(t); i++) {
        int file = schedstat_open(r->id[i]);
        assert_true(schedstat_read(file, &s));
        procfs_close(file);
        sum.cpu_ns += s.cpu_ns;
        sum.run_delay_ns += s.run_delay_ns;
    }
    return sum;
}

static void test_sample_adds_up(void **state) {
    (void)state;
    static tally t;
    roll members;
    team *team = open_known_team(4, SERENO_SCHED_NORMAL, &members);
    for (int i = 0; i < 100; i++) team_run(team, count_tile, &t, 100);
    schedstat before = sum_schedstat(team, &members), sample;
    assert_true(team_sample(team, &sample.cpu_ns, &sample.run_delay_ns));
    schedstat after = sum_schedstat(team, &members);
    assert_true(sample.cpu_ns >= before.cpu_ns && sample.cpu_ns <= after.cpu_ns);
    assert_true(sample.run_delay_ns >= before.run_delay_ns && sample.run_delay_ns <= after.run_delay_ns);
    team_close(&team);
}

static void *open_in_class(void *arg) {
    sereno_sched wanted = *(const sereno_sched *)arg, got;
    int nice_value;
    roll members;
    team *team = open_known_team(4, wanted, &members);
    for (int i = 0; i < team_size(team); i++) {
        assert_true(thread_read_class(members.id[i], &got, &nice_value));
        assert_int_equal(got, wanted);
        assert_int_equal(nice_value, wanted == SERENO_SCHED_NORMAL ? 0 : 19);
    }
    team_close(&team);
    return NULL;
}

/* Every compute thread carries the class asked for, and no other thread does. */
static void test_scheduling_class(void **state) {
    (void)state;
    for (int sched = SERENO_SCHED_IDLE; sched <= SERENO_SCHED_NORMAL; sched++) {
        pthread_t owner;
        sereno_sched wanted = (sereno_sched)sched, got;
        int nice_value;
        assert_int_equal(pthread_create(&owner, NULL, open_in_class, &wanted), 0);
        assert_int_equal(pthread_join(owner, NULL), 0);
        assert_true(thread_read_class(thread_id(), &got, &nice_value));
        assert_int_equal(got, SERENO_SCHED_NORMAL);
    }
}

static void test_bad_options(void **state) {
    (void)state;
    static const int no_such_core[] = {1023}, negative[] = {-1};
    const struct {
        team_options options;
        const char *part;
    } cases[] = {
        {{.n_threads = 0}, "0 threads; 1 to 64"},
        {{.n_threads = 65}, "65 threads"},
        {{.n_threads = 2, .sched = SERENO_SCHED_NORMAL, .cpus = no_such_core, .n_cpus = 1}, "cannot run on the cores"},
        {{.n_threads = 1, .sched = SERENO_SCHED_NORMAL, .cpus = negative, .n_cpus = 1}, "core -1 does not exist"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        team *team;
        sereno_error error = {0};
        assert_int_equal(team_open(&cases[i].options, &team, &error), SERENO_ERR_INVALID);
        assert_null(team);
        if (!strstr(error.message, cases[i].part)) fail_msg("'%s' lacks '%s'", error.message, cases[i].part);
    }
}

static void test_schedstat(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",       "\n", "1 2", "1 2 \n", "1 2 3", "-1 2 3\n", "1  2 3\n", "1 2 3\nx", "99999999999999999999 2 3\n",
        "a b c\n"};
    schedstat s = {7, 7};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(schedstat_parse(bad[i], strlen(bad[i]), &s));
        assert_int_equal(s.cpu_ns, 7); /* untouched */
    }
    assert_true(schedstat_parse("18446744073709551615 5 1\n", 25, &s));
    assert_true(s.cpu_ns == UINT64_MAX && s.run_delay_ns == 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_tile_once),
        cmocka_unit_test(test_rest_uses_no_cpu),
        cmocka_unit_test(test_interrupt_ends_a_rest),
        cmocka_unit_test(test_scheduling_class),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_schedstat),
        cmocka_unit_test(test_float_mode),
        cmocka_unit_test(test_sample_adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
