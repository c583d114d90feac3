/* sereno tokenize: the tokens of a text. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "sereno/model.h"
#include "support.h"
#include "utf8.h"
#include "whole_file.h"

/* A token as text on its own; what is not a whole character shows as U+FFFD. */
static int piece_of(const sereno_tokenizer *t, int32_t id, sereno_text *out, sereno_error *err) {
    sereno_detokenizer state = {.special = true};
    out->size = 0;
    int status = sereno_detokenize(t, &state, id, out, err);
    return status ? status : sereno_detokenize_end(&state, out, err);
}

static int print_tokens(const sereno_tokenizer *t, const sereno_tokens *tokens, bool json, bool ids_only,
                        sereno_error *err) {
    json_t *ids = json_array(), *pieces = json_array();
    sereno_text piece = {0};
    int status = SERENO_OK;
    for (size_t i = 0; i < tokens->n && !status; i++) {
        if ((status = piece_of(t, tokens->ids[i], &piece, err))) break;
        json_array_append_new(ids, json_integer(tokens->ids[i]));
        json_array_append_new(pieces, json_stringn(piece.data ? piece.data : "", piece.size));
        if (json) continue;
        if (ids_only) {
            printf("%s%d", i ? " " : "", tokens->ids[i]);
        } else {
            char *quoted = json_dumps(json_array_get(pieces, i), JSON_ENCODE_ANY);
            printf("%6d  %s\n", tokens->ids[i], quoted ? quoted : "?");
            free(quoted);
        }
    }
    if (!json && ids_only && !status) putchar('\n');
    if (json && !status) {
        print_json(json_pack("{s:i, s:o, s:o}", "schema_version", SCHEMA_VERSION, "tokens", ids, "pieces", pieces));
    } else {
        json_decref(ids);
        json_decref(pieces);
    }
    sereno_text_free(&piece);
    return status;
}

int cmd_tokenize(int argc, char **argv) {
    common_options common = {0};
    const char *model_option = NULL, *file = NULL, *argument = NULL;
    bool plain = false, ids_only = false, no_bos = false, no_eos = false;
    const option options[] = {
        MODEL_OPTION(model_option),
        {OPTION_TEXT, "-f, --file", &file, .value = "FILE", .help = "read the text from FILE, - for standard input"},
        {OPTION_FLAG, "--no-parse-special", &plain,
         .help = "take control tokens written in the text (<|im_end|>) as plain text; by default they are parsed, as a "
                 "raw prompt's are"},
        {OPTION_FLAG, "--no-bos", &no_bos, .help = "leave out the beginning token even where the model wants one"},
        {OPTION_FLAG, "--no-eos", &no_eos, .help = "leave out the end token even where the model wants one"},
        {OPTION_FLAG, "--ids", &ids_only, .help = "print only the numbers, on one line"},
        COMMON_OPTIONS(common),
        {0},
    };
    const command_line cl = {"sereno tokenize", "show the tokens of a text", "[TEXT]",
                             "  sereno tokenize \"Hello world\"\n  sereno tokenize --json -f prompt.txt\n", options};
    int n = options_parse(&cl, argc, argv, &argument, 1);
    if (n < 0) return n == PARSED_HELP ? 0 : EXIT_USAGE;
    if ((argument != NULL) == (file != NULL)) return usage_error(&cl, "give either a text or -f FILE");
    char path[PATH_SIZE];
    if (model_check(&cl, model_option, path, sizeof path)) return EXIT_USAGE;
    diagnostics diag;
    if (!diagnostics_open(&diag, &common, cl.command)) return EXIT_FAILED;
    sereno_error err = {0};
    sereno_text text = {0};
    sereno_tokens tokens = {0};
    sereno_model *model = NULL;
    int status = file ? file_read_text(file, &text, &err) : sereno_text_append(&text, argument, strlen(argument), &err);
    if (!status) status = utf8_check("the text", text.data, text.size, &err);
    bool readable = !status;
    if (!status) status = sereno_model_open(path, &model, &err);
    if (!status) {
        const sereno_tokenizer *t = sereno_model_tokenizer(model);
        if (sereno_tokenizer_add_bos(t) && !no_bos) {
            status = sereno_tokens_append(&tokens, sereno_tokenizer_bos(t), &err);
        }
        if (!status) status = sereno_tokenize(t, text.data, text.size, !plain, &tokens, &err);
        if (!status && sereno_tokenizer_add_eos(t) && !no_eos) {
            status = sereno_tokens_append(&tokens, sereno_tokenizer_eos(t), &err);
        }
        if (!status) note(&diag, "%s: %zu bytes are %zu tokens", path, text.size, tokens.n);
        if (!status) status = print_tokens(t, &tokens, common.json, ids_only, &err);
    }
    int code = 0;
    if (status) code = readable && !model ? fail_model(&diag, model_option, &err) : fail(&diag, &err);
    sereno_tokens_free(&tokens);
    sereno_text_free(&text);
    sereno_model_close(&model);
    code = finish_output(&diag, code);
    diagnostics_close(&diag);
    return code;
}
