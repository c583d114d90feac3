/* Opens a target's draft by its name: "none"; "ngram"; "self:int4", "self:int8" and "self:layers=K"; else the path of a
 * GGUF file with the same vocabulary. Thread: the target's owner. */
#ifndef SESSION_DRAFT_MODEL_H
#define SESSION_DRAFT_MODEL_H

#include <stdbool.h>

#include "sereno/engine.h"

/* Checks a name as far as that needs no model. SERENO_ERR_INVALID: it is empty, a number, or an unknown self:...; the
 * message begins with "draft is". Thread: any. */
int draft_model_check(const char *name, sereno_error *err);

typedef struct draft_model {
    sereno_model *model;   /* opened from a file; NULL: none */
    sereno_engine *engine; /* NULL: no draft model */
    const char *fallback;  /* why a named file is not used, points to `reason`; NULL: it is used, or none was named */
    char reason[512];      /* how the file's vocabulary differs; empty: it does not */
} draft_model;             /* all zero is closed; must not be moved */

/*
 * Opens the draft of a checked name for a target and its model, which must stay open longer. timing_folder and progress
 * as in sereno_engine_options. If a file's vocabulary differs from the target's, `fallback` decides: false, it is an
 * error; true, nothing is opened. On failure *out is closed. SERENO_ERR_INVALID: the vocabulary differs, the draft is
 * larger than the target, layers out of range; else errors of opening a model and an engine.
 */
int draft_model_open(const char *name, bool fallback, const char *timing_folder, sereno_engine *target,
                     const sereno_model *target_model, const sereno_progress *progress, draft_model *out,
                     sereno_error *err);

/* Closes half-built and closed drafts, too. */
void draft_model_close(draft_model *draft);

#endif
