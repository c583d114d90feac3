/* Who drafts for a target, by name: "none"; "ngram"; "self:int4", "self:int8" and "self:layers=K"; else the path of a
 * GGUF file with the same vocabulary. Thread: the target's owner. */
#ifndef SESSION_DRAFT_MODEL_H
#define SESSION_DRAFT_MODEL_H

#include <stdbool.h>

#include "sereno/engine.h"

/* What can be said of a name without a model. SERENO_ERR_INVALID: it is empty, a number, or like self:... and none of
 * these; the message begins with "draft is". Thread: any. */
int draft_model_check(const char *name, sereno_error *err);

typedef struct draft_model {
    sereno_model *model;   /* of a file; NULL: there is none */
    sereno_engine *engine; /* NULL: no neural draft */
    const char *fallback;  /* why there is none, although a file was named; NULL: there is no such reason */
    char reason[512];      /* how the vocabulary of a file differs, be that an error or not; else empty */
} draft_model;             /* all zero is closed; not to be moved while `fallback` is looked at */

/*
 * Opens the draft of a name that was checked, for an engine and its model. A file whose vocabulary differs is an error,
 * or with `fallback` none: nothing is opened then. timing_folder and progress as in sereno_engine_options.
 * SERENO_ERR_INVALID: a foreign vocabulary, a draft larger than the target, layers out of range; those of opening a
 * model and an engine. On failure it is closed. It is to be closed before the target.
 */
int draft_model_open(const char *name, bool fallback, const char *timing_folder, sereno_engine *target,
                     const sereno_model *target_model, const sereno_progress *progress, draft_model *out,
                     sereno_error *err);

/* Half-built and closed ones are fine. */
void draft_model_close(draft_model *draft);

#endif
