/*
 * TARGET_replay [--mutations N] [--seed S] DIR...: runs a fuzz target without libFuzzer, over every file of
 * the directories and then over N mutations of them (2,000 by default; the same seed makes the same ones).
 * A child process runs them; when it dies or hangs, the parent prints the input that did it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"

enum { INPUT_BYTES_MAX = 1 << 16, INPUT_SECONDS_MAX = 20, EDITS_MAX = 4, HEX_COLUMNS = 32 };

typedef struct input {
    char name[256];
    uint8_t *data;
    size_t size;
} input;

typedef struct corpus {
    input *inputs;
    size_t n, capacity;
} corpus;

/* What the child is at, in memory that it shares with its parent. */
typedef struct progress {
    bool finished;
    char what[320];
    size_t size;
    uint8_t data[INPUT_BYTES_MAX];
} progress;

static void die(const char *what, const char *name) {
    fprintf(stderr, "replay: %s '%s': %s\n", what, name, strerror(errno));
    exit(2);
}

/* ---- Reading the corpus ---- */

static void read_input(corpus *c, const char *directory, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    if (!file) die("cannot open", path);
    if (c->n == c->capacity) {
        c->capacity = c->capacity ? c->capacity * 2 : 64;
        c->inputs = realloc(c->inputs, c->capacity * sizeof *c->inputs);
        if (!c->inputs) die("out of memory at", path);
    }
    input *in = &c->inputs[c->n++];
    snprintf(in->name, sizeof in->name, "%s", name);
    in->data = malloc(INPUT_BYTES_MAX + 1);
    if (!in->data) die("out of memory at", path);
    in->size = fread(in->data, 1, INPUT_BYTES_MAX + 1, file);
    if (ferror(file)) die("cannot read", path);
    fclose(file);
    if (in->size > INPUT_BYTES_MAX) {
        errno = EFBIG;
        die("cannot use", path);
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const input *)a)->name, ((const input *)b)->name);
}

static void read_directory(corpus *c, const char *directory) {
    DIR *d = opendir(directory);
    if (!d) die("cannot open", directory);
    for (const struct dirent *entry; (entry = readdir(d));) {
        if (entry->d_name[0] != '.') read_input(c, directory, entry->d_name);
    }
    closedir(d);
}

/* ---- Mutations ---- */

/* xorshift64*; the state is never 0. */
static uint64_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1Du;
}

static size_t below(uint64_t *state, size_t n) {
    return (size_t)(next_random(state) >> 11) % n;
}

/* Numbers at which counts, lengths and offsets go wrong. */
static uint64_t odd_number(uint64_t *state) {
    static const uint64_t numbers[] = {
        0,          1,         2,          7,          31,         32,         33,
        255,        256,       65535,      65536,      INT32_MAX,  1u << 31,   UINT32_MAX,
        1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX, 1ull << 61, 1ull << 60, UINT64_MAX - 31,
    };
    uint64_t number = numbers[below(state, sizeof numbers / sizeof *numbers)];
    return below(state, 4) == 0 ? number + below(state, 16) : number;
}

/* Copies n bytes of `from` into `in` at a random place, moving what follows. */
static void insert(uint64_t *state, input *in, const uint8_t *from, size_t n) {
    if (n > INPUT_BYTES_MAX - in->size) return;
    size_t at = below(state, in->size + 1);
    memmove(in->data + at + n, in->data + at, in->size - at);
    memcpy(in->data + at, from, n);
    in->size += n;
}

static void cut(uint64_t *state, input *in) {
    size_t at = below(state, in->size), n = 1 + below(state, in->size - at);
    memmove(in->data + at, in->data + at + n, in->size - at - n);
    in->size -= n;
}

static void overwrite(uint64_t *state, input *in) {
    static const size_t widths[] = {1, 2, 4, 8};
    uint64_t number = odd_number(state);
    size_t width = widths[below(state, 4)];
    if (width > in->size) width = in->size;
    memcpy(in->data + below(state, in->size - width + 1), &number, width);
}

