#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frame_loop.h"
#include "frame_record.h"
#include "frame_totals.h"
#include "output_file.h"
#include "profile.h"
#include "scene.h"
#include "shared_page.h"
#include "shipped_profiles.h"
#include "support.h"
#include "tune.h"

#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

enum { N_SHIPPED = 8 };

/* ---- Profiles ---- */

static profile parse(const char *text) {
    profile p;
    assert_ok(profile_parse("test", text, strlen(text), &p, err));
    return p;
}

static void assert_equal_profiles(const profile *a, const profile *b) {
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->about, b->about);
    assert_memory_equal(&a->fps, &b->fps, sizeof *a - offsetof(profile, fps));
}

static void test_shipped_profiles(void **state) {
    (void)state;
    int n = 0;
    for (const char *const *name = profile_names(); *name; name++, n++) {
        const shipped_profile *s = &shipped_profiles[n];
        profile p, by_name;
        assert_string_equal(s->name, *name);
        assert_true(strlen(s->text) == s->size && s->text[0] == '#'); /* says what it stands for */
        if (n > 0) assert_true(strcmp(*name, name[-1]) > 0);
        assert_ok(profile_parse("other", s->text, s->size, &p, err));
        assert_string_equal(p.name, *name);
        assert_true(strlen(p.about) > 10);
        assert_ok(profile_find_shipped(*name, &by_name, err));
        assert_equal_profiles(&p, &by_name);
    }
    assert_int_equal(n, N_SHIPPED);
}

static void test_headline_profiles(void **state) {
    (void)state;
    profile p;
    assert_ok(profile_find_shipped("social-1", &p, err));
    assert_true(p.fps == 120 && p.rest_ms == 0);
    assert_ok(profile_find_shipped("reader-1", &p, err));
    assert_true(p.fps == 120 && p.rest_ms > 0);
}

static void test_defaults_and_forms(void **state) {
    (void)state;
    profile p = parse(""),
            q = parse("\r\n  # a comment\n; another\n\n[work]\n[ frames ]\r\n\tfps\t=  60 \r\n[profile]");
    assert_string_equal(p.name, "test");
    assert_equal_profiles(&p, &q);
    p = parse("[profile]\nname = a-1\nabout = says = much # really\n[work]\nlayers=1.5\nphotos = 1e2");
    assert_string_equal(p.name, "a-1");
    assert_string_equal(p.about, "says = much # really");
    assert_true(p.layers == 1.5f && p.photos == 100);
}

