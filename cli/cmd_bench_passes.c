/* sereno bench passes. */
#include <stdlib.h>

#include "bench_command.h"
#include "bench_passes.h"
#include "command.h"
#include "json_results.h"
#include "machine_options.h"

/* What the command line says. */
typedef struct passes_arguments {
    common_options common;
    machine_options machine;
    const char *model, *isa;
    option_numbers batches;
    int32_t context, repeats, prefill, prefill_repeats, buffer_mib, prefetch, prefetch_next;
} passes_arguments;

static void print_document(const passes_result *r, const passes_arguments *a, const sereno_model_info *m) {
    json_t *document = bench_document(), *passes = json_array(), *prefill = json_null();
    for (int i = 0; i < r->n_rows; i++) {
        json_array_append_new(passes, json_passes_row(&r->rows[i]));
    }
    if (r->prefill.n > 0) {
        prefill = json_pack("{s:i, s:f, s:f, s:o}", "tokens", r->prefill_tokens, "ms_p50", r->prefill.p50, "tok_s",
                            r->prefill_tok_s, "ms", json_pass_samples(&r->prefill));
    }
    json_t *model = json_pack("{s:o, s:s, s:I, s:I, s:f}", "name", json_name(m->name), "weight_type", m->weight_type,
                              "parameters", (json_int_t)m->n_parameters, "packed_bytes",
                              (json_int_t)r->info.weight_bytes, "macs_per_token", r->weight_macs);
    json_t *limit = json_pack("{s:f, s:f, s:s, s:s}", "read_gbs", r->read_gbs, "gmacs", r->gmacs, "loop", r->read_loop,
                              "counts", "products only: no attention, norms or quantising");
    json_object_set_new(document, "model", model);
    json_object_set_new(document, "context", json_integer(a->context));
    json_object_set_new(document, "repeats", json_integer(a->repeats));
    json_object_set_new(document, "limit", limit);
    json_object_set_new(document, "passes", passes);
    json_object_set_new(document, "prefill", prefill);
    json_object_set_new(document, "environment", json_environment(&a->machine, &r->info));
    print_json(document);
}

static void print_table(const passes_result *r, const passes_arguments *a, const sereno_model_info *m) {
    print_model(m);
    printf(", %.1f MB packed; %s kernels, %d thread%s, %s; context %d, %d repeats\n",
           (double)r->info.weight_bytes / 1e6, r->info.isa, r->info.n_threads, r->info.n_threads > 1 ? "s" : "",
           sched_names[a->machine.sched], a->context, a->repeats);
    printf("limit (products only): %.1f GB/s read (%s), %.1f GMAC/s\n\n", r->read_gbs, r->read_loop, r->gmacs);
    puts("batch    ms p50    ms p95   ratio  weights GB/s  limit ms  of limit   longest subgraph, p95");
    for (int i = 0; i < r->n_rows; i++) {
        const passes_row *row = &r->rows[i];
        char ratio[16] = "-";
        if (row->ratio > 0) snprintf(ratio, sizeof ratio, "%.2f", row->ratio);
        printf("%5d %9.2f %9.2f %7s %13.1f %9.2f %8.0f%%   %.0f us, %s, %d of %d\n", row->batch, row->times.p50,
               row->times.p95, ratio, row->weights_gbs, row->limit_ms, 100 * row->share_of_limit,
               row->subgraph_us_p95_max, sereno_subgraph_name(row->subgraph_kind), row->subgraph, row->n_subgraphs);
    }
    printf("\ntime, %%  ");
    for (int k = 0; k < PASSES_KINDS; k++) {
        printf(" %9s", sereno_subgraph_name((sereno_subgraph_kind)k));
    }
    printf(" %9s\n", "other");
    for (int i = 0; i < r->n_rows; i++) {
        printf("batch %3d", r->rows[i].batch);
        for (int k = 0; k < PASSES_KINDS; k++) {
            printf(" %9.1f", 100 * r->rows[i].time_share[k]);
        }
        printf(" %9.1f\n", 100 * r->rows[i].other_share);
    }
    if (r->prefill.n == 0) return;
    printf("\nprefill of %d tokens: %.1f ms, %.0f tok/s\n", r->prefill_tokens, r->prefill.p50, r->prefill_tok_s);
}

