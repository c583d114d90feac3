/*
 * Who governs a session's requests: sensor and governor with the calibration and the hints that they go by, and the
 * logs of what was decided. Thread: the owner's.
 */
#ifndef SESSION_GOVERNED_H
#define SESSION_GOVERNED_H

#include "decisions.h"
#include "sereno/control.h"
#include "sereno/session.h"
#include "trace.h"

typedef struct governed {
    sereno_control control; /* its governor NULL: nobody governs */
    sereno_calibration *kept;
    sereno_frame_hint *own_hint;
    trace trace;
    decisions decisions;
    void (*on_decision)(void *ctx, const sereno_event *event, const sereno_boundary *boundary,
                        const sereno_decision *decision);
    void *on_decision_ctx;
} governed; /* all zero is closed; not to be moved while it is open */

/* Opens the logs asked for: before a model is loaded, so that a wrong path costs no time. SERENO_ERR_IO names it. */
int governed_open_logs(governed *g, const sereno_session_options *options, sereno_error *err);

/* Opens the rest for a target and its draft (NULL: none), and says in `info` what there is. Policy throughput has no
 * governor, unless somebody listens: then one that only watches. */
int governed_open(governed *g, const sereno_session_options *options, sereno_engine *target, sereno_engine *draft,
                  sereno_session_info *info, sereno_error *err);

/* SERENO_ERR_IO: a log could not be written, and is named. */
int governed_close(governed *g, sereno_error *err);

/* For a request; step NULL: nobody governs. */
sereno_governor_hook governed_hook(governed *g);

#endif