static void test_parse_errors(void **state) {
    (void)state;
    static const struct {
        const char *text, *words[4];
    } rows[] = {
        {"[frames]\nfps = 2000", {"line 2", "'fps'", "2000", "1 to 1000"}},
        {"[frames]\nfps = 0", {"line 2", "'fps'", "1 to 1000", ""}},
        {"[frames]\nfps = 60.5", {"line 2", "'fps'", "whole number", "60.5"}},
        {"[frames]\nfps = 99999999999999999999", {"line 2", "'fps'", "1 to 1000", ""}},
        {"[frames]\nfps =", {"line 2", "'fps'", "number", ""}},
        {"[frames]\nrest_ms = -1", {"line 2", "'rest_ms'", "-1", "0 to 600000"}},
        {"[amount]\n\n\nspread = nan", {"line 4", "'spread'", "nan", ""}},
        {"[amount]\nscale = inf", {"line 2", "'scale'", "inf", "0.001 to 1000"}},
        {"[amount]\nscale = 1e-9", {"line 2", "'scale'", "1e-9", "0.001 to 1000"}},
        {"[amount]\nheavy = 2\nspread = 0\nheavy = 2", {"line 4", "'heavy'", "line 2", "already"}},
        {"[work]\nfps = 60", {"line 2", "no key 'fps'", "[work]", ""}},
        {"[work]\nspeed = 60", {"line 2", "no key 'speed'", "[work]", ""}},
        {"fps = 60", {"line 1", "'fps'", "section", ""}},
        {"[play]", {"line 1", "[play]", "frames", "data"}},
        {"[work", {"line 1", "[work", "]", ""}},
        {"[work]\nlayers 3", {"line 2", "layers 3", "key = value", ""}},
        {"[profile]\nname = Social", {"line 2", "'name'", "Social", "a-z"}},
        {"[profile]\nname =", {"line 2", "'name'", "a-z", ""}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        profile p = {.fps = -7};
        sereno_error err = {0};
        assert_int_equal(profile_parse("x", rows[i].text, strlen(rows[i].text), &p, &err), SERENO_ERR_FORMAT);
        for (int w = 0; w < 4 && rows[i].words[w]; w++) {
            if (!strstr(err.message, rows[i].words[w])) fail_msg("'%s' lacks '%s'", err.message, rows[i].words[w]);
        }
        assert_int_equal(p.fps, -7);
    }
    profile p;
    sereno_error err = {0};
    assert_int_equal(profile_parse("x", "a\0b", 3, &p, &err), SERENO_ERR_FORMAT);
    assert_int_equal(profile_parse("No Name", "", 0, &p, &err), SERENO_ERR_FORMAT);
    assert_non_null(strstr(err.message, "'name'"));
    char long_line[2000];
    memset(long_line, 'x', sizeof long_line);
    assert_int_equal(profile_parse("x", long_line, sizeof long_line, &p, &err), SERENO_ERR_FORMAT);
}

/* A folder of this process for tuned profiles. */
static void set_config_home(void) {
    assert_int_equal(setenv("XDG_CONFIG_HOME", temporary_path("config"), 1), 0);
}

static void test_save_and_find(void **state) {
    (void)state;
    set_config_home();
    profile p, found;
    bool tuned = true;
    char path[4096];
    assert_ok(profile_find("tools-2", &p, &tuned, err));
    assert_false(tuned);
    p.scale = 1.2345678f;
    p.spread = 0.1f;
    assert_ok(profile_save_tuned(&p, "for\npeople", path, sizeof path, err));
    assert_ok(profile_find("tools-2", &found, &tuned, err));
    assert_true(tuned);
    assert_equal_profiles(&p, &found);
    assert_ok(profile_find(path, &found, &tuned, err));
    assert_false(tuned);
    assert_equal_profiles(&p, &found);
    p.scale = 2;
    assert_ok(profile_save_tuned(&p, "again", path, sizeof path, err));
    assert_ok(profile_find("tools-2", &found, NULL, err));
    assert_true(found.scale == 2);
    assert_ok(profile_find_shipped("tools-2", &found, err));
    assert_true(found.scale == 1);

    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("[work]\nlayers = many\n", file);
    fclose(file);
    sereno_error err = {0};
    assert_int_equal(profile_find("tools-2", &found, NULL, &err), SERENO_ERR_FORMAT);
    assert_true(strstr(err.message, path) && strstr(err.message, "line 2"));
    assert_int_equal(unlink(path), 0);
}

static void test_not_found(void **state) {
    (void)state;
    set_config_home();
    profile p;
    static const char *const names[] = {"", "social", "social-1.ini", "..", "Social-1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        sereno_error err = {0};
        assert_int_equal(profile_find(names[i], &p, NULL, &err), SERENO_ERR_INVALID);
        for (const char *const *name = profile_names(); *name; name++) {
            assert_non_null(strstr(err.message, *name));
        }
    }
    sereno_error err = {0};
    assert_int_equal(profile_find("./none.ini", &p, NULL, &err), SERENO_ERR_IO);
}

static void test_weights(void **state) {
    (void)state;
    enum { N = 20000 };
    profile p = parse("[amount]\nspread = 0.25");
    double sum = 0, squares = 0;
    int above = 0;
    for (uint64_t k = 0; k < N; k++) {
        double weight = profile_frame_weight(&p, k);
        sum += log(weight);
        squares += log(weight) * log(weight);
        above += weight > 1;
        assert_true(profile_frame_weight(&p, k) == weight);
    }
    assert_true(fabs(sum / N) < 0.01 && fabs(sqrt(squares / N) - 0.25) < 0.01 && abs(above - N / 2) < N / 50);

    p.spread = 0;
    p.heavy_share = 0.1f;
    p.heavy = 3;
    int heavy = 0;
    for (uint64_t k = 0; k < N; k++) {
        double weight = profile_frame_weight(&p, k);
        assert_true(weight == 1 || weight == 3);
        heavy += weight == 3;
    }
    assert_true(abs(heavy - N / 10) < N / 100);
    p.heavy_share = 1;
    assert_true(profile_frame_weight(&p, 1) == 3);

    profile other = p;
    other.spread = p.spread = 0.3f;
    memcpy(other.name, "other", sizeof "other");
    assert_true(profile_frame_weight(&p, 5) != profile_frame_weight(&other, 5));
}

static void test_bursts(void **state) {
    (void)state;
    profile p = parse("[frames]\nfps = 100\nburst_ms = 30\nrest_ms = 20");
    for (uint64_t v = 0; v < 1000; v++) {
        assert_int_equal(profile_makes_frames_at(&p, v), v % 5 < 3);
        assert_int_equal(profile_makes_frames_at(&p, v + UINT64_C(5) * 1000000000000), v % 5 < 3);
    }
    p = parse("[frames]\nfps = 7\nburst_ms = 1000\nrest_ms = 3000");
    for (uint64_t v = 0; v < 1000; v++) {
        assert_int_equal(profile_makes_frames_at(&p, v), v % 28 < 7);
    }
    p = parse("[frames]\nfps = 7\nburst_ms = 1\nrest_ms = 0");
    assert_true(profile_makes_frames_at(&p, 12345));
}

/* ---- The pacer ---- */

static void test_vsyncs_do_not_drift(void **state) {
    (void)state;
    static const int32_t rates[] = {1, 7, 24, 60, 90, 120, 144, 999, 1000};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        profile p = parse("");
        p.fps = rates[i];
        frame_pacer pacer = {.profile = &p, .origin_ns = 12345};
        const uint64_t century_s = UINT64_C(3155760000);
        assert_int_equal(pacer_vsync_ns(&pacer, 0), 12345);
        assert_int_equal(pacer_vsync_ns(&pacer, (uint64_t)p.fps * century_s), 12345 + century_s * SECOND);
        for (uint64_t v = 1; v < 3 * (uint64_t)p.fps; v++) {
            uint64_t step = pacer_vsync_ns(&pacer, v) - pacer_vsync_ns(&pacer, v - 1),
                     period = SECOND / (uint64_t)p.fps;
            assert_true(step == period || step == period + 1);
        }
    }
}

