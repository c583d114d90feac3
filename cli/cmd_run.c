/* sereno run: answers a prompt, or chats. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"
#include "cpu.h"
#include "errors.h"
#include "interrupt.h"
#include "line_reader.h"
#include "process.h"
#include "procfs.h"
#include "sampler_options.h"
#include "sereno/sereno.h"
#include "session_options.h"
#include "support.h"
#include "utf8.h"
#include "whole_file.h"

enum { LONG_PREFILL_TOKENS = 256, GRACE_MS = 20 };

/* What the command line says. */
typedef struct run_options {
    common_options common;
    machine_options machine;
    draft_options draft;
    governor_options governor;
    const char *model, *prompt, *file, *system;
    bool interactive, raw, own_session;
    int32_t n_predict, n_ctx;
    sereno_sampler sampler;
    bool seed_given, n_ctx_given;
    option_list stops;
} run_options;

/* A run: the parts wired together. */
typedef struct run {
    const run_options *options;
    diagnostics diag;
    sereno_error err;
    sereno_session *session;
    const sereno_session_info *info; /* of it */
    sereno_text prompt;
    progress_bar bar;
    sereno_cancel cancel;
    bool interrupted; /* a signal ended the last answer */
    int output_lost;  /* errno of the first failed write to standard output, which ends the run; 0: none failed */
} run;

/* ---- Options ---- */

static void default_options(run_options *o) {
    *o = (run_options){.n_predict = 512,
                       .sampler = sereno_sampler_defaults(),
                       .machine = machine_defaults(),
                       .draft = draft_defaults(),
                       .governor = governor_defaults()};
}

static int check_options(const command_line *cl, run *r) {
    const run_options *o = r->options;
    if (o->prompt && o->file) return usage_error(cl, "-p and -f both give a prompt; use one");
    if (!o->prompt && !o->file && !o->interactive) {
        return usage_error(cl, "there is nothing to do: give a prompt with -p or -f, or chat with -i");
    }
    if (o->interactive && o->common.json) return usage_error(cl, "-i and --json do not go together");
    if (o->raw && o->system) return usage_error(cl, "--raw takes text as it is, so --system has no place in it");
    for (int i = 0; i < o->stops.n; i++) {
        if (o->stops.items[i][0] == '\0') return usage_error(cl, "--stop is empty");
    }
    if (o->system && utf8_check("the system message", o->system, strlen(o->system), &r->err) != 0) {
        return fail(&r->diag, &r->err);
    }
    for (int i = 0; i < o->stops.n; i++) {
        if (utf8_check("a stop string", o->stops.items[i], strlen(o->stops.items[i]), &r->err) != 0) {
            return fail(&r->diag, &r->err);
        }
    }
    return 0;
}

/* ---- Loading ---- */

static bool is_cancelled(const run *r) {
    return sereno_cancel_requested(&r->cancel);
}

static bool on_load(void *ctx, const char *what, uint64_t done, uint64_t total) {
    run *r = ctx;
    progress_part(&r->bar, what, !r->options->common.json, done, total);
    return !is_cancelled(r);
}

static void on_prefill(void *ctx, int32_t done, int32_t total) {
    run *r = ctx;
    if (total >= LONG_PREFILL_TOKENS) progress_update(&r->bar, (uint64_t)done, (uint64_t)total);
}

static void warn_of_chat(const run *r) {
    bool raw = r->options->raw;
    sereno_chat_kind kind = r->info->chat.kind;
    if (!raw && kind == SERENO_CHAT_UNKNOWN) {
        warn(&r->diag, "the model's chat template is not one that we know; ChatML is used instead. If the answers look "
                       "wrong, write the prompt out in the model's format and give it with --raw");
    }
    if (!raw && kind == SERENO_CHAT_NONE && r->options->system) {
        warn(&r->diag, "the model has no chat template, so --system is ignored");
    }
}

