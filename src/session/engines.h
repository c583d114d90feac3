/*
 * A model and its engine, with the drafts that were opened for it; shared by the sessions of one owner, and closed with
 * the last of them. Each draft is opened once, whoever asks. Thread: the owner's.
 */
#ifndef SESSION_ENGINES_H
#define SESSION_ENGINES_H

#include "draft_model.h"
#include "sereno/session.h"

enum { ENGINES_DRAFTS_MAX = 32 };

typedef struct engines {
    const sereno_model *model; /* NULL: of an engine that was given */
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
    int n_users;
    const void *user; /* whose the KV cache is */
} engines;

/* As the options say, for one user. On failure *out is NULL. */
int engines_open(const sereno_session_options *options, engines **out, sereno_error *err);

/* One user more. */
engines *engines_share(engines *e);

/* One less; nulls. Closed with the last. */
void engines_close(engines **e);

/* The draft of this name, which must not be "none" or "ngram". It belongs to the engines. */
int engines_draft(engines *e, const sereno_session_options *options, const char *name, const draft_model **out,
                  sereno_error *err);

#endif