/* A frame in a table: when it ends, and what must come of it. Times in microseconds after the origin. */
typedef struct pacer_row {
    uint64_t end_us;
    bool missed;
    uint64_t next_vsync;
    uint32_t dropped;
} pacer_row;

static void check_pacer(const profile *p, const pacer_row *rows, size_t n) {
    frame_pacer pacer = {.profile = p, .origin_ns = 777 * SECOND};
    uint32_t dropped = 99;
    assert_int_equal(pacer_next(&pacer, 0, &dropped), pacer.origin_ns);
    assert_int_equal(dropped, 0);
    for (size_t i = 0; i < n; i++) {
        uint64_t end_ns = pacer.origin_ns + rows[i].end_us * 1000;
        assert_int_equal(pacer_deadline_ns(&pacer), pacer_vsync_ns(&pacer, pacer.vsync + 1));
        assert_int_equal(end_ns > pacer_deadline_ns(&pacer), rows[i].missed);
        uint64_t next_ns = pacer_next(&pacer, end_ns, &dropped);
        assert_int_equal(pacer.vsync, rows[i].next_vsync);
        assert_int_equal(next_ns, pacer_vsync_ns(&pacer, rows[i].next_vsync));
        assert_int_equal(dropped, rows[i].dropped);
        assert_int_equal(pacer.frame, i + 1);
        assert_true(next_ns >= end_ns);
    }
}

static void test_pacer(void **state) {
    (void)state;
    profile p = parse("[frames]\nfps = 100"); /* a period is 10,000 us */
    static const pacer_row steady[] = {
        {0, false, 1, 0},      /* in no time */
        {20000, false, 2, 0},  /* vsync 1, ends exactly at its deadline */
        {30001, true, 4, 1},   /* vsync 2, a microsecond late: vsync 3 passes */
        {50000, false, 5, 0},  /* vsync 4 */
        {70000, true, 7, 1},   /* vsync 5, ends exactly at vsync 7: vsync 6 passes */
        {169999, true, 17, 9}, /* vsync 7, ends just before vsync 17 */
        {5000, false, 18, 0},  /* an end before the start does no harm */
    };
    check_pacer(&p, steady, sizeof steady / sizeof *steady);
}

static void test_pacer_with_rests(void **state) {
    (void)state;
    /* Vsyncs 0 1 2, 5 6 7, 10 11 12, ... make frames. */
    profile p = parse("[frames]\nfps = 100\nburst_ms = 30\nrest_ms = 20");
    static const pacer_row rows[] = {
        {9000, false, 1, 0},    {19000, false, 2, 0},
        {29000, false, 5, 0},                         /* vsync 2, then a rest: nothing dropped */
        {59000, false, 6, 0},   {75000, true, 10, 1}, /* vsync 6, ends after vsync 7 passed; a rest follows */
        {110000, false, 11, 0}, {119000, false, 12, 0},
        {145000, true, 15, 0}, /* vsync 12, late, but only into the rest */
        {201000, true, 21, 3}, /* vsync 15, past 16, 17, a rest and 20 */
        {489999, true, 50, 16},
    };
    check_pacer(&p, rows, sizeof rows / sizeof *rows);
}

