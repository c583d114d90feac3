/* A session as the options of a command ask for one. */
#ifndef CLI_SESSION_OPTIONS_H
#define CLI_SESSION_OPTIONS_H

#include "draft_options.h"
#include "governor_options.h"
#include "machine_options.h"
#include "sereno/session.h"

/* On the calling thread. n_ctx 0: the default, -1: all that the model was trained for; draft NULL: nobody proposes;
 * governor NULL: nobody governs. They borrow from the options. */
sereno_session_options session_options(const char *model, int32_t n_ctx, const machine_options *machine,
                                       const draft_options *draft, const governor_options *governor);

/* Says what the session's opening has left to say: a draft that others take the place of, a calibration that is not
 * used. */
void session_warn(const diagnostics *d, const draft_options *draft, const sereno_session *session);

/* What to do about an error of opening one. */
void session_advise(const diagnostics *d, const char *model, const machine_options *machine, const sereno_error *err);

#endif
