#include "foreground_child.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "pipe.h"
#include "sereno/clock.h"

enum { READ_SIZE = 1 << 16, TEXT_MAX = 1 << 20, SHOWN = 60, END_MS = 500, ENDED_AS_TOLD = 143 /* by SIGTERM */ };

int foreground_start(foreground_child *f, const foreground_options *o, sereno_error *err) {
    *f = (foreground_child){.options = o, .fd = -1, .heard_ns = sereno_system_now_ns()};
    char seconds[16], cpu[16], first[16], channel[48];
    snprintf(seconds, sizeof seconds, "%d", o->seconds);
    snprintf(cpu, sizeof cpu, "%d", o->cpu);
    snprintf(first, sizeof first, "%d", o->first_frame);
    snprintf(channel, sizeof channel, "SERENO_FRAME_FD=%d", o->signal_fd);
    const char *argv[12] = {o->program,  "foreground", o->profile,      "--json",
                            "--seconds", seconds,      "--first-frame", first};
    int n = 8;
    if (o->hints) argv[n++] = "--hint";
    if (o->cpu >= 0) argv[n++] = "--cpu";
    if (o->cpu >= 0) argv[n++] = cpu;
    const char *environment[] = {channel, NULL};
    int output = -1;
    if (!process_pipe(&f->fd, &output)) return err_set(err, SERENO_ERR_SYSTEM, "no pipe to the foreground can be made");
    process_options p = {.argv = argv,
                         .environment = o->signal_fd >= 0 ? environment : NULL,
                         .input_fd = -1,
                         .output_fd = output,
                         .kept_fd = o->signal_fd};
    f->text = malloc(TEXT_MAX);
    int status = f->text ? process_start(&p, &f->process, err) : err_no_memory(err, "the foreground's text", TEXT_MAX);
    pipe_close(&output);
    if (status) foreground_close(f);
    return status;
}

static int nonsense(const char *line, size_t size, sereno_error *err) {
    char shown[SHOWN + 1];
    size_t n = 0;
    for (; n < size && n < SHOWN; n++) {
        shown[n] = (char)(line[n] >= ' ' && line[n] <= '~' ? line[n] : '?');
    }
    shown[n] = '\0';
    return err_set(err, SERENO_ERR_FORMAT, "the foreground wrote what is no frame: '%s'%s", shown,
                   n < size ? "..." : "");
}

/* A line that is not a frame: the header, or the summary at the end. */
static bool take_other(foreground_child *f, const char *line, size_t size) {
    json_t *object = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
    json_int_t period = json_integer_value(json_object_get(object, "period_ns"));
    bool header = !f->ready && period > 0, summary = f->ready && json_object_get(object, "summary");
    if (header) f->period_ns = (uint64_t)period;
    f->ready |= header;
    f->finished |= summary;
    json_decref(object);
    return header || summary;
}

static int take_line(foreground_child *f, const char *line, size_t size,
                     void (*on_frame)(void *ctx, const frame_record *frame), void *ctx, sereno_error *err) {
    frame_record r;
    if (!f->ready || f->finished || !frame_record_parse(line, size, &r)) {
        return !f->finished && take_other(f, line, size) ? SERENO_OK : nonsense(line, size, err);
    }
    /* Vsyncs are rounded to nanoseconds. */
    bool early = f->last_vsync_ns > 0 && r.vsync_ns + 1 < f->last_vsync_ns + f->period_ns;
    if (early || r.deadline_ns - r.vsync_ns - f->period_ns + 1 > 2) {
        return err_set(err, SERENO_ERR_FORMAT,
                       "frame %" PRIu64 " of the foreground cannot be: its vsync is at %" PRIu64
                       " ns after one at %" PRIu64 " ns, its deadline at %" PRIu64 " ns, and vsyncs are %" PRIu64
                       " ns apart",
                       r.frame, r.vsync_ns, f->last_vsync_ns, r.deadline_ns, f->period_ns);
    }
    f->last_vsync_ns = r.vsync_ns;
    on_frame(ctx, &r);
    return SERENO_OK;
}

/* The child has closed its output, so it must have ended. */
static int has_ended(foreground_child *f, sereno_error *err) {
    f->ended = true;
    if (!process_wait(&f->process, END_MS * UINT64_C(1000000))) {
        return err_set(err, SERENO_ERR_SYSTEM, "the foreground has closed its output, but goes on");
    }
    bool as_told = f->told && f->process.exit_code == ENDED_AS_TOLD;
    if ((f->process.exit_code != 0 && !as_told) || !f->finished) {
        return err_set(err, SERENO_ERR_SYSTEM, "the foreground %s", f->process.how);
    }
    return f->size > 0 ? nonsense(f->text, f->size, err) : SERENO_OK;
}

int foreground_read(foreground_child *f, void (*on_frame)(void *ctx, const frame_record *frame), void *ctx,
                    sereno_error *err) {
    size_t room = TEXT_MAX - f->size;
    size_t n = pipe_read(f->fd, f->text + f->size, room < READ_SIZE ? room : READ_SIZE);
    if (n == 0) return has_ended(f, err);
    f->size += n;
    f->heard_ns = sereno_system_now_ns();
    char *at = f->text, *end = f->text + f->size, *newline;
    int status = SERENO_OK;
    while (!status && (newline = memchr(at, '\n', (size_t)(end - at)))) {
        status = take_line(f, at, (size_t)(newline - at), on_frame, ctx, err);
        at = newline + 1;
    }
    f->size = (size_t)(end - at);
    memmove(f->text, at, f->size);
    if (!status && f->size > 2 * FRAME_LINE_MAX) status = nonsense(f->text, f->size, err);
    return status;
}

int foreground_check(const foreground_child *f, uint64_t now_ns, sereno_error *err) {
    if (f->ended || now_ns - f->heard_ns < f->options->hang_ns) return SERENO_OK;
    return err_set(err, SERENO_ERR_SYSTEM, "the foreground hangs: it has said nothing for %.1f s",
                   (double)(now_ns - f->heard_ns) / 1e9);
}

void foreground_stop(foreground_child *f) {
    f->told = true;
    process_ask(&f->process);
}

void foreground_close(foreground_child *f) {
    process_end(&f->process, END_MS * UINT64_C(1000000));
    pipe_close(&f->fd);
    free(f->text);
    f->text = NULL;
}
