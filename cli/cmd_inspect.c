/* sereno inspect: keys and tensors of a GGUF file, and whether this version can run it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "gguf.h"
#include "sereno/file.h"
#include "sereno/model.h"
#include "support.h"

enum { ARRAY_SHOWN = 6, TEXT_SHOWN = 200 };

/* A string of the file as JSON: bytes that are not UTF-8 become U+FFFD, so that nothing is refused. */
static json_t *json_text(gguf_string s) {
    json_t *exact = json_stringn(s.data, s.size);
    if (exact) return exact;
    sereno_text clean = {0};
    for (size_t i = 0; i < s.size; i++) {
        bool ascii = (unsigned char)s.data[i] < 0x80;
        if (sereno_text_append(&clean, ascii ? &s.data[i] : "\xEF\xBF\xBD", ascii ? 1 : 3, NULL) != 0) break;
    }
    json_t *text = json_stringn(clean.data ? clean.data : "", clean.size);
    sereno_text_free(&clean);
    return text;
}

/* Element i of a value; strings are walked by *at. */
static json_t *json_element(const gguf_kv *kv, uint64_t i, const uint8_t **at) {
    int64_t integer;
    if (kv->element == GGUF_STRING) return json_text(gguf_next_string(at));
    if (kv->element == GGUF_BOOL) return json_boolean(kv->data[i]);
    if (kv->element == GGUF_FLOAT32) {
        float value;
        memcpy(&value, kv->data + 4 * i, sizeof value);
        return json_real(value);
    }
    if (kv->element == GGUF_FLOAT64) {
        double value;
        memcpy(&value, kv->data + 8 * i, sizeof value);
        return json_real(value);
    }
    return gguf_integer(kv, i, &integer) ? json_integer(integer) : json_null();
}

/* A key's value; of an array only the first `limit` elements. */
static json_t *json_value(const gguf_kv *kv, uint64_t limit) {
    const uint8_t *at = kv->data;
    if (kv->type != GGUF_ARRAY) return json_element(kv, 0, &at);
    json_t *array = json_array();
    for (uint64_t i = 0; i < kv->count && i < limit; i++) {
        json_array_append_new(array, json_element(kv, i, &at));
    }
    return array;
}

static json_t *json_shape(const gguf_tensor *t) {
    json_t *shape = json_array();
    for (uint32_t i = 0; i < t->n_dims; i++) {
        json_array_append_new(shape, json_integer((json_int_t)t->dims[i]));
    }
    return shape;
}

static json_t *describe(const char *path, const gguf *g, bool runnable, const sereno_error *reason) {
    json_t *keys = json_array(), *tensors = json_array();
    uint64_t weight_bytes = 0, n_parameters = 0;
    for (size_t i = 0; i < g->n_kv; i++) {
        const gguf_kv *kv = &g->kv[i];
        json_t *key = json_pack("{s:o, s:s, s:o}", "key", json_text(kv->key), "type", gguf_type_name(kv->type), "value",
                                json_value(kv, ARRAY_SHOWN));
        if (kv->type == GGUF_ARRAY) {
            json_object_set_new(key, "element", json_string(gguf_type_name(kv->element)));
            json_object_set_new(key, "count", json_integer((json_int_t)kv->count));
        }
        json_array_append_new(keys, key);
    }
    for (size_t i = 0; i < g->n_tensors; i++) {
        const gguf_tensor *t = &g->tensors[i];
        weight_bytes += t->size;
        n_parameters += t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
        json_array_append_new(tensors, json_pack("{s:o, s:s, s:o, s:I, s:I}", "name", json_text(t->name), "type",
                                                 tensor_type_find(t->type)->name, "shape", json_shape(t), "offset",
                                                 (json_int_t)t->offset, "bytes", (json_int_t)t->size));
    }
    json_t *document =
        json_pack("{s:i, s:s, s:i, s:i, s:I, s:I, s:b}", "schema_version", SCHEMA_VERSION, "path", path, "gguf_version",
                  (int)g->version, "alignment", (int)g->alignment, "parameters", (json_int_t)n_parameters,
                  "weight_bytes", (json_int_t)weight_bytes, "supported", runnable);
    json_object_set_new(document, "unsupported_reason", runnable ? json_null() : json_string(reason->message));
    json_object_set_new(document, "keys", keys);
    json_object_set_new(document, "tensors", tensors);
    return document;
}

