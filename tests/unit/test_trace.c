/* Traces and decisions as files, of runs made by hand. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "decisions.h"
#include "number.h"
#include "support.h"
#include "trace.h"

/* A run on a clock of its own: what a control would tell whoever logs. */
typedef struct made_run {
    trace trace;
    decisions decisions;
    char trace_path[512], decisions_path[512];
    uint64_t now_ns;
    sereno_decision decision;
} made_run;

static made_run begin_run(void) {
    made_run r = {.now_ns = 5000000, .decision = {.bounds = {.may_draft = true, .batch_min = 1}}};
    snprintf(r.trace_path, sizeof r.trace_path, "%s", temporary_path("trace.json"));
    snprintf(r.decisions_path, sizeof r.decisions_path, "%s", temporary_path("decisions"));
    assert_ok(trace_open(&r.trace, r.trace_path, err));
    assert_ok(decisions_open(&r.decisions, r.decisions_path, err));
    return r;
}

static void tell(made_run *r, const sereno_event *event, const sereno_boundary *b) {
    trace_add(&r->trace, event, b, &r->decision);
    decisions_add(&r->decisions, event, &r->decision);
}

static void happens(made_run *r, sereno_event_kind kind) {
    tell(r, &(sereno_event){.kind = kind, .now_ns = r->now_ns}, NULL);
}

static void boundary(made_run *r, sereno_boundary *b) {
    b->now_ns = r->now_ns;
    tell(r,
         &(sereno_event){
             .kind = SERENO_EVENT_SUBGRAPH, .now_ns = r->now_ns, .subgraph = {.plan = b->plan, .batch = b->batch}},
         b);
}

/* A pass of `run` subgraphs, at most 6 of as many, 100 us each, with 5 us between them. */
static sereno_boundary pass(made_run *r, sereno_plan_kind plan, int32_t batch, int32_t run) {
    sereno_boundary b = {.plan = plan, .batch = batch, .n_subgraphs = 6, .wall_ns = 100000};
    for (b.subgraph = 0; b.subgraph < run; b.subgraph++) {
        b.kind = (sereno_subgraph_kind)b.subgraph;
        r->now_ns += 105000;
        boundary(r, &b);
    }
    b.subgraph--;
    return b;
}

/* A sleep after the last subgraph, of which there may be several. */
static void sleep_after(made_run *r, sereno_boundary *b, uint64_t us) {
    r->now_ns += us * 1000;
    b->slept_ns += us * 1000;
    boundary(r, b);
}

static void decide(made_run *r, sereno_mode mode, int32_t batch_min, uint32_t sleep_us, float score) {
    r->decision.mode = mode;
    r->decision.bounds.batch_min = batch_min;
    r->decision.sleep_us = sleep_us;
    r->decision.score = score;
    r->decision.hold = mode == SERENO_MODE_HOLD;
}

static json_t *ended_trace(made_run *r) {
    assert_ok(trace_close(&r->trace, err));
    assert_ok(decisions_close(&r->decisions, err));
    json_error_t error;
    json_t *document = json_load_file(r->trace_path, JSON_REJECT_DUPLICATES, &error);
    if (!document) fail_msg("line %d: %s", error.line, error.text);
    remove(r->trace_path);
    return document;
}

static char *ended_decisions(const made_run *r) {
    size_t size;
    char *text = (char *)read_whole(r->decisions_path, &size), *terminated = calloc(1, size + 1);
    memcpy(terminated, text, size);
    free(text);
    remove(r->decisions_path);
    return terminated;
}

static const char *text_of(const json_t *event, const char *key) {
    const char *text = json_string_value(json_object_get(event, key));
    return text ? text : "";
}

static double number_of(const json_t *event, const char *key) {
    return json_number_value(json_object_get(event, key));
}

