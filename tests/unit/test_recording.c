/* Recordings: what a sensor read, kept, read again and given to a fresh sensor; and files that are damaged. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder.h"
#include "replay.h"
#include "rng.h"
#include "sense_bench.h"
#include "support.h"
#include "varint.h"

enum { PLENTY = 1 << 20, READINGS = 30000 };

/* ---- Allocations are counted ---- */

static uint64_t *allocations(void) {
    static uint64_t n;
    return &n;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_malloc(size_t size) {
    ++*allocations();
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size) {
    ++*allocations();
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size) {
    ++*allocations();
    return __real_realloc(p, size);
}

/* ---- A run that is recorded ---- */

/* What came of it. */
typedef struct live {
    sereno_boundary *boundaries;
    sereno_verdict *verdicts;
    sereno_signals *signals;
    sereno_sensor_stats stats;
    int n;
} live;

static void open_live(live *l, int n) {
    *l = (live){.n = n};
    l->boundaries = calloc((size_t)n, sizeof *l->boundaries);
    l->verdicts = calloc((size_t)n, sizeof *l->verdicts);
    l->signals = calloc((size_t)n, sizeof *l->signals);
    assert_true(l->boundaries && l->verdicts && l->signals);
}

static void close_live(live *l) {
    free(l->boundaries);
    free(l->verdicts);
    free(l->signals);
}

/* The boundary that comes next in a run of all kinds of things: passes of both plans and some batches, longer ones for
 * longer contexts, contention, rests at any boundary, gaps, team samples, page faults, clocks that go back. */
typedef struct story {
    rng random;
    bench *b;
    sereno_boundary at;
    bool contended;
} story;

static sereno_boundary tell(story *s) {
    rng *r = &s->random;
    sereno_boundary *at = &s->at;
    at->slept_ns = rng_below(r, 60) == 0 && at->n_subgraphs > 0 ? 1000 + rng_below(r, 2000000) : 0;
    if (at->slept_ns == 0 && (at->n_subgraphs == 0 || ++at->subgraph == at->n_subgraphs)) {
        static const int32_t batches[] = {1, 1, 5, 8, 128};
        at->subgraph = 0;
        at->plan = (sereno_plan_kind)rng_below(r, 3);
        at->n_subgraphs = SUBGRAPHS + (rng_below(r, 8) == 0);
        at->batch = at->plan == SERENO_PLAN_DRAFT ? 1 : batches[rng_below(r, 5)];
    }
    at->kind = kind_of(at->subgraph);
    if (at->slept_ns == 0) {
        double us = (100 + 10 * at->subgraph) * (1 + 0.001 * rng_below(r, 60)) * (s->contended ? 1.4 : 1);
        at->wall_ns = (uint64_t)(us * 1000);
        s->b->now_ns += at->wall_ns + rng_below(r, 400);
    }
    s->b->now_ns += at->slept_ns;
    if (rng_below(r, 300) == 0) s->contended = !s->contended;
    if (rng_below(r, 1000) == 0) s->b->now_ns += 20 * ms;
    if (rng_below(r, 5000) == 0) s->b->now_ns -= 5 * ms;
    if (rng_below(r, 20) == 0) *faults() += 1 + rng_below(r, 3);
    s->b->time.load_ns = (s->contended ? 350 : 200) + rng_below(r, 50);
    at->now_ns = s->b->now_ns;
    if (rng_below(r, 15) == 0) {
        s->b->sampled_ns = at->now_ns;
        at->cpu_ns += 2 * ms;
        at->run_delay_ns += rng_below(r, 4) == 0 ? 100000 : 1000;
    }
    at->sample_age_ns = s->b->sampled_ns ? at->now_ns - s->b->sampled_ns : 0;
    return *at;
}

static sereno_verdict any_verdict(rng *r) {
    sereno_verdict v = {.action = (sereno_action)rng_below(r, 3)};
    if (v.action == SERENO_SLEEP) v.sleep_us = 1 + rng_below(r, 5000);
    return v;
}

/* Records a story; the recording as a file has it, which the caller frees. */
static uint8_t *record(uint64_t seed, const sereno_calibration *calibration, size_t room, live *l, size_t *size) {
    bench b;
    recorder *to;
    open_bench(&b, calibration);
    b.target.info.is_self_draft = true; /* whatever it means */
    const recorder_options how = {.model = "a model", .draft_model = "a draft", .quiet = true, .size_max = room};
    assert_ok(recorder_open(b.sensor, &b.target.base, &b.draft.base, calibration, &how, &to, err));
    story s = {.random = {seed}, .b = &b};
    uint64_t before = *allocations();
    for (int i = 0; i < l->n; i++) {
        l->boundaries[i] = tell(&s);
        l->signals[i] = recorder_read(to, &l->boundaries[i]);
        if (rng_below(&s.random, 10) > 0) continue;
        l->verdicts[i] = any_verdict(&s.random);
        recorder_answer(to, l->verdicts[i]);
    }
    assert_int_equal(*allocations(), before);
    sereno_sensor_stats_read(b.sensor, &l->stats);
    recording *r = recorder_end(to);
    r->windows = calloc(2, sizeof *r->windows);
    assert_non_null(r->windows);
    r->windows[0] = (recording_window){0.25f, 90.5f, 11};
    r->windows[1] = (recording_window){0, NAN, NAN};
    r->n_windows = 2;
    r->windows_begin_ns = 1000;
    r->window_ns = 20 * ms;
    char *data = NULL;
    FILE *file = open_memstream(&data, size);
    assert_non_null(file);
    assert_true(recording_write(r, file));
    fclose(file);
    recorder_close(&to);
    assert_null(to);
    report(&b, SERENO_PLAN_VERIFY, 1, 0, 100); /* by itself again */
    close_bench(&b);
    return (uint8_t *)data;
}

static void assert_same_boundary(const sereno_boundary *a, const sereno_boundary *b) {
    assert_true(a->plan == b->plan && a->kind == b->kind && a->batch == b->batch);
    assert_true(a->subgraph == b->subgraph && a->n_subgraphs == b->n_subgraphs);
    assert_true(a->wall_ns == b->wall_ns && a->now_ns == b->now_ns && a->slept_ns == b->slept_ns);
    assert_true(a->cpu_ns == b->cpu_ns && a->run_delay_ns == b->run_delay_ns);
    assert_true(a->sample_age_ns == b->sample_age_ns);
}

static void assert_same_engine(const sereno_engine *e) {
    const sereno_engine_info *i = e->ops->info(e);
    assert_string_equal(i->isa, "none");
    assert_int_equal(i->n_ctx, 512);
    assert_int_equal(i->n_threads, 1);
    assert_int_equal(i->n_vocab, 100);
    assert_int_equal(i->weight_bytes, STREAM_BYTES);
    assert_int_equal(i->stream_bytes, STREAM_BYTES);
    assert_non_null(i->stream);
    assert_float_equal(e->ops->pass_us(e, 5, 128), 1500, 0);
    assert_float_equal(e->ops->pass_us(e, 128, 256), 13800, 0);
}

/* To the bit. */
static void assert_same_signals(const sereno_signals *a, const sereno_signals *b) {
    const float of_a[] = {a->slowdown, a->slowdown_slope, a->probe, a->probe_slope, a->run_delay};
    const float of_b[] = {b->slowdown, b->slowdown_slope, b->probe, b->probe_slope, b->run_delay};
    assert_memory_equal(of_a, of_b, sizeof of_a);
    assert_int_equal(a->has_run_delay, b->has_run_delay);
}

/* A fresh sensor says of the first n boundaries what the live one said. */
static void assert_replays(const recording *r, const live *l, int n) {
    replay *p;
    sereno_sensor *sensor;
    recording_event e;
    assert_ok(replay_open(r, &p, err));
    assert_same_engine(replay_target(p));
    assert_same_engine(replay_draft(p));
    assert_ok(sereno_sensor_open(replay_target(p), replay_draft(p), r->calibration, &sensor, err));
    sensor_ask(sensor, replay_machine(p));
    for (int i = 0; i < n; i++) {
        assert_true(replay_next(p, &e));
        assert_same_boundary(&e.boundary, &l->boundaries[i]);
        assert_int_equal(e.verdict.action, l->verdicts[i].action);
        assert_int_equal(e.verdict.sleep_us, l->verdicts[i].sleep_us);
        sereno_signals s = sereno_sensor_read(sensor, &e.boundary);
        assert_same_signals(&s, &l->signals[i]);
    }
    assert_false(replay_next(p, &e));
    assert_false(replay_next(p, &e));
    sereno_sensor_stats stats;
    sereno_sensor_stats_read(sensor, &stats);
    if (n == l->n) assert_memory_equal(&stats, &l->stats, sizeof stats);
    sereno_sensor_close(&sensor);
    replay_close(&p);
    assert_null(p);
}

/* ---- Tests ---- */

static void test_numbers(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (int i = 0; i < 10000; i++) {
        uint64_t value = rng_u64(&r) >> rng_below(&r, 64), again = 0;
        if (i < 2) value = i ? UINT64_MAX : 0;
        uint8_t bytes[VARINT_BYTES_MAX];
        size_t n = varint_put(bytes, value);
        const uint8_t *at = bytes;
        assert_true(n <= VARINT_BYTES_MAX && varint_take(&at, bytes + n, &again));
        assert_true(again == value && at == bytes + n);
        at = bytes;
        assert_false(varint_take(&at, bytes + n - 1, &again));
        assert_true(unzigzag(zigzag(value)) == value);
    }
    assert_int_equal(zigzag(UINT64_MAX), 1); /* -1 */
    const uint8_t too_large[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2}, *at = too_large;
    uint64_t value;
    assert_false(varint_take(&at, too_large + sizeof too_large, &value));
}

static void test_a_fresh_sensor_says_the_same(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    sereno_calibration *calibration = make_calibration();
    calibration->probe_ns = 210.0 + 1.0 / 3; /* no digit may be lost */
    calibration->probe_slope = 2.0 / 3;
    for (int calibrated = 0; calibrated < 2; calibrated++) {
        live l;
        size_t size;
        recording *r;
        open_live(&l, READINGS);
        uint8_t *data = record(seed, calibrated ? calibration : NULL, PLENTY, &l, &size);
        assert_ok(recording_parse(data, size, &r, err));
        assert_int_equal(r->n_boundaries, READINGS);
        assert_int_equal(r->n_dropped, 0);
        assert_true(l.stats.slowdowns > READINGS / 4 && l.stats.probes > READINGS / 100);
        assert_true(l.stats.dropped_faults > 0 && l.stats.dropped_delays > 0);
        assert_replays(r, &l, READINGS);
        assert_string_equal(r->version, sereno_version());
        assert_true(r->processor[0]);
        assert_string_equal(r->model, "a model");
        assert_string_equal(r->draft_model, "a draft");
        assert_true(r->quiet && r->has_draft && r->target.info.is_self_draft && !r->draft.info.is_self_draft);
        assert_int_equal(r->cache_bytes, STREAM_BYTES / 2);
        assert_true(r->windows_begin_ns == 1000 && r->window_ns == 20 * ms && r->n_windows == 2);
        assert_true(r->windows[0].duty == 0.25f && r->windows[0].fg_latency_ns == 90.5f && r->windows[0].fg_gbs == 11);
        assert_true(r->windows[1].duty == 0 && isnan(r->windows[1].fg_latency_ns) && isnan(r->windows[1].fg_gbs));
        assert_int_equal(r->calibration != NULL, calibrated);
        if (calibrated) assert_true(r->calibration->probe_ns == calibration->probe_ns);
        if (calibrated) assert_true(r->calibration->probe_slope == calibration->probe_slope);
        recording_close(&r);
        assert_null(r);
        free(data);
        close_live(&l);
    }
    sereno_calibration_close(&calibration);
}

/* Where there is no room for all of it, it is the beginning. */
static void test_what_does_not_fit_is_counted(void **state) {
    (void)state;
    uint64_t seed = test_seed();
    for (size_t room = 0; room <= 4000; room += 1000) {
        live l;
        size_t size;
        recording *r;
        open_live(&l, 2000);
        uint8_t *data = record(seed, NULL, room, &l, &size);
        assert_ok(recording_parse(data, size, &r, err));
        assert_true(r->size <= room && r->n_dropped > 0);
        assert_int_equal(r->n_boundaries + r->n_dropped, 2000);
        if (room > 0) assert_true(r->n_boundaries > 50);
        assert_replays(r, &l, (int)r->n_boundaries);
        recording_close(&r);
        free(data);
        close_live(&l);
    }
}

/* What no engine reports ends a recording: a hole would make all that follows another story. */
static void test_what_is_no_boundary_is_counted(void **state) {
    (void)state;
    bench b;
    recorder *to;
    open_bench(&b, NULL);
    b.target.info.n_ctx = 100; /* nobody asks for the time of a longer context */
    const recorder_options how = {.size_max = PLENTY};
    assert_ok(recorder_open(b.sensor, &b.target.base, NULL, NULL, &how, &to, err));
    sereno_boundary good = {.n_subgraphs = 1, .batch = 1, .wall_ns = 1000, .now_ns = 5000}, bad = good;
    bad.subgraph = 1;
    recorder_read(to, &good);
    recorder_read(to, &bad);
    recorder_read(to, &good);
    const recording *r = recorder_end(to);
    assert_true(r->n_boundaries == 1 && r->n_dropped == 2 && !r->has_draft && !r->quiet);
    assert_string_equal(r->draft_model, "");
    recorder_close(&to);
    close_bench(&b);
}

static void test_any_event_comes_back(void **state) {
    (void)state;
    rng r = {test_seed()};
    recording_codec *in = recording_codec_open(), *out = recording_codec_open();
    assert_true(in && out);
    const uint64_t times[] = {0, 1, 1000, UINT64_C(1) << 62, UINT64_MAX - 1, UINT64_MAX};
    for (int i = 0; i < 100000; i++) {
        recording_event e = {.n_faults = (int)rng_below(&r, SENSOR_FAULTS_MAX + 1), .probed = rng_below(&r, 2)}, again;
        sereno_boundary *b = &e.boundary;
        b->plan = (sereno_plan_kind)rng_below(&r, 3);
        b->kind = (sereno_subgraph_kind)rng_below(&r, 6);
        b->batch = 1 + (int32_t)rng_below(&r, 128);
        b->n_subgraphs = 1 + (int32_t)rng_below(&r, rng_below(&r, 2) ? 3 : 1 << 20);
        b->subgraph = (int32_t)rng_below(&r, (uint32_t)b->n_subgraphs);
        b->wall_ns = times[rng_below(&r, 6)];
        b->now_ns = times[rng_below(&r, 6)];
        b->slept_ns = times[rng_below(&r, 6)];
        b->cpu_ns = times[rng_below(&r, 6)];
        b->run_delay_ns = times[rng_below(&r, 6)];
        b->sample_age_ns = times[rng_below(&r, 6)];
        e.verdict = any_verdict(&r);
        for (int k = 0; k < e.n_faults; k++) {
            e.faults[k] = times[rng_below(&r, 6)];
        }
        if (e.probed) e.probe = (probe_times){times[rng_below(&r, 6)], times[rng_below(&r, 6)]};
        assert_int_equal(recording_takes(b), b->wall_ns < UINT64_C(1) << 62);
        if (!recording_takes(b)) continue;
        uint8_t bytes[RECORDING_EVENT_MAX];
        size_t n = recording_put(in, &e, bytes);
        const uint8_t *at = bytes;
        assert_true(n <= sizeof bytes);
        assert_null(recording_take(out, &at, bytes + n, &again));
        assert_true(at == bytes + n);
        assert_same_boundary(&again.boundary, b);
        assert_true(again.verdict.action == e.verdict.action && again.verdict.sleep_us == e.verdict.sleep_us);
        assert_int_equal(again.n_faults, e.n_faults);
        assert_memory_equal(again.faults, e.faults, sizeof e.faults);
        assert_int_equal(again.probed, e.probed);
        assert_memory_equal(&again.probe, &e.probe, sizeof e.probe);
    }
    recording_codec_close(&in);
    recording_codec_close(&out);
}

/* A pass that is like the one before takes a few bytes a subgraph, whatever the clock says. */
static void test_usual_boundaries_are_small(void **state) {
    (void)state;
    recording_codec *c = recording_codec_open();
    assert_non_null(c);
    rng r = {test_seed()};
    recording_event e = {.boundary = {.n_subgraphs = 150, .batch = 1, .now_ns = 1000000 * ms}};
    size_t size = 0;
    for (int i = 0; i < 150 * 20; i++) {
        uint8_t bytes[RECORDING_EVENT_MAX];
        e.boundary.subgraph = i % 150;
        e.boundary.kind = kind_of(i % 5);
        e.boundary.wall_ns = 50000 + 1000 * ((uint64_t)i % 150) + rng_below(&r, 2000);
        e.boundary.now_ns += e.boundary.wall_ns + 200 + rng_below(&r, 60);
        size_t n = recording_put(c, &e, bytes);
        if (i >= 300) size += n;
    }
    assert_true(size <= 3 * 150 * 18);
    recording_codec_close(&c);
}

static void expect_damage(const uint8_t *data, size_t size, const char *word) {
    /* Bytes of their own, so that a sanitizer sees a look behind them. */
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, data, size);
    recording *r;
    sereno_error err = {0};
    assert_int_equal(recording_parse(copy, size, &r, &err), SERENO_ERR_FORMAT);
    assert_null(r);
    assert_non_null(strstr(err.message, word));
    free(copy);
}