/* Against a plain search, vsync by vsync. */
static void test_pacer_at_random(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int trial = 0; trial < 200; trial++) {
        profile p = parse("");
        p.fps = 1 + (int32_t)rng_below(&r, 1000);
        p.burst_ms = 1 + (int32_t)rng_below(&r, 300);
        p.rest_ms = (int32_t)rng_below(&r, 300);
        frame_pacer pacer = {.profile = &p, .origin_ns = rng_u64(&r) >> 20};
        uint32_t dropped;
        uint64_t at = pacer_next(&pacer, 0, &dropped);
        for (int k = 0; k < 100; k++) {
            uint64_t end = at + rng_below(&r, (uint32_t)(3 * SECOND / (uint64_t)p.fps));
            uint64_t vsync = pacer.vsync + 1;
            uint32_t passed = 0;
            for (; pacer_vsync_ns(&pacer, vsync) < end || !profile_makes_frames_at(&p, vsync); vsync++) {
                passed += profile_makes_frames_at(&p, vsync);
            }
            at = pacer_next(&pacer, end, &dropped);
            assert_int_equal(pacer.vsync, vsync);
            assert_int_equal(dropped, passed);
            assert_int_equal(at, pacer_vsync_ns(&pacer, vsync));
        }
    }
}

/* ---- The loop, in a world where time passes only as the test says ---- */

typedef struct test_world {
    uint64_t now_ns, frame_ns, slow_frame, slow_ns, sleeps;
    atomic_bool stop;
    uint64_t stop_in_frame, n;
    bool in_frame;
    uint64_t start_ns, deadline_ns; /* as on_begin was told */
    uint32_t expected_frame;
    frame_record records[64];
    int end_after; /* frames until on_frame says 5; 0: never */
} test_world;

static uint64_t world_now(void *ctx) {
    return ((test_world *)ctx)->now_ns;
}

/* Every other sleep is cut short, as by a signal. */
static void world_sleep(void *ctx, uint64_t time_ns) {
    test_world *w = ctx;
    assert_true(time_ns > w->now_ns && time_ns - w->now_ns <= SECOND / 20);
    w->now_ns = w->sleeps++ % 2 ? time_ns : w->now_ns + (time_ns - w->now_ns + 1) / 2;
}

static double world_draw(void *ctx, uint64_t frame) {
    test_world *w = ctx;
    assert_int_equal(frame, w->expected_frame++);
    assert_true(w->in_frame);
    w->now_ns += frame == w->slow_frame ? w->slow_ns : w->frame_ns;
    if (frame == w->stop_in_frame) atomic_store(&w->stop, true);
    return 80.5;
}

static void world_on_begin(void *ctx, uint64_t start_ns, uint64_t deadline_ns) {
    test_world *w = ctx;
    assert_false(w->in_frame);
    assert_int_equal(start_ns, w->now_ns);
    w->in_frame = true;
    w->start_ns = start_ns;
    w->deadline_ns = deadline_ns;
}

static int world_on_frame(void *ctx, const frame_record *record) {
    test_world *w = ctx;
    assert_true(w->in_frame);
    w->in_frame = false;
    assert_int_equal(record->start_ns, w->start_ns);
    assert_int_equal(record->deadline_ns, w->deadline_ns);
    assert_true(w->n < sizeof w->records / sizeof *w->records);
    w->records[w->n++] = *record;
    return (int)w->n == w->end_after ? 5 : 0;
}

static frame_loop_options options_of(test_world *w, const profile *p) {
    return (frame_loop_options){.profile = p,
                                .world = {world_now, world_sleep, world_draw, w},
                                .stop = &w->stop,
                                .on_begin = world_on_begin,
                                .on_frame = world_on_frame,
                                .ctx = w};
}