static int load(run *r) {
    const run_options *o = r->options;
    const draft_options *draft = &o->draft;
    int32_t n_ctx = !o->n_ctx_given ? 0 : o->n_ctx > 0 ? o->n_ctx : -1;
    sereno_session_options options = session_options(o->model, n_ctx, &o->machine, draft, &o->governor);
    options.raw = o->raw;
    options.system = o->system;
    options.progress = (sereno_progress){on_load, r};
    machine_take_class(&o->machine, &r->diag);
    int status = sereno_session_open(&options, &r->session, &r->err);
    progress_end(&r->bar);
    if (status == SERENO_ERR_ABANDONED) return interrupt_exit_code();
    if (status) {
        int code = fail(&r->diag, &r->err);
        session_advise(&r->diag, o->model, &o->machine, &r->err);
        return code;
    }
    r->info = sereno_session_describe(r->session);
    if (draft->strategy == STRATEGY_PLAIN && draft->draft_given)
        warn(&r->diag, "--strategy plain takes no --draft: it is ignored");
    session_warn(&r->diag, draft, r->session);
    warn_of_chat(r);
    const sereno_model_info *m = sereno_model_describe(r->info->model);
    const sereno_engine_info *e = r->info->engine;
    note(&r->diag, "%s (%s, %.0f million parameters) loaded in %.0f ms; %s kernels, %d threads, context %d", m->name,
         m->weight_type, (double)m->n_parameters / 1e6, r->info->load_ms, e->isa, e->n_threads, e->n_ctx);
    if (r->info->keeps_timings && e->timing == SERENO_TIMING_SHIPPED) {
        note(&r->diag, "the machine is too busy to time the model's operations: plans are cut by rates that ship with "
                       "sereno, and the next start tries again");
    }
    return 0;
}

/* ---- Generating ---- */

/* Prints at once, without a buffer. If the reader has gone, the answer ends at the next boundary. */
static void print_text(run *r, const char *text, size_t size) {
    if (r->options->common.json || r->output_lost) return;
    int reason = interrupt_write(1, text, size, GRACE_MS);
    if (reason == 0 || reason == EINTR) return;
    r->output_lost = reason;
    sereno_cancel_request(&r->cancel);
}

static void on_text(void *ctx, const char *text, size_t size) {
    run *r = ctx;
    progress_end(&r->bar);
    print_text(r, text, size);
}

/* Submits the next turn; the caller closes the answer in every case. */
static int ask(run *r, const char *text, size_t size, sereno_answer **answer, const sereno_generation **g) {
    static const sereno_generation nothing = {.finish = SERENO_FINISH_STOP};
    const run_options *o = r->options;
    const sereno_request request = {
        .text = text,
        .text_size = size,
        .max_tokens = o->n_predict < 0 ? INT32_MAX : o->n_predict,
        .sampler = o->sampler,
        .stops = o->stops.items,
        .n_stops = o->stops.n,
        .cancel = &r->cancel,
        .on_text = on_text,
        .on_prefill = on_prefill,
        .ctx = r,
    };
    *g = &nothing;
    progress_begin(&r->bar, "reading the prompt", !o->common.json);
    int status = sereno_session_submit(r->session, &request, answer, &r->err);
    if (!status) status = sereno_answer_wait(*answer, g, &r->err);
    progress_end(&r->bar);
    r->interrupted = (*g)->finish == SERENO_FINISH_CANCELLED && !r->output_lost;
    if ((*g)->text.size > 0) print_text(r, "\n", 1);
    return status;
}

/* ---- Reporting ---- */

static const char *const finish_names[] = {"stop", "length", "cancelled"};

static double rate(double n, double ms) {
    return ms > 0 ? n / ms * 1000 : 0;
}

static json_t *json_settings(const run *r) {
    const run_options *o = r->options;
    json_t *stops = json_array();
    for (int i = 0; i < o->stops.n; i++) {
        json_array_append_new(stops, json_string(o->stops.items[i]));
    }
    const draft_options *draft = &o->draft;
    json_t *settings = json_pack("{s:i}", "n_predict", o->n_predict);
    json_object_update_new(settings, json_sampler(&o->sampler));
    json_object_update_new(
        settings,
        json_pack("{s:o, s:o, s:s, s:o, s:o, s:o, s:b, s:s, s:o}", "seed", json_seed(o->sampler.seed), "stop", stops,
                  "strategy", strategy_names[draft->strategy], "draft", json_name(r->info->draft_name), "draft_max",
                  draft->length >= 0 ? json_integer(draft->length) : json_null(), "batch",
                  draft->batch > 0 ? json_integer(draft->batch) : json_null(), "chat", r->info->chats, "policy",
                  policy_names[o->governor.policy], "governor", json_governor_settings(&o->governor)));
    return settings;
}