static void test_damaged_files(void **state) {
    (void)state;
    live l;
    size_t size;
    rng r = {test_seed()};
    sereno_calibration *calibration = make_calibration();
    open_live(&l, 200);
    uint8_t *data = record(r.state, calibration, PLENTY, &l, &size);
    for (size_t n = 0; n < size; n++) {
        expect_damage(data, n, n < strlen("sereno-recording 1\n") ? "this is no recording of version 1" : "recording");
    }
    for (size_t i = 0; i < size; i++) {
        uint8_t before = data[i];
        data[i] ^= (uint8_t)(1 + rng_below(&r, 255));
        expect_damage(data, size, "recording");
        data[i] = before;
    }
    uint8_t *longer = calloc(1, size + 1);
    assert_non_null(longer);
    memcpy(longer, data, size);
    expect_damage(longer, size + 1, "more than a recording");
    longer[size - 1] ^= 1;
    expect_damage(longer, size, "its check is not that");
    free(longer);
    expect_damage(data, size - 1, "its check");
    free(data);
    close_live(&l);
    sereno_calibration_close(&calibration);
}

static void test_files(void **state) {
    (void)state;
    live l;
    size_t size;
    recording *r;
    sereno_error err = {0};
    open_live(&l, 200);
    uint8_t *data = record(1, NULL, PLENTY, &l, &size);
    const char *path = temporary_path("a.rec");
    assert_int_equal(recording_load(path, &r, &err), SERENO_ERR_IO);
    assert_non_null(strstr(err.message, path));
    for (size_t missing = 0; missing < 2; missing++) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        fwrite(data, 1, size - missing, file);
        fclose(file);
        assert_int_equal(recording_load(path, &r, &err), missing ? SERENO_ERR_FORMAT : SERENO_OK);
        if (missing) assert_non_null(strstr(err.message, path));
        else assert_replays(r, &l, l.n);
        recording_close(&r);
    }
    remove(path);
    free(data);
    close_live(&l);
}

