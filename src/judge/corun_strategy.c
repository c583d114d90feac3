#include "corun_strategy.h"

#include <stddef.h>

#define FULL_SPEED                                                                                                     \
    { .factor = 1 }
/* Our engine as sereno runs it by default: idle class, and a session of least weight. */
#define OURS                   .load = LOAD_ENGINE, .sched = SERENO_SCHED_IDLE, .lowers_session = true
#define GOVERNED(policy_)      OURS, .speculates = true, .pacing = FULL_SPEED, .governed = true, .policy = (policy_)
#define BALANCED_WITHOUT(what) GOVERNED(SERENO_POLICY_BALANCED), .without = (what)
#define FOREIGN                .sched = SERENO_SCHED_NORMAL, .pacing = FULL_SPEED

/* clang-format off */
const corun_kind corun_kinds[] = {
    {.name = "native", .about = "no LLM at all", .load = LOAD_NONE, FOREIGN},
    {.name = "native-again", .about = "the same once more: what differs from native is noise", .load = LOAD_NONE, FOREIGN},
    {.name = "spin", .about = "busy cores in the LLM's place, without memory", .load = LOAD_SPIN, FOREIGN},
    {.name = "plain", .about = "one token a pass, normal class", .load = LOAD_ENGINE, FOREIGN},
    {.name = "plain-idle", .about = "one token a pass, idle class alone", .load = LOAD_ENGINE, .sched = SERENO_SCHED_IDLE,
     .pacing = FULL_SPEED},
    {.name = "plain-idle-fixed", .about = "the same, and its session has the least weight", OURS, .pacing = FULL_SPEED},
    {.name = "spec", .about = "speculation", OURS, .speculates = true, .pacing = FULL_SPEED},
    {.name = "freq-limit", .about = "one token a pass, every subgraph takes factor= times as long", OURS,
     .pacing = {.factor = 2}},
    {.name = "chunk-sleep", .about = "one token a pass, a sleep of us= after every= subgraphs", OURS,
     .pacing = {.factor = 1, .every = 8, .sleep_us = 1000}},
    {.name = "hint", .about = "speculation by an oracle that knows when a frame is made: frame=hold or verify", OURS,
     .speculates = true, .pacing = {.factor = 1, .hint = HINT_HOLD}},
    {.name = "sereno:balanced", .about = "speculation, governed", GOVERNED(SERENO_POLICY_BALANCED)},
    {.name = "sereno:ui-first", .about = "the same, the foreground first", GOVERNED(SERENO_POLICY_UI_FIRST)},
    {.name = "sereno-hinted:balanced", .about = "balanced, beside a foreground that says when it makes frames",
     GOVERNED(SERENO_POLICY_BALANCED), .hinted = true},
    {.name = "sereno-hinted:ui-first", .about = "ui-first, beside such a foreground", GOVERNED(SERENO_POLICY_UI_FIRST),
     .hinted = true},
    {.name = "sereno:throughput", .about = "the same, only watched by a governor", GOVERNED(SERENO_POLICY_THROUGHPUT)},
    {.name = "sereno-without-preempt", .about = "balanced, but drafts are never abandoned",
     BALANCED_WITHOUT(WITHOUT_PREEMPT)},
    {.name = "sereno-without-fill", .about = "balanced, but n-grams fill no place", BALANCED_WITHOUT(WITHOUT_FILL)},
    {.name = "sereno-without-batch", .about = "balanced, but batches stay as small as pays",
     BALANCED_WITHOUT(WITHOUT_BATCH)},
    {.name = "sereno-without-sleep", .about = "balanced, but it neither sleeps nor holds",
     BALANCED_WITHOUT(WITHOUT_SLEEP)},
    {.name = "sereno-without-probe", .about = "balanced, but it senses by its own speed alone",
     BALANCED_WITHOUT(WITHOUT_PROBE)},
    {.name = "peer", .about = "another server at URL, any that speaks OpenAI's API", .load = LOAD_PEER, FOREIGN},
    {0},
};
/* clang-format on */

const char *corun_base(corun_placement placement) {
    return placement == PLACEMENT_SPLIT ? "plain" : "plain-idle";
}

sereno_governor_params corun_governor(const corun_kind *kind) {
    sereno_governor_params p = sereno_governor_defaults(kind->policy);
    if (kind->without == WITHOUT_PREEMPT) p.preempt = 0;
    if (kind->without == WITHOUT_BATCH) p.batch_max = 1;
    if (kind->without == WITHOUT_SLEEP) p.sleep_ratio = p.yield_ratio = p.hold_max_us = 0;
    return p;
}