static void test_loop(void **state) {
    (void)state;
    profile p = parse("[frames]\nfps = 100\nburst_ms = 100\nrest_ms = 400");
    test_world w = {
        .now_ns = 5 * SECOND, .frame_ns = 4 * MS, .slow_frame = 3, .slow_ns = 25 * MS, .stop_in_frame = 999};
    frame_loop_options o = options_of(&w, &p);
    o.seconds_ns = SECOND;
    assert_int_equal(frame_loop_run(&o), 0);
    assert_int_equal(w.n, 18); /* two bursts of ten, two vsyncs dropped */
    uint64_t origin = w.records[0].vsync_ns;
    assert_int_equal(origin, 5 * SECOND + 10 * MS);
    for (uint64_t i = 0; i < w.n; i++) {
        const frame_record *r = &w.records[i];
        uint64_t vsync = i < 4 ? i : i < 8 ? i + 2 : i - 8 + 50;
        assert_int_equal(r->frame, i);
        assert_int_equal(r->vsync_ns, origin + vsync * 10 * MS);
        assert_int_equal(r->start_ns, r->vsync_ns);
        assert_int_equal(r->end_ns - r->start_ns, i == 3 ? 25 * MS : 4 * MS);
        assert_int_equal(r->deadline_ns - r->vsync_ns, 10 * MS);
        assert_int_equal(r->missed, i == 3);
        assert_int_equal(r->dropped, i == 4 ? 2 : 0);
        assert_true(r->latency_ns == 80.5);
    }
}

static void test_loop_ends(void **state) {
    (void)state;
    profile p = parse("[frames]\nfps = 100");
    test_world w = {.frame_ns = MS, .slow_frame = 999, .stop_in_frame = 999};
    frame_loop_options o = options_of(&w, &p);
    o.n_frames_max = 7;
    assert_int_equal(frame_loop_run(&o), 0);
    assert_int_equal(w.n, 7);

    w = (test_world){.frame_ns = MS, .slow_frame = 999, .stop_in_frame = 4};
    o.n_frames_max = 0;
    assert_int_equal(frame_loop_run(&o), 0);
    assert_int_equal(w.n, 5); /* the frame in which it was stopped counts */

    w = (test_world){.frame_ns = MS, .slow_frame = 999, .stop_in_frame = 999, .end_after = 3};
    assert_int_equal(frame_loop_run(&o), 5);
    assert_int_equal(w.n, 3);

    w = (test_world){.frame_ns = MS, .slow_frame = 999, .stop_in_frame = 999, .stop = true};
    assert_int_equal(frame_loop_run(&o), 0);
    assert_int_equal(w.n, 0);
}

/* ---- Records ---- */

static void assert_equal_records(const frame_record *a, const frame_record *b) {
    assert_int_equal(a->frame, b->frame);
    assert_int_equal(a->vsync_ns, b->vsync_ns);
    assert_int_equal(a->start_ns, b->start_ns);
    assert_int_equal(a->end_ns, b->end_ns);
    assert_int_equal(a->deadline_ns, b->deadline_ns);
    assert_int_equal(a->missed, b->missed);
    assert_int_equal(a->dropped, b->dropped);
    assert_true(fabs(a->latency_ns - b->latency_ns) <= 1e-8 * a->latency_ns);
}

static void test_record_round_trip(void **state) {
    (void)state;
    static const frame_record rows[] = {
        {0, 0, 0, 0, 1, false, 0, 0},
        {7, 1000, 1001, 2000, 2000, false, 0, 81.25},
        {8, 1000, 1001, 2001, 2000, true, 3, 0.1},
        {INT64_MAX, INT64_MAX - 2, INT64_MAX - 1, INT64_MAX, INT64_MAX - 1, true, UINT32_MAX, 1.7e308},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[FRAME_LINE_MAX];
        frame_record read = {0};
        int length = frame_record_print(&rows[i], line);
        assert_int_equal(length, strlen(line));
        assert_int_equal(line[length - 1], '\n');
        assert_null(memchr(line, '\n', (size_t)length - 1));
        assert_true(frame_record_parse(line, (size_t)length - 1, &read));
        assert_equal_records(&rows[i], &read);
    }
}

static void test_totals(void **state) {
    (void)state;
    static frame_totals t; /* large */
    assert_true(frame_totals_jank(&t) == 0 && frame_totals_latency_ns(&t) == 0);
    for (uint64_t i = 0; i < 100; i++) {
        frame_record r = {
            .vsync_ns = SECOND, .end_ns = SECOND + (i + 1) * MS, .missed = i >= 75, .dropped = i == 99 ? 3 : 0};
        r.latency_ns = i < 50 ? 0 : 80; /* frames without loads say nothing of it */
        frame_totals_add(&t, &r);
    }
    assert_true(t.frames == 100 && t.janky == 25 && t.dropped == 3 && frame_totals_jank(&t) == 0.25);
    assert_float_equal(frame_totals_ms(&t, 0.5), 50, 50 * 0.016);
    assert_float_equal(frame_totals_ms(&t, 0.95), 95, 95 * 0.016);
    assert_float_equal(frame_totals_latency_ns(&t), 80, 80 * 0.016);
}

