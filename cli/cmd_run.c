/* sereno run: answers a prompt, or chats. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"
#include "cpu.h"
#include "draft_options.h"
#include "errors.h"
#include "generator.h"
#include "governor_options.h"
#include "interrupt.h"
#include "line_reader.h"
#include "machine_options.h"
#include "process.h"
#include "procfs.h"
#include "sampler_options.h"
#include "sereno/sereno.h"
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
    sereno_model *model;
    const sereno_tokenizer *tokenizer;
    sereno_engine *engine;
    opened_draft draft;
    opened_governor governor;
    generator *generator;
    sereno_chat_template chat;
    bool chats; /* text is wrapped as a chat */
    sereno_text prompt;
    sereno_tokens history; /* all tokens so far: what the next answer follows */
    progress_bar bar;
    double load_ms;
    sereno_cancel cancel;
    bool interrupted; /* a signal ended the last answer */
    int output_lost;  /* errno: standard output takes no more, so nobody would read on; 0: it does */
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

static bool on_load(void *ctx, uint64_t done, uint64_t total) {
    run *r = ctx;
    progress_update(&r->bar, done, total);
    return !is_cancelled(r);
}

static void on_prefill(void *ctx, int32_t done, int32_t total) {
    run *r = ctx;
    if (total >= LONG_PREFILL_TOKENS) progress_update(&r->bar, (uint64_t)done, (uint64_t)total);
}

static void choose_chat(run *r) {
    r->chat = sereno_model_chat(r->model);
    r->chats = !r->options->raw && r->chat.kind != SERENO_CHAT_NONE;
    if (r->chats && r->chat.kind == SERENO_CHAT_UNKNOWN) {
        warn(&r->diag, "the model's chat template is not one that we know; ChatML is used instead. If the answers look "
                       "wrong, write the prompt out in the model's format and give it with --raw");
    }
    if (!r->chats && r->options->system) {
        warn(&r->diag, "the model has no chat template, so --system is ignored");
    }
}

static int load_draft(run *r) {
    const draft_options *o = &r->options->draft;
    progress_begin(&r->bar, "loading the draft", !r->options->common.json);
    int status = draft_open_for(o, machine_timing_folder(&r->options->machine), r->engine, r->model, on_load, r,
                                &r->draft, &r->err);
    progress_end(&r->bar);
    if (status == SERENO_ERR_ABANDONED) return interrupt_exit_code();
    const sereno_speculation *speculation = r->draft.plain ? NULL : &r->draft.speculation;
    if (!status) status = generator_open(r->engine, r->tokenizer, speculation, &r->generator, &r->err);
    if (status) return fail(&r->diag, &r->err);
    if (o->strategy == STRATEGY_PLAIN && o->draft_given)
        warn(&r->diag, "--strategy plain takes no --draft: it is ignored");
    if (r->draft.fallback) warn(&r->diag, "n-grams take the place of %s: %s", o->draft, r->draft.fallback);
    return 0;
}

