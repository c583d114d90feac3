/* sereno bench kernels. */
#include "bench_command.h"
#include "bench_kernels.h"
#include "command.h"
#include "json_results.h"
#include "machine_options.h"

enum { SHAPES_MAX = OPTION_LIST_MAX };

/* Rows and columns of the down and up products of SmolLM2-135M and of Llama-3.2-1B. */
static const kernels_shape default_shapes[] = {{1536, 576}, {576, 1536}, {8192, 2048}, {2048, 8192}};

static void print_document(const kernels_result *result, const kernels_options *o) {
    json_t *document = bench_document();
    json_object_set_new(document, "threads", json_integer(o->n_threads));
    json_object_set_new(document, "repeats", json_integer(o->repeats));
    json_object_set_new(document, "sample_ms", json_number((double)o->sample_ns / 1e6));
    json_object_set_new(document, "kernels", json_kernels(result));
    print_json(document);
}

/* A line a kernel and shape, a column a batch: the cells come in this order. */
static void print_table(const kernels_result *result, const kernels_options *o) {
    printf("GMAC/s by batch, and GB/s of weights at batch %d; %d thread%s, best of %d\n", o->batches[0], o->n_threads,
           o->n_threads > 1 ? "s" : "", o->repeats);
    puts("cached: rows of the shape that fit into 256 KiB, again and again; streamed: copies of all of it\n");
    printf("%-9s %-5s %4s %-12s %8s %-9s", "isa", "type", "bits", "shape", "prefetch", "data");
    for (int b = 0; b < o->n_batches; b++) {
        printf(" %7d", o->batches[b]);
    }
    puts("     GB/s");
    for (size_t i = 0; i < result->n; i += (size_t)o->n_batches) {
        const kernels_cell *c = &result->cells[i];
        char shape[32];
        snprintf(shape, sizeof shape, "%dx%d", c->shape.rows, c->shape.columns);
        printf("%-9s %-5s %4d %-12s %8d %-9s", c->isa, kernels_type_name(c->type), c->activation_bits, shape,
               c->prefetch_bytes, c->cached ? "cached" : "streamed");
        for (int b = 0; b < o->n_batches; b++) {
            printf(" %7.1f", c[b].gmacs);
        }
        printf(" %8.1f\n", c->gbs);
    }
}

/* What the command line says, on its way to the bench. */
typedef struct kernels_arguments {
    common_options common;
    const char *isa, *types;
    option_list shapes;
    option_numbers batches;
    int32_t n_threads, repeats, sample_ms, buffer_mib;
    bool ablate;
} kernels_arguments;

static int run_bench(const command_line *cl, const kernels_arguments *a) {
    tensor_type types[READABLE_TYPES];
    char known[128];
    kernels_shape shapes[SHAPES_MAX];
    kernels_options o = {.isa = machine_isa(a->isa), .types = types, .shapes = a->shapes.n ? shapes : default_shapes};
    o.n_types = kernels_parse_types(a->types, types);
    if (o.n_types < 0) {
        return usage_error(cl, "--types is '%s'; it can be some of %s, separated by commas", a->types,
                           kernels_list_types(known, sizeof known));
    }
    o.n_shapes = a->shapes.n ? a->shapes.n : (int)(sizeof default_shapes / sizeof *default_shapes);
    for (int i = 0; i < a->shapes.n; i++) {
        if (kernels_parse_shape(a->shapes.items[i], &shapes[i])) continue;
        return usage_error(cl, "--shape is '%s'; ROWSxCOLUMNS up to %dx%d is needed, as in 8192x2048",
                           a->shapes.items[i], KERNELS_ROWS_MAX, KERNELS_COLUMNS_MAX);
    }
    o.batches = a->batches.values;
    o.n_batches = a->batches.n;
    o.n_threads = a->n_threads;
    o.buffer_bytes = (size_t)a->buffer_mib << 20;
    o.sample_ns = (uint64_t)a->sample_ms * 1000000;
    o.repeats = a->repeats;
    o.ablate = a->ablate;
    bench_command b;
    if (!bench_begin(&b, &a->common, cl->command)) return EXIT_FAILED;
    o.watch = bench_watch_of(&b);
    kernels_result result;
    int code = bench_measured(&b, bench_kernels(&o, &result, &b.err));
    if (!code && result.n_skipped > 0 && a->shapes.n > 0) {
        warn(&b.diag,
             "left out where the columns are not whole blocks of the type: %zu of %d combinations of type and "
             "shape",
             result.n_skipped, o.n_types * o.n_shapes);
    }
    if (!code && a->common.json) print_document(&result, &o);
    else if (!code) print_table(&result, &o);
    kernels_result_free(&result);
    return bench_end(&b, code);
}

int cmd_bench_kernels(int argc, char **argv) {
    kernels_arguments a = {.types = "q4_0,q4_1,q8_0,q6_k,f16",
                           .batches = {{1, 2, 4, 8, 16, 32}, 6},
                           .n_threads = 1,
                           .repeats = 3,
                           .sample_ms = 20,
                           .buffer_mib = 256};
    const option options[] = {
        {OPTION_TEXT, "--isa", &a.isa, .value = "NAME",
         .help = "kernels to measure; default $SERENO_ISA, else all that this machine runs"},
        {OPTION_TEXT, "--types", &a.types, .value = "LIST",
         .help = "tensor types; default q4_0,q4_1,q8_0,q6_k,f16; there are bf16 and f32 too"},
        {OPTION_LIST, "--shape", &a.shapes, .value = "RxC",
         .help = "rows and columns of the matrix, may be given up to 16 times; default: the feed-forward matrices of "
                 "SmolLM2-135M and Llama-3.2-1B"},
        {OPTION_NUMBERS, "--batches", &a.batches, .value = "LIST", .low = 1, .high = 32,
         .help = "tokens multiplied together; default 1,2,4,8,16,32"},
        {OPTION_FLAG, "--ablate", &a.ablate,
         .help = "also without prefetching of weights, and with other distances than the default"},
        {OPTION_INT, "-t, --threads", &a.n_threads, .value = "N", .low = 1, .high = SERENO_THREADS_MAX,
         .help = "threads; default 1: the kernel's own rate"},
        {OPTION_INT, "--repeats", &a.repeats, .value = "N", .low = 1, .high = 10000,
         .help = "the best of N counts; default 3"},
        {OPTION_INT, "--sample-ms", &a.sample_ms, .value = "N", .low = 1, .high = 10000,
         .help = "how long one repeat takes at least; default 20"},
        {OPTION_INT, "--buffer-mib", &a.buffer_mib, .value = "N", .low = 1, .high = 1 << 20,
         .help = "streamed data fills about so much; default 256: far more than the last-level cache should hold"},
        COMMON_OPTIONS(a.common),
        {0},
    };
    const command_line cl = {"sereno bench kernels", "rates of the products: instruction set, type, shape, batch", "",
                             "  sereno bench kernels --types q4_0 --shape 8192x2048 --ablate\n"
                             "  sereno bench kernels --isa portable --json | jq '.kernels[] | select(.cached)'\n",
                             options};
    int n = options_parse(&cl, argc, argv, NULL, 0);
    if (n < 0) return n == PARSED_HELP ? 0 : EXIT_USAGE;
    return run_bench(&cl, &a);
}