/* Slices of a track, in order, as "name begin+duration" each; '!' behind those that were abandoned. */
static void list_slices(const json_t *document, int track, char *out, size_t size) {
    out[0] = '\0';
    size_t i, n = 0;
    json_t *event;
    json_array_foreach(json_object_get(document, "traceEvents"), i, event) {
        if (strcmp(text_of(event, "ph"), "X") != 0 || number_of(event, "tid") != track) continue;
        bool abandoned = json_is_true(json_object_get(json_object_get(event, "args"), "abandoned"));
        n += (size_t)number_format(out + n, size - n, "%s%s %g+%g%s", n > 0 ? ", " : "", text_of(event, "name"),
                                   number_of(event, "ts"), number_of(event, "dur"), abandoned ? "!" : "");
        assert_true(n < size);
    }
}

static void assert_slices(const json_t *document, int track, const char *wanted) {
    char slices[2048];
    list_slices(document, track, slices, sizeof slices);
    assert_string_equal(slices, wanted);
}

static void assert_counter(const json_t *document, const char *name, const char *wanted) {
    char values[1024] = "";
    size_t i, n = 0;
    json_t *event;
    json_array_foreach(json_object_get(document, "traceEvents"), i, event) {
        if (strcmp(text_of(event, "ph"), "C") != 0 || strcmp(text_of(event, "name"), name) != 0) continue;
        n += (size_t)number_format(values + n, sizeof values - n, "%s%g@%g", n > 0 ? ", " : "",
                                   number_of(json_object_get(event, "args"), name), number_of(event, "ts"));
    }
    assert_string_equal(values, wanted);
}

/* Prefill without a head, a draft that is abandoned, a verification that sleeps and is held. */
static json_t *eventful(made_run *r) {
    *r = begin_run();
    happens(r, SERENO_EVENT_BEGIN);
    pass(r, SERENO_PLAN_PREFILL, 128, 3);
    happens(r, SERENO_EVENT_PREFILL);
    pass(r, SERENO_PLAN_DRAFT, 1, 1);
    decide(r, SERENO_MODE_PREEMPT, 1, 0, 0.504f);
    r->decision.bounds.may_draft = false;
    r->decision.abandon = true;
    sereno_boundary b = {.plan = SERENO_PLAN_DRAFT, .batch = 1, .subgraph = 1, .wall_ns = 100000};
    r->now_ns += 100000;
    boundary(r, &b);
    r->decision.abandon = false;
    happens(r, SERENO_EVENT_DRAFT_TOKEN);
    decide(r, SERENO_MODE_SLEEP, 8, 1000, 0.75f);
    b = pass(r, SERENO_PLAN_VERIFY, 8, 1);
    decide(r, SERENO_MODE_HOLD, 8, 200, 0.75f);
    sleep_after(r, &b, 1000);
    happens(r, SERENO_EVENT_FRAME_BEGIN); /* says nothing of the sleep under way */
    sleep_after(r, &b, 200);
    decide(r, SERENO_MODE_OPEN, 8, 0, 0.1f);
    sleep_after(r, &b, 200);
    return ended_trace(r);
}

static void test_tracks(void **state) {
    (void)state;
    made_run r;
    json_t *document = eventful(&r);
    assert_slices(document, 3, "prefill 128 5+310");
    assert_slices(document, 1, "draft 1 320+200!");
    assert_slices(document, 2, "verify 8 525+1500");
    assert_slices(document, 4, "qkv 5+100, attention 110+100, attn_out 215+100, qkv 320+100, qkv 420+100, qkv 525+100");
    assert_slices(document, 5, "sleep 625+1000, hold 1625+200, hold 1825+200");
    assert_slices(document, 6, "open 0+520, preempt 520+105, sleep 625+1000, hold 1625+400");
    assert_counter(document, "score", "0@0, 0.5@520, 0.75@625, 0.1@2025");
    assert_counter(document, "batch", "1@0, 8@625");
    json_decref(document);
    remove(r.decisions_path);
}

