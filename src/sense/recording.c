#include "recording.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibration.h"
#include "errors.h"
#include "hash.h"
#include "varint.h"
#include "whole_file.h"

enum { CHECK_BYTES = 8, WINDOW_FLOATS = 3 };

const int32_t recording_contexts[RECORDING_CONTEXTS] = {128, 256};

static const char first_line[] = "sereno-recording 1\n";

void recording_close(recording **recording_) {
    recording *r = *recording_;
    *recording_ = NULL;
    if (!r) return;
    sereno_calibration_close(&r->calibration);
    free(r->windows);
    free(r->boundaries);
    free(r);
}

/* ---- Writing ---- */

static void put_number(FILE *to, uint64_t value) {
    uint8_t bytes[VARINT_BYTES_MAX];
    fwrite(bytes, 1, varint_put(bytes, value), to);
}

static void put_text(FILE *to, const char *text) {
    put_number(to, strlen(text));
    fputs(text, to);
}

static void put_engine(FILE *to, const recording_engine *e) {
    const sereno_engine_info *i = &e->info;
    put_text(to, e->isa);
    put_number(to, (uint64_t)i->n_vocab);
    put_number(to, (uint64_t)i->n_ctx);
    put_number(to, (uint64_t)i->n_sequences);
    put_number(to, (uint64_t)i->n_threads);
    put_number(to, (uint64_t)i->activation_bits);
    put_number(to, i->is_self_draft);
    put_number(to, e->has_stream);
    put_number(to, i->weight_bytes);
    put_number(to, i->stream_bytes);
    put_number(to, i->kv_bytes);
    fwrite(e->pass_us, sizeof e->pass_us, 1, to);
}

/* False: there was no memory. */
static bool put_calibration(FILE *to, const sereno_calibration *c) {
    char *text = NULL;
    size_t size = 0;
    FILE *memory = c ? open_memstream(&text, &size) : NULL;
    bool good = !c || (memory && calibration_write(c, memory));
    if (memory && fclose(memory) != 0) good = false;
    put_number(to, good ? size : 0);
    if (good && size > 0) fwrite(text, 1, size, to);
    free(text);
    return good;
}

static bool put_all(FILE *to, const recording *r) {
    fputs(first_line, to);
    put_text(to, r->version);
    put_text(to, r->processor);
    put_text(to, r->model);
    put_text(to, r->draft_model);
    put_number(to, r->quiet);
    put_number(to, r->cache_bytes);
    put_engine(to, &r->target);
    put_number(to, r->has_draft);
    if (r->has_draft) put_engine(to, &r->draft);
    bool good = put_calibration(to, r->calibration);
    put_number(to, r->windows_begin_ns);
    put_number(to, r->window_ns);
    put_number(to, (uint64_t)r->n_windows);
    if (r->n_windows > 0) fwrite(r->windows, sizeof *r->windows, (size_t)r->n_windows, to);
    put_number(to, r->n_dropped);
    put_number(to, r->n_boundaries);
    put_number(to, r->size);
    if (r->size > 0) fwrite(r->boundaries, 1, r->size, to);
    return good && !ferror(to);
}

bool recording_write(const recording *r, FILE *to) {
    char *data = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&data, &size); /* the check covers everything, so all of it is written here first */
    bool good = memory && put_all(memory, r);
    if (memory && fclose(memory) != 0) good = false;
    if (good) {
        uint64_t check = hash_bytes(data, size);
        good = fwrite(data, 1, size, to) == size && fwrite(&check, CHECK_BYTES, 1, to) == 1;
    }
    free(data);
    return good;
}

/* ---- Reading ---- */

/* The rest of the file. The first error is kept; everything taken after it is 0. */
typedef struct source {
    const uint8_t *begin, *at, *end;
    sereno_error *err;
    int status;
} source;

static void refuse(source *s, const char *what) {
    if (s->status) return;
    s->status =
        err_set(s->err, SERENO_ERR_FORMAT, "the recording is damaged at byte %zu: %s cannot be, or is not all there",
                (size_t)(s->at - s->begin), what);
}

