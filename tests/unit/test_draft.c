/* A draft beside a sequence: what it computes, and what it holds, whatever happens to it. */
#include <stdlib.h>
#include <string.h>

#include "draft.h"
#include "rng.h"
#include "support.h"

enum { VOCAB = 512, CONTEXT = 320 };

typedef enum draft_kind { OWN, SELF_INT4, SELF_LAYERS, KINDS } draft_kind;

/* A target with a draft, and an engine like the draft that computes each path anew. */
typedef struct fixture {
    sereno_model *model;
    sereno_engine *target, *draft, *fresh_target, *fresh;
} fixture;

static sereno_engine *open_draft(sereno_engine *target, const sereno_model *model, draft_kind kind) {
    sereno_engine *e;
    if (kind == OWN) return open_engine(model, 1, NULL, CONTEXT, 2);
    assert_ok(sereno_engine_open_self_draft(target, kind == SELF_INT4 ? SERENO_SELF_INT4 : SERENO_SELF_LAYERS, 1, NULL,
                                            &e, err));
    return e;
}

static fixture open_fixture(draft_kind kind) {
    fixture f = {.model = open_random_model("tiny", "f16")};
    f.target = open_engine(f.model, 1, NULL, CONTEXT, 2);
    f.fresh_target = open_engine(f.model, 1, NULL, CONTEXT, 2);
    f.draft = open_draft(f.target, f.model, kind);
    f.fresh = open_draft(f.fresh_target, f.model, kind);
    return f;
}

static void close_fixture(fixture *f) {
    sereno_engine_close(&f->draft);
    sereno_engine_close(&f->fresh);
    sereno_engine_close(&f->target);
    sereno_engine_close(&f->fresh_target);
    sereno_model_close(&f->model);
}

/* Makes an engine hold exactly these tokens, from nothing. */
static void hold(sereno_engine *e, int32_t sequence, const int32_t *tokens, int32_t n) {
    assert_ok(e->ops->truncate(e, sequence, 0, err));
    for (int32_t at = 0; at < n;) {
        int32_t batch = n - at < SERENO_VERIFY_BATCH_MAX ? n - at : SERENO_VERIFY_BATCH_MAX;
        run_chain(e, sequence, tokens + at, batch);
        at += batch;
    }
}

/* What a draft that has seen nothing else says after a path. */
static const float *fresh_logits(fixture *f, draft_kind kind, const int32_t *path, int32_t n, int32_t n_kept) {
    draft d;
    int32_t behind, last;
    hold(f->fresh_target, 1, path, n_kept);
    assert_ok(draft_open(&d, f->fresh, 1, err));
    assert_ok(draft_follow(&d, path, n, n_kept, &behind, err));
    assert_int_equal(behind, kind == OWN ? n : n - n_kept);
    assert_ok(draft_compute(&d, path, n, NULL, NULL, false, &last, err));
    draft_close(&d);
    return f->fresh->ops->logits(f->fresh, last);
}

static sereno_verdict abandon_some(void *ctx, const sereno_boundary *b) {
    (void)b;
    return (sereno_verdict){.action = rng_below(ctx, 40) ? SERENO_CONTINUE : SERENO_ABANDON};
}

static void follow(draft *d, const int32_t *path, int32_t n, int32_t n_kept, int32_t common) {
    int32_t behind;
    assert_ok(draft_follow(d, path, n, n_kept, &behind, err));
    assert_int_equal(behind, n - common);
    assert_int_equal(d->held.n, common);
    assert_int_equal(d->engine->ops->length(d->engine, d->sequence), common);
}