static void report_json(const run *r, const sereno_generation *g) {
    interrupt_default(); /* it may wait for a reader */
    json_t *tokens = json_array();
    for (size_t i = 0; i < g->tokens.n; i++) {
        json_array_append_new(tokens, json_integer(g->tokens.ids[i]));
    }
    const sereno_engine_info *info = r->info->engine, *draft = r->info->draft;
    double n = (double)g->tokens.n;
    json_t *timings =
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:o}", "load_ms", r->info->load_ms, "ttft_ms", g->ttft_ms, "prefill_tok_s",
                  rate(g->n_prefilled, g->prefill_ms), "decode_tok_s", rate(n - 1, g->decode_ms), "tpot_ms",
                  n > 1 ? g->decode_ms / (n - 1) : 0.0, "itl_ms", json_quantiles(g->itl_ms, true));
    const double mib = 1 << 20;
    double draft_mib = draft ? (double)(draft->weight_bytes + draft->kv_bytes) / mib : 0;
    uint64_t rss = procfs_rss_bytes(); /* 0: not known */
    json_t *memory = json_pack(
        "{s:f, s:f, s:f, s:o}", "weights_mib", (double)(info->weight_bytes + info->embedding_bytes) / mib, "draft_mib",
        draft_mib, "kv_mib", (double)info->kv_bytes / mib, "rss_mib", rss ? json_real((double)rss / mib) : json_null());
    const char *origin = sereno_model_describe(r->info->model)->origin;
    print_json(json_pack("{s:i, s:s%, s:o, s:i, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema_version",
                         SCHEMA_VERSION, "text", g->text.data ? g->text.data : "", g->text.size, "tokens", tokens,
                         "prompt_tokens", g->n_prompt, "completion_tokens", (int)g->tokens.n, "finish_reason",
                         finish_names[g->finish], "target_origin", json_text(origin, strlen(origin)), "timings",
                         timings, "speculation", json_speculation(&g->speculation, (int32_t)g->tokens.n), "governor",
                         json_governor(&r->options->governor, r->session), "memory", memory, "settings",
                         json_settings(r), "environment", json_environment(&r->options->machine, info)));
}

static void report_text(const run *r, const sereno_generation *g) {
    double n = (double)g->tokens.n;
    FILE *to = r->diag.to;
    fprintf(to, "[prompt %d tokens", g->n_prompt);
    if (g->n_prefilled < g->n_prompt && g->n_prefilled > 0) fprintf(to, " (%d new)", g->n_prefilled);
    if (g->prefill_ms > 0) fprintf(to, ", %.0f tok/s", rate(g->n_prefilled, g->prefill_ms));
    fprintf(to, " | answer %zu tokens", g->tokens.n);
    if (n > 1) fprintf(to, ", %.1f tok/s", rate(n - 1, g->decode_ms));
    if (g->speculation.passes > 0 && strcmp(r->info->draft_name, "none") != 0) {
        fprintf(to, ", %.2f tokens a pass", (n - 1) / (double)g->speculation.passes);
    }
    fprintf(to, ", %s", finish_names[g->finish]);
    if (g->ttft_ms > 0) fprintf(to, " | first token after %.0f ms", g->ttft_ms);
    fprintf(to, " | %s kernels | seed %" PRIu64 "]\n", r->info->engine->isa, r->options->sampler.seed);
    if (!r->options->common.verbose) return;
    machine_note(&r->diag, &r->options->machine, r->info->engine);
    if (r->info->draft && g->speculation.drafted == 0) {
        note(&r->diag, "the draft did not run: by what is known it would have cost more than it brings");
    }
    note(&r->diag, "gap between tokens: p50 %.2f ms, p95 %.2f ms, p99 %.2f ms", g->itl_ms.p50, g->itl_ms.p95,
         g->itl_ms.p99);
    governor_note(&r->diag, &r->options->governor, r->session);
}

/* ---- One prompt, or many ---- */

static int answer_once(run *r) {
    const run_options *o = r->options;
    sereno_answer *answer = NULL;
    const sereno_generation *g;
    int code = 0;
    if (ask(r, r->prompt.data ? r->prompt.data : "", r->prompt.size, &answer, &g)) code = fail(&r->diag, &r->err);
    else if (r->output_lost) code = fail_output(&r->diag, r->output_lost);
    else if (o->common.json) report_json(r, g);
    else if (o->n_predict != 0) report_text(r, g);
    if (!code && r->interrupted) code = interrupt_exit_code();
    sereno_answer_close(&answer);
    return code;
}

