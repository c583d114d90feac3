#include <string.h>

#include "rng.h"
#include "stop.h"
#include "support.h"

/* The second lies within the first, the last is the beginning of the third. */
static const char *const stops[] = {"cabac", "ba", "bbb", "bb"};

enum { N_STOPS = sizeof stops / sizeof *stops };

/* The first place where a stop string begins, or the end. */
static size_t first_stop(const char *text, int n_stops) {
    size_t first = strlen(text);
    for (int i = 0; i < n_stops && i < N_STOPS; i++) {
        const char *found = strstr(text, stops[i]);
        if (found && (size_t)(found - text) < first) first = (size_t)(found - text);
    }
    return first;
}

/* How much of a text that may go on is certain: up to where a stop string begins, or might begin. */
static size_t certain(const char *text, size_t size, int n_stops, bool *stopped) {
    for (size_t at = 0; at < size; at++) {
        bool may_begin = false;
        for (int i = 0; i < n_stops; i++) {
            *stopped = *stopped || strncmp(text + at, stops[i], strlen(stops[i])) == 0;
            may_begin = may_begin || strncmp(text + at, stops[i], size - at) == 0;
        }
        if (*stopped || may_begin) return at;
    }
    return size;
}

/* Text in random pieces is released up to exactly the first stop string, never a byte too early or too late. */
static void test_against_a_plain_search(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int trial = 0; trial < 20000; trial++) {
        int n_stops = (int)rng_below(&r, N_STOPS + 1);
        char text[40] = "";
        size_t size = rng_below(&r, 30);
        for (size_t i = 0; i < size; i++) {
            text[i] = "abc"[rng_below(&r, 3)];
        }
        stop_matcher m = {.stops = stops, .n_stops = n_stops};
        size_t wanted = first_stop(text, n_stops), released = 0, at = 0;
        bool stopped = false;
        while (at < size && !stopped) {
            size_t n = 1 + rng_below(&r, 5), release;
            if (n > size - at) n = size - at;
            bool last = at + n == size;
            assert_ok(stop_push(&m, text + at, n, last, &release, &stopped, err));
            assert_memory_equal(m.held.data, text + released, release);
            released += release;
            stop_release(&m, release);
            at += n;
            if (last) continue;
            char so_far[sizeof text] = "";
            bool stops_here = false;
            memcpy(so_far, text, at);
            assert_int_equal(released, certain(so_far, at, n_stops, &stops_here));
            assert_int_equal(stopped, stops_here);
        }
        assert_int_equal(stopped, wanted < size);
        assert_int_equal(released, wanted);
        sereno_text_free(&m.held);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_a_plain_search)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
