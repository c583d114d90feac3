#include "peer_client.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "sereno/clock.h"
#include "sse.h"
#include "utf8.h"

enum {
    EVENT_BYTES_MAX = 1 << 20, /* more than an event of any server: a token and its data */
    BODY_BYTES_MAX = 1 << 14,  /* kept of an answer that is not a stream: an error and its message */
    SHOWN_BYTES = 60,          /* shown of an answer that is not understood */
    MESSAGE_BYTES = 240,       /* shown of a server's error message */
    SEED_MASK = 0x7FFFFFFF,    /* because some servers read it into an int */
    WAIT_MS_MAX = 50,          /* between two looks at `cancel` */
    HTTP_OK = 200,
};

/* A stream should end soon after its last event. If it does not, the connection is closed, and the next request
 * opens a new one. */
static const uint64_t LINGER_NS = 200000000, NS_PER_MS = 1000000;

struct peer_client {
    bool curl_ready;
    /* One transfer at a time, by the multi interface, because the easy interface checks for cancelling only once a
     * second. The multi handle keeps the connection. */
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    char *url;   /* of the completions; curl's memory */
    char *model; /* curl's memory; NULL: none was named */
};

/* ---- Opening ---- */

static bool ends_with(const char *text, const char *end) {
    size_t size = strlen(text), end_size = strlen(end);
    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

/* Completes the user's path to that of the completions. */
static int complete_path(CURLU *url, sereno_error *err) {
    static const char completions[] = "/chat/completions";
    char *given = NULL;
    if (curl_url_get(url, CURLUPART_PATH, &given, 0)) return err_no_memory(err, "a URL", 0);
    size_t size = strlen(given);
    while (size > 0 && given[size - 1] == '/') given[--size] = '\0';
    sereno_text path = {0};
    int status = sereno_text_append(&path, given, size, err);
    if (!status && !ends_with(given, completions)) {
        if (!ends_with(given, "/v1")) status = sereno_text_append(&path, "/v1", strlen("/v1"), err);
        if (!status) status = sereno_text_append(&path, completions, strlen(completions), err);
    }
    if (!status && curl_url_set(url, CURLUPART_PATH, path.data, 0)) status = err_no_memory(err, "a URL", path.size);
    curl_free(given);
    sereno_text_free(&path);
    return status;
}

static int parse_url(peer_client *peer, const char *text, sereno_error *err) {
    CURLU *url = curl_url();
    if (!url) return err_no_memory(err, "a URL", 0);
    char *scheme = NULL;
    int status;
    CURLUcode problem = curl_url_set(url, CURLUPART_URL, text, 0);
    if (!problem) problem = curl_url_get(url, CURLUPART_SCHEME, &scheme, 0);
    if (problem || (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)) {
        status =
            err_set(err, SERENO_ERR_INVALID, "'%s' is no URL of a server; one looks like http://127.0.0.1:8080", text);
        goto out;
    }
    status = complete_path(url, err);
    if (status) goto out;
    problem = curl_url_get(url, CURLUPART_FRAGMENT, &peer->model, CURLU_URLDECODE);
    if (problem == CURLUE_NO_FRAGMENT) problem = CURLUE_OK;
    if (!problem) problem = curl_url_set(url, CURLUPART_FRAGMENT, NULL, 0);
    if (!problem) problem = curl_url_get(url, CURLUPART_URL, &peer->url, 0);
    if (problem) status = err_no_memory(err, "a URL", strlen(text));
    if (!status && peer->model && utf8_valid_prefix(peer->model, strlen(peer->model)) != strlen(peer->model)) {
        status = err_set(err, SERENO_ERR_INVALID, "the model's name in '%s' is not UTF-8", text);
    }
out:
    curl_free(scheme);
    curl_url_cleanup(url);
    return status;
}

static int add_header(peer_client *peer, const char *header, sereno_error *err) {
    struct curl_slist *longer = curl_slist_append(peer->headers, header);
    if (!longer) return err_no_memory(err, "a header", strlen(header));
    peer->headers = longer;
    return SERENO_OK;
}

int peer_open(const char *url, peer_client **out, sereno_error *err) {
    *out = NULL;
    peer_client *peer = calloc(1, sizeof *peer);
    if (!peer) return err_no_memory(err, "a client", sizeof *peer);
    int status = SERENO_ERR_NO_MEMORY;
    peer->curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    if (peer->curl_ready) {
        peer->multi = curl_multi_init();
        peer->easy = curl_easy_init();
    }
    if (!peer->multi || !peer->easy) {
        err_no_memory(err, "libcurl", 0);
        goto fail;
    }
    status = parse_url(peer, url, err);
    if (!status) status = add_header(peer, "Content-Type: application/json", err);
    if (!status) status = add_header(peer, "Accept: text/event-stream", err);
    /* Without this, curl would send "Expect" before a long prompt and wait a second for servers that ignore it. */
    if (!status) status = add_header(peer, "Expect:", err);
    if (status) goto fail;
    *out = peer;
    return SERENO_OK;
fail:
    peer_close(&peer);
    return status;
}

void peer_close(peer_client **peer) {
    peer_client *p = *peer;
    *peer = NULL;
    if (!p) return;
    curl_easy_cleanup(p->easy);
    if (p->multi) curl_multi_cleanup(p->multi);
    curl_slist_free_all(p->headers);
    curl_free(p->url);
    curl_free(p->model);
    if (p->curl_ready) curl_global_cleanup();
    free(p);
}

/* ---- What the server sends ---- */

/* One request on its way. */
typedef struct exchange {
    const peer_client *peer;
    const peer_request *request;
    peer_answer *answer;
    sereno_error *err;
    int status; /* why reading the stream stopped */
    sse_parser parser;
    sereno_text beginning; /* the answer's beginning, for messages; more of an answer that is not a stream, as it may be
                              an error in JSON */
    bool headers_seen, is_stream;
    bool heard, finished, done; /* an event came, a reason for the answer's end, [DONE] */
    uint64_t now_ns, heard_ns;  /* time of the last bytes; of the last event, or of the beginning */
    char curl_says[CURL_ERROR_SIZE];
} exchange;

/* The first of it, to be shown on one line. */
static const char *first_of(const char *data, size_t size, char out[SHOWN_BYTES + 1]) {
    if (size > SHOWN_BYTES) size = SHOWN_BYTES;
    for (size_t i = 0; i < size; i++) {
        char c = data[i];
        if (c == '\0') c = '?';
        if (c == '\n' || c == '\r' || c == '\t') c = ' ';
        out[i] = c;
    }
    out[size] = '\0';
    return out;
}

/* A server's error message, in the known JSON forms; NULL: not an error. */
static const char *words_of_error(const json_t *document) {
    enum { N_PLACES = 4 };
    const json_t *error = json_object_get(document, "error");
    const json_t *places[N_PLACES] = {error, json_object_get(error, "message"), json_object_get(document, "message"),
                                      json_object_get(document, "detail")};
    for (size_t i = 0; i < N_PLACES; i++) {
        if (json_is_string(places[i])) return json_string_value(places[i]);
    }
    return NULL;
}

static int not_understood(exchange *x, const char *data, size_t size) {
    char shown[SHOWN_BYTES + 1];
    return err_set(x->err, SERENO_ERR_FORMAT, "%s sends something else than chunks of a completion: '%s'", x->peer->url,
                   first_of(data, size, shown));
}

static bool take_usage(exchange *x, const json_t *chunk) {
    const json_t *usage = json_object_get(chunk, "usage");
    if (!usage || json_is_null(usage)) return true;
    const json_t *tokens = json_object_get(usage, "completion_tokens");
    if (!json_is_integer(tokens)) return false;
    json_int_t n = json_integer_value(tokens);
    if (n < 0 || n > INT32_MAX) return false;
    x->answer->tokens = (int32_t)n;
    return true;
}

static bool take_choice(exchange *x, const json_t *choice) {
    if (!json_is_object(choice)) return false;
    const json_t *reason = json_object_get(choice, "finish_reason");
    if (reason && !json_is_null(reason)) x->finished = true;
    const json_t *content = json_object_get(json_object_get(choice, "delta"), "content");
    if (!content || json_is_null(content)) return true;
    if (!json_is_string(content)) return false;
    if (json_string_length(content) > 0) {
        x->answer->pieces++;
        if (x->request->on_token) x->request->on_token(x->request->ctx, x->heard_ns);
    }
    return true;
}

static int take_chunk(exchange *x, const json_t *chunk, const char *data, size_t size) {
    const json_t *error = json_object_get(chunk, "error"), *choices = json_object_get(chunk, "choices");
    if (error && !json_is_null(error)) {
        const char *words = words_of_error(chunk);
        if (!words) return not_understood(x, data, size);
        return err_set(x->err, SERENO_ERR_FORMAT, "%s gave up in the middle: %.*s", x->peer->url, MESSAGE_BYTES, words);
    }
    bool understood = json_is_array(choices) && take_usage(x, chunk);
    if (understood && json_array_size(choices) > 0) understood = take_choice(x, json_array_get(choices, 0));
    return understood ? SERENO_OK : not_understood(x, data, size);
}

static bool must_stop(const exchange *x, uint64_t now_ns) {
    const peer_request *r = x->request;
    return (r->cancel && atomic_load_explicit(r->cancel, memory_order_relaxed)) ||
           (r->until_ns && now_ns >= r->until_ns);
}

static int on_event(void *ctx, const char *data, size_t size, sereno_error *err) {
    (void)err; /* the exchange's */
    static const char end[] = "[DONE]";
    exchange *x = ctx;
    x->heard = true;
    x->heard_ns = x->now_ns;
    if (x->done || must_stop(x, x->now_ns)) return SERENO_OK; /* pieces after the end are not handed out */
    if (size == strlen(end) && memcmp(data, end, size) == 0) {
        x->done = true;
        return SERENO_OK;
    }
    json_t *chunk = json_loadb(data, size, JSON_ALLOW_NUL, NULL);
    x->status = take_chunk(x, chunk, data, size);
    json_decref(chunk);
    return x->status;
}

static void see_headers(exchange *x) {
    static const char wanted[] = "text/event-stream";
    long code = 0;
    const char *type = NULL;
    curl_easy_getinfo(x->peer->easy, CURLINFO_RESPONSE_CODE, &code);
    curl_easy_getinfo(x->peer->easy, CURLINFO_CONTENT_TYPE, &type);
    x->headers_seen = true;
    x->is_stream = code == HTTP_OK && type && strncmp(type, wanted, strlen(wanted)) == 0;
}

/* Keeps bytes of the answer's beginning; whether there was room for all. */
static bool keep_beginning(exchange *x, const char *data, size_t size) {
    size_t most = x->is_stream ? SHOWN_BYTES : BODY_BYTES_MAX;
    size_t room = x->beginning.size < most ? most - x->beginning.size : 0, kept = size < room ? size : room;
    x->status = sereno_text_append(&x->beginning, data, kept, x->err);
    return kept == size;
}

/* A CURLOPT_WRITEFUNCTION: another result than the size ends the transfer. */
static size_t on_bytes(char *data, size_t one, size_t size, void *ctx) {
    (void)one; /* it is 1 */
    exchange *x = ctx;
    x->now_ns = sereno_system_now_ns();
    if (!x->headers_seen) see_headers(x);
    bool whole = keep_beginning(x, data, size);
    if (x->status || (!x->is_stream && !whole)) return 0;
    if (!x->is_stream) return size;
    sereno_error said;
    int status = sse_feed(&x->parser, data, size, &said);
    if (status && !x->status) { /* the parser's message, which does not name the server */
        char shown[SHOWN_BYTES + 1];
        x->status = err_set(x->err, status, "%s: %s; it begins with '%s'", x->peer->url, said.message,
                            first_of(x->beginning.data, x->beginning.size, shown));
    }
    return status ? 0 : size;
}

/* ---- Asking ---- */

static int make_body(const peer_client *peer, const peer_request *r, char **out, sereno_error *err) {
    size_t size = strlen(r->prompt);
    if (utf8_valid_prefix(r->prompt, size) != size) {
        return err_set(err, SERENO_ERR_INVALID, "the prompt for %s is not UTF-8", peer->url);
    }
    const sereno_sampler *s = &r->sampler;
    json_t *body = json_pack("{s:s, s:[{s:s, s:s}], s:b, s:{s:b}, s:i, s:f, s:i, s:f, s:f, s:i, s:b}", "model",
                             peer->model && *peer->model ? peer->model : "default", "messages", "role", "user",
                             "content", r->prompt, "stream", 1, "stream_options", "include_usage", 1, "max_tokens",
                             (int)r->max_tokens, "temperature", (double)s->temperature, "top_k", (int)s->top_k, "top_p",
                             (double)s->top_p, "min_p", (double)s->min_p, "seed", (int)(s->seed & SEED_MASK),
                             "cache_prompt", 1); /* for llama.cpp: reuse the common prefix, as our engine does */
    *out = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    return *out ? SERENO_OK : err_no_memory(err, "a request", size);
}

static bool configure(exchange *x, const char *body) {
    CURL *easy = x->peer->easy;
    curl_easy_reset(easy); /* connections stay */
    return !curl_easy_setopt(easy, CURLOPT_URL, x->peer->url) && !curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) &&
           !curl_easy_setopt(easy, CURLOPT_PROXY, "") &&
           !curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 1L) && /* for showing answers that are not HTTP, too */
           !curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
           !curl_easy_setopt(easy, CURLOPT_HTTPHEADER, x->peer->headers) &&
           !curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body) &&
           !curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, x->curl_says) &&
           !curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes) && !curl_easy_setopt(easy, CURLOPT_WRITEDATA, x);
}