/* Ctrl-C was for the answer that has ended. SIGTERM, or a reader that has gone, ends the program. */
static void end_answer(run *r) {
    interrupt_forget();
    sereno_cancel_reset(&r->cancel);
    if (interrupt_pending() || r->output_lost) sereno_cancel_request(&r->cancel);
}

/* Answers one line; a failed turn leaves the conversation as it was before. */
static int answer_line(run *r, const char *line, size_t size) {
    sereno_answer *answer = NULL;
    const sereno_generation *g = NULL;
    int status = utf8_check("the line", line, size, &r->err);
    if (!status) status = ask(r, line, size, &answer, &g);
    end_answer(r);
    int code = status ? fail(&r->diag, &r->err) : 0;
    if (g && !code && r->options->n_predict != 0) report_text(r, g);
    sereno_answer_close(&answer);
    return code;
}

static void on_interrupt(void *ctx) {
    run *r = ctx;
    /* Loading a huge file, or tokenizing, may not check the flag for a while. So a second Ctrl-C ends the program
     * at once. */
    if (sereno_cancel_request(&r->cancel)) interrupt_exit();
    if (r->session) sereno_session_interrupt(r->session);
}

/* Why there is no line: the end of the input, a signal, or an error. */
static int no_line(run *r, int got, int reason) {
    if (got == 0) return 0;
    if (reason == EINTR) return interrupt_exit_code();
    err_set(&r->err, SERENO_ERR_IO, "cannot read standard input: %s", strerror(reason));
    return fail(&r->diag, &r->err);
}

/* Ctrl-C ends an answer, or the program if it waits for a line. SIGTERM always ends the program. */
static int chat_loop(run *r) {
    if (is_cancelled(r)) return interrupt_exit_code(); /* while the model was loaded: there is no answer to end */
    line_reader lines = {0};
    bool person = terminal_is(0); /* a person sees that a turn failed; a program needs the exit code */
    int failed = r->prompt.size > 0 ? answer_line(r, r->prompt.data, r->prompt.size) : 0;
    int code = person ? 0 : failed;
    if (person) fputs("Ctrl-C ends an answer, Ctrl-D or a second Ctrl-C the program.\n", stderr);
    while (!r->output_lost) {
        const char *line;
        size_t size;
        if (person) fputs("> ", stderr);
        int got = line_read(&lines, &line, &size), reason = errno;
        if (got <= 0) {
            if (person) fputc('\n', stderr);
            int ended = no_line(r, got, reason);
            if (ended) code = ended;
            break;
        }
        failed = size > 0 ? answer_line(r, line, size) : 0;
        if (failed && !person) code = failed;
    }
    line_reader_close(&lines);
    return r->output_lost ? fail_output(&r->diag, r->output_lost) : code;
}

/* The prompt is read before the model, so that a wrong one costs no time. */
static int read_prompt(run *r) {
    const run_options *o = r->options;
    int status = o->file ? file_read_text(o->file, &r->prompt, &r->err) : SERENO_OK;
    const char *text = o->prompt ? o->prompt : "";
    if (!status) status = sereno_text_append(&r->prompt, text, strlen(text), &r->err);
    /* A text file ends with a newline that is not part of what is said. */
    if (!status && o->file && r->prompt.size > 0 && r->prompt.data[r->prompt.size - 1] == '\n') r->prompt.size--;
    if (!status) status = utf8_check("the prompt", r->prompt.data, r->prompt.size, &r->err);
    if (status && is_cancelled(r)) return interrupt_exit_code();
    return status ? fail(&r->diag, &r->err) : 0;
}

/* The class has effect against other sessions only if this session has the least weight. Only a session of its own
 * is lowered, because others contain other programs. */
static int enter_session(run *r) {
    if (!session_is_own() && session_own(&r->err) != 0) return fail(&r->diag, &r->err);
    if (!session_lower() && procfs_autogroup_enabled()) {
        warn(&r->diag, "the system does not lower the weight of the session, so programs of other sessions share cores "
                       "with it as equals");
    }
    return 0;
}

static int run_all(run *r) {
    interrupt_handle(on_interrupt, r);
    int code = read_prompt(r);
    if (!code) code = load(r);
    if (code) return code;
    if (!r->options->interactive) return answer_once(r);
    return chat_loop(r);
}

