#define PCRE2_CODE_UNIT_WIDTH 8
#include "pretokenize.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"

enum { MAX_STAGES = 2 };

/* White space as Unicode defines it; PCRE2's own \s adds U+180E. */
#define SPACE        "\\p{Z}\\x{09}-\\x{0D}\\x{85}"
#define CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"
#define GPT2         CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"

static const struct preset {
    const char *name;
    const char *stages[MAX_STAGES];
} presets[] = {
    {"gpt-2", {GPT2}}, {"smollm", {"\\p{N}", GPT2}}, /* each digit alone, then as GPT-2 */
};

struct pretokenizer {
    pcre2_code *stages[MAX_STAGES];
    int n_stages;
};

static const struct preset *find_preset(const char *name, size_t size) {
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        if (strlen(presets[i].name) == size && memcmp(presets[i].name, name, size) == 0) return &presets[i];
    }
    return NULL;
}

static int refuse_name(const char *file, const char *name, size_t size, sereno_error *err) {
    char known[128] = "";
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        err_list(known, sizeof known, presets[i].name);
    }
    return err_set(err, SERENO_ERR_UNSUPPORTED, "%s: pre-tokenizer '%.*s' is not supported; supported: %s", file,
                   (int)(size < 64 ? size : 64), name, known);
}

int pretokenizer_open(const char *file, const char *name, size_t size, pretokenizer **out, sereno_error *err) {
    *out = NULL;
    const struct preset *preset = find_preset(name, size);
    if (!preset) return refuse_name(file, name, size, err);
    pretokenizer *p = calloc(1, sizeof *p);
    if (!p) return err_no_memory(err, "a pre-tokenizer", sizeof *p);
    for (int i = 0; i < MAX_STAGES && preset->stages[i]; i++) {
        int code;
        size_t offset;
        p->stages[i] = pcre2_compile((PCRE2_SPTR)preset->stages[i], PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code,
                                     &offset, NULL);
        if (!p->stages[i]) {
            pretokenizer_close(&p);
            return err_set(err, SERENO_ERR_NO_MEMORY, "cannot compile pre-tokenizer '%s' (PCRE2 error %d at %zu)",
                           preset->name, code, offset);
        }
        p->n_stages++;
    }
    *out = p;
    return SERENO_OK;
}

void pretokenizer_close(pretokenizer **p) {
    if (*p) {
        for (int i = 0; i < MAX_STAGES; i++) {
            pcre2_code_free((*p)->stages[i]);
        }
        free(*p);
    }
    *p = NULL;
}

/* One cut in progress: the sink, and match data for each stage. */
typedef struct cut {
    const pretokenizer *p;
    pcre2_match_data *match[MAX_STAGES];
    pretokenizer_sink sink;
    void *ctx;
    sereno_error *err;
} cut;

/* Depth is bounded by the number of stages. */
static int cut_stage(const cut *c, int stage, const char *text, size_t size) { /* NOLINT(misc-no-recursion) */
    if (stage == c->p->n_stages) return size > 0 ? c->sink(c->ctx, text, size, c->err) : SERENO_OK;
    size_t at = 0;
    while (at < size) {
        int found = pcre2_match(c->p->stages[stage], (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY,
                                c->match[stage], NULL);
        if (found == PCRE2_ERROR_NOMATCH) break;
        if (found < 0) return err_set(c->err, SERENO_ERR_NO_MEMORY, "PCRE2 error %d while cutting text", found);
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(c->match[stage]);
        size_t start = range[0], end = range[1];
        int status = cut_stage(c, stage + 1, text + at, start - at);
        if (!status) status = cut_stage(c, stage + 1, text + start, end - start);
        if (status) return status;
        at = end;
    }
    return cut_stage(c, stage + 1, text + at, size - at);
}

int pretokenizer_cut(const pretokenizer *p, const char *text, size_t size, pretokenizer_sink sink, void *ctx,
                     sereno_error *err) {
    cut c = {.p = p, .sink = sink, .ctx = ctx, .err = err};
    int status = SERENO_OK;
    for (int i = 0; i < p->n_stages && !status; i++) {
        c.match[i] = pcre2_match_data_create(1, NULL);
        if (!c.match[i]) status = err_no_memory(err, "cutting text", size);
    }
    if (!status) status = cut_stage(&c, 0, text, size);
    for (int i = 0; i < p->n_stages; i++) {
        pcre2_match_data_free(c.match[i]);
    }
    return status;
}