#define LINE(frame, vsync, start, end, deadline, missed, dropped, latency)                                             \
    "{\"frame\":" frame ",\"vsync_ns\":" vsync ",\"start_ns\":" start ",\"end_ns\":" end ",\"deadline_ns\":" deadline  \
    ",\"missed\":" missed ",\"dropped\":" dropped ",\"latency_ns\":" latency "}"

static void test_record_garbage(void **state) {
    (void)state;
    static const struct {
        bool good;
        const char *line;
    } rows[] = {
        {true, LINE("1", "10", "11", "12", "20", "false", "0", "5")},
        {true, LINE("1", "10", "10", "10", "20", "false", "0", "0")},
        {true, " " LINE("1", "10", "11", "21", "20", "true", "4294967295", "5e1") " "},
        {false, ""},
        {false, "{}"},
        {false, "[]"},
        {false, "null"},
        {false, "12"},
        {false, "frame 1"},
        {false, LINE("1", "10", "11", "12", "20", "false", "0", "5") "x"},
        {false, LINE("-1", "10", "11", "12", "20", "false", "0", "5")},
        {false, LINE("1.5", "10", "11", "12", "20", "false", "0", "5")},
        {false, LINE("\"1\"", "10", "11", "12", "20", "false", "0", "5")},
        {false, LINE("99999999999999999999", "10", "11", "12", "20", "false", "0", "5")},
        {false, LINE("1", "12", "11", "12", "20", "false", "0", "5")},
        {false, LINE("1", "10", "13", "12", "20", "false", "0", "5")},
        {false, LINE("1", "10", "11", "12", "10", "true", "0", "5")},
        {false, LINE("1", "10", "11", "12", "20", "true", "0", "5")},
        {false, LINE("1", "10", "11", "20", "20", "true", "0", "5")},
        {false, LINE("1", "10", "11", "21", "20", "false", "0", "5")},
        {false, LINE("1", "10", "11", "12", "20", "0", "0", "5")},
        {false, LINE("1", "10", "11", "12", "20", "null", "0", "5")},
        {false, LINE("1", "10", "11", "12", "20", "false", "4294967296", "5")},
        {false, LINE("1", "10", "11", "12", "20", "false", "0", "-1")},
        {false, LINE("1", "10", "11", "12", "20", "false", "0", "nan")},
        {false, LINE("1", "10", "11", "12", "20", "false", "0", "1e999")},
        {false, LINE("1", "10", "11", "12", "20", "false", "0", "\"5\"")},
        {false, LINE("1", "10", "11", "12", "20", "false", "0", "5,\"frame\":1")},
        {false, "{\"frame\":1,\"vsync_ns\":10,\"start_ns\":11,\"end_ns\":12,\"deadline_ns\":20,\"missed\":false}"},
        {false, "{\"summary\":{\"frames\":3}}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        frame_record r = {.frame = 4711};
        bool good = frame_record_parse(rows[i].line, strlen(rows[i].line), &r);
        if (good != rows[i].good) fail_msg("taken wrongly: %s", rows[i].line);
        assert_int_equal(r.frame, good ? 1 : 4711);
    }
    frame_record r;
    const char more[] = LINE("1", "10", "11", "12", "20", "false", "0", "5,\"battery\":[{}]");
    assert_true(frame_record_parse(more, sizeof more - 1, &r));
    for (size_t cut = 0; cut < sizeof more - 1; cut++) {
        assert_false(frame_record_parse(more, cut, &r));
    }
}

/* ---- The scene ---- */

static const char SCENE[] = "[amount]\nspread = 0.4\nheavy_share = 0.1\nheavy = 3\n[work]\nwidth = 160\nheight = 96\n"
                            "layers = 1.5\nphotos = 1.25\nglyphs = 300\nparticles = 9000\nloads = 500\n"
                            "shading = 5000\n[data]\ntexture_mib = 1\nphoto_mib = 1\nscene_mib = 1\n";

/* The same pixels whatever was drawn before, and by another scene of the same profile. */
static void test_scene_is_repeatable(void **state) {
    (void)state;
    enum { FRAMES = 40 };
    profile p = parse(SCENE);
    uint64_t hashes[FRAMES];
    scene *a, *b;
    assert_ok(scene_open(&p, &a, err));
    assert_ok(scene_open(&p, &b, err));
    for (uint64_t k = 0; k < FRAMES; k++) {
        assert_true(scene_draw(a, k) > 0);
        hashes[k] = scene_hash(a);
        for (uint64_t j = 0; j < k; j++) {
            assert_true(hashes[j] != hashes[k]);
        }
    }
    for (uint64_t k = FRAMES; k-- > 0;) {
        scene_draw(b, k);
        assert_true(scene_hash(b) == hashes[k]);
    }
    scene_draw(b, UINT64_MAX);
    scene_close(&a);
    scene_close(&b);
    assert_null(b);
    scene_close(&b);
}

/* Each kind of work changes the pixels, and more of it changes them again. */
static void test_each_kind_of_work(void **state) {
    (void)state;
    static const char *const kinds[] = {"layers = %g",       "photos = %g",  "glyphs = %g00",
                                        "particles = %g000", "loads = %g00", "shading = %g000"};
    static const double amounts[] = {0, 0.5, 1, 1.5};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        uint64_t last = 0;
        for (size_t j = 0; j < sizeof amounts / sizeof *amounts; j++) {
            char text[256], work[64];
            snprintf(work, sizeof work, kinds[i], amounts[j]);
            snprintf(text, sizeof text,
                     "[work]\nwidth = 64\nheight = 200\n%s\n[data]\ntexture_mib = 1\nphoto_mib = 1\n", work);
            profile p = parse(text);
            scene *s;
            assert_ok(scene_open(&p, &s, err));
            double latency = scene_draw(s, 3);
            if (i != 4) assert_true(latency == 0);
            assert_true(scene_hash(s) != last);
            last = scene_hash(s);
            scene_close(&s);
        }
    }
}