/* Returns the exit code; a failed write to a log is an error, too. */
static int close_run(run *r, int code) {
    interrupt_ignore();
    sereno_session *session = r->session;
    r->session = NULL;
    if (sereno_session_close(&session, &r->err) != 0) code = fail(&r->diag, &r->err);
    sereno_text_free(&r->prompt);
    diagnostics_close(&r->diag);
    return code;
}

static const char examples[] =
    "  sereno run -p \"Why is the sky blue?\"\n"
    "  sereno run -i --system \"You answer in one sentence.\"\n"
    "  sereno run --raw -p \"Once upon a time\" -n 100 --temp 0 --json\n"
    "\nenvironment:\n"
    "  SERENO_MODEL  path of the model when -m is not given\n"
    "  SERENO_ISA    kernels to use: avx512, portable; default: the best this machine runs\n";

int cmd_run(int argc, char **argv) {
    run_options o;
    default_options(&o);
    const option options[] = {
        {OPTION_HEADING, .help = "what to say"},
        {OPTION_TEXT, "-p, --prompt", &o.prompt, .value = "TEXT", .help = "the prompt"},
        {OPTION_TEXT, "-f, --file", &o.file, .value = "FILE",
         .help = "read the prompt from FILE, - for standard input; a newline at its end is not part of it"},
        {OPTION_FLAG, "-i, --interactive", &o.interactive,
         .help = "chat, a line a turn; the KV cache is kept from turn to turn. Ctrl-C ends the answer, a second one "
                 "the program"},
        {OPTION_TEXT, "-sys, --system", &o.system, .value = "TEXT",
         .help = "the chat's system message, '' for an empty one; default: what the model's own template says"},
        {OPTION_FLAG, "--raw", &o.raw,
         .help =
             "continue the prompt as it is. By default a model with a chat template chats, because it was trained to"},
        {OPTION_INT, "-n, --predict, --n-predict", &o.n_predict, .value = "N", .low = -1, .high = 1 << 24,
         .help = "at most N tokens of answer, -1: until it ends or the context is full; default 512: long enough for "
                 "most answers, short enough to wait for"},
        {OPTION_LIST, "--stop", &o.stops, .value = "TEXT",
         .help = "end before TEXT would be printed; may be given up to 64 times"},
        {OPTION_HEADING, .help = "how to choose tokens"},
        SAMPLER_OPTIONS(o.sampler),
        {OPTION_SEED, "-s, --seed", &o.sampler.seed, .value = "N", .given = &o.seed_given,
         .help = "the same seed gives the same text, on any number of threads; default, and -1: random, printed at the "
                 "end"},
        {OPTION_HEADING, .help = "model and machine"},
        MODEL_OPTION(o.model),
        {OPTION_INT, "-c, --ctx-size", &o.n_ctx, .value = "N", .low = 0, .high = 1 << 24, .given = &o.n_ctx_given,
         .help = "context in tokens; default 4096 or the model's, the smaller: memory grows with it. 0: all that the "
                 "model was trained for"},
        MACHINE_OPTIONS(o.machine),
        {OPTION_FLAG, "--own-session", &o.own_session,
         .help = "run in a session of its own, and give that the least weight: where the kernel shares cores between "
                 "sessions (most desktops), the idle class yields to other programs only so"},
        DRAFT_OPTIONS(o.draft),
        GOVERNOR_OPTIONS(o.governor),
        COMMON_OPTIONS(o.common),
        {0},
    };
    const command_line cl = {"sereno run", "answer a prompt, or chat", "", examples, options};
    int n = options_parse(&cl, argc, argv, NULL, 0);
    if (n < 0) return n == PARSED_HELP ? 0 : EXIT_USAGE;
    if (governor_help(&o.governor)) return 0;
    run r = {.options = &o};
    if (!diagnostics_open(&r.diag, &o.common, cl.command)) return EXIT_FAILED;
    if (!o.seed_given) o.sampler.seed = random_seed();
    int code = machine_check(&cl, &o.machine);
    if (!code) code = draft_check(&cl, &o.draft);
    if (!code) code = check_options(&cl, &r);
    if (!code) code = governor_check(&cl, &r.diag, &o.governor);
    if (!code && o.own_session) code = enter_session(&r);
    if (!code) code = finish_output(&r.diag, run_all(&r));
    return close_run(&r, code);
}
