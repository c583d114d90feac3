#include "corun_strategy.h"

#include <stddef.h>

#define FULL_SPEED                                                                                                     \
    { .factor = 1 }

/* Our own run as sereno does by default: idle class, and a session of least weight. */
const corun_kind corun_kinds[] = {
    {"native", "no LLM at all", LOAD_NONE, false, SERENO_SCHED_NORMAL, false, FULL_SPEED},
    {"native-again", "the same once more: what differs from native is noise", LOAD_NONE, false, SERENO_SCHED_NORMAL,
     false, FULL_SPEED},
    {"spin", "busy cores in the LLM's place, without memory", LOAD_SPIN, false, SERENO_SCHED_NORMAL, false, FULL_SPEED},
    {"plain", "one token a pass, normal class", LOAD_ENGINE, false, SERENO_SCHED_NORMAL, false, FULL_SPEED},
    {"plain-idle", "one token a pass, idle class alone", LOAD_ENGINE, false, SERENO_SCHED_IDLE, false, FULL_SPEED},
    {"plain-idle-fixed", "the same, and its session has the least weight", LOAD_ENGINE, false, SERENO_SCHED_IDLE, true,
     FULL_SPEED},
    {"spec", "speculation", LOAD_ENGINE, true, SERENO_SCHED_IDLE, true, FULL_SPEED},
    {"freq-limit",
     "one token a pass, every subgraph stretched factor= times",
     LOAD_ENGINE,
     false,
     SERENO_SCHED_IDLE,
     true,
     {.factor = 2}},
    {"chunk-sleep",
     "one token a pass, a sleep of us= after every= subgraphs",
     LOAD_ENGINE,
     false,
     SERENO_SCHED_IDLE,
     true,
     {.factor = 1, .every = 8, .sleep_us = 1000}},
    {"hint",
     "speculation by an oracle that knows when a frame is made: frame=hold or verify",
     LOAD_ENGINE,
     true,
     SERENO_SCHED_IDLE,
     true,
     {.factor = 1, .hint = HINT_HOLD}},
    {"peer", "another server at URL, any that speaks OpenAI's API", LOAD_PEER, false, SERENO_SCHED_NORMAL, false,
     FULL_SPEED},
    {0},
};

const char *corun_base(corun_placement placement) {
    return placement == PLACEMENT_SPLIT ? "plain" : "plain-idle";
}
