#include "corun_log.h"

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "append_file.h"
#include "errors.h"
#include "utf8.h"

enum { LOG_VERSION = 3, SHOWN_MAX = 96 };
static const char log_kind[] = "sereno bench corun";
static const size_t dump_flags = JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17);

/* ---- Fields of structs; none is ever negative ---- */

typedef enum field_kind { FIELD_INT32, FIELD_INT64, FIELD_NUMBER } field_kind;

typedef struct field {
    const char *name;
    field_kind kind;
    size_t offset;
} field;

#define FIELD(type, kind, name)                                                                                        \
    { #name, FIELD_##kind, offsetof(type, name) }
static const field run_fields[] = {
    FIELD(corun_run, INT32, repeat),
    FIELD(corun_run, INT64, batch),
    FIELD(corun_run, NUMBER, seconds),
    FIELD(corun_run, INT32, n_frames),
    FIELD(corun_run, INT64, dropped),
    FIELD(corun_run, NUMBER, fg_latency_ns),
    {0},
};
static const field background_fields[] = {
    FIELD(corun_background, INT64, tokens),
    FIELD(corun_background, INT64, requests),
    {0},
};
static const field quantile_fields[] = {
    FIELD(sereno_quantiles, NUMBER, p50),
    FIELD(sereno_quantiles, NUMBER, p95),
    FIELD(sereno_quantiles, NUMBER, p99),
    {0},
};
static const field engine_fields[] = {
    FIELD(corun_background, NUMBER, weight_bytes),
    FIELD(corun_background, NUMBER, cpu_s),
    FIELD(corun_background, NUMBER, longest_uninterrupted_ms),
    {0},
};
static const field speculation_fields[] = {
    FIELD(sereno_speculation_stats, INT64, passes),
    FIELD(sereno_speculation_stats, INT64, drafted),
    FIELD(sereno_speculation_stats, INT64, drafted_abandoned),
    FIELD(sereno_speculation_stats, INT64, verified_draft_model),
    FIELD(sereno_speculation_stats, INT64, verified_ngram),
    FIELD(sereno_speculation_stats, INT64, accepted_draft_model),
    FIELD(sereno_speculation_stats, INT64, accepted_ngram),
    FIELD(sereno_speculation_stats, INT64, padded),
    FIELD(sereno_speculation_stats, INT64, step_ns), /* a run is shorter than 292 years, so it fits into 63 bits */
    FIELD(sereno_speculation_stats, INT64, draft_ns),
    FIELD(sereno_speculation_stats, INT64, sleep_ns),
    {0},
};
static const field governed_fields[] = {
    FIELD(corun_governed, INT64, preemptions),
    FIELD(corun_governed, INT64, sleeps),
    FIELD(corun_governed, INT64, holds),
    FIELD(corun_governed, INT64, batch_changes),
    FIELD(corun_governed, INT64, hold_ns),
    FIELD(corun_governed, INT64, sleep_ns),
    {0},
};
#undef FIELD

static json_t *put_fields(json_t *object, const field *fields, const void *from) {
    for (const field *f = fields; f->name; f++) {
        const char *at = (const char *)from + f->offset;
        int32_t small;
        int64_t large;
        double number;
        json_t *value;
        if (f->kind == FIELD_NUMBER) {
            memcpy(&number, at, sizeof number);
            value = json_real(number);
        } else if (f->kind == FIELD_INT64) {
            memcpy(&large, at, sizeof large);
            value = json_integer(large);
        } else {
            memcpy(&small, at, sizeof small);
            value = json_integer(small);
        }
        if (json_object_set_new(object, f->name, value)) { /* there is no value, or no object */
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static bool get_integer(const json_t *value, int64_t max, int64_t *out) {
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= 0 && *out <= max;
}

static bool get_number(const json_t *value, double max, double *out) {
    *out = json_number_value(value);
    return json_is_number(value) && *out >= 0 && *out <= max;
}

static bool get_fields(const json_t *object, const field *fields, void *to) {
    for (const field *f = fields; f->name; f++) {
        char *at = (char *)to + f->offset;
        const json_t *value = json_object_get(object, f->name);
        int64_t integer;
        double number;
        if (f->kind == FIELD_NUMBER) {
            if (!get_number(value, DBL_MAX, &number)) return false;
            memcpy(at, &number, sizeof number);
        } else if (f->kind == FIELD_INT64) {
            if (!get_integer(value, INT64_MAX, &integer)) return false;
            memcpy(at, &integer, sizeof integer);
        } else {
            if (!get_integer(value, INT32_MAX, &integer)) return false;
            int32_t small = (int32_t)integer;
            memcpy(at, &small, sizeof small);
        }
    }
    return true;
}

/* Appends to an array; false releases nothing. */
static bool put(json_t *array, json_t *value) {
    return json_array_append_new(array, value) == 0;
}

/* By batch. */
static json_t *put_batches(const int64_t passes[SERENO_BATCHES], const uint64_t ns[SERENO_BATCHES]) {
    json_t *rows = json_array();
    for (int i = 0; i < SERENO_BATCHES; i++) {
        if (put(rows, json_pack("[I, I]", (json_int_t)passes[i], (json_int_t)ns[i]))) continue;
        json_decref(rows);
        return NULL;
    }
    return rows;
}

static bool get_batches(const json_t *rows, int64_t passes[SERENO_BATCHES], uint64_t ns[SERENO_BATCHES]) {
    for (size_t i = 0; i < SERENO_BATCHES; i++) {
        const json_t *row = json_array_get(rows, i);
        int64_t time;
        if (!get_integer(json_array_get(row, 0), INT64_MAX, &passes[i]) ||
            !get_integer(json_array_get(row, 1), INT64_MAX, &time) || json_array_size(row) != 2) {
            return false;
        }
        ns[i] = (uint64_t)time;
    }
    return json_array_size(rows) == SERENO_BATCHES;
}

/* null without a governor */
static json_t *governed_to_json(const corun_governed *g) {
    if (!g->there) return json_null();
    json_t *modes = json_array();
    for (int i = 0; i < SERENO_MODES; i++) {
        if (put(modes, json_integer((json_int_t)g->mode_ns[i]))) continue;
        json_decref(modes);
        return NULL;
    }
    return put_fields(json_pack("{s:o}", "mode_ns", modes), governed_fields, g);
}

static bool governed_from_json(const json_t *object, corun_governed *out) {
    *out = (corun_governed){.there = json_is_object(object)};
    if (!out->there) return json_is_null(object);
    const json_t *modes = json_object_get(object, "mode_ns");
    for (size_t i = 0; i < SERENO_MODES; i++) {
        int64_t ns;
        if (!get_integer(json_array_get(modes, i), INT64_MAX, &ns)) return false;
        out->mode_ns[i] = (uint64_t)ns;
    }
    return json_array_size(modes) == SERENO_MODES && get_fields(object, governed_fields, out);
}

/* ---- A run ---- */

static json_t *background_to_json(const corun_background *b) {
    if (!b->there) return json_null();
    json_t *engine = json_null();
    if (b->has_engine) {
        json_t *speculation = put_fields(json_object(), speculation_fields, &b->speculation);
        engine = put_fields(json_pack("{s:o, s:o, s:o}", "speculation", speculation, "batches",
                                      put_batches(b->speculation.passes_of, b->speculation.verify_ns), "governor",
                                      governed_to_json(&b->governed)),
                            engine_fields, b);
    }
    return put_fields(json_pack("{s:o, s:o, s:o}", "ttft_ms", put_fields(json_object(), quantile_fields, &b->ttft_ms),
                                "itl_ms", put_fields(json_object(), quantile_fields, &b->itl_ms), "engine", engine),
                      background_fields, b);
}

static bool background_from_json(const json_t *object, corun_background *out) {
    *out = (corun_background){.there = json_is_object(object)};
    if (!out->there) return json_is_null(object);
    const json_t *engine = json_object_get(object, "engine");
    if (!get_fields(object, background_fields, out) ||
        !get_fields(json_object_get(object, "ttft_ms"), quantile_fields, &out->ttft_ms) ||
        !get_fields(json_object_get(object, "itl_ms"), quantile_fields, &out->itl_ms)) {
        return false;
    }
    out->has_engine = json_is_object(engine);
    if (!out->has_engine) return json_is_null(engine);
    return get_fields(engine, engine_fields, out) &&
           governed_from_json(json_object_get(engine, "governor"), &out->governed) &&
           get_fields(json_object_get(engine, "speculation"), speculation_fields, &out->speculation) &&
           get_batches(json_object_get(engine, "batches"), out->speculation.passes_of, out->speculation.verify_ns);
}

/* Frames as columns; the last column has the indices of janky frames. */
static json_t *frames_to_json(const corun_run *run) {
    json_t *at_ms = json_array(), *ms = json_array(), *janky = json_array();
    bool good = true;
    for (int32_t i = 0; i < run->n_frames && good; i++) {
        const corun_frame *f = &run->frames[i];
        good = put(at_ms, json_integer(f->at_ms)) && put(ms, json_real((double)f->ms)) &&
               (!f->janky || put(janky, json_integer(i)));
    }
    json_t *frames = json_pack("{s:o, s:o, s:o}", "at_ms", at_ms, "ms", ms, "janky", janky);
    if (good) return frames;
    json_decref(frames);
    return NULL;
}

/* run->n_frames is known. */
static bool frames_from_json(const json_t *frames, corun_run *run) {
    const json_t *at_ms = json_object_get(frames, "at_ms"), *ms = json_object_get(frames, "ms");
    const json_t *janky = json_object_get(frames, "janky");
    size_t n = json_array_size(ms);
    if (!json_is_array(ms) || !json_is_array(at_ms) || !json_is_array(janky) || n != (size_t)run->n_frames ||
        json_array_size(at_ms) != n) {
        return false;
    }
    if (n > 0 && !(run->frames = calloc(n, sizeof *run->frames))) return false;
    for (size_t i = 0; i < n; i++) {
        int64_t at;
        double took;
        if (!get_integer(json_array_get(at_ms, i), UINT32_MAX, &at)) return false;
        if (!get_number(json_array_get(ms, i), (double)FLT_MAX, &took)) return false;
        run->frames[i] = (corun_frame){(uint32_t)at, (float)took, false};
    }
    for (size_t i = 0; i < json_array_size(janky); i++) {
        int64_t frame;
        if (!get_integer(json_array_get(janky, i), (int64_t)n - 1, &frame) || run->frames[frame].janky) return false;
        run->frames[frame].janky = true;
    }
    return true;
}

json_t *corun_run_to_json(const corun_run *run) {
    char error[CORUN_ERROR_MAX];
    memcpy(error, run->error, sizeof error);
    error[sizeof error - 1] = '\0';
    utf8_make_printable(error); /* it may contain a peer's bytes */
    return put_fields(json_pack("{s:s, s:s, s:s, s:o, s:o}", "strategy", run->strategy, "foreground", run->foreground,
                                "error", error, "background", background_to_json(&run->background), "frames",
                                frames_to_json(run)),
                      run_fields, run);
}

static bool get_text(const json_t *value, char *out, size_t size) {
    const char *text = json_string_value(value);
    if (!text || json_string_length(value) >= size) return false;
    memcpy(out, text, json_string_length(value) + 1);
    return true;
}

bool corun_run_from_json(const json_t *object, corun_run *out) {
    *out = (corun_run){0};
    if (get_text(json_object_get(object, "strategy"), out->strategy, sizeof out->strategy) &&
        get_text(json_object_get(object, "foreground"), out->foreground, sizeof out->foreground) &&
        get_text(json_object_get(object, "error"), out->error, sizeof out->error) &&
        get_fields(object, run_fields, out) &&
        background_from_json(json_object_get(object, "background"), &out->background) &&
        frames_from_json(json_object_get(object, "frames"), out)) {
        return true;
    }
    corun_run_free(out);
    return false;
}

/* ---- The log ---- */

struct corun_log {
    append_file *file;
};

/* A line and its end; NULL: no memory, or not JSON. The caller frees. Releases the value. */
static char *line_of(json_t *value, size_t *size) {
    *size = value ? json_dumpb(value, NULL, 0, dump_flags) + 1 : 0;
    char *line = *size > 1 ? malloc(*size) : NULL;
    if (line && json_dumpb(value, line, *size - 1, dump_flags) == *size - 1) {
        line[*size - 1] = '\n';
    } else {
        free(line);
        line = NULL;
    }
    json_decref(value);
    return line;
}

/* A value as JSON, cut. */
static void show(const json_t *value, char shown[SHOWN_MAX]) {
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) : NULL;
    int n = snprintf(shown, SHOWN_MAX, "%s", text ? text : "not set");
    if (n >= SHOWN_MAX) memcpy(shown + SHOWN_MAX - sizeof "...", "...", sizeof "...");
    utf8_make_printable(shown);
    free(text);
}

static int check_settings(const char *path, const json_t *there, const json_t *now, sereno_error *err) {
    const json_t *sides[] = {now, there};
    for (int i = 0; i < 2; i++) { /* keys of either */
        const char *key;
        const json_t *value;
        json_object_foreach((json_t *)sides[i], key, value) {
            const json_t *old = json_object_get(there, key), *wanted = json_object_get(now, key);
            if (old && wanted && json_equal(old, wanted)) continue;
            char old_shown[SHOWN_MAX], wanted_shown[SHOWN_MAX];
            show(old, old_shown);
            show(wanted, wanted_shown);
            return err_set(err, SERENO_ERR_INVALID,
                           "'%s' was made with other settings: %s was %s and is %s now; choose another file, or remove "
                           "this one",
                           path, key, old_shown, wanted_shown);
        }
    }
    return SERENO_OK;
}

static int read_header(const char *path, const json_t *header, const json_t *settings, sereno_error *err) {
    const char *kind = json_string_value(json_object_get(header, "log"));
    const json_t *there = json_object_get(header, "settings");
    if (!kind || strcmp(kind, log_kind) != 0 || !json_is_object(there)) {
        return err_set(err, SERENO_ERR_FORMAT, "'%s', line 1: not the beginning of a log of %s; choose another file",
                       path, log_kind);
    }
    json_int_t version = json_integer_value(json_object_get(header, "version"));
    if (version == LOG_VERSION) return check_settings(path, there, settings, err);
    return err_set(err, SERENO_ERR_FORMAT, "'%s', line 1: a log of version %" JSON_INTEGER_FORMAT ", not %d", path,
                   version, LOG_VERSION);
}

static int read_run(const char *path, int number, const json_t *line, corun_runs *runs, sereno_error *err) {
    corun_run run;
    if (corun_run_from_json(line, &run)) return corun_runs_append(runs, &run, err);
    return err_set(err, SERENO_ERR_FORMAT, "'%s', line %d: not a run; remove the line to measure it again", path,
                   number);
}

/* A whole line. */
static int read_line(const char *path, int number, const char *text, size_t size, const json_t *settings,
                     corun_runs *runs, sereno_error *err) {
    json_error_t why;
    json_t *line = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    int status = SERENO_OK;
    if (number > 1 && !line) {
        status = err_set(err, SERENO_ERR_FORMAT, "'%s', line %d: not JSON (%s); remove the line to measure it again",
                         path, number, why.text);
        if (err) utf8_make_printable(err->message);
    } else {
        status = number > 1 ? read_run(path, number, line, runs, err) : read_header(path, line, settings, err);
    }
    json_decref(line);
    return status;
}

/* header: the first line of a new log. */
static int read_log(append_file *f, const json_t *settings, const char *header, size_t header_size, corun_runs *runs,
                    sereno_error *err) {
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int status = SERENO_OK;
    for (int number = 1; !status && (n = getline(&line, &room, f->file)) > 0; number++) {
        if (line[n - 1] == '\n') {
            status = read_line(f->path, number, line, (size_t)n - 1, settings, runs, err);
            if (!status) f->end += n;
        } else if (number == 1 && ((size_t)n > header_size || memcmp(line, header, (size_t)n) != 0)) {
            status = read_header(f->path, NULL, settings, err); /* an error other than a log that was cut short */
        }
    }
    if (!status && !feof(f->file)) {
        status = err_set(err, SERENO_ERR_IO, "cannot read '%s': %s", f->path, strerror(errno));
    }
    free(line);
    return status;
}

int corun_log_open(const char *path, const json_t *settings, corun_runs *runs, corun_log **out, sereno_error *err) {
    assert(json_is_object(settings));
    *out = NULL;
    int before = runs->n;
    size_t size;
    char *header = line_of(
        json_pack("{s:s, s:i, s:O}", "log", log_kind, "version", LOG_VERSION, "settings", (json_t *)settings), &size);
    if (!header) {
        return err_set(err, SERENO_ERR_INVALID, "the settings of the log '%s' cannot be put into JSON", path);
    }
    corun_log *log = calloc(1, sizeof *log);
    int status = log ? append_file_open(path, &log->file, err) : err_no_memory(err, "a log", sizeof *log);
    if (!status) status = read_log(log->file, settings, header, size, runs, err);
    if (!status && log->file->end == 0) status = append_file_write(log->file, header, size, err);
    free(header);
    if (status) {
        while (runs->n > before) corun_run_free(&runs->list[--runs->n]);
        corun_log_close(&log);
    }
    *out = log;
    return status;
}

int corun_log_append(corun_log *log, const corun_run *run, sereno_error *err) {
    size_t size;
    char *line = line_of(corun_run_to_json(run), &size);
    if (!line) {
        return err_set(err, SERENO_ERR_INVALID,
                       "a run cannot be put into JSON: a number is not finite, a name is not UTF-8, or memory ran out");
    }
    int status = append_file_write(log->file, line, size, err);
    free(line);
    return status;
}

void corun_log_close(corun_log **log) {
    if (*log) append_file_close(&(*log)->file);
    free(*log);
    *log = NULL;
}