/* Those that come with the sources are whole, and a sensor of today makes something of them. */
static void test_committed_recordings(void **state) {
    (void)state;
    const char *folder = SOURCE_DIR "/bench/recordings";
    DIR *dir = opendir(folder);
    if (!dir) return; /* there are none yet; to skip would hide the other tests */
    for (const struct dirent *file; (file = readdir(dir));) {
        if (!strstr(file->d_name, ".rec")) continue;
        char path[4096];
        recording *r;
        replay *p;
        sereno_sensor *sensor;
        recording_event e;
        snprintf(path, sizeof path, "%s/%s", folder, file->d_name);
        assert_ok(recording_load(path, &r, err));
        assert_int_equal(r->quiet, strstr(file->d_name, "quiet") != NULL);
        assert_ok(replay_open(r, &p, err));
        assert_ok(sereno_sensor_open(replay_target(p), replay_draft(p), r->calibration, &sensor, err));
        sensor_ask(sensor, replay_machine(p));
        while (replay_next(p, &e)) {
            sereno_sensor_read(sensor, &e.boundary);
        }
        sereno_sensor_stats stats;
        sereno_sensor_stats_read(sensor, &stats);
        assert_true(stats.slowdowns > r->n_boundaries / 4);
        sereno_sensor_close(&sensor);
        replay_close(&p);
        recording_close(&r);
    }
    closedir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_a_fresh_sensor_says_the_same),
        cmocka_unit_test(test_what_does_not_fit_is_counted),
        cmocka_unit_test(test_what_is_no_boundary_is_counted),
        cmocka_unit_test(test_any_event_comes_back),
        cmocka_unit_test(test_usual_boundaries_are_small),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_committed_recordings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