static int load(run *r) {
    const run_options *o = r->options;
    char path[4096];
    if (model_path(o->model, path, sizeof path, &r->err)) return fail(&r->diag, &r->err);
    uint64_t start = sereno_now_ns(sereno_clock_system());
    int status = sereno_model_open(path, &r->model, &r->err);
    if (status) return fail_model(&r->diag, o->model, &r->err);
    uint32_t n_ctx_max = sereno_model_describe(r->model)->n_ctx_train;
    if (o->n_ctx > (int64_t)n_ctx_max) {
        err_set(&r->err, SERENO_ERR_INVALID, "-c is %d; this model was trained for a context of %u at most", o->n_ctx,
                n_ctx_max);
        return fail(&r->diag, &r->err);
    }
    sereno_engine_options e = sereno_engine_defaults(r->model);
    machine_apply(&o->machine, &e);
    if (o->n_ctx_given) e.n_ctx = o->n_ctx > 0 ? o->n_ctx : (int32_t)n_ctx_max;
    e.isa = machine_isa(NULL);
    e.progress = on_load;
    e.progress_ctx = r;
    machine_take_class(&o->machine, &r->diag);
    progress_begin(&r->bar, "loading", !o->common.json);
    status = sereno_engine_open(r->model, &e, &r->engine, &r->err);
    progress_end(&r->bar);
    if (status == SERENO_ERR_ABANDONED) return interrupt_exit_code();
    if (status && o->machine.cpus) warn(&r->diag, "the cores were chosen by --cpu %s", o->machine.cpus);
    if (status) return fail(&r->diag, &r->err);
    r->tokenizer = sereno_model_tokenizer(r->model);
    int code = load_draft(r);
    if (code) return code;
    if (governor_open_for(&o->governor, r->engine, r->draft.engine, &r->governor, &r->err) != 0) {
        return fail(&r->diag, &r->err);
    }
    calibration_warn(&r->diag, &r->governor.not_calibrated);
    choose_chat(r);
    r->load_ms = (double)(sereno_now_ns(sereno_clock_system()) - start) / 1e6;
    const sereno_model_info *m = sereno_model_describe(r->model);
    note(&r->diag, "%s (%s, %.0f million parameters) loaded in %.0f ms; %s kernels, %d threads, context %d", m->name,
         m->weight_type, (double)m->n_parameters / 1e6, r->load_ms, r->engine->ops->info(r->engine)->isa,
         o->machine.n_threads, r->engine->ops->info(r->engine)->n_ctx);
    if (e.timing_folder && r->engine->ops->info(r->engine)->timing == SERENO_TIMING_SHIPPED) {
        note(&r->diag, "the machine is too busy to time the model's operations: plans are cut by rates that ship with "
                       "sereno, and the next start tries again");
    }
    return 0;
}

/* ---- Generating ---- */

/* Prints at once, without a buffer. Where nobody reads any more the answer ends at the next boundary. */
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

/* Appends a message of the user to the history, and what comes before the answer. */
static int append_turn(run *r, const char *text, size_t size) {
    return append_user_turn(r->tokenizer, r->chats ? &r->chat : NULL, r->options->system, text, size, &r->history,
                            &r->err);
}

/* The answer as it was printed: nothing of a stop string stays. */
static int append_answer(run *r, const sereno_generation *g) {
    int status = SERENO_OK;
    for (int32_t i = 0; i < g->n_text_tokens && !status; i++) {
        status = sereno_tokens_append(&r->history, g->tokens.ids[i], &r->err);
    }
    size_t said = g->n_text_bytes, rest = g->text.size - said;
    if (!status && rest > 0) {
        status = sereno_tokenize(r->tokenizer, g->text.data + said, rest, false, &r->history, &r->err);
    }
    if (!status && r->chats) status = sereno_chat_end_answer(r->tokenizer, &r->history, &r->err);
    return status;
}

static int generate(run *r, sereno_generation *g) {
    const run_options *o = r->options;
    sereno_request request = {
        .prompt = r->history.ids,
        .n_prompt = (int32_t)r->history.n,
        .max_tokens = o->n_predict < 0 ? INT32_MAX : o->n_predict,
        .sampler = o->sampler,
        .stops = o->stops.items,
        .n_stops = o->stops.n,
        .cancel = &r->cancel,
        .on_text = on_text,
        .on_prefill = on_prefill,
        .ctx = r,
        .governing = governor_governing(&r->governor),
    };
    progress_begin(&r->bar, "reading the prompt", !o->common.json);
    int status = generator_run(r->generator, &request, g, &r->err);
    progress_end(&r->bar);
    r->interrupted = g->finish == SERENO_FINISH_CANCELLED && !r->output_lost;
    return status;
}

/* ---- Reporting ---- */

static const char *const finish_names[] = {"stop", "length", "cancelled"};

