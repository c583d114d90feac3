/* Strategies of a co-running bench: the load beside the foreground, and how it holds back. Thread: any. */
#ifndef JUDGE_CORUN_STRATEGY_H
#define JUDGE_CORUN_STRATEGY_H

#include <stdbool.h>

#include "pacing.h"
#include "sereno/engine.h"
#include "sereno/governor.h"

typedef enum corun_load {
    LOAD_NONE,   /* the foreground alone */
    LOAD_SPIN,   /* threads that only spin, as many as the LLM would have */
    LOAD_ENGINE, /* our engine */
    LOAD_PEER,   /* another server */
} corun_load;

/* What an ablation takes away from the governed strategy. */
typedef enum corun_without {
    WITHOUT_NOTHING,
    WITHOUT_PREEMPT, /* drafts are never abandoned */
    WITHOUT_FILL,    /* the n-gram cache fills no free places */
    WITHOUT_BATCH,   /* the planner alone chooses batches */
    WITHOUT_SLEEP,   /* neither sleeps nor holds */
    WITHOUT_PROBE,   /* the sensor has only the times of subgraphs */
} corun_without;

/* A kind of strategy: a row of the registry. */
typedef struct corun_kind {
    const char *name, *about;
    corun_load load;
    bool speculates;
    sereno_sched sched;
    bool lowers_session; /* lowers its session where the kernel groups tasks by session */
    pacing pacing;       /* the default for strategies of this kind */
    bool governed;
    bool hinted;          /* the foreground gives frame hints to the governor */
    sereno_policy policy; /* of the governor */
    corun_without without;
} corun_kind;

/* The registry; ends with a row without a name. */
extern const corun_kind corun_kinds[];

/* One strategy of a bench. */
typedef struct corun_strategy {
    const char *name; /* as given; unique */
    const corun_kind *kind;
    pacing pacing;
    const char *url; /* of a peer */
} corun_strategy;

/* Where foreground and background run. */
typedef enum corun_placement {
    PLACEMENT_SPLIT,  /* the foreground on a core of its own, the background on the others */
    PLACEMENT_SHARED, /* both wherever the system puts them */
} corun_placement;

/* Settings of a kind's governor, less what its ablation takes away. */
sereno_governor_params corun_governor(const corun_kind *kind);

/* The name of the strategy that others are compared with: "plain" in split, "plain-idle" in shared placement. Static.
 */
const char *corun_base(corun_placement placement);

#endif
