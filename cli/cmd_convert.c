/* sereno convert: writes a model with its weights in another type. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "convert.h"
#include "errors.h"
#include "interrupt.h"
#include "output_file.h"
#include "sereno/cancel.h"
#include "sereno/clock.h"
#include "support.h"
#include "utf8.h"

static const char *const type_names[] = {"f16", "q8_0", "q4_0", NULL};
static const tensor_type types[] = {TENSOR_F16, TENSOR_Q8_0, TENSOR_Q4_0};

/* A conversion: the parts wired together. */
typedef struct converting {
    common_options common;
    diagnostics diag;
    sereno_error err;
    const char *model, *output; /* as given */
    int32_t type;               /* index into types, -1 as long as none is given */
    bool force;
    char path[PATH_SIZE]; /* of the model */
    gguf *gguf;
    conversion conversion;
    output_file *out;
    progress_bar bar;
    sereno_cancel cancel;
} converting;

static void on_interrupt(void *ctx) {
    converting *c = ctx;
    sereno_cancel_request(&c->cancel);
}

static bool on_progress(void *ctx, const char *what, uint64_t done, uint64_t total) {
    converting *c = ctx;
    progress_part(&c->bar, what, !c->common.json, done, total);
    return !sereno_cancel_requested(&c->cancel);
}

/* Checks before the work what would otherwise fail after it. */
static int check_output(converting *c) {
    if (path_same_file(c->path, c->output)) {
        return err_set(&c->err, SERENO_ERR_INVALID,
                       "-o '%s' is the model that is read; the converted one needs a name of its own", c->output);
    }
    if (!c->force && path_exists(c->output)) {
        return err_set(&c->err, SERENO_ERR_IO, "'%s' exists already; --force replaces it", c->output);
    }
    return SERENO_OK;
}

static int write_output(converting *c, uint64_t *bytes) {
    int status = output_file_open(c->output, c->force, &c->out, &c->err);
    if (status) return status;
    status = conversion_write(&c->conversion, c->out->to, c->output, &(sereno_progress){on_progress, c}, &c->err);
    *bytes = (uint64_t)ftello(c->out->to);
    if (!status) status = output_file_commit(c->out, &c->err); /* the bar stays: reaching the disk takes its time */
    progress_end(&c->bar);
    return status;
}

static void report(const converting *c, uint64_t bytes, double seconds) {
    const conversion *v = &c->conversion;
    const char *type = tensor_type_find(v->type)->name;
    size_t n = v->n_converted + v->n_kept;
    if (c->common.json) {
        print_json(json_pack(
            "{s:i, s:o, s:o, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "schema_version", SCHEMA_VERSION, "input",
            json_text(c->path, strlen(c->path)), "output", json_text(c->output, strlen(c->output)), "type", type,
            "origin", json_text(v->origin.data, v->origin.size), "tensors", (json_int_t)n, "converted",
            (json_int_t)v->n_converted, "kept", (json_int_t)v->n_kept, "bytes_in", (json_int_t)c->gguf->size,
            "bytes_out", (json_int_t)bytes, "fallback_f16", (json_int_t)v->n_f16, "seconds", seconds));
        return;
    }
    const double mib = 1 << 20;
    char text[1024];
    snprintf(text, sizeof text, "%s: %zu of %zu tensors converted to %s, %.1f MiB became %.1f MiB; origin %.*s",
             c->output, v->n_converted, n, type, (double)c->gguf->size / mib, (double)bytes / mib, (int)v->origin.size,
             v->origin.data);
    utf8_make_printable(text);
    puts(text);
    if (v->n_f16 == 0) return;
    snprintf(text, sizeof text, "%zu matrices are F16 instead, because their rows are not whole blocks of %u: %.*s%s",
             v->n_f16, tensor_type_find(v->type)->block_weights, (int)v->first_f16->name.size, v->first_f16->name.data,
             v->n_f16 > 1 ? ", ..." : "");
    utf8_make_printable(text);
    puts(text);
}

static int convert(converting *c) {
    uint64_t start = sereno_system_now_ns(), bytes = 0;
    int status = gguf_open(c->path, &c->gguf, &c->err);
    if (!status) status = conversion_plan(c->gguf, types[c->type], &c->conversion, &c->err);
    if (status) return fail_model(&c->diag, c->model, &c->err);
    note(&c->diag, "%s: %zu bytes, %zu keys, %zu tensors", c->path, c->gguf->size, c->gguf->n_kv, c->gguf->n_tensors);
    status = check_output(c);
    if (!status) status = write_output(c, &bytes);
    output_file_close(&c->out);
    if (status == SERENO_ERR_ABANDONED) return interrupt_exit_code();
    if (status) return fail(&c->diag, &c->err);
    report(c, bytes, (double)(sereno_system_now_ns() - start) / 1e9);
    return 0;
}

static const char examples[] =
    "  sereno convert -m model.gguf --type q8_0 -o model-q8_0.gguf\n"
    "  sereno convert -m model-Q4_1.gguf --type f16 -o model-f16.gguf --json\n"
    "\nwhat happens:\n"
    "  Matrices take the type, the embedding and the output head among them; norms and other vectors\n"
    "  stay as they are. A matrix whose rows are not whole blocks of 32 becomes f16. All keys are kept,\n"
    "  the tokenizer and the chat template too; sereno.origin says what the weights were made from,\n"
    "  because no conversion brings back what an earlier one has rounded away.\n"
    "  OUT appears only when it is whole: what fails or is interrupted leaves everything as it was.\n";

int cmd_convert(int argc, char **argv) {
    converting c = {.type = -1};
    const option options[] = {
        {OPTION_TEXT, "-m, --model", &c.model, .value = "PATH",
         .help = "GGUF file to read; default $SERENO_MODEL, else the model that tools/get-model fetched"},
        {OPTION_CHOICE, "--type", &c.type, .value = "TYPE", .choices = type_names,
         .help = "f16, q8_0 or q4_0: 16, 8.5 or 4.5 bits a weight. f16 keeps nearly all of any file; q8_0 is half of "
                 "that and hardly differs; q4_0 is fastest, and the one whose answers may suffer"},
        {OPTION_TEXT, "-o, --output", &c.output, .value = "OUT", .help = "GGUF file to write"},
        {OPTION_FLAG, "--force", &c.force,
         .help = "replace OUT if it exists; by default nothing is ever replaced, and the file that is read never is"},
        COMMON_OPTIONS(c.common),
        {0},
    };
    const command_line cl = {"sereno convert", "write a model with its weights in another type", "", examples, options};
    int n = options_parse(&cl, argc, argv, NULL, 0);
    if (n < 0) return n == PARSED_HELP ? 0 : EXIT_USAGE;
    if (c.type < 0) return usage_error(&cl, "--type is missing: f16, q8_0 or q4_0");
    if (!c.output || !*c.output) return usage_error(&cl, "-o is missing: the file to write");
    if (model_check(&cl, c.model, c.path, sizeof c.path)) return EXIT_USAGE;
    if (!diagnostics_open(&c.diag, &c.common, cl.command)) return EXIT_FAILED;
    interrupt_handle(on_interrupt, &c);
    int code = convert(&c);
    interrupt_default();
    gguf_close(&c.gguf);
    code = finish_output(&c.diag, code);
    diagnostics_close(&c.diag);
    return code;
}