static double rate(double n, double ms) {
    return ms > 0 ? n / ms * 1000 : 0;
}

static json_t *json_settings(const run *r) {
    const sereno_sampler *s = &r->options->sampler;
    json_t *stops = json_array();
    for (int i = 0; i < r->options->stops.n; i++) {
        json_array_append_new(stops, json_string(r->options->stops.items[i]));
    }
    const draft_options *draft = &r->options->draft;
    return json_pack("{s:i, s:o, s:i, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:b, s:s, s:o}", "n_predict",
                     r->options->n_predict, "temperature", json_float(s->temperature), "top_k", s->top_k, "top_p",
                     json_float(s->top_p), "min_p", json_float(s->min_p), "seed", json_seed(s->seed), "stop", stops,
                     "strategy", strategy_names[draft->strategy], "draft", json_name(draft_name(draft, &r->draft)),
                     "draft_max", draft->length >= 0 ? json_integer(draft->length) : json_null(), "batch",
                     draft->batch > 0 ? json_integer(draft->batch) : json_null(), "chat", r->chats, "policy",
                     policy_names[r->options->governor.policy], "governor",
                     json_governor_settings(&r->options->governor));
}

static void report_json(const run *r, const sereno_generation *g) {
    interrupt_default(); /* it may wait for a reader */
    json_t *tokens = json_array();
    for (size_t i = 0; i < g->tokens.n; i++) {
        json_array_append_new(tokens, json_integer(g->tokens.ids[i]));
    }
    const sereno_engine_info *info = r->engine->ops->info(r->engine);
    double n = (double)g->tokens.n;
    json_t *timings =
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:o}", "load_ms", r->load_ms, "ttft_ms", g->ttft_ms, "prefill_tok_s",
                  rate(g->n_prefilled, g->prefill_ms), "decode_tok_s", rate(n - 1, g->decode_ms), "tpot_ms",
                  n > 1 ? g->decode_ms / (n - 1) : 0.0, "itl_ms", json_quantiles(g->itl_ms));
    const double mib = 1 << 20;
    const sereno_engine_info *draft = r->draft.engine ? r->draft.engine->ops->info(r->draft.engine) : NULL;
    double draft_mib = draft ? (double)(draft->weight_bytes + draft->kv_bytes) / mib : 0;
    uint64_t rss = procfs_rss_bytes(); /* 0: not known */
    json_t *memory = json_pack(
        "{s:f, s:f, s:f, s:o}", "weights_mib", (double)(info->weight_bytes + info->embedding_bytes) / mib, "draft_mib",
        draft_mib, "kv_mib", (double)info->kv_bytes / mib, "rss_mib", rss ? json_real((double)rss / mib) : json_null());
    const char *origin = sereno_model_describe(r->model)->origin;
    print_json(json_pack("{s:i, s:s%, s:o, s:i, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema_version",
                         SCHEMA_VERSION, "text", g->text.data ? g->text.data : "", g->text.size, "tokens", tokens,
                         "prompt_tokens", (int)r->history.n, "completion_tokens", (int)g->tokens.n, "finish_reason",
                         finish_names[g->finish], "target_origin", json_text(origin, strlen(origin)), "timings",
                         timings, "speculation", json_speculation(&g->speculation, (int32_t)g->tokens.n), "governor",
                         json_governor(&r->options->governor, &r->governor), "memory", memory, "settings",
                         json_settings(r), "environment", json_environment(&r->options->machine, info)));
}

