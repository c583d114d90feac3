/*
 * Chats as tokens. One format so far: ChatML (<|im_start|>role, newline, content, <|im_end|>, newline). A message's
 * content never becomes a control token; only the format's own marks do.
 *
 * Errors: those of sereno_tokenize; then `out` may hold a part. Thread: any; `out` belongs to the caller.
 */
#ifndef SERENO_CHAT_H
#define SERENO_CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "sereno/model.h"
#include "sereno/text.h"

SERENO_BEGIN

typedef enum sereno_chat_kind {
    SERENO_CHAT_NONE,    /* the model has no template: it completes text */
    SERENO_CHAT_CHATML,  /* the template is ChatML */
    SERENO_CHAT_UNKNOWN, /* it has a template that we do not know; ChatML is used instead */
} sereno_chat_kind;

typedef struct sereno_chat_template {
    sereno_chat_kind kind;
    const char *default_system; /* the template's own system message, for chats without one; size 0: it has none */
    size_t default_system_size;
} sereno_chat_template;

/* The default_system belongs to the model. */
SERENO_API sereno_chat_template sereno_model_chat(const sereno_model *model);

/* Appends a whole message; role is "system", "user" or "assistant". */
SERENO_API int sereno_chat_message(const sereno_tokenizer *t, const char *role, const char *content, size_t size,
                                   sereno_tokens *out, sereno_error *err);
/* Appends the marks before an answer of the assistant. */
SERENO_API int sereno_chat_begin_answer(const sereno_tokenizer *t, sereno_tokens *out, sereno_error *err);
/* Appends the marks after an answer, its end token included. */
SERENO_API int sereno_chat_end_answer(const sereno_tokenizer *t, sereno_tokens *out, sereno_error *err);

/*
 * Appends a user's turn (`size` bytes) and the beginning of the answer. Before the first turn comes the system message;
 * system NULL: the template's own, if it has one. `chat` NULL: appends only the text, with its control tokens; the
 * first as sereno_tokenize_prompt does.
 */
SERENO_API int sereno_chat_turn(const sereno_tokenizer *t, const sereno_chat_template *chat, bool is_first,
                                const char *system, const char *text, size_t size, sereno_tokens *out,
                                sereno_error *err);

/* One message of a chat. */
typedef struct sereno_message {
    const char *role; /* "system", "user" or "assistant" */
    const char *content;
    size_t size;
} sereno_message;

/* Appends the first n messages (at least 1) of a conversation, and the beginning of the answer to them. If the first is
 * not a system message, one comes before it, as above. SERENO_ERR_INVALID: there is no message, or a role is none of
 * these. */
SERENO_API int sereno_chat_conversation(const sereno_tokenizer *t, const sereno_chat_template *chat, const char *system,
                                        const sereno_message *messages, int n, sereno_tokens *out, sereno_error *err);

SERENO_END

#endif
