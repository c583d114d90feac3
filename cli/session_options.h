/* A session's options from a command's options. */
#ifndef CLI_SESSION_OPTIONS_H
#define CLI_SESSION_OPTIONS_H

#include "draft_options.h"
#include "governor_options.h"
#include "machine_options.h"
#include "sereno/session.h"

/* Options with on_caller; they borrow from the arguments. n_ctx 0: the default; -1: the context that the model was
 * trained for. draft NULL: no proposals. governor NULL: not governed. */
sereno_session_options session_options(const char *model, int32_t n_ctx, const machine_options *machine,
                                       const draft_options *draft, const governor_options *governor);

/* Warns after opening: of a draft that n-grams replace, and of a calibration that is not used. */
void session_warn(const diagnostics *d, const draft_options *draft, const sereno_session *session);

/* Prints advice on an error of opening a session. */
void session_advise(const diagnostics *d, const char *model, const machine_options *machine, const sereno_error *err);

#endif
