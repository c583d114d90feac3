#include "trace.h"

#include <inttypes.h>
#include <math.h>

#include "number.h"

/* Tracks are threads of one process, in this order. */
typedef enum track {
    TRACK_DRAFT = 1, /* passes have a track by plan */
    TRACK_VERIFY,
    TRACK_PREFILL,
    TRACK_SUBGRAPHS,
    TRACK_SLEEP,
    TRACK_MODE,
    TRACKS,
} track;

static const char *const track_names[TRACKS] = {
    [TRACK_DRAFT] = "draft",         [TRACK_VERIFY] = "verify", [TRACK_PREFILL] = "prefill",
    [TRACK_SUBGRAPHS] = "subgraphs", [TRACK_SLEEP] = "sleep",   [TRACK_MODE] = "mode"};

/* A time as microseconds with three digits. */
#define TIME_FORMAT "%" PRIu64 ".%03d"
#define TIME_OF(ns) (ns) / 1000, (int)((ns) % 1000)

static uint64_t since_start(const trace *t, uint64_t ns) {
    return ns > t->start_ns ? ns - t->start_ns : 0;
}

/* Writes a slice without its end, before which arguments may be added. */
static void begin_slice(trace *t, track track, uint64_t begin_ns, uint64_t end_ns) {
    uint64_t begin = since_start(t, begin_ns), end = since_start(t, end_ns), length = end > begin ? end - begin : 0;
    fprintf(t->file.to, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":" TIME_FORMAT ",\"dur\":" TIME_FORMAT, (int)track,
            TIME_OF(begin), TIME_OF(length));
}

static void add_slice(trace *t, track track, const char *name, uint64_t begin_ns, uint64_t end_ns) {
    begin_slice(t, track, begin_ns, end_ns);
    fprintf(t->file.to, ",\"name\":\"%s\"}", name);
}

static void add_counter(trace *t, const char *name, uint64_t now_ns, double value) {
    uint64_t now = since_start(t, now_ns);
    number_print(t->file.to, ",\n{\"ph\":\"C\",\"pid\":1,\"ts\":" TIME_FORMAT ",\"name\":\"%s\",\"args\":{\"%s\":%g}}",
                 TIME_OF(now), name, name, value);
}

int trace_open(trace *t, const char *path, sereno_error *err) {
    *t = (trace){0};
    int status = stream_file_open(&t->file, path, err);
    if (status) return status;
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
          "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"sereno\"}}",
          t->file.to);
    for (int i = TRACK_DRAFT; i < TRACKS; i++) {
        fprintf(t->file.to,
                ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}", i,
                track_names[i]);
        fprintf(t->file.to,
                ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}}", i,
                i);
    }
    return SERENO_OK;
}

static void end_pass(trace *t) {
    if (!t->in_pass) return;
    t->in_pass = false;
    begin_slice(t, TRACK_DRAFT + (int)t->plan, t->pass_ns, t->pass_end_ns);
    fprintf(t->file.to, ",\"name\":\"%s %d\"%s}", sereno_plan_name(t->plan), (int)t->batch,
            t->abandoned ? ",\"args\":{\"abandoned\":true}" : "");
}

static void end_mode(trace *t, uint64_t now_ns) {
    if (now_ns > t->mode_ns) add_slice(t, TRACK_MODE, sereno_mode_name(t->mode), t->mode_ns, now_ns);
    t->mode_ns = now_ns;
}

int trace_close(trace *t, sereno_error *err) {
    if (t->file.to) {
        end_pass(t);
        end_mode(t, t->last_ns);
        fputs("\n]}\n", t->file.to);
    }
    return stream_file_close(&t->file, err);
}

/* A subgraph has ended, or a sleep after it. */
static void add_boundary(trace *t, const sereno_boundary *b) {
    uint64_t ended_ns = b->now_ns - b->slept_ns;
    if (b->slept_ns > 0) {
        add_slice(t, TRACK_SLEEP, t->holds ? "hold" : "sleep", t->pass_end_ns, b->now_ns);
    } else {
        if (b->subgraph == 0) {
            end_pass(t);
            t->in_pass = true;
            t->plan = b->plan;
            t->batch = b->batch;
            t->pass_ns = ended_ns - b->wall_ns;
        }
        add_slice(t, TRACK_SUBGRAPHS, sereno_subgraph_name(b->kind), ended_ns - b->wall_ns, ended_ns);
    }
    t->pass_end_ns = b->now_ns;
}

static bool comes_after_a_pass(sereno_event_kind kind) {
    return kind == SERENO_EVENT_DRAFT_TOKEN || kind == SERENO_EVENT_PASS || kind == SERENO_EVENT_TOKENS ||
           kind == SERENO_EVENT_PREFILL || kind == SERENO_EVENT_BEGIN || kind == SERENO_EVENT_END;
}

void trace_add(trace *t, const sereno_event *e, const sereno_boundary *b, const sereno_decision *d) {
    if (!t->file.to) return;
    bool first = !t->begun;
    if (first) {
        t->begun = true;
        t->start_ns = t->last_ns = t->mode_ns = b ? b->now_ns - b->slept_ns - b->wall_ns : e->now_ns;
        t->mode = d->mode;
    }
    if (e->now_ns > t->last_ns) t->last_ns = e->now_ns;
    if (b) add_boundary(t, b);
    else if (comes_after_a_pass(e->kind)) end_pass(t);
    if (b) {
        t->abandoned = d->abandon && b->plan == SERENO_PLAN_DRAFT;
        t->holds = d->hold;
    }
    if (d->mode != t->mode) {
        end_mode(t, t->last_ns);
        t->mode = d->mode;
    }
    int32_t score = (int32_t)lrintf(d->score * 100);
    if (first || score != t->score) add_counter(t, "score", t->last_ns, score / 100.0);
    if (first || d->bounds.batch_min != t->batch_min) add_counter(t, "batch", t->last_ns, d->bounds.batch_min);
    t->score = score;
    t->batch_min = d->bounds.batch_min;
}