static void report_text(const run *r, const sereno_generation *g) {
    double n = (double)g->tokens.n;
    FILE *to = r->diag.to;
    fprintf(to, "[prompt %zu tokens", r->history.n);
    if (g->n_prefilled < (int32_t)r->history.n && g->n_prefilled > 0) fprintf(to, " (%d new)", g->n_prefilled);
    if (g->prefill_ms > 0) fprintf(to, ", %.0f tok/s", rate(g->n_prefilled, g->prefill_ms));
    fprintf(to, " | answer %zu tokens", g->tokens.n);
    if (n > 1) fprintf(to, ", %.1f tok/s", rate(n - 1, g->decode_ms));
    if (g->speculation.passes > 0 && !r->draft.plain) {
        fprintf(to, ", %.2f tokens a pass", (n - 1) / (double)g->speculation.passes);
    }
    fprintf(to, ", %s", finish_names[g->finish]);
    if (g->ttft_ms > 0) fprintf(to, " | first token after %.0f ms", g->ttft_ms);
    fprintf(to, " | seed %" PRIu64 "]\n", r->options->sampler.seed);
    if (!r->options->common.verbose) return;
    const char *why;
    if (!machine_sched_effective(&r->options->machine, r->engine->ops->info(r->engine), &why))
        note(&r->diag, "the %s class is limited: %s", sched_names[r->options->machine.sched], why);
    if (r->draft.engine && g->speculation.drafted == 0) {
        note(&r->diag, "the draft did not run: by what is known it would have cost more than it brings");
    }
    note(&r->diag, "gap between tokens: p50 %.2f ms, p95 %.2f ms, p99 %.2f ms", g->itl_ms.p50, g->itl_ms.p95,
         g->itl_ms.p99);
    governor_note(&r->diag, &r->options->governor, &r->governor);
}

/* ---- One prompt, or many ---- */

static int answer_once(run *r) {
    const run_options *o = r->options;
    sereno_generation g = {0};
    int status = append_turn(r, r->prompt.data, r->prompt.size), code = 0;
    if (!status) status = generate(r, &g);
    if (g.text.size > 0) print_text(r, "\n", 1);
    if (status) code = fail(&r->diag, &r->err);
    else if (r->output_lost) code = fail_output(&r->diag, r->output_lost);
    else if (o->common.json) report_json(r, &g);
    else if (o->n_predict != 0) report_text(r, &g);
    if (!code && r->interrupted) code = interrupt_exit_code();
    sereno_generation_free(&g);
    return code;
}

/* Ctrl-C was for the answer that has ended; SIGTERM is for all of it, and so is the end of who reads. */
static void end_answer(run *r) {
    interrupt_forget();
    sereno_cancel_reset(&r->cancel);
    if (interrupt_pending() || r->output_lost) sereno_cancel_request(&r->cancel);
}

/* Answers one line; a failed turn leaves the conversation as it was before. */
static int answer_line(run *r, const char *line, size_t size) {
    size_t before = r->history.n;
    sereno_generation g = {0};
    int status = utf8_check("the line", line, size, &r->err);
    if (!status) status = append_turn(r, line, size);
    if (!status) status = generate(r, &g);
    if (g.text.size > 0) print_text(r, "\n", 1);
    end_answer(r);
    if (!status) {
        if (r->options->n_predict != 0) report_text(r, &g);
        status = append_answer(r, &g);
    }
    int code = 0;
    if (status) {
        code = fail(&r->diag, &r->err);
        r->history.n = before;
    }
    sereno_generation_free(&g);
    return code;
}

static void on_interrupt(void *ctx) {
    run *r = ctx;
    /* Loading a huge file, or tokenizing, may not look at the flag for a while: a second Ctrl-C does not wait. */
    if (sereno_cancel_request(&r->cancel)) interrupt_exit();
    if (r->engine) r->engine->ops->interrupt(r->engine);
}

/* Why there is no line: the end of the input, a signal, or an error. */
static int no_line(run *r, int got, int reason) {
    if (got == 0) return 0;
    if (reason == EINTR) return interrupt_exit_code();
    err_set(&r->err, SERENO_ERR_IO, "cannot read standard input: %s", strerror(reason));
    return fail(&r->diag, &r->err);
}