static void test_tracks_have_names(void **state) {
    (void)state;
    made_run r = begin_run();
    json_t *document = ended_trace(&r), *event;
    const char *const wanted[] = {NULL, "draft", "verify", "prefill", "subgraphs", "sleep", "mode"};
    int found = 0;
    size_t i;
    json_array_foreach(json_object_get(document, "traceEvents"), i, event) {
        assert_string_equal(text_of(event, "ph"), "M");
        if (strcmp(text_of(event, "name"), "thread_name") != 0) continue;
        assert_string_equal(text_of(json_object_get(event, "args"), "name"), wanted[(int)number_of(event, "tid")]);
        found++;
    }
    assert_int_equal(found, 6);
    json_decref(document);
    remove(r.decisions_path);
}

/* Whatever was the last thing that was told, and whatever the times: a document. */
static void test_whole_wherever_it_ends(void **state) {
    (void)state;
    for (int end = 0; end < 8; end++) {
        made_run r = begin_run();
        if (end > 0) happens(&r, SERENO_EVENT_BEGIN);
        if (end > 1) pass(&r, SERENO_PLAN_VERIFY, 1, 4);
        if (end > 2) happens(&r, SERENO_EVENT_TICK); /* in the middle of a pass, which goes on */
        if (end > 3) r.now_ns -= 4000000;            /* a clock that goes back */
        if (end > 4) pass(&r, SERENO_PLAN_DRAFT, 1, 6);
        if (end > 5) decide(&r, SERENO_MODE_PAUSED, 32, 10000, 1);
        if (end > 6) happens(&r, SERENO_EVENT_END);
        json_t *document = ended_trace(&r);
        assert_true(json_is_array(json_object_get(document, "traceEvents")));
        if (end == 3) assert_slices(document, 2, "verify 1 5+415");
        json_decref(document);
        remove(r.decisions_path);
    }
}

static void test_decisions(void **state) {
    (void)state;
    made_run r;
    json_decref(eventful(&r));
    char *lines = ended_decisions(&r);
    assert_string_equal(lines, "0 begin -> open 1 1 0 0.000\n"
                               "315 prefill -> open 1 1 0 0.000\n"
                               "520 subgraph -> preempt 0 1 0 0.504 abandon\n"
                               "520 draft-token -> preempt 0 1 0 0.504\n"
                               "625 subgraph -> sleep 0 8 1000 0.750\n"
                               "1625 subgraph -> hold 0 8 200 0.750 hold\n"
                               "1625 frame-begin -> hold 0 8 200 0.750 hold\n"
                               "2025 subgraph -> open 0 8 0 0.100\n");
    free(lines);
}

static void test_what_cannot_be_written(void **state) {
    (void)state;
    const sereno_event event = {.kind = SERENO_EVENT_TICK};
    const sereno_decision decision = {0};
    trace t = {0};
    decisions d = {0};
    sereno_error failure = {0};
    trace_add(&t, &event, NULL, &decision); /* closed ones take everything */
    decisions_add(&d, &event, &decision);
    assert_ok(trace_close(&t, err));
    assert_ok(decisions_close(&d, err));
    assert_int_equal(trace_open(&t, BUILD_DIR "/no/such/folder", &failure), SERENO_ERR_IO);
    assert_non_null(strstr(failure.message, "/no/such/folder"));
    assert_int_equal(decisions_open(&d, BUILD_DIR, &failure), SERENO_ERR_IO);
    assert_non_null(strstr(failure.message, BUILD_DIR));
    assert_ok(trace_open(&t, "/dev/full", err));
    trace_add(&t, &event, NULL, &decision);
    assert_int_equal(trace_close(&t, &failure), SERENO_ERR_IO);
    assert_non_null(strstr(failure.message, "/dev/full"));
    /* A failure in the middle counts, too. */
    assert_ok(decisions_open(&d, "/dev/full", err));
    for (int i = 0; i < STREAM_BUFFER_BYTES / 20; i++) {
        decisions_add(&d, &event, &decision);
    }
    assert_true(ferror(d.file.to));
    assert_int_equal(decisions_close(&d, &failure), SERENO_ERR_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tracks),
        cmocka_unit_test(test_tracks_have_names),
        cmocka_unit_test(test_whole_wherever_it_ends),
        cmocka_unit_test(test_decisions),
        cmocka_unit_test(test_what_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