static uint64_t take_number(source *s, const char *what, uint64_t most) {
    uint64_t value;
    const uint8_t *at = s->at;
    if (!s->status && varint_take(&at, s->end, &value) && value <= most) {
        s->at = at;
        return value;
    }
    refuse(s, what);
    return 0;
}

static int32_t take_count(source *s, const char *what, int32_t most) {
    return (int32_t)take_number(s, what, (uint64_t)most);
}

/* The next n bytes; NULL if there are fewer. */
static const uint8_t *take_bytes(source *s, const char *what, uint64_t n) {
    if (s->status || (uint64_t)(s->end - s->at) < n) {
        refuse(s, what);
        return NULL;
    }
    const uint8_t *bytes = s->at;
    s->at += n;
    return bytes;
}

static void take_text(source *s, const char *what, char out[RECORDING_TEXT_MAX]) {
    uint64_t n = take_number(s, what, RECORDING_TEXT_MAX - 1);
    const uint8_t *bytes = take_bytes(s, what, n);
    if (bytes && memchr(bytes, '\0', n)) refuse(s, what);
    else if (bytes) memcpy(out, bytes, n);
}

static void take_engine(source *s, recording_engine *e) {
    sereno_engine_info *i = &e->info;
    take_text(s, "an engine's isa", e->isa);
    i->n_vocab = take_count(s, "a vocabulary", INT32_MAX);
    i->n_ctx = take_count(s, "a context", INT32_MAX);
    i->n_sequences = take_count(s, "a number of sequences", INT32_MAX);
    i->n_threads = take_count(s, "a number of threads", INT32_MAX);
    i->activation_bits = take_count(s, "the bits of activations", 64);
    i->is_self_draft = take_number(s, "whether it is a self-draft", 1);
    e->has_stream = take_number(s, "whether there is a stream", 1);
    i->weight_bytes = take_number(s, "the bytes of weights", UINT64_MAX);
    i->stream_bytes = take_number(s, "the bytes of the stream", UINT64_MAX);
    i->kv_bytes = take_number(s, "the bytes of the KV cache", UINT64_MAX);
    const uint8_t *us = take_bytes(s, "the times of passes", sizeof e->pass_us);
    if (us) memcpy(e->pass_us, us, sizeof e->pass_us);
}

static void take_calibration(source *s, recording *r) {
    uint64_t size = take_number(s, "the length of the calibration", UINT64_MAX);
    const uint8_t *text = take_bytes(s, "the calibration", size);
    if (!text || size == 0) return;
    sereno_error why = {0};
    int status = calibration_parse((const char *)text, size, &r->calibration, &why);
    if (status) s->status = err_set(s->err, status, "the recording's calibration: %s", why.message);
}

static bool is_window(const recording_window *w) {
    return w->duty >= 0 && w->duty <= 1 && !(w->fg_latency_ns < 0) && !(w->fg_gbs < 0);
}

static void take_windows(source *s, recording *r) {
    r->windows_begin_ns = take_number(s, "the beginning of the windows", UINT64_MAX);
    r->window_ns = take_number(s, "the length of a window", UINT64_MAX);
    r->n_windows = take_count(s, "the number of windows", RECORDING_WINDOWS_MAX);
    size_t size = (size_t)r->n_windows * sizeof *r->windows;
    const uint8_t *windows = take_bytes(s, "a window", size);
    if (!windows || size == 0) return;
    r->windows = malloc(size);
    if (!r->windows) {
        s->status = err_no_memory(s->err, "windows", size);
        return;
    }
    memcpy(r->windows, windows, size);
    for (int32_t i = 0; i < r->n_windows; i++) {
        if (!is_window(&r->windows[i])) refuse(s, "a window");
    }
}