/* The document as lines for people. */
static void print_text(json_t *document, bool all_tensors) {
    size_t i;
    json_t *item;
    printf("%s: GGUF version %" JSON_INTEGER_FORMAT ", %.1f million parameters, %.1f MiB of weights\n",
           json_string_value(json_object_get(document, "path")),
           json_integer_value(json_object_get(document, "gguf_version")),
           (double)json_integer_value(json_object_get(document, "parameters")) / 1e6,
           (double)json_integer_value(json_object_get(document, "weight_bytes")) / (1 << 20));
    const char *reason = json_string_value(json_object_get(document, "unsupported_reason"));
    printf("%s%s\n\n", reason ? "not runnable: " : "runnable with this version", reason ? reason : "");
    json_array_foreach(json_object_get(document, "keys"), i, item) {
        char *value = json_dumps(json_object_get(item, "value"), JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        json_t *count = json_object_get(item, "count");
        printf("%-42s %.*s%s", json_string_value(json_object_get(item, "key")), TEXT_SHOWN, value ? value : "?",
               value && strlen(value) > TEXT_SHOWN ? "..." : "");
        if (count) printf(" (%" JSON_INTEGER_FORMAT " in all)", json_integer_value(count));
        putchar('\n');
        free(value);
    }
    json_t *tensors = json_object_get(document, "tensors");
    printf("\n%zu tensors%s\n", json_array_size(tensors), all_tensors ? "" : "; --tensors lists them");
    if (!all_tensors) return;
    json_array_foreach(tensors, i, item) {
        char *shape = json_dumps(json_object_get(item, "shape"), JSON_COMPACT);
        printf("%-42s %-6s %-16s %" JSON_INTEGER_FORMAT "\n", json_string_value(json_object_get(item, "name")),
               json_string_value(json_object_get(item, "type")), shape ? shape : "?",
               json_integer_value(json_object_get(item, "bytes")));
        free(shape);
    }
}

int cmd_inspect(int argc, char **argv) {
    common_options common = {0};
    bool tensors = false;
    const option options[] = {
        {OPTION_FLAG, "--tensors", NULL, &tensors, "list the tensors too (with --json they always are)", 0, 0, NULL,
         NULL},
        COMMON_OPTIONS(common),
        {0},
    };
    const command_line cl = {"sereno inspect", "show what is in a GGUF file", "[MODEL]",
                             "  sereno inspect model.gguf\n  sereno inspect --json model.gguf | jq .tensors[0]\n",
                             options};
    const char *argument = NULL;
    int n = options_parse(&cl, argc, argv, &argument, 1);
    if (n < 0) return n == PARSED_HELP ? 0 : EXIT_USAGE;
    char path[4096];
    if (!model_path(argument, path, sizeof path)) return usage_error(&cl, "the model's path is too long");
    diagnostics diag;
    if (!diagnostics_open(&diag, &common, cl.command)) return EXIT_FAILED;
    sereno_error err = {0}, reason = {0};
    sereno_file *file = NULL;
    gguf *g = NULL;
    sereno_model *model = NULL;
    int status = sereno_file_open(path, &file, &err);
    if (!status) status = gguf_parse(path, file->data, file->size, &g, &err);
    if (status) {
        fail(&diag, &err);
    } else {
        json_t *document = describe(path, g, sereno_model_open(path, &model, &reason) == 0, &reason);
        if (!common.json) print_text(document, tensors);
        if (common.json) print_json(document);
        else json_decref(document);
    }
    sereno_model_close(&model);
    gguf_close(&g);
    sereno_file_close(&file);
    diagnostics_close(&diag);
    return status ? EXIT_FAILED : 0;
}