static int measure(bench_command *b, const passes_arguments *a, sereno_model *model) {
    passes_options o = {
        .model = model,
        .engine = bench_engine_options(b, &a->machine, model),
        .context = a->context,
        .n_batches = a->batches.n,
        .repeats = a->repeats,
        .prefill = a->prefill,
        .prefill_repeats = a->prefill_repeats,
        .buffer_bytes = (size_t)a->buffer_mib << 20,
        .watch = bench_watch_of(b),
    };
    o.engine.isa = machine_isa(a->isa);
    if (a->prefetch >= 0) o.engine.prefetch.weights_bytes = (uint32_t)a->prefetch;
    if (a->prefetch_next >= 0) o.engine.prefetch.next_bytes = (uint32_t)a->prefetch_next;
    for (int i = 0; i < a->batches.n; i++) {
        o.batches[i] = a->batches.values[i];
    }
    passes_result result;
    int code = bench_measured(b, bench_passes(&o, &result, &b->err));
    if (code) machine_advise(&b->diag, &a->machine, &b->err);
    if (!code && a->common.json) print_document(&result, a, sereno_model_describe(model));
    else if (!code) print_table(&result, a, sereno_model_describe(model));
    if (!code) machine_note(&b->diag, &a->machine, &result.info);
    passes_result_free(&result);
    return code;
}

static int run_bench(const command_line *cl, passes_arguments *a) {
    char path[PATH_SIZE];
    if (machine_check(cl, &a->machine)) return EXIT_USAGE;
    if (model_check(cl, a->model, path, sizeof path)) return EXIT_USAGE;
    bench_command b;
    sereno_model *model = NULL;
    if (!bench_begin(&b, &a->common, cl->command)) return EXIT_FAILED;
    int code = sereno_model_open(path, &model, &b.err) ? fail_model(&b.diag, a->model, &b.err) : measure(&b, a, model);
    sereno_model_close(&model);
    return bench_end(&b, code);
}

int cmd_bench_passes(int argc, char **argv) {
    passes_arguments a = {.machine = machine_defaults(),
                          .batches = {{1, 2, 4, 8, 16, 32}, 6},
                          .context = 256,
                          .repeats = 25,
                          .prefill = 512,
                          .prefill_repeats = 5,
                          .buffer_mib = 512,
                          .prefetch = -1,
                          .prefetch_next = -1};
    const option options[] = {
        MODEL_OPTION(a.model),
        {OPTION_INT, "--context", &a.context, .value = "N", .low = 0, .high = 1 << 24,
         .help = "tokens before the pass; default 256"},
        {OPTION_NUMBERS, "--batches", &a.batches, .value = "LIST", .low = 1, .high = SERENO_VERIFY_BATCH_MAX,
         .help = "tokens of a pass, all of which want logits; default 1,2,4,8,16,32: what verification uses"},
        {OPTION_INT, "--repeats", &a.repeats, .value = "N", .low = 1, .high = 100000,
         .help = "samples of each batch, batches taking turns; default 25"},
        {OPTION_INT, "--prefill", &a.prefill, .value = "N", .low = 0, .high = 1 << 24,
         .help = "time a prompt of N tokens too, 0 none; default 512"},
        {OPTION_INT, "--prefill-repeats", &a.prefill_repeats, .value = "N", .low = 1, .high = 100000,
         .help = "samples of the prefill; default 5"},
        {OPTION_INT, "--buffer-mib", &a.buffer_mib, .value = "N", .low = 1, .high = 1 << 20,
         .help =
             "read so much to learn the memory's rate; default 512: far more than the last-level cache should hold"},
        {OPTION_INT, "--prefetch", &a.prefetch, .value = "BYTES", .low = 0, .high = 16 << 20,
         .help = "how far ahead kernels ask for weights, 0 not; default 9216. To see what it brings"},
        {OPTION_INT, "--prefetch-next", &a.prefetch_next, .value = "BYTES", .low = 0, .high = 16 << 20,
         .help = "how much of what the next subgraph reads is asked for while one runs, 0 nothing; default 262144"},
        {OPTION_HEADING, .help = "machine"},
        MACHINE_OPTIONS(a.machine),
        {OPTION_TEXT, "--isa", &a.isa, .value = "NAME",
         .help = "kernels to use; default $SERENO_ISA, else the best of this machine"},
        COMMON_OPTIONS(a.common),
        {0},
    };
    const command_line cl = {
        "sereno bench passes", "whole passes of a model by batch, against what the machine could do", "",
        "  sereno bench passes -m model.gguf -t 2\n"
        "  sereno bench passes --batches 1,8 --prefill 0 --json | jq '.passes[].ratio'\n"
        "\nThe limit is the greater of reading all weights at the best rate of a read loop on the same threads,\n"
        "and multiplying with them at the kernels' own rate on cached data (batch 32) times the threads.\n"
        "It counts products only: no attention, norms or quantising. A model that fits into a cache may\n"
        "beat it.\n",
        options};
    int n = options_parse(&cl, argc, argv, NULL, 0);
    if (n < 0) return n == PARSED_HELP ? 0 : EXIT_USAGE;
    return run_bench(&cl, &a);
}
