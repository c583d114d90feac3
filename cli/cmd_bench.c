/* sereno bench: finds the bench and calls it; and what benches share. */
#include "bench_command.h"
#include "command.h"
#include "cpu.h"
#include "interrupt.h"
#include "utf8.h"

static const command benches[] = {
    {"memory", "bandwidth and latency of the memory, and the peak of byte products", cmd_bench_memory},
    {"kernels", "rates of the products: instruction set, type, shape, batch", cmd_bench_kernels},
    {"decode", "tokens per second by strategy: plain, and speculation with any draft", cmd_bench_decode},
    {"corun", "what a foreground and an LLM do to each other, by strategy", cmd_bench_corun},
    {"reaction", "how fast a governed run lets go of the memory, and how often for nothing", cmd_bench_reaction},
    {"passes", "whole passes of a model by batch, against what the machine could do", cmd_bench_passes},
    {0},
};

int cmd_bench(int argc, char **argv) {
    static const command_group bench = {"sereno bench", "measure how fast it is, and how fast it could be", benches,
                                        ""};
    return command_dispatch(&bench, argc, argv);
}

static void on_interrupt(void *ctx) {
    bench_command *b = ctx;
    if (sereno_cancel_request(&b->cancel)) interrupt_exit();
}

static void on_progress(void *ctx, uint64_t done, uint64_t total) {
    bench_command *b = ctx;
    progress_part(&b->bar, b->activity, !b->common->json, done, total);
}

bool bench_begin(bench_command *b, const common_options *common, const char *command) {
    *b = (bench_command){.common = common, .activity = "measuring"};
    if (!diagnostics_open(&b->diag, common, command)) return false;
    progress_begin(&b->bar, "preparing", !common->json);
    interrupt_handle(on_interrupt, b);
    return true;
}

bench_watch bench_watch_of(bench_command *b) {
    return (bench_watch){&b->cancel, on_progress, b};
}

/* One bar for all that is opened. */
static bool on_load(void *ctx, const char *what, uint64_t done, uint64_t total) {
    (void)what;
    bench_command *b = ctx;
    progress_update(&b->bar, done, total);
    return !sereno_cancel_requested(&b->cancel);
}

static void take_class(bench_command *b, const machine_options *machine) {
    if (!b->has_class) machine_take_class(machine, &b->diag); /* one warning is enough */
    b->has_class = true;
}

sereno_engine_options bench_engine_options(bench_command *b, const machine_options *machine,
                                           const sereno_model *model) {
    sereno_engine_options o = sereno_engine_defaults(model);
    take_class(b, machine);
    machine_apply(machine, &o);
    o.isa = machine_isa(NULL);
    o.progress = (sereno_progress){on_load, b};
    return o;
}

int bench_open(bench_command *b, const sereno_session_options *options, const machine_options *machine,
               sereno_session **out) {
    sereno_session_options o = *options;
    take_class(b, machine);
    o.progress = (sereno_progress){on_load, b};
    int status = sereno_session_open(&o, out, &b->err);
    if (!status || o.engine_of) return status; /* the draft's error: no advice on model and cores */
    b->machine = machine;
    b->model = o.model_path;
    return status;
}

int bench_measured(bench_command *b, int status) {
    interrupt_default(); /* printing may wait for a reader */
    progress_end(&b->bar);
    if (status == SERENO_ERR_ABANDONED) return interrupt_exit_code();
    int code = status ? fail(&b->diag, &b->err) : 0;
    if (code && b->machine) session_advise(&b->diag, b->model, b->machine, &b->err);
    return code;
}

int bench_end(bench_command *b, int code) {
    interrupt_default();
    progress_end(&b->bar);
    code = finish_output(&b->diag, code);
    diagnostics_close(&b->diag);
    return code;
}

json_t *bench_document(void) {
    char cpu[128];
    cpu_name(cpu, sizeof cpu);
    return json_pack("{s:i, s:s, s:s}", "schema_version", SCHEMA_VERSION, "version", sereno_version(), "cpu", cpu);
}

void print_model(const sereno_model_info *m) {
    char text[256];
    snprintf(text, sizeof text, "%.96s (%s, origin %.96s)", *m->name ? m->name : "a model without a name",
             m->weight_type, m->origin);
    utf8_make_printable(text); /* names out of files may hold anything */
    fputs(text, stdout);
}

void print_synthetic(const char *rates) {
    if (rates) printf("SYNTHETIC acceptance %s: the text is nonsense\n", rates);
}