/* The target's sequence goes on by some tokens, or back; the draft, ahead of it or not, goes along. */
static void test_what_it_says(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (draft_kind kind = OWN; kind < KINDS; kind++) {
        fixture f = open_fixture(kind);
        draft d;
        int32_t path[CONTEXT], held[CONTEXT], n_kept = 0, n_held = 0; /* what the draft holds */
        assert_ok(draft_open(&d, f.draft, 1, err));
        random_tokens(rng_u64(&r), VOCAB, CONTEXT, path);
        for (int step = 0; step < 30; step++) {
            int32_t changed = n_kept;
            if (rng_below(&r, 4) == 0) { /* a new request, which has something in common with the last */
                n_kept = 1 + (int32_t)rng_below(&r, 150);
                changed = (int32_t)rng_below(&r, (uint32_t)n_kept);
            } else {
                n_kept += (int32_t)rng_below(&r, 8);
            }
            if (n_kept > CONTEXT - 10) n_kept = changed = 100;
            if (n_kept < 1) n_kept = 1;
            /* What lies beyond the old path's beginning is drawn again, now and then. */
            if (rng_below(&r, 2)) {
                random_tokens(rng_u64(&r), VOCAB, CONTEXT - changed, path + changed);
            }
            hold(f.target, 1, path, n_kept);
            for (int32_t n = n_kept + 1; n <= n_kept + 1 + (int32_t)rng_below(&r, 6) && draft_has_room(&d, n); n++) {
                int32_t common = 0;
                while (common < n - 1 && common < n_held && held[common] == path[common]) common++;
                if (kind != OWN && n == n_kept + 1) common = n_kept; /* the target has gone on without it */
                follow(&d, path, n, n_kept, common);
                int32_t last, status;
                do {
                    sereno_error error = {0};
                    int32_t before = (int32_t)d.held.n;
                    status = draft_compute(&d, path, n, abandon_some, &r, false, &last, &error);
                    assert_true(status == SERENO_OK || status == SERENO_ERR_ABANDONED);
                    assert_true((int32_t)d.held.n >= before);
                    assert_int_equal(f.draft->ops->length(f.draft, 1), d.held.n);
                    assert_memory_equal(d.held.ids, path, d.held.n * sizeof *path);
                } while (status);
                memcpy(held, path, (size_t)n * sizeof *held);
                n_held = n;
                const float *said = f.draft->ops->logits(f.draft, last);
                assert_memory_equal(said, fresh_logits(&f, kind, path, n, n_kept), VOCAB * sizeof *said);
                assert_int_equal(f.target->ops->length(f.target, 1), n_kept);
            }
        }
        draft_close(&d);
        close_fixture(&f);
    }
}

/* The last place of the context is used, and none beyond. */
static void test_room(void **state) {
    (void)state;
    rng r = {test_seed()};
    for (draft_kind kind = OWN; kind < KINDS; kind++) {
        fixture f = open_fixture(kind);
        draft d;
        int32_t path[CONTEXT + 1], last, behind, n_kept = CONTEXT - 1;
        random_tokens(rng_u64(&r), VOCAB, CONTEXT + 1, path);
        hold(f.target, 1, path, n_kept);
        assert_ok(draft_open(&d, f.draft, 1, err));
        assert_true(draft_has_room(&d, CONTEXT));
        assert_false(draft_has_room(&d, CONTEXT + 1));
        assert_ok(draft_follow(&d, path, CONTEXT, n_kept, &behind, err));
        assert_ok(draft_compute(&d, path, CONTEXT, NULL, NULL, false, &last, err));
        assert_int_equal(f.draft->ops->length(f.draft, 1), CONTEXT);
        assert_ok(draft_follow(&d, path, CONTEXT + 1, n_kept, &behind, err));
        assert_int_equal(draft_compute(&d, path, CONTEXT + 1, NULL, NULL, false, &last, NULL), SERENO_ERR_CONTEXT_FULL);
        assert_int_equal(d.held.n, CONTEXT);
        draft_close(&d);
        close_fixture(&f);
    }
}

/* Opening empties an engine's own sequence, and leaves the target's alone. */
static void test_opening(void **state) {
    (void)state;
    int32_t tokens[20];
    random_tokens(1, VOCAB, 20, tokens);
    for (draft_kind kind = OWN; kind < KINDS; kind++) {
        fixture f = open_fixture(kind);
        draft d;
        hold(f.target, 1, tokens, 20);
        if (kind == OWN) hold(f.draft, 1, tokens, 20);
        assert_ok(draft_open(&d, f.draft, 1, err));
        assert_int_equal(f.draft->ops->length(f.draft, 1), kind == OWN ? 0 : 20);
        assert_int_equal(f.target->ops->length(f.target, 1), 20);
        draft_close(&d);
        assert_null(d.engine);
        if (kind == OWN) assert_int_equal(draft_open(&d, f.draft, 2, NULL), SERENO_ERR_INVALID);
        draft_close(&d);
        close_fixture(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_it_says),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_opening),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
