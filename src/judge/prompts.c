#include "prompts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "folder.h"
#include "sereno/chat.h"
#include "utf8.h"
#include "whole_file.h"

int prompt_tokens(const sereno_model *model, bool raw, const char *text, size_t size, sereno_tokens *out,
                  sereno_error *err) {
    const sereno_chat_template chat = sereno_model_chat(model);
    bool chats = !raw && chat.kind != SERENO_CHAT_NONE;
    return sereno_chat_turn(sereno_model_tokenizer(model), chats ? &chat : NULL, true, NULL, text, size, out, err);
}

static int add_prompt(const char *path, const char *name, bool raw, const sereno_model *model, prompt_list *out,
                      sereno_error *err) {
    if (out->n == PROMPTS_MAX) return err_set(err, SERENO_ERR_INVALID, "more than %d prompts", PROMPTS_MAX);
    prompt *p = &out->list[out->n++];
    snprintf(p->name, sizeof p->name, "%.*s", (int)strcspn(name, "."), name);
    int status = file_read_text(path, &p->text, err);
    if (!status && p->text.size > 0 && p->text.data[p->text.size - 1] == '\n') p->text.size--;
    if (!status) status = sereno_text_append(&p->text, "", 1, err);
    if (!status) p->text.size--;
    if (!status) status = utf8_check("the prompt", p->text.data, p->text.size, err);
    if (!status) status = prompt_tokens(model, raw, p->text.data, p->text.size, &p->tokens, err);
    return status ? err_set(err, status, "prompt %s: %s", name, err->message) : SERENO_OK;
}

int prompts_read(const char *path, bool raw, const sereno_model *model, prompt_list *out, sereno_error *err) {
    char **names = folder_names(path, ".txt");
    if (!names) {
        const char *name = strrchr(path, '/');
        return add_prompt(path, name ? name + 1 : path, raw, model, out, err);
    }
    int status = SERENO_OK;
    for (char **name = names; *name && !status; name++) {
        char file[4096];
        int length = snprintf(file, sizeof file, "%s/%s", path, *name);
        if (length < 0 || (size_t)length >= sizeof file) {
            status = err_set(err, SERENO_ERR_INVALID, "the path of prompt %s is too long", *name);
        } else {
            status = add_prompt(file, *name, raw, model, out, err);
        }
    }
    free(names);
    if (!status && out->n == 0) {
        status = err_set(err, SERENO_ERR_INVALID, "%s has no prompts, which are files *.txt", path);
    }
    return status;
}

void prompts_free(prompt_list *prompts) {
    for (int i = 0; i < prompts->n; i++) {
        sereno_tokens_free(&prompts->list[i].tokens);
        sereno_text_free(&prompts->list[i].text);
    }
    prompts->n = 0;
}
