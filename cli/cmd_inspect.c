/* sereno inspect: keys and tensors of a GGUF file, and whether this version can run it. */
#include <stdlib.h>

#include "command.h"
#include "json_gguf.h"
#include "sereno/model.h"
#include "support.h"
#include "utf8.h"

enum { ARRAY_SHOWN = 6, TEXT_SHOWN = 200, NAME_SHOWN = 128 };

static json_t *describe(const char *path, const gguf *g, bool runnable, const sereno_error *reason) {
    uint64_t weight_bytes = 0, n_parameters = 0;
    for (size_t i = 0; i < g->n_tensors; i++) {
        const gguf_tensor *t = &g->tensors[i];
        weight_bytes += t->size;
        n_parameters += t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
    }
    json_t *document =
        json_pack("{s:i, s:o, s:i, s:i, s:I, s:I, s:b}", "schema_version", SCHEMA_VERSION, "path", json_name(path),
                  "gguf_version", (int)g->version, "alignment", (int)g->alignment, "parameters",
                  (json_int_t)n_parameters, "weight_bytes", (json_int_t)weight_bytes, "supported", runnable);
    json_object_set_new(document, "unsupported_reason", runnable ? json_null() : json_name(reason->message));
    json_object_set_new(document, "keys", json_gguf_keys(g, ARRAY_SHOWN));
    json_object_set_new(document, "tensors", json_gguf_tensors(g));
    return document;
}

/* A string member for a terminal. */
static void copy_printable(const json_t *object, const char *key, char *out, size_t size) {
    snprintf(out, size, "%s", json_string_value(json_object_get(object, key)));
    utf8_make_printable(out);
}

/* The document as lines for people. */
static void print_text(json_t *document, bool all_tensors) {
    size_t i;
    json_t *item;
    char path[256];
    copy_printable(document, "path", path, sizeof path);
    printf("%s: GGUF version %" JSON_INTEGER_FORMAT ", %.1f million parameters, %.1f MiB of weights\n", path,
           json_integer_value(json_object_get(document, "gguf_version")),
           (double)json_integer_value(json_object_get(document, "parameters")) / 1e6,
           (double)json_integer_value(json_object_get(document, "weight_bytes")) / (1 << 20));
    const char *reason = json_string_value(json_object_get(document, "unsupported_reason"));
    printf("%s%s\n\n", reason ? "not runnable: " : "runnable with this version", reason ? reason : "");
    json_array_foreach(json_object_get(document, "keys"), i, item) {
        char *value = json_dumps(json_object_get(item, "value"), JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        json_t *count = json_object_get(item, "count");
        char name[NAME_SHOWN];
        copy_printable(item, "key", name, sizeof name);
        char shown[TEXT_SHOWN];
        int length = snprintf(shown, sizeof shown, "%s", value ? value : "?");
        utf8_make_printable(shown);
        printf("%-42s %s%s", name, shown, length >= TEXT_SHOWN ? "..." : "");
        if (count) printf(" (%" JSON_INTEGER_FORMAT " in all)", json_integer_value(count));
        putchar('\n');
        free(value);
    }
    json_t *tensors = json_object_get(document, "tensors");
    printf("\n%zu tensors%s\n", json_array_size(tensors), all_tensors ? "" : "; --tensors lists them");
    if (!all_tensors) return;
    json_array_foreach(tensors, i, item) {
        char *shape = json_dumps(json_object_get(item, "shape"), JSON_COMPACT);
        char name[NAME_SHOWN];
        copy_printable(item, "name", name, sizeof name);
        printf("%-42s %-6s %-16s %" JSON_INTEGER_FORMAT "\n", name, json_string_value(json_object_get(item, "type")),
               shape ? shape : "?", json_integer_value(json_object_get(item, "bytes")));
        free(shape);
    }
}

int cmd_inspect(int argc, char **argv) {
    common_options common = {0};
    bool tensors = false;
    const char *model_option = NULL;
    const option options[] = {
        {OPTION_TEXT, "-m, --model", &model_option, .value = "PATH", .help = "the file, where it is not the argument"},
        {OPTION_FLAG, "--tensors", &tensors, .help = "list the tensors too (with --json they always are)"},
        COMMON_OPTIONS(common),
        {0},
    };
    const command_line cl = {"sereno inspect", "show what is in a GGUF file", "[MODEL]",
                             "  sereno inspect model.gguf\n  sereno inspect --json model.gguf | jq .tensors[0]\n",
                             options};
    const char *argument = NULL;
    int n = options_parse(&cl, argc, argv, &argument, 1);
    if (n < 0) return n == PARSED_HELP ? 0 : EXIT_USAGE;
    if (argument && model_option) return usage_error(&cl, "the file is given twice");
    if (!argument) argument = model_option;
    char path[PATH_SIZE];
    if (model_check(&cl, argument, path, sizeof path)) return EXIT_USAGE;
    diagnostics diag;
    if (!diagnostics_open(&diag, &common, cl.command)) return EXIT_FAILED;
    sereno_error err = {0}, reason = {0};
    gguf *g = NULL;
    sereno_model *model = NULL;
    int status = gguf_open(path, &g, &err);
    int code = 0;
    if (status) {
        code = fail_model(&diag, argument, &err);
    } else {
        note(&diag, "%s: %zu bytes, %zu keys, %zu tensors", path, g->size, g->n_kv, g->n_tensors);
        json_t *document = describe(path, g, sereno_model_open(path, &model, &reason) == 0, &reason);
        if (common.json) {
            print_json(document);
        } else {
            print_text(document, tensors);
            json_decref(document);
        }
    }
    sereno_model_close(&model);
    gguf_close(&g);
    code = finish_output(&diag, code);
    diagnostics_close(&diag);
    return code;
}