/* Sizes at the edges of what is allowed: nothing is read or written beside them (for the sanitizers). */
static void test_odd_sizes(void **state) {
    (void)state;
    static const int32_t sides[] = {64, 65, 255, 257, 511, 8192};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        for (int turned = 0; turned < 2; turned++) {
            profile p = parse(SCENE);
            p.width = turned ? 64 : sides[i];
            p.height = turned ? sides[i] : 64;
            p.shading = 3e4f;
            p.scale = 3;
            scene *s;
            assert_ok(scene_open(&p, &s, err));
            scene_draw(s, 0);
            scene_draw(s, 1);
            scene_close(&s);
        }
    }
}

#ifndef SERENO_SLOW_BUILD /* sanitizers have their own ways with address space */
static void test_no_memory(void **state) {
    (void)state;
    profile p = parse("[work]\nlayers = 1\n");
    p.texture_mib = 1e9f; /* no file may say so */
    scene *s = (scene *)&p;
    sereno_error err = {0};
    assert_int_equal(scene_open(&p, &s, &err), SERENO_ERR_NO_MEMORY);
    assert_null(s);
    assert_non_null(strstr(err.message, "textures"));
}
#endif

/* ---- Tuning ---- */

/* Frames take base + scale * weight * unit periods. */
typedef struct model {
    double base, unit;
    int runs, fail_at, frames; /* frames: 0 for as many as the seconds hold */
    uint64_t noise;
} model;

static int run_model(void *ctx, const profile *p, double seconds, double *periods, int max) {
    model *m = ctx;
    if (++m->runs == m->fail_at) return SERENO_ERR_ABANDONED;
    int n = m->frames ? m->frames : (int)(seconds * p->fps);
    assert_true(n <= max);
    for (int i = 0; i < n; i++) {
        uint64_t frame = m->noise++; /* other frames in every run */
        periods[i] = m->base + (double)p->scale * m->unit * profile_frame_weight(p, frame);
    }
    return n;
}

static tune_options options_for(model *m, double native_jank) {
    return (tune_options){
        .native_jank = native_jank, .rounds = 5, .seconds = 20, .check_seconds = 60, .run = run_model, .ctx = m};
}