static void edit(uint64_t *state, input *in, const corpus *c) {
    uint8_t some[16];
    size_t n = below(state, sizeof some) + 1;
    for (size_t i = 0; i < n; i++) some[i] = (uint8_t)next_random(state);
    const input *other = &c->inputs[below(state, c->n)];
    size_t from = below(state, other->size + 1), length = below(state, other->size - from + 1);
    switch (in->size == 0 ? 0 : below(state, 7)) {
    case 0: insert(state, in, some, n); break;
    case 1: insert(state, in, other->data + from, length); break;
    case 2: cut(state, in); break;
    case 3: in->size = below(state, in->size); break;
    case 4: in->data[below(state, in->size)] ^= (uint8_t)(1u << below(state, 8)); break;
    case 5: in->data[below(state, in->size)] = some[0]; break;
    default: overwrite(state, in); break;
    }
}

/* ---- Running ---- */

/* The target gets a copy that is exactly as long, so that sanitizers see a read past its end. */
static void run(progress *p, const input *in) {
    p->size = in->size;
    memcpy(p->data, in->data, in->size);
    uint8_t *exact = malloc(in->size);
    if (!exact && in->size > 0) die("out of memory at", in->name);
    if (in->size > 0) memcpy(exact, in->data, in->size);
    alarm(INPUT_SECONDS_MAX);
    LLVMFuzzerTestOneInput(exact, in->size);
    alarm(0);
    free(exact);
}

static void run_all(progress *p, const corpus *c, uint64_t mutations, uint64_t seed) {
    for (size_t i = 0; i < c->n; i++) {
        snprintf(p->what, sizeof p->what, "%s", c->inputs[i].name);
        run(p, &c->inputs[i]);
    }
    input mutated = {.data = malloc(INPUT_BYTES_MAX)};
    if (!mutated.data) die("out of memory at", "mutations");
    uint64_t state = seed ? seed : 1;
    for (uint64_t i = 0; i < mutations; i++) {
        const input *origin = &c->inputs[below(&state, c->n)];
        mutated.size = origin->size;
        memcpy(mutated.data, origin->data, origin->size);
        for (size_t edits = 1 + below(&state, EDITS_MAX); edits > 0; edits--) edit(&state, &mutated, c);
        snprintf(p->what, sizeof p->what, "mutation %" PRIu64 " (of %s)", i, origin->name);
        run(p, &mutated);
    }
    free(mutated.data);
    p->finished = true;
}

static void report(const progress *p, int status) {
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) fprintf(stderr, "replay: hangs");
    else if (WIFSIGNALED(status)) fprintf(stderr, "replay: killed by signal %d", WTERMSIG(status));
    else fprintf(stderr, "replay: ended with status %d", WEXITSTATUS(status));
    if (p->finished) {
        fprintf(stderr, " after the last input (a leak?)\n");
        return;
    }
    fprintf(stderr, " at %s, these %zu bytes:\n", p->what, p->size);
    for (size_t i = 0; i < p->size; i++) {
        fprintf(stderr, "%02x%s", p->data[i], (i + 1) % HEX_COLUMNS == 0 ? "\n" : "");
    }
    fputc('\n', stderr);
}

static uint64_t number_argument(const char *text) {
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 0);
    if (end == text || *end || errno) {
        errno = EINVAL;
        die("not a number:", text);
    }
    return value;
}

static int usage(void) {
    fprintf(stderr, "usage: replay [--mutations N] [--seed S] DIR...\n");
    return 2;
}

int main(int argc, char **argv) {
    uint64_t mutations = 2000, seed = 1;
    corpus c = {0};
    for (int i = 1; i < argc; i++) {
        bool is_mutations = strcmp(argv[i], "--mutations") == 0;
        if (is_mutations || strcmp(argv[i], "--seed") == 0) {
            if (i + 1 == argc) return usage();
            *(is_mutations ? &mutations : &seed) = number_argument(argv[++i]);
        } else {
            read_directory(&c, argv[i]);
        }
    }
    if (c.n == 0) return usage();
    qsort(c.inputs, c.n, sizeof *c.inputs, by_name); /* directories list in any order */
    printf("%zu files, %" PRIu64 " mutations, seed %" PRIu64 "\n", c.n, mutations, seed);
    fflush(stdout);
    progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) die("out of memory at", "the start");
    pid_t child = fork();
    if (child < 0) die("cannot fork at", "the start");
    if (child == 0) run_all(p, &c, mutations, seed);
    int status = 0;
    if (child > 0) {
        if (waitpid(child, &status, 0) != child) die("cannot wait for", "the child");
        if (status) report(p, status);
    }
    for (size_t i = 0; i < c.n; i++) free(c.inputs[i].data);
    free(c.inputs);
    return status ? 1 : 0;
}
