/*
 * A model, its engine and the drafts opened for it. Sessions of one owner share them; the last session's close closes
 * them. Each draft is opened once. Thread: the engine's owner.
 */
#ifndef SESSION_ENGINES_H
#define SESSION_ENGINES_H

#include "draft_model.h"
#include "sereno/session.h"

enum { ENGINES_DRAFTS_MAX = 32 };

typedef struct engines {
    const sereno_model *model; /* NULL: the caller gave an engine */
    sereno_engine *target;
    const sereno_tokenizer *tokenizer;
    sereno_model *own_model; /* NULL: borrowed */
    bool owns_target;
    char timing_folder[1024]; /* "": timings are not kept */
    struct {
        char *name;
        bool fallback;
        draft_model draft;
    } drafts[ENGINES_DRAFTS_MAX];
    int n_drafts;
    int n_users;      /* sessions */
    const void *user; /* the session whose tokens the KV cache holds; NULL: not known */
} engines;

/* Opens model and engine, or borrows those in the options, for one user. On failure *out is NULL. Errors of opening a
 * model and an engine; SERENO_ERR_INVALID. */
int engines_open(const sereno_session_options *options, engines **out, sereno_error *err);

/* Adds a user. */
engines *engines_share(engines *e);

/* Removes a user and nulls the pointer; the last one's call closes everything that was opened. */
void engines_close(engines **e);

/* The draft of this name, opened at the first call; the engines own it. name: checked, and not "none" or "ngram".
 * Errors of draft_model_open; SERENO_ERR_INVALID: no model, or too many drafts. */
int engines_draft(engines *e, const sereno_session_options *options, const char *name, const draft_model **out,
                  sereno_error *err);

#endif