/* Time at which the server counts as silent; 0: never. */
static uint64_t patience_ns(const exchange *x) {
    if (x->done) return x->heard_ns + LINGER_NS;
    return x->request->silent_ns ? x->heard_ns + x->request->silent_ns : 0;
}

static int wait_ms(const exchange *x, uint64_t now_ns) {
    const uint64_t ends[] = {x->request->until_ns, patience_ns(x)};
    uint64_t wait_ns = WAIT_MS_MAX * NS_PER_MS;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        uint64_t left_ns = ends[i] > now_ns ? ends[i] - now_ns : 0;
        if (ends[i] && left_ns < wait_ns) wait_ns = left_ns;
    }
    return (int)((wait_ns + NS_PER_MS - 1) / NS_PER_MS);
}

typedef enum ending { ENDED, STOPPED, SILENT } ending;

/* Runs the transfer; *result is curl's when it ENDED. */
static ending transfer(exchange *x, CURLcode *result) {
    CURLM *multi = x->peer->multi;
    *result = CURLE_FAILED_INIT;
    if (must_stop(x, x->now_ns)) return STOPPED;
    for (int running = 1;;) {
        if (curl_multi_perform(multi, &running)) return ENDED;
        if (!running) break;
        uint64_t now_ns = sereno_system_now_ns(), patience = patience_ns(x);
        if (must_stop(x, now_ns)) return STOPPED;
        if (patience && now_ns >= patience) return SILENT;
        if (curl_multi_poll(multi, NULL, 0, wait_ms(x, now_ns), NULL)) return ENDED;
    }
    int left;
    const CURLMsg *message = curl_multi_info_read(multi, &left);
    if (message && message->msg == CURLMSG_DONE) *result = message->data.result;
    return ENDED;
}

