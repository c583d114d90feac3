#include "sereno/chat.h"

#include <string.h>

#include "errors.h"
#include "model.h"

#define BEGIN "<|im_start|>"
#define END   "<|im_end|>"

static gguf_string find_text(gguf_string in, const char *what) {
    size_t length = strlen(what);
    for (size_t i = 0; i + length <= in.size; i++) {
        if (memcmp(in.data + i, what, length) == 0) return (gguf_string){in.data + i, in.size - i};
    }
    return (gguf_string){0};
}

/*
 * A template with its own system message has the message between the marks. If the marks enclose an expression instead
 * (a quote or brace before the end mark), the search goes on.
 */
static gguf_string find_default_system(gguf_string template) {
    gguf_string at = find_text(template, BEGIN "system");
    while (at.size > 0) {
        gguf_string rest = {at.data + strlen(BEGIN "system"), at.size - strlen(BEGIN "system")};
        size_t newline = rest.size > 0 && rest.data[0] == '\n'                          ? 1
                         : rest.size > 1 && rest.data[0] == '\\' && rest.data[1] == 'n' ? 2
                                                                                        : 0;
        gguf_string end = find_text(rest, END);
        if (end.size == 0) break; /* nor does one follow any later mark */
        if (newline > 0) {
            gguf_string text = {rest.data + newline, (size_t)(end.data - rest.data) - newline};
            bool literal = true;
            for (size_t i = 0; i < text.size; i++) {
                if (strchr("'\"{}\\", text.data[i])) literal = false;
            }
            if (literal) return text;
        }
        at = find_text(rest, BEGIN "system");
    }
    return (gguf_string){0};
}

sereno_chat_template sereno_model_chat(const sereno_model *model) {
    const gguf_string template = {model->chat_template, model->chat_template_size};
    sereno_chat_template chat = {.kind = SERENO_CHAT_NONE};
    if (template.size == 0) return chat;
    chat.kind = SERENO_CHAT_UNKNOWN;
    if (find_text(template, BEGIN).size > 0 && find_text(template, END).size > 0) {
        gguf_string system = find_default_system(template);
        chat = (sereno_chat_template){SERENO_CHAT_CHATML, system.data, system.size};
    }
    return chat;
}

static int append_mark(const sereno_tokenizer *t, const char *mark, sereno_tokens *out, sereno_error *err) {
    return sereno_tokenize(t, mark, strlen(mark), true, out, err);
}

int sereno_chat_message(const sereno_tokenizer *t, const char *role, const char *content, size_t size,
                        sereno_tokens *out, sereno_error *err) {
    sereno_text body = {0}; /* in one piece, because BPE may merge across its parts */
    int status = append_mark(t, BEGIN, out, err);
    if (!status) status = sereno_text_append(&body, role, strlen(role), err);
    if (!status) status = sereno_text_append(&body, "\n", 1, err);
    if (!status) status = sereno_text_append(&body, content, size, err);
    if (!status) status = sereno_tokenize(t, body.data, body.size, false, out, err);
    if (!status) status = sereno_chat_end_answer(t, out, err);
    sereno_text_free(&body);
    return status;
}

int sereno_chat_begin_answer(const sereno_tokenizer *t, sereno_tokens *out, sereno_error *err) {
    return append_mark(t, BEGIN "assistant\n", out, err);
}

int sereno_chat_end_answer(const sereno_tokenizer *t, sereno_tokens *out, sereno_error *err) {
    return append_mark(t, END "\n", out, err);
}

static int begin_conversation(const sereno_tokenizer *t, const sereno_chat_template *chat, const char *system,
                              sereno_tokens *out, sereno_error *err) {
    const char *said = system ? system : chat->default_system;
    size_t n = system ? strlen(system) : chat->default_system_size;
    return system || n > 0 ? sereno_chat_message(t, "system", said, n, out, err) : SERENO_OK;
}

int sereno_chat_turn(const sereno_tokenizer *t, const sereno_chat_template *chat, bool is_first, const char *system,
                     const char *text, size_t size, sereno_tokens *out, sereno_error *err) {
    if (!chat && is_first) return sereno_tokenize_prompt(t, text, size, out, err);
    if (!chat) return sereno_tokenize(t, text, size, true, out, err);
    int status = is_first ? begin_conversation(t, chat, system, out, err) : SERENO_OK;
    if (!status) status = sereno_chat_message(t, "user", text, size, out, err);
    return status ? status : sereno_chat_begin_answer(t, out, err);
}

int sereno_chat_conversation(const sereno_tokenizer *t, const sereno_chat_template *chat, const char *system,
                             const sereno_message *messages, int n, sereno_tokens *out, sereno_error *err) {
    static const char *const roles[] = {"system", "user", "assistant"};
    int status = SERENO_OK;
    if (n < 1) return err_set(err, SERENO_ERR_INVALID, "a conversation without a message");
    if (strcmp(messages[0].role, "system") != 0) status = begin_conversation(t, chat, system, out, err);
    for (int i = 0; i < n && !status; i++) {
        const sereno_message *m = &messages[i];
        bool known = false;
        for (size_t k = 0; k < sizeof roles / sizeof *roles; k++) {
            known |= strcmp(m->role, roles[k]) == 0;
        }
        if (!known) {
            return err_set(err, SERENO_ERR_INVALID, "message %d has the role '%s'; there are system, user, assistant",
                           i + 1, m->role);
        }
        status = sereno_chat_message(t, m->role, m->content, m->size, out, err);
    }
    return status ? status : sereno_chat_begin_answer(t, out, err);
}