/* Reads all boundaries once, so that a replay need not check them. */
static void check_boundaries(source *s, const recording *r, const uint8_t *begin) {
    recording_codec *codec = recording_codec_open();
    if (!codec) {
        s->status = err_no_memory(s->err, "a recording's reader", sizeof(void *));
        return;
    }
    const uint8_t *at = begin, *end = begin + r->size;
    recording_event e;
    const char *wrong = NULL;
    uint64_t n = 0;
    for (; n < r->n_boundaries && !wrong; n++) {
        const uint8_t *from = at;
        wrong = recording_take(codec, &at, end, &e);
        if (!wrong) continue;
        s->status =
            err_set(s->err, SERENO_ERR_FORMAT, "boundary %" PRIu64 " of the recording, at byte %zu, is damaged: %s", n,
                    (size_t)(from - s->begin), wrong);
    }
    if (!wrong && at != end) refuse(s, "more than its boundaries");
    recording_codec_close(&codec);
}

static void take_boundaries(source *s, recording *r) {
    r->n_dropped = take_number(s, "the number of boundaries dropped", UINT64_MAX);
    r->n_boundaries = take_number(s, "the number of boundaries", UINT64_MAX);
    uint64_t size = take_number(s, "the bytes of boundaries", UINT64_MAX);
    const uint8_t *bytes = take_bytes(s, "its boundaries", size);
    if (!bytes) return;
    r->size = size;
    check_boundaries(s, r, bytes);
    if (s->status) return;
    r->boundaries = malloc(size + 1); /* malloc(0) may return NULL */
    if (r->boundaries) memcpy(r->boundaries, bytes, size);
    else s->status = err_no_memory(s->err, "a recording", size);
}

static void take_all(source *s, recording *r) {
    take_text(s, "the version", r->version);
    take_text(s, "the processor", r->processor);
    take_text(s, "the model", r->model);
    take_text(s, "the draft", r->draft_model);
    r->quiet = take_number(s, "whether it was quiet", 1);
    r->cache_bytes = take_number(s, "the bytes of the cache", UINT64_MAX);
    take_engine(s, &r->target);
    r->has_draft = take_number(s, "whether there is a draft", 1);
    if (r->has_draft) take_engine(s, &r->draft);
    take_calibration(s, r);
    take_windows(s, r);
    take_boundaries(s, r);
    const uint8_t *begin = s->begin;
    size_t size = (size_t)(s->at - begin);
    const uint8_t *bytes = take_bytes(s, "its check", CHECK_BYTES);
    uint64_t check = 0;
    if (bytes) memcpy(&check, bytes, CHECK_BYTES);
    if (s->status) return;
    if (s->at != s->end) refuse(s, "more than a recording");
    else if (check != hash_bytes(begin, size)) {
        s->status =
            err_set(s->err, SERENO_ERR_FORMAT,
                    "the recording is damaged: its check is not that of its %zu bytes, some were changed", size);
    }
}

int recording_parse(const uint8_t *data, size_t size, recording **out, sereno_error *err) {
    *out = NULL;
    size_t begun = strlen(first_line);
    if (size < begun || memcmp(data, first_line, begun) != 0) {
        return err_set(err, SERENO_ERR_FORMAT, "this is no recording of version 1, which begins with \"%.*s\"",
                       (int)begun - 1, first_line);
    }
    recording *r = calloc(1, sizeof *r);
    if (!r) return err_no_memory(err, "a recording", sizeof *r);
    source s = {.begin = data, .at = data + begun, .end = data + size, .err = err};
    take_all(&s, r);
    if (s.status) recording_close(&r);
    *out = r;
    return s.status;
}

int recording_load(const char *path, recording **out, sereno_error *err) {
    enum { FILE_BYTES_MAX = 64 << 20 };
    char *data;
    size_t size;
    *out = NULL;
    int status = file_read_whole(path, FILE_BYTES_MAX, &data, &size, err);
    if (status) return status;
    sereno_error why = {0};
    status = recording_parse((const uint8_t *)data, size, out, &why);
    if (status) err_set(err, status, "'%s': %s", path, why.message);
    free(data);
    return status;
}
