#include "corun_settings.h"

#include "cpu.h"
#include "hash.h"
#include "json_values.h"
#include "process.h"
#include "sereno/api.h"
#include "whole_file.h"

enum { SYNTHETIC_PROMPT_TOKENS = 32, STEADY_TOKENS = 256, SPORADIC_TOKENS = 64, SPORADIC_GAP_S = 3 };

corun_requests corun_requests_of(corun_rhythm rhythm, prompt_list *prompts, bool synthetic,
                                 corun_prompt rows[PROMPTS_MAX]) {
    bool sporadic = rhythm == RHYTHM_SPORADIC;
    for (int i = 0; i < prompts->n; i++) {
        prompt *p = &prompts->list[i];
        if (synthetic && p->tokens.n > SYNTHETIC_PROMPT_TOKENS) p->tokens.n = SYNTHETIC_PROMPT_TOKENS;
        rows[i] = (corun_prompt){p->tokens, p->text.data};
    }
    return (corun_requests){.prompts = rows,
                            .n_prompts = prompts->n,
                            .max_tokens = sporadic ? SPORADIC_TOKENS : STEADY_TOKENS,
                            .gap_ns = sporadic ? SPORADIC_GAP_S * UINT64_C(1000000000) : 0};
}

/* The LLM's side. */
static json_t *json_background(const corun_settings *s) {
    const sereno_model_info *m = sereno_model_describe(s->model);
    uint64_t prompts = 0;
    for (int i = 0; i < s->prompts->n; i++) {
        const sereno_tokens *t = &s->prompts->list[i].tokens;
        prompts = hash_u64(prompts) ^ hash_bytes(t->ids, t->n * sizeof *t->ids);
    }
    json_t *cpus = json_array();
    for (int i = 0; i < s->places->n_cpus; i++) {
        json_array_append_new(cpus, json_integer(s->places->cpus[i]));
    }
    return json_pack("{s:o, s:o, s:s, s:I, s:o, s:o, s:s, s:i, s:o, s:s, s:i, s:i, s:i, s:o, s:o}", "model",
                     json_name(m->name), "target_origin", json_name(m->origin), "weight_type", m->weight_type,
                     "parameters", (json_int_t)m->n_parameters, "draft", json_name(s->draft), "synthetic_acceptance",
                     s->synthetic ? json_name(s->synthetic) : json_null(), "load", s->load, "threads",
                     s->places->n_threads, "cpus", cpus, "activations", s->activations, "context", s->n_ctx,
                     "n_predict", s->requests->max_tokens, "prompts", s->prompts->n, "prompts_hash", json_hash(prompts),
                     "sampler", json_sampler(&s->requests->sampler));
}

const char *corun_setting_name(const corun_settings *s) {
    return s->synthetic ? "synthetic" : "real text";
}

json_t *json_corun_settings(const corun_settings *s) {
    char cpu[128], path[4096];
    sereno_text program = {0};
    bool known = process_own_path(path, sizeof path) && file_read_text(path, &program, NULL) == SERENO_OK;
    uint64_t program_hash = hash_bytes(known ? program.data : "", known ? program.size : 0);
    sereno_text_free(&program);
    cpu_name(cpu, sizeof cpu);
    return json_pack("{s:s, s:s, s:o, s:o, s:f, s:f, s:o, s:i, s:s, s:o, s:s, s:o}", "setting", corun_setting_name(s),
                     "placement", s->placement, "foregrounds", json_foregrounds(s->foregrounds), "background",
                     json_background(s), "seconds", s->seconds, "warm_up", s->warm_up, "seed",
                     json_seed(s->requests->sampler.seed), "foreground_cpu", s->places->foreground_cpu, "version",
                     sereno_version(), "program", json_hash(program_hash), "isa", s->isa ? s->isa : "best", "cpu",
                     json_name(cpu));
}
