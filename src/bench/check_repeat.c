#include "check_repeat.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int append(sereno_text *to, const char *words) {
    return sereno_text_append(to, words, strlen(words), NULL);
}

/* Appends an argument, quoted for a shell. */
static int append_quoted(sereno_text *to, const char *argument) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:./,@%";
    if (*argument && argument[strspn(argument, plain)] == '\0') return append(to, argument);
    int status = append(to, "'");
    for (; *argument && !status; argument++) {
        status = *argument == '\'' ? append(to, "'\\''") : sereno_text_append(to, argument, 1, NULL);
    }
    return status ? status : append(to, "'");
}

int check_repeat_command(const check_repeat *r, sereno_text *out) {
    char words[96];
    int status = append(out, "sereno check exactness");
    if (!status && r->model) status = append(out, " -m ");
    if (!status && r->model) status = append_quoted(out, r->model);
    for (int i = 0; i < r->n_drafts && !status; i++) {
        status = append(out, " --draft ");
        if (!status) status = append_quoted(out, r->drafts[i]);
    }
    snprintf(words, sizeof words, " -t %d --activations %s -s %" PRIu64 " --trial %" PRIu64, r->n_threads,
             r->activations, r->seed, r->trial);
    return status ? status : append(out, words);
}
