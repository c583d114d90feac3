/* Prompts of a bench, wrapped as chats where the model has a template. Thread: the main one, which a signal finds. */
#ifndef JUDGE_PROMPTS_H
#define JUDGE_PROMPTS_H

#include <stdbool.h>

#include "sereno/model.h"
#include "sereno/text.h"

enum { PROMPTS_MAX = 256, PROMPT_NAME_MAX = 256 };

typedef struct prompt {
    char name[PROMPT_NAME_MAX]; /* of its file, up to the first dot */
    sereno_text text;           /* as in the file, less its last newline; ends with a 0 behind its size */
    sereno_tokens tokens;
} prompt;

typedef struct prompt_list {
    prompt list[PROMPTS_MAX];
    int n;
} prompt_list;

/* Appends a prompt's tokens, with the system message of the model's own template and the beginning of the answer. raw:
 * no template. */
int prompt_tokens(const sereno_model *model, bool raw, const char *text, size_t size, sereno_tokens *out,
                  sereno_error *err);

/* Reads a file, or all *.txt of a folder, at least one. raw: no template. On failure: free it. */
int prompts_read(const char *path, bool raw, const sereno_model *model, prompt_list *out, sereno_error *err);
void prompts_free(prompt_list *prompts);

#endif
