/* The client against tests/support/fake_peer.py, one server for all; nothing waits for longer than a silence. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer_client.h"
#include "support.h"

static const uint64_t SILENT_NS = 80000000, FOREVER_NS = 60000000000;

static const sereno_sampler sampler = {.temperature = 0.75f, .top_k = 40, .top_p = 0.5f, .min_p = 0.25f, .seed = 5};

typedef struct server {
    pid_t pid;
    int input; /* it ends when this is closed */
    int port;
} server;

static int start_server(void **state) {
    static server s;
    int in[2], out[2];
    if (pipe(in) || pipe(out)) return -1;
    s.pid = fork();
    if (s.pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        close(in[1]);
        close(out[0]);
        execlp("python3", "python3", SOURCE_DIR "/tests/support/fake_peer.py", (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    s.input = in[1];
    char line[32] = "";
    FILE *file = fdopen(out[0], "r");
    bool there = file && fgets(line, sizeof line, file);
    if (file) fclose(file);
    s.port = there ? (int)strtol(line, NULL, 10) : 0;
    *state = &s;
    return s.pid > 0 && s.port > 0 ? 0 : -1;
}

static int end_server(void **state) {
    server *s = *state;
    close(s->input);
    int status = -1;
    return waitpid(s->pid, &status, 0) == s->pid && status == 0 ? 0 : -1;
}

static peer_client *open_peer(void **state, const char *mode) {
    const server *s = *state;
    char url[128];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/%s", s->port, mode);
    peer_client *peer;
    assert_ok(peer_open(url, &peer, err));
    return peer;
}

/* Who listens to the pieces. */
typedef struct listener {
    int n;
    uint64_t last_ns;
    int cancel_at; /* this piece; 0: at none */
    atomic_bool cancel;
} listener;

static void on_token(void *ctx, uint64_t now_ns) {
    listener *l = ctx;
    assert_true(now_ns >= l->last_ns && now_ns <= sereno_system_now_ns());
    l->last_ns = now_ns;
    if (++l->n == l->cancel_at) atomic_store(&l->cancel, true);
}

static peer_request request_to(listener *l) {
    return (peer_request){.prompt = "Say \"\xC3\xA9\"\n",
                          .max_tokens = 3,
                          .sampler = sampler,
                          .silent_ns = FOREVER_NS,
                          .cancel = &l->cancel,
                          .on_token = on_token,
                          .ctx = l};
}

/* Asks a server of the mode, once, and expects a whole answer. */
static void assert_answer(void **state, const char *mode, int pieces, int tokens) {
    listener l = {0};
    peer_client *peer = open_peer(state, mode);
    peer_request request = request_to(&l);
    peer_answer answer;
    assert_ok(peer_complete(peer, &request, &answer, err));
    assert_int_equal(answer.pieces, pieces);
    assert_int_equal(answer.tokens, tokens);
    assert_int_equal(l.n, pieces);
    assert_false(answer.cut_off);
    peer_close(&peer);
    assert_null(peer);
}

static void test_answers(void **state) {
    assert_answer(state, "ok", 3, 3);
    assert_answer(state, "ok/v1", 3, 3);
    assert_answer(state, "ok/", 3, 3);
    assert_answer(state, "ok/v1/chat/completions", 3, 3);
    assert_answer(state, "checked#some%20model", 3, 3);
    assert_answer(state, "default-model", 1, 1);
    assert_answer(state, "trickle", 2, 2);
    assert_answer(state, "no-usage", 1, -1);
    assert_answer(state, "no-done", 1, 1);
    assert_answer(state, "lingers", 1, 1);
}

static void test_seeds_fit_into_31_bits(void **state) {
    listener l = {0};
    peer_client *peer = open_peer(state, "checked#some%20model");
    peer_request request = request_to(&l);
    peer_answer answer;
    request.sampler.seed = 0xFFFFFFFF80000005;
    request.on_token = NULL;
    assert_ok(peer_complete(peer, &request, &answer, err));
    assert_int_equal(answer.pieces, 3);
    peer_close(&peer);
}

static void test_connection_is_kept(void **state) {
    listener l = {0};
    peer_client *peer = open_peer(state, "connections");
    peer_request request = request_to(&l);
    peer_answer answer;
    assert_ok(peer_complete(peer, &request, &answer, err));
    int first = answer.tokens;
    assert_ok(peer_complete(peer, &request, &answer, err));
    assert_int_equal(answer.tokens, first);
    peer_close(&peer);
}

typedef struct failure {
    const char *mode;
    int status, pieces;
    const char *words;
} failure;

static void assert_failure(peer_client *peer, const peer_request *request, const failure *f) {
    peer_answer answer;
    sereno_error err = {0};
    assert_int_equal(peer_complete(peer, request, &answer, &err), f->status);
    assert_int_equal(err.code, f->status);
    if (!strstr(err.message, f->words)) fail_msg("%s: '%s' is not in '%s'", f->mode, f->words, err.message);
    assert_true(strlen(err.message) < 400);
    if (f->pieces >= 0) assert_int_equal(answer.pieces, f->pieces);
    assert_int_equal(answer.tokens, -1);
    assert_false(answer.cut_off);
    assert_int_equal(peer_complete(peer, request, &answer, NULL), f->status); /* again, and nobody wants to know */
}

static void test_failures(void **state) {
    static const failure failures[] = {
        {"drop", SERENO_ERR_IO, 1, "broke off after 1 pieces"},
        {"drop-at-once", SERENO_ERR_IO, 0, "does not answer: Empty reply from server"},
        {"unfinished", SERENO_ERR_IO, 2, "broke off after 2 pieces of its answer"},
        {"garbage", SERENO_ERR_FORMAT, 0, "'?ELF?"},
        {"garbage-stream", SERENO_ERR_FORMAT, 0, "something else than chunks of a completion: '??no events  ??no"},
        {"huge-line", SERENO_ERR_FORMAT, 0, "without an event in them; it begins with 'data: xxxxx"},
        {"html", SERENO_ERR_FORMAT, 0, "a stream, with status 500: '<!DOCTYPE html> <html><title>Oops</title>"},
        {"endless-html", SERENO_ERR_FORMAT, 0, "a stream, with status 200: '<p>So sorry."},
        {"empty", SERENO_ERR_FORMAT, 0, "with status 500: ''"},
        {"json-error", SERENO_ERR_FORMAT, 0, "says no, with status 400: no such?model"},
        {"plain-error", SERENO_ERR_FORMAT, 0, "says no, with status 404: Not Found"},
        {"ok/v2", SERENO_ERR_FORMAT, 0, "says no, with status 404: wrong place or type"},
        {"checked", SERENO_ERR_FORMAT, 0, "says no, with status 400: wrong: ['model']"},
        {"no-stream", SERENO_ERR_FORMAT, 0, "than a stream, with status 200: '{\"choices\""},
        {"error-inside", SERENO_ERR_FORMAT, 1, "gave up in the middle: the context is full"},
        {"wrong-json", SERENO_ERR_FORMAT, 1, "than chunks of a completion: '{half a'"},
        {"wrong-list", SERENO_ERR_FORMAT, 1, "than chunks of a completion: '[1, 2]'"},
        {"wrong-choices", SERENO_ERR_FORMAT, 0, "than chunks of a completion: '{\"choices\""},
        {"wrong-choice", SERENO_ERR_FORMAT, 0, "than chunks of a completion: '{\"choices\""},
        {"wrong-content", SERENO_ERR_FORMAT, 0, "than chunks of a completion: '{\"object\""},
        {"wrong-usage", SERENO_ERR_FORMAT, 1, "than chunks of a completion: '{\"choices\""},
        {"wrong-error", SERENO_ERR_FORMAT, 0, "than chunks of a completion: '{\"error\": [1]}'"},
    };
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        listener l = {0};
        peer_client *peer = open_peer(state, failures[i].mode);
        peer_request request = request_to(&l);
        assert_failure(peer, &request, &failures[i]);
        peer_close(&peer);
    }
}

/* On a busy machine the silence may come before what the server sends first: so many pieces at most. */
static void test_silence(void **state) {
    static const struct {
        const char *mode;
        int pieces_max;
    } cases[] = {{"hang", 0}, {"silent", 2}, {"pings", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        listener l = {0};
        peer_client *peer = open_peer(state, cases[i].mode);
        peer_request request = request_to(&l);
        request.silent_ns = SILENT_NS;
        uint64_t start_ns = sereno_system_now_ns();
        assert_failure(peer, &request, &(failure){cases[i].mode, SERENO_ERR_IO, -1, "silent for 0.08 s, after "});
        assert_true(sereno_system_now_ns() - start_ns >= 2 * SILENT_NS);
        assert_in_range(l.n, 0, 2 * cases[i].pieces_max); /* of two requests */
        peer_close(&peer);
    }
}

static void assert_cut_off(peer_client *peer, const peer_request *request, int pieces) {
    peer_answer answer;
    assert_ok(peer_complete(peer, request, &answer, err));
    assert_true(answer.cut_off);
    assert_int_equal(answer.tokens, -1);
    assert_int_equal(answer.pieces, pieces);
}

static void test_cancel(void **state) {
    static const char *const modes[] = {"silent", "endless"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        listener l = {.cancel_at = 2};
        peer_client *peer = open_peer(state, modes[i]);
        peer_request request = request_to(&l);
        assert_cut_off(peer, &request, 2);
        assert_cut_off(peer, &request, 0); /* it is still cancelled */
        atomic_store(&l.cancel, false);
        l.n = 0;
        assert_cut_off(peer, &request, 2); /* by another connection */
        peer_close(&peer);
    }
}

static void test_until(void **state) {
    listener l = {0};
    peer_client *peer = open_peer(state, "endless");
    peer_request request = request_to(&l);
    uint64_t start_ns = sereno_system_now_ns();
    request.until_ns = start_ns + SILENT_NS;
    peer_answer answer;
    assert_ok(peer_complete(peer, &request, &answer, err));
    assert_true(answer.cut_off);
    assert_int_equal(answer.pieces, l.n);
    assert_true(sereno_system_now_ns() >= request.until_ns && l.last_ns < request.until_ns);
    l.n = 0;
    assert_cut_off(peer, &request, 0); /* it is over */
    peer_close(&peer);
    peer = open_peer(state, "hang");
    request.until_ns = sereno_system_now_ns() + SILENT_NS;
    request.cancel = NULL;
    request.silent_ns = 0;
    assert_cut_off(peer, &request, 0);
    peer_close(&peer);
}

static void test_nobody_there(void **state) {
    (void)state;
    listener l = {0};
    peer_client *peer;
    peer_request request = request_to(&l);
    /* A port that is reserved for a service that nobody runs any more. */
    assert_ok(peer_open("http://127.0.0.1:1", &peer, err));
    assert_failure(peer, &request,
                   &(failure){"nobody", SERENO_ERR_IO, 0, ":1/v1/chat/completions does not answer: Fail"});
    request.prompt = "\xFF";
    assert_failure(peer, &request, &(failure){"bytes", SERENO_ERR_INVALID, 0, "not UTF-8"});
    peer_close(&peer);
}

static void test_urls(void **state) {
    (void)state;
    static const char *const wrong[] = {"",           "127.0.0.1:8080",    "ftp://127.0.0.1", "file:///x",   "http://",
                                        "http://a b", "http://a:99999999", "nonsense://a",    "http://a#%FF"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        peer_client *peer = (peer_client *)&i;
        sereno_error err = {0};
        if (peer_open(wrong[i], &peer, &err) != SERENO_ERR_INVALID) fail_msg("'%s' is accepted", wrong[i]);
        assert_null(peer);
        assert_non_null(strstr(err.message, wrong[i]));
    }
    peer_client *none = NULL;
    peer_close(&none);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_seeds_fit_into_31_bits),
        cmocka_unit_test(test_connection_is_kept),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_until),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_urls),
    };
    return cmocka_run_group_tests(tests, start_server, end_server);
}