/* Ctrl-C during an answer ends the answer; while a line is waited for, the program. SIGTERM always ends the program. */
static int chat_loop(run *r) {
    if (is_cancelled(r)) return interrupt_exit_code(); /* while the model was loaded: there is no answer to end */
    line_reader lines = {0};
    bool person = terminal_is(0); /* who sees a turn fail; a program learns it from the exit code */
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

/* The class counts against other sessions only where the session has the least weight, and a session that is not ours
 * has neighbours. */
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
    if (!code && governor_open_logs(&r->options->governor, &r->governor, &r->err) != 0) code = fail(&r->diag, &r->err);
    if (!code) code = load(r);
    if (code) return code;
    if (!r->options->interactive) return answer_once(r);
    return chat_loop(r);
}

/* Returns the exit code: what a log did not take is an error, too. */
static int close_run(run *r, int code) {
    interrupt_ignore();
    generator_close(&r->generator);
    if (governor_close_opened(&r->governor, &r->err) != 0) code = fail(&r->diag, &r->err);
    draft_close_opened(&r->draft);
    sereno_engine_close(&r->engine);
    sereno_model_close(&r->model);
    sereno_tokens_free(&r->history);
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
        {OPTION_HEADING, NULL, NULL, NULL, "what to say", 0, 0, NULL, NULL},
        {OPTION_TEXT, "-p, --prompt", "TEXT", &o.prompt, "the prompt", 0, 0, NULL, NULL},
        {OPTION_TEXT, "-f, --file", "FILE", &o.file,
         "read the prompt from FILE, - for standard input; a newline at its end is not part of it", 0, 0, NULL, NULL},
        {OPTION_FLAG, "-i, --interactive", NULL, &o.interactive,
         "chat, a line a turn; the KV cache is kept from turn to turn. Ctrl-C ends the answer, a second one the "
         "program",
         0, 0, NULL, NULL},
        {OPTION_TEXT, "-sys, --system", "TEXT", &o.system,
         "the chat's system message, '' for an empty one; default: what the model's own template says", 0, 0, NULL,
         NULL},
        {OPTION_FLAG, "--raw", NULL, &o.raw,
         "continue the prompt as it is. By default a model with a chat template chats, because it was trained to", 0, 0,
         NULL, NULL},
        {OPTION_INT, "-n, --predict, --n-predict", "N", &o.n_predict,
         "at most N tokens of answer, -1: until it ends or the context is full; default 512: long enough for most "
         "answers, short enough to wait for",
         -1, 1 << 24, NULL, NULL},
        {OPTION_LIST, "--stop", "TEXT", &o.stops, "end before TEXT would be printed; may be given up to 64 times", 0, 0,
         NULL, NULL},
        {OPTION_HEADING, NULL, NULL, NULL, "how to choose tokens", 0, 0, NULL, NULL},
        SAMPLER_OPTIONS(o.sampler),
        {OPTION_SEED, "-s, --seed", "N", &o.sampler.seed,
         "the same seed gives the same text, on any number of threads; default, and -1: random, printed at the end", 0,
         0, NULL, &o.seed_given},
        {OPTION_HEADING, NULL, NULL, NULL, "model and machine", 0, 0, NULL, NULL},
        {OPTION_TEXT, "-m, --model", "PATH", &o.model,
         "GGUF file; default $SERENO_MODEL, else the model that tools/get-model fetched", 0, 0, NULL, NULL},
        {OPTION_INT, "-c, --ctx-size", "N", &o.n_ctx,
         "context in tokens; default 4096 or the model's, the smaller: memory grows with it. 0: all that the model was "
         "trained for",
         0, 1 << 24, NULL, &o.n_ctx_given},
        MACHINE_OPTIONS(o.machine),
        {OPTION_FLAG, "--own-session", NULL, &o.own_session,
         "run in a session of its own, and give that the least weight: where the kernel shares cores between sessions "
         "(most desktops), the idle class yields to other programs only so",
         0, 0, NULL, NULL},
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