/* The error for an answer that is not a stream: the server's message, or the answer's beginning. */
static int judge_body(exchange *x) {
    long code = 0;
    curl_easy_getinfo(x->peer->easy, CURLINFO_RESPONSE_CODE, &code);
    const char *data = x->beginning.data ? x->beginning.data : "";
    size_t size = x->beginning.size;
    json_t *document = json_loadb(data, size, JSON_ALLOW_NUL, NULL);
    const char *words = words_of_error(document);
    char shown[SHOWN_BYTES + 1];
    if (words) {
        err_set(x->err, SERENO_ERR_FORMAT, "%s says no, with status %ld: %.*s", x->peer->url, code, MESSAGE_BYTES,
                words);
    } else {
        err_set(x->err, SERENO_ERR_FORMAT, "%s answers with something else than a stream, with status %ld: '%s'",
                x->peer->url, code, first_of(data, size, shown));
    }
    json_decref(document);
    return SERENO_ERR_FORMAT;
}

static int judge(exchange *x, ending how, CURLcode result) {
    if (x->status) return x->status;
    if (x->done) return SERENO_OK;
    if (how == STOPPED || must_stop(x, sereno_system_now_ns())) {
        x->answer->cut_off = true;
        x->answer->tokens = -1;
        return SERENO_OK;
    }
    const char *url = x->peer->url;
    if (!x->headers_seen && how == ENDED && !result) see_headers(x); /* there was no body */
    if (x->headers_seen && !x->is_stream) return judge_body(x);
    if (how == SILENT) {
        return err_set(x->err, SERENO_ERR_IO, "%s has been silent for %.3g s, after %d pieces of its answer", url,
                       (double)x->request->silent_ns * 1e-9, (int)x->answer->pieces);
    }
    if (x->finished) return SERENO_OK;
    if (!x->headers_seen) {
        return err_set(x->err, SERENO_ERR_IO, "%s does not answer: %s", url,
                       *x->curl_says ? x->curl_says : curl_easy_strerror(result));
    }
    if (!x->heard && !result && x->beginning.size > 0) return not_understood(x, x->beginning.data, x->beginning.size);
    return err_set(x->err, SERENO_ERR_IO, "%s broke off after %d pieces of its answer%s%s", url, (int)x->answer->pieces,
                   result ? ": " : "", result ? curl_easy_strerror(result) : "");
}

int peer_complete(peer_client *peer, const peer_request *request, peer_answer *out, sereno_error *err) {
    *out = (peer_answer){.tokens = -1};
    char *body = NULL;
    int status = make_body(peer, request, &body, err);
    if (status) return status;
    exchange x = {.peer = peer, .request = request, .answer = out, .err = err};
    x.parser = (sse_parser){.limit_bytes = EVENT_BYTES_MAX, .on_event = on_event, .ctx = &x};
    x.heard_ns = x.now_ns = sereno_system_now_ns();
    if (!configure(&x, body) || curl_multi_add_handle(peer->multi, peer->easy)) {
        status = err_no_memory(err, "a request", sizeof x);
    } else {
        CURLcode result;
        ending how = transfer(&x, &result);
        status = judge(&x, how, result);
        curl_multi_remove_handle(peer->multi, peer->easy); /* removing an unfinished transfer closes its connection */
    }
    sse_reset(&x.parser);
    sereno_text_free(&x.beginning);
    free(body);
    return status;
}