static void test_tune_reaches(void **state) {
    (void)state;
    static const model rows[] = {
        {.unit = 0.6}, {.unit = 0.01}, {.unit = 30}, {.base = 0.3, .unit = 0.2}, {.base = 0.4, .unit = 1}};
    static const double wanted[] = {0.02, 0.04, 0.2};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t j = 0; j < sizeof wanted / sizeof *wanted; j++) {
            profile p = parse("[frames]\nfps = 120\n[amount]\nspread = 0.25");
            model m = rows[i];
            tune_options o = options_for(&m, wanted[j]);
            tune_result result;
            assert_ok(tune_profile(&p, &o, &result, err));
            assert_int_equal(m.runs, 6);
            if (!result.reached) fail_msg("row %zu: %g instead of %g", i, result.jank, wanted[j]);
            assert_true(fabs(result.jank - wanted[j]) <= wanted[j] / 2);
            /* What the lognormal's quantile says: base + unit * scale * exp(sigma * z) = 1. */
            static const double z[] = {2.0537, 1.7507, 0.8416};
            double exact = (1 - rows[i].base) / rows[i].unit / exp(0.25 * z[j]);
            assert_true(fabs((double)p.scale / exact - 1) < 0.1);
        }
    }
}

static void test_tune_cannot(void **state) {
    (void)state;
    static const struct {
        model model;
        int status;
        const char *word;
    } rows[] = {
        {{.base = 0.1}, SERENO_ERR_INVALID, "do not take longer"}, /* always in time */
        {{.base = 3}, SERENO_ERR_INVALID, "do not take longer"},   /* never */
        {{.base = 0}, SERENO_ERR_INVALID, "do not take longer"},
        {{.unit = 1, .frames = 3}, SERENO_ERR_INVALID, "only 3 frames"},
        {{.unit = 1, .fail_at = 3}, SERENO_ERR_ABANDONED, "failed"},
        {{.unit = 1, .fail_at = 6}, SERENO_ERR_ABANDONED, "failed"}, /* the check */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        profile p = parse("[frames]\nfps = 120\n[amount]\nspread = 0.25");
        model m = rows[i].model;
        tune_options o = options_for(&m, 0.04);
        tune_result result;
        sereno_error err = {0};
        assert_int_equal(tune_profile(&p, &o, &result, &err), rows[i].status);
        assert_non_null(strstr(err.message, rows[i].word));
        assert_true(p.scale == 1);
    }
    /* Too heavy for the smallest scale, but it follows: told as not reached. */
    profile p = parse("[amount]\nspread = 0.25");
    model m = {.unit = 1e6};
    tune_options o = options_for(&m, 0.04);
    tune_result result;
    assert_ok(tune_profile(&p, &o, &result, err));
    assert_false(result.reached);
    assert_true(result.jank == 1);
}

/* ---- The channel ---- */

static void test_shared_page(void **state) {
    (void)state;
    int fd;
    frame_signal *page = shared_page_create(&fd);
    assert_non_null(page);
    frame_signal *again = shared_page_open(fd);
    assert_non_null(again);
    assert_ptr_not_equal(page, again);
    assert_int_equal(atomic_load(&again->in_frame), 0);
    atomic_store(&page->in_frame, 1);
    assert_int_equal(atomic_load(&again->in_frame), 1);
    assert_int_equal(ftruncate(fd, 0), -1);
    shared_page_close(again);
    shared_page_close(page);
    shared_page_close(NULL);
    close(fd);
    assert_null(shared_page_open(fd));
    assert_null(shared_page_open(-1));
    FILE *file = fopen(temporary_path("no-page"), "w+");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), SHARED_PAGE_SIZE), 0);
    assert_null(shared_page_open(fileno(file)));
    fclose(file);
    unlink(temporary_path("no-page"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped_profiles),
        cmocka_unit_test(test_headline_profiles),
        cmocka_unit_test(test_defaults_and_forms),
        cmocka_unit_test(test_parse_errors),
        cmocka_unit_test(test_save_and_find),
        cmocka_unit_test(test_not_found),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_bursts),
        cmocka_unit_test(test_vsyncs_do_not_drift),
        cmocka_unit_test(test_pacer),
        cmocka_unit_test(test_pacer_with_rests),
        cmocka_unit_test(test_pacer_at_random),
        cmocka_unit_test(test_loop),
        cmocka_unit_test(test_loop_ends),
        cmocka_unit_test(test_record_round_trip),
        cmocka_unit_test(test_totals),
        cmocka_unit_test(test_record_garbage),
        cmocka_unit_test(test_scene_is_repeatable),
        cmocka_unit_test(test_each_kind_of_work),
        cmocka_unit_test(test_odd_sizes),
#ifndef SERENO_SLOW_BUILD
        cmocka_unit_test(test_no_memory),
#endif
        cmocka_unit_test(test_tune_reaches),
        cmocka_unit_test(test_tune_cannot),
        cmocka_unit_test(test_shared_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
