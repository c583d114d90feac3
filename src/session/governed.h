/*
 * The governing part of a session: sensor and governor, their calibration and frame hints, and the logs of decisions.
 * Thread: the engine's owner.
 */
#ifndef SESSION_GOVERNED_H
#define SESSION_GOVERNED_H

#include "decisions.h"
#include "sereno/control.h"
#include "sereno/session.h"
#include "trace.h"

typedef struct governed {
    sereno_control control;      /* its governor NULL: requests are not governed */
    sereno_calibration *kept;    /* owned; NULL: none was found, or the options have one */
    sereno_frame_hint *own_hint; /* owned; NULL: none, or the options have one */
    trace trace;
    decisions decisions;
    void (*on_decision)(void *ctx, const sereno_event *event, const sereno_boundary *boundary,
                        const sereno_decision *decision);
    void *on_decision_ctx;
} governed; /* all zero is closed; must not be moved while open */

/* Opens the logs that the options name. Called before a model is loaded, so that a wrong path costs no time.
 * SERENO_ERR_IO names the path. */
int governed_open_logs(governed *g, const sereno_session_options *options, sereno_error *err);

/* Opens the rest for a target and its draft (NULL: none), and fills in what `info` says of it. Policy throughput opens
 * no governor, except for a log or on_decision: then one that only watches. Errors of sereno_control_open. */
int governed_open(governed *g, const sereno_session_options *options, sereno_engine *target, sereno_engine *draft,
                  sereno_session_info *info, sereno_error *err);

/* Closes everything. SERENO_ERR_IO names a log that could not be written. */
int governed_close(governed *g, sereno_error *err);

/* The hook for a request; step NULL: requests are not governed. */
sereno_governor_hook governed_hook(governed *g);

#endif
