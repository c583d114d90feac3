/* Shedding: the decisions by table, with times of our own. */
#include <string.h>

#include "rng.h"
#include "shedding.h"
#include "support.h"

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
        {20000, 10, 2, SHEDDING_PATIENCE_NS_MIN}, /* tiles of 4 us: 64 us are below the least */
        {5000000, 10, 2, 16 * 1000000},           /* tiles of 1 ms */
        {5000000, 10, 4, 16 * 2000000},
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patience),
        cmocka_unit_test(test_allowance),
        cmocka_unit_test(test_stories),
        cmocka_unit_test(test_back_within_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
