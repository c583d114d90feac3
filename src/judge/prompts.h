/* Prompts of a bench, wrapped as chats where the model has a template. Thread: the main one, so that a signal ends a
 * read from standard input. */
#ifndef JUDGE_PROMPTS_H
#define JUDGE_PROMPTS_H

#include <stdbool.h>

#include "sereno/model.h"
#include "sereno/text.h"

enum { PROMPTS_MAX = 256, PROMPT_NAME_MAX = 256 };

typedef struct prompt {
    char name[PROMPT_NAME_MAX]; /* the file's, up to the first dot */
    sereno_text text;           /* the file's, less its last newline; a 0 follows */
    sereno_tokens tokens;
} prompt;

typedef struct prompt_list {
    prompt list[PROMPTS_MAX];
    int n;
} prompt_list;

/* Appends a prompt's tokens, with the template's own system message and the beginning of the answer. raw: no template.
 * Errors of the tokenizer. */
int prompt_tokens(const sereno_model *model, bool raw, const char *text, size_t size, sereno_tokens *out,
                  sereno_error *err);

/* Reads a file, or all *.txt of a folder, at least one. raw: no template. On failure, too, the caller calls
 * prompts_free. SERENO_ERR_IO, SERENO_ERR_INVALID; errors of prompt_tokens. */
int prompts_read(const char *path, bool raw, const sereno_model *model, prompt_list *out, sereno_error *err);
void prompts_free(prompt_list *prompts);

#endif
