#include "background.h"

#include <string.h>

#include "errors.h"
#include "pipe.h"
#include "procfs.h"
#include "sereno/clock.h"
#include "thread.h"

enum { SPINNERS_MAX = SERENO_THREADS_MAX, END_NS = 500000000 };

/* The process's answer to an order; small enough to be written in one piece. */
typedef struct reply {
    uint32_t magic;
    enum { SAID_READY, SAID_RESULT } kind;
    sereno_error err; /* code 0: none */
    corun_background result;
} reply;

static const uint32_t reply_magic = 0x5e2e0b65;

/* ---- Its side ---- */

static void *spin(void *window) {
    corun_load_spin(window);
    return NULL;
}

static void run_spinners(const background_wiring *w, const corun_window *window) {
    corun_window spun = *window;
    pthread_t threads[SPINNERS_MAX];
    int n = 0;
    while (n < w->n_threads - 1 && n < SPINNERS_MAX && thread_start(&threads[n], spin, &spun) == 0) {
        n++;
    }
    spin(&spun);
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
}

/* Opens a strategy's parts in the process; *peer: only for a peer's strategy. */
static int open_parts(const background *b, peer_client **peer, sereno_error *err) {
    const corun_strategy *s = &b->strategies[b->first];
    if (s->kind->lowers_session && procfs_autogroup_enabled() && !session_lower()) {
        return err_set(err, SERENO_ERR_SYSTEM,
                       "the weight of the LLM's session cannot be lowered (/proc/self/autogroup), which strategy '%s' "
                       "asks for",
                       s->name);
    }
    if (!thread_take_class(s->kind->sched)) { /* `sereno run` would go on, but a bench would mislabel its results */
        return err_set(err, SERENO_ERR_SYSTEM, "the system refuses the scheduling class that strategy '%s' asks for",
                       s->name);
    }
    if (s->kind->load == LOAD_ENGINE) return b->wiring->open(b->wiring->ctx, b->first, err);
    int status = thread_pin(b->wiring->cpus, b->wiring->n_cpus, NULL, err);
    return !status && s->kind->load == LOAD_PEER ? peer_open(s->url, peer, err) : status;
}

static int run_engine(const background *b, const background_order *order, corun_background *out, sereno_error *err) {
    const background_wiring *w = b->wiring;
    corun_engine with = {.strategy = &b->strategies[order->strategy], .synthetic = w->synthetic, .signal = w->signal};
    int status = w->begin(w->ctx, order->strategy, &with.session, err);
    if (!status) status = corun_load_engine(&with, w->requests, &order->window, out, err);
    sereno_session_close(&with.session, NULL);
    return status;
}

static int run_order(const background *b, peer_client *peer, const background_order *order, corun_background *out,
                     sereno_error *err) {
    const background_wiring *w = b->wiring;
    switch (b->strategies[order->strategy].kind->load) {
    case LOAD_ENGINE: return run_engine(b, order, out, err);
    case LOAD_PEER: return corun_load_peer(peer, w->requests, &order->window, out, err);
    default: run_spinners(w, &order->window); return SERENO_OK;
    }
}

/* The process: opens its parts, then obeys orders until the pipe of orders is closed. */
static int background_main(void *ctx) {
    const background *b = ctx;
    peer_client *peer = NULL;
    reply r = {.magic = reply_magic, .kind = SAID_READY};
    open_parts(b, &peer, &r.err);
    background_order order;
    bool go_on = pipe_write_all(b->answers_fd, &r, sizeof r) && r.err.code == 0;
    while (go_on && pipe_read_all(b->orders_fd, &order, sizeof order)) {
        r = (reply){.magic = reply_magic, .kind = SAID_RESULT};
        run_order(b, peer, &order, &r.result, &r.err);
        go_on = pipe_write_all(b->answers_fd, &r, sizeof r);
    }
    return 0;
}

/* ---- Our side ---- */

bool background_serves(const corun_strategy *a, const corun_strategy *b) {
    if (a->kind->load != b->kind->load) return false;
    if (a->kind->load == LOAD_PEER) return strcmp(a->url, b->url) == 0;
    return a->kind->sched == b->kind->sched && a->kind->lowers_session == b->kind->lowers_session;
}

int background_start(background *b, const background_wiring *wiring, const corun_strategy *strategies, int first,
                     sereno_error *err) {
    *b = (background){.wiring = wiring, .strategies = strategies, .first = first, .orders_fd = -1, .answers_fd = -1};
    int orders_in = -1, answers_out = -1, status = SERENO_OK;
    if (!process_pipe(&orders_in, &b->orders_fd) || !process_pipe(&b->answers_fd, &answers_out)) {
        status = err_set(err, SERENO_ERR_SYSTEM, "no pipe to the background can be made");
    }
    background child = *b; /* in the child the pipes are standard input and output */
    child.orders_fd = 0;
    child.answers_fd = 1;
    process_options options = {
        .entry = background_main, .ctx = &child, .input_fd = orders_in, .output_fd = answers_out, .kept_fd = -1};
    if (!status) status = process_start(&options, &b->process, err);
    pipe_close(&orders_in);
    pipe_close(&answers_out);
    if (status) background_close(b);
    return status;
}

static int has_ended(background *b, sereno_error *err) {
    process_end(&b->process, END_NS);
    return err_set(err, SERENO_ERR_SYSTEM, "the background process %s", b->process.how);
}

int background_read(background *b, bool *answered, corun_background *out, sereno_error *err) {
    reply r;
    *answered = false;
    if (!pipe_read_all(b->answers_fd, &r, sizeof r)) return has_ended(b, err);
    if (r.magic != reply_magic || (r.kind == SAID_RESULT) != b->ready) {
        return err_set(err, SERENO_ERR_FORMAT, "the background process said something that makes no sense");
    }
    b->ready = true;
    *answered = r.kind == SAID_RESULT;
    *out = r.result;
    r.err.message[sizeof r.err.message - 1] = '\0';
    return r.err.code ? err_set(err, r.err.code, "%s", r.err.message) : SERENO_OK;
}

int background_run(background *b, const background_order *order, sereno_error *err) {
    return pipe_write_all(b->orders_fd, order, sizeof *order) ? SERENO_OK : has_ended(b, err);
}

void background_close(background *b) {
    process_end(&b->process, END_NS);
    pipe_close(&b->orders_fd);
    pipe_close(&b->answers_fd);
    b->ready = false;
}
