#include "support.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "interrupt.h"
#include "output_file.h"
#include "sereno/clock.h"
#include "utf8.h"

bool diagnostics_open(diagnostics *d, const common_options *common, const char *command) {
    *d = (diagnostics){stderr, common->verbose, command};
    if (!common->log_file) return true;
    d->to = fopen(common->log_file, "ae");
    if (d->to) return true;
    fprintf(stderr, "%s: cannot open the log file '%s': %s\n", command, common->log_file, strerror(errno));
    return false;
}

void diagnostics_close(diagnostics *d) {
    if (d->to && d->to != stderr) fclose(d->to);
    d->to = NULL;
}

static void print_line(const diagnostics *d, const char *kind, const char *format, va_list args) {
    char text[1024];
    vsnprintf(text, sizeof text, format, args);
    utf8_make_printable(text); /* names out of files may hold anything */
    fprintf(d->to, "%s: %s%s\n", d->command, kind, text);
}

void warn(const diagnostics *d, const char *format, ...) {
    va_list args;
    va_start(args, format);
    print_line(d, "warning: ", format, args);
    va_end(args);
}

void note(const diagnostics *d, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (d->verbose) print_line(d, "", format, args);
    va_end(args);
}

int fail(const diagnostics *d, const sereno_error *err) {
    fprintf(d->to, "%s: %s\n", d->command, err->message);
    return err->code == SERENO_ERR_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

int fail_no_memory(const char *command) {
    fprintf(stderr, "%s: no memory\n", command);
    return EXIT_FAILED;
}

void progress_begin(progress_bar *p, const char *label, bool enabled) {
    *p = (progress_bar){.label = label, .enabled = enabled && terminal_is(2)};
    p->start_ns = p->drawn_ns = sereno_system_now_ns();
}

void progress_update(progress_bar *p, uint64_t done, uint64_t total) {
    enum { FIRST_AFTER_MS = 200, EVERY_MS = 50, LABEL_COLUMNS = 20 };
    uint64_t now = sereno_system_now_ns();
    if (!p->enabled || total == 0 || now - p->start_ns < FIRST_AFTER_MS * 1000000ull ||
        (p->visible && now - p->drawn_ns < EVERY_MS * 1000000ull && done < total)) {
        return;
    }
    int width = terminal_columns(2) - LABEL_COLUMNS - 8;
    if (width > 50) width = 50;
    int filled = width > 0 ? (int)((uint64_t)width * done / total) : 0;
    fprintf(stderr, "\r%-*s ", LABEL_COLUMNS, p->label);
    for (int i = 0; i < width; i++) {
        fputc(i < filled ? '#' : '.', stderr);
    }
    fprintf(stderr, " %3u%%", (unsigned)(100 * done / total));
    fflush(stderr);
    p->visible = true;
    p->drawn_ns = now;
}

void progress_end(progress_bar *p) {
    if (p->visible) fputs("\r\033[K", stderr);
    p->visible = false;
}

void progress_part(progress_bar *p, const char *label, bool enabled, uint64_t done, uint64_t total) {
    if (p->label != label) {
        progress_end(p);
        progress_begin(p, label, enabled);
    }
    progress_update(p, done, total);
}

int model_path(const char *option, char *out, size_t size, sereno_error *err) {
    if (!option || !*option) return sereno_default_model_path(out, size, err);
    int n = snprintf(out, size, "%s", option);
    return n >= 0 && (size_t)n < size ? SERENO_OK : err_set(err, SERENO_ERR_INVALID, "the model's path is too long");
}

int model_check(const command_line *cl, const char *option, char *out, size_t size) {
    sereno_error err;
    return model_path(option, out, size, &err) ? usage_error(cl, "%s", err.message) : 0;
}

void model_advise(const diagnostics *d, const char *option, const sereno_error *err) {
    char path[PATH_SIZE];
    const char *chosen = getenv("SERENO_MODEL");
    if (err->code != SERENO_ERR_IO || (option && *option) || (chosen && *chosen)) return;
    if (sereno_default_model_path(path, sizeof path, NULL) != SERENO_OK || path_exists(path)) return;
    fprintf(d->to, "Fetch the default model with tools/get-model smollm2-135m, or give one with -m.\n");
}

int fail_model(const diagnostics *d, const char *option, const sereno_error *err) {
    int code = fail(d, err);
    model_advise(d, option, err);
    return code;
}

int finish_output(const diagnostics *d, int code) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    return fail_output(d, errno);
}

int fail_output(const diagnostics *d, int reason) {
    fprintf(d->to, "%s: cannot write the output: %s\n", d->command, strerror(reason));
    return EXIT_FAILED;
}

void print_json(json_t *document) {
    if (!document) { /* no memory, or a text that is not UTF-8 and did not go through json_text: prints no half result
                      */
        fputs("sereno: the result could not be put into JSON\n", stderr);
        exit(EXIT_FAILED);
    }
    json_dumpf(document, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(document);
}
