/* sereno bench memory. */
#include "bench_command.h"
#include "bench_memory.h"
#include "command.h"
#include "cpu.h"
#include "json_results.h"
#include "machine_options.h"

static void print_document(const memory_result *result, const memory_options *o) {
    json_t *document = bench_document();
    json_object_set_new(document, "isa", json_string(result->isa));
    json_object_set_new(document, "buffer_mib", json_integer((json_int_t)(o->buffer_bytes >> 20)));
    json_object_set_new(document, "repeats", json_integer(o->repeats));
    json_object_set_new(document, "threads", json_memory_threads(result));
    json_object_set_new(document, "latency_ns", json_number(result->latency_ns));
    json_object_set_new(document, "int8_gmacs_per_thread", json_number(result->dot_gmacs));
    print_json(document);
}

static void print_table(const memory_result *result, const memory_options *o, bool all_loops) {
    printf("%s kernels, a buffer of %zu MiB; reads are medians of %d, the rest the best of them\n\n", result->isa,
           o->buffer_bytes >> 20, o->repeats < READ_SAMPLES ? o->repeats : READ_SAMPLES);
    puts("threads   read GB/s  loop");
    for (int n = 1; n <= result->n; n++) {
        const read_rates *rates = &result->reads[n - 1];
        printf("%7d  %10.1f  %s\n", n, rates->gbs[rates->best], read_loops[rates->best].name);
        for (int i = 0; all_loops && i < READ_LOOPS; i++) {
            printf("         %10.1f    %s\n", rates->gbs[i], read_loops[i].name);
        }
    }
    printf("\nlatency of a dependent load: %.0f ns\nbyte products: %.1f GMAC/s a thread\n", result->latency_ns,
           result->dot_gmacs);
}

int cmd_bench_memory(int argc, char **argv) {
    common_options common = {0};
    int32_t n_threads = cpu_count() < SERENO_THREADS_MAX ? cpu_count() : SERENO_THREADS_MAX;
    int32_t buffer_mib = 512, repeats = 9;
    const char *isa = NULL;
    const option options[] = {
        {OPTION_INT, "-t, --threads", &n_threads, .value = "N", .low = 1, .high = SERENO_THREADS_MAX,
         .help = "measure with 1 to N threads together; default all cores: where the memory is full is what is asked"},
        {OPTION_INT, "--buffer-mib", &buffer_mib, .value = "N", .low = 1, .high = 1 << 20,
         .help = "read so much; default 512: far more than the last-level cache should hold"},
        {OPTION_INT, "--repeats", &repeats, .value = "N", .low = 1, .high = 10000,
         .help = "the median of N reads counts, of the last 64 at most; default 9"},
        {OPTION_TEXT, "--isa", &isa, .value = "NAME",
         .help = "kernels to read with; default $SERENO_ISA, else the best of this machine"},
        COMMON_OPTIONS(common),
        {0},
    };
    const command_line cl = {
        "sereno bench memory", "bandwidth and latency of the memory, and the peak of byte products", "",
        "  sereno bench memory\n  sereno bench memory --json | jq .threads[-1].read_gbs\n", options};
    int n = options_parse(&cl, argc, argv, NULL, 0);
    if (n < 0) return n == PARSED_HELP ? 0 : EXIT_USAGE;
    bench_command b;
    if (!bench_begin(&b, &common, cl.command)) return EXIT_FAILED;
    memory_options o = {n_threads, (size_t)buffer_mib << 20, repeats, machine_isa(isa), bench_watch_of(&b)};
    memory_result result;
    int code = bench_measured(&b, bench_memory(&o, &result, &b.err));
    if (!code && common.json) print_document(&result, &o);
    else if (!code) print_table(&result, &o, common.verbose);
    return bench_end(&b, code);
}
