/*
 * The engine contract. An engine runs passes of tokens through a model. A pass is a static plan of subgraphs with a
 * boundary after each. The engine keeps a KV cache of several sequences.
 *
 * The rest of sereno can drive anything that implements sereno_engine_ops: the native engine below, a simulated one, or
 * an adapter of another runtime.
 *
 * Exactness: the logits of a token are a pure function of its token path (the tokens of its sequence up to and
 * including it), bit for bit, for one model on one instruction set. They do not depend on how the path was split into
 * passes, on the other tokens of a pass, on threads, abandoned passes or sleeps.
 *
 * Boundaries: after each subgraph the engine calls the observer on the owner's thread, and obeys its verdict. An
 * abandoned pass leaves every sequence as it was before the pass. Nothing is allocated while a pass runs.
 *
 * Thread: one thread, the owner, opens the engine and makes every call but `interrupt`, which may come from any thread
 * or signal handler.
 *
 * Source: SERENO (OSDI 2026), "preemptible draft" and "selective batching"; docs/ARCHITECTURE.md,
 * contracts 1, 2, 4 and 5.
 */
#ifndef SERENO_ENGINE_H
#define SERENO_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "sereno/clock.h"
#include "sereno/error.h"
#include "sereno/experimental.h"
#include "sereno/model.h"
#include "sereno/plan.h"
#include "sereno/progress.h"

SERENO_BEGIN

/* What a subgraph does. Attention is a subgraph of its own, because only subgraphs that stream weights sense well. */
typedef enum sereno_subgraph_kind {
    SERENO_SUBGRAPH_QKV,
    SERENO_SUBGRAPH_ATTENTION,
    SERENO_SUBGRAPH_ATTN_OUT,
    SERENO_SUBGRAPH_GATE_UP,
    SERENO_SUBGRAPH_DOWN,
    SERENO_SUBGRAPH_HEAD,
} sereno_subgraph_kind;

/* Name of a kind ("attn_out"); "?" for a value that is no kind. Static. */
SERENO_API const char *sereno_subgraph_name(sereno_subgraph_kind kind);

enum {
    SERENO_THREADS_MAX = 64,
    SERENO_SEQUENCES_MAX = 64,
    SERENO_SMALL_MODEL = 750000000,
};

/* What has just happened at a boundary. */
typedef struct sereno_boundary {
    sereno_plan_kind plan;
    sereno_subgraph_kind kind;
    int32_t subgraph, n_subgraphs; /* number within the plan, from 0 */
    int32_t batch;                 /* tokens of the pass */
    uint64_t wall_ns;              /* time the subgraph took */
    uint64_t now_ns;               /* the engine's clock */
    uint64_t slept_ns;             /* sleep since the subgraph ended, 0 at the first call for it */
    /* If the pass asked for them (sample_cpu): CPU time and run delay of all compute threads since they began, and
     * the age of these figures, which are read at most every 2 ms. All 0 if the system does not tell. */
    uint64_t cpu_ns, run_delay_ns, sample_age_ns;
} sereno_boundary;

typedef enum sereno_action { SERENO_CONTINUE, SERENO_SLEEP, SERENO_ABANDON } sereno_action;

typedef struct sereno_verdict {
    sereno_action action;
    uint32_t sleep_us; /* of SLEEP, > 0; every compute thread parks. Afterwards the observer is asked again. */
} sereno_verdict;

typedef sereno_verdict (*sereno_observer)(void *ctx, const sereno_boundary *boundary);

/*
 * A token to compute. Its place in its sequence is one after its parent. It attends to the committed tokens of its
 * sequence, its ancestors in the pass and itself: parents are the ancestor mask of a tree of candidates.
 */
typedef struct sereno_input {
    int32_t token;
    int32_t sequence; /* 0 .. n_sequences - 1 */
    int32_t parent;   /* index of an earlier input of the same pass and sequence; -1: the last committed token */
    bool wants_logits;
} sereno_input;

typedef struct sereno_pass {
    sereno_plan_kind plan;
    const sereno_input *inputs; /* ancestors before descendants */
    int32_t n_inputs;           /* 1 .. the maximum of the plan's kind */
    sereno_observer observer;   /* NULL: always continue */
    void *observer_ctx;
    bool sample_cpu; /* fill cpu_ns and run_delay_ns of the boundaries; costs a system call a thread each 2 ms */
} sereno_pass;

/* How compute threads ask to be scheduled; idle and batch also set nice 19. */
typedef enum sereno_sched { SERENO_SCHED_IDLE, SERENO_SCHED_BATCH, SERENO_SCHED_NORMAL } sereno_sched;

/* The rates by which plans are cut: shipped with the kernels, measured at this opening, or kept from an earlier one. */
typedef enum sereno_timing { SERENO_TIMING_SHIPPED, SERENO_TIMING_MEASURED, SERENO_TIMING_KEPT } sereno_timing;

typedef struct sereno_engine_info {
    const char *isa; /* kernels in use: "avx512", "portable" */
    int32_t n_vocab, n_ctx, n_sequences, n_threads;
    sereno_sched sched;       /* the class that its threads asked for (sched_taken) */
    int32_t activation_bits;  /* 8 or 16 */
    bool is_self_draft;       /* its sequences follow those of a target (sereno_engine_open_self_draft) */
    uint64_t weight_bytes;    /* packed weights that every pass reads */
    uint64_t embedding_bytes; /* of the token embedding; 0: it shares the output head's memory */
    /* Memory that every pass streams, and that a probe may read at any time. NULL: not known. */
    const void *stream;
    uint64_t stream_bytes;
    uint64_t kv_bytes;         /* address space of the KV cache; memory is taken as it fills */
    const sereno_clock *clock; /* of now_ns in boundaries; NULL: the machine's */
    sereno_timing timing;
    /* The system gave every compute thread the class and nice value asked for. False: it refused, as a sandbox may, or
     * because a thread may not leave a lower class; then they run as the thread that opened the engine did. */
    bool sched_taken;
    /* Times that a compute thread was shed because it had lost its core while it held work (contract 5). Each pass
     * updates it; only the owner may read it. */
    uint64_t sheds;
} sereno_engine_info;

typedef struct sereno_engine sereno_engine;

typedef struct sereno_engine_ops {
    const sereno_engine_info *(*info)(const sereno_engine *e);

    /*
     * Runs the tokens. Afterwards they are computed but not committed: lengths are as before until `commit`.
     * SERENO_ERR_INVALID: inputs break the rules above. SERENO_ERR_CONTEXT_FULL: a token would lie at position n_ctx or
     * later. SERENO_ERR_ABANDONED: the observer said so. In each of these cases nothing has changed, except that the
     * results of the pass before are gone.
     */
    int (*pass)(sereno_engine *e, const sereno_pass *pass, sereno_error *err);

    /* n_vocab logits of input i of the last pass; its wants_logits must have been set. Valid until the next pass. */
    const float *(*logits)(const sereno_engine *e, int32_t i);

    /*
     * Commits a path of n inputs of the last pass: path[0] is a child of the last committed token, each later one a
     * child of the one before. The sequence grows by n; the engine forgets its other computed tokens. At most once a
     * pass and sequence. SERENO_ERR_INVALID: the inputs are no path of this kind; nothing has changed.
     */
    int (*commit)(sereno_engine *e, int32_t sequence, const int32_t *path, int32_t n, sereno_error *err);

    /* Committed tokens of a sequence. */
    int32_t (*length)(const sereno_engine *e, int32_t sequence);

    /* Forgets all but the first `length` tokens. SERENO_ERR_INVALID: length is not within 0 .. the present length (of a
     * self-draft: not within what the target holds .. the present length); nothing has changed. */
    int (*truncate)(sereno_engine *e, int32_t sequence, int32_t length, sereno_error *err);

    /*
     * Appends to sequence `to` the n committed tokens of sequence `from` that follow its own: those from length(to) on.
     * Up to length(to) both must hold the same tokens, which the engine cannot check. Keys and values are copied bit
     * for bit, so later tokens get the logits that they would get if `to` had run the tokens itself. The engine forgets
     * what the last pass computed for `to` and did not commit, even if n is 0. `from` stays as it is, with what the
     * pass computed for it, and may go on or be truncated at once.
     *
     * The call copies n times the keys and values of a token (tens of KB for a model of a billion parameters), on the
     * calling thread and without boundaries. A caller that must answer soon copies, say, 64 tokens a call.
     *
     * A self-draft's sequences follow the target's: a copy in the target is there in the draft as well, whose `to`
     * falls back to what the target then holds. A self-draft itself refuses to copy.
     *
     * SERENO_ERR_INVALID: no such sequence, from == to, n < 0, `from` does not hold length(to) + n tokens, or the
     * engine is a self-draft; nothing has changed.
     */
    int (*copy)(sereno_engine *e, int32_t to, int32_t from, int32_t n, sereno_error *err);

    /* Expected time, in microseconds without sleeps, of a pass of n_tokens (1 .. SERENO_PREFILL_BATCH_MAX) up to
     * position `context` - 1. It comes from the timing that cut the plans, so that passes compare well with one
     * another. */
    double (*pass_us)(const sereno_engine *e, int32_t n_tokens, int32_t context);

    /* Ends the owner's present sleep; if it does not sleep, its next one. Any thread; async-signal-safe. */
    void (*interrupt)(sereno_engine *e);

    void (*close)(sereno_engine *e); /* called by sereno_engine_close alone */
} sereno_engine_ops;

/* An implementation's struct begins with this. */
struct sereno_engine {
    const sereno_engine_ops *ops;
};

typedef struct sereno_engine_options {
    int32_t n_threads;   /* compute threads, the owner included; 1 .. SERENO_THREADS_MAX */
    int32_t n_ctx;       /* longest sequence in tokens; 1 .. the model's n_ctx_train */
    int32_t n_sequences; /* 1 .. SERENO_SEQUENCES_MAX */
    sereno_sched sched;
    const int *cpus; /* cores for the compute threads (borrowed while opening); n_cpus 0: any */
    int n_cpus;
    /* The calling thread keeps its class and cores, because it has other things to do: sched and cpus are for the other
     * compute threads only. It works in passes as they do. */
    bool keep_owner;
    uint32_t subgraph_us_max;  /* plans are cut so that a subgraph takes about this or less; 50 .. 1000000 */
    uint32_t spin_us_max;      /* how long an idle compute thread spins before it parks; 0 .. 10000 */
    const sereno_clock *clock; /* for boundaries; NULL: the machine's; must outlive the engine */
    const char *isa;           /* kernels by name, NULL: the best this machine runs */
    /* Width of the activations that are multiplied with quantised weights: 8 bits (half the multiplications, what other
     * runtimes do) or 16; 0: 16 for models below SERENO_SMALL_MODEL parameters, else 8. Another width gives other
     * logits: it is another model in the sense of contract 1. Why: src/engine/README.md, "Width of activations". */
    int32_t activation_bits;
    sereno_prefetch prefetch; /* for experiments */
    /* Folder that keeps timings of this machine. If it has none for the model's shapes, kernels and threads, opening
     * makes one in about a second. If the folder is NULL, or the machine is too busy for a timing, plans are cut by the
     * rates that ship with the kernels. Borrowed while opening. */
    const char *timing_folder;
    /* "loading", in bytes, while weights are packed; then "timing the machine", in operations, if there is a timing. */
    sereno_progress progress;
    /* Another native engine of the same owner, whose compute threads this one uses. n_threads, sched, cpus, keep_owner
     * and spin_us_max are then that engine's, which must be closed after this one. NULL: threads of its own. */
    sereno_engine *threads_of;
} sereno_engine_options;

/* One thread, the model's context up to 4096 (model NULL: 0, to be filled in), one sequence, idle class, 1000 us
 * subgraphs, 50 us spin. */
SERENO_API sereno_engine_options sereno_engine_defaults(const sereno_model *model);

/*
 * Opens the native engine. The calling thread becomes its owner. Unless keep_owner is set, the owner runs on `cpus`
 * alone, with precise timers, until the engine is closed, and takes the scheduling class. It takes the class last, so
 * that a failure changes nothing, and for good, because a thread without rights cannot go back. If the system refuses
 * the class, that is no error (sereno_engine_info.sched_taken). If it refuses the cores: SERENO_ERR_INVALID or
 * SERENO_ERR_SYSTEM. The model must stay open until the engine is closed. On failure *out is NULL.
 */
SERENO_API int sereno_engine_open(const sereno_model *model, const sereno_engine_options *options, sereno_engine **out,
                                  sereno_error *err);

/* What a self-draft, a draft model without a file of its own, is made of. */
typedef enum sereno_self_draft {
    SERENO_SELF_INT4,   /* the target's matrices as 4-bit integers with a scale per 32 columns */
    SERENO_SELF_INT8,   /* as 8-bit integers */
    SERENO_SELF_LAYERS, /* the first n_layers of the target and its head: early exit */
} sereno_self_draft;

/*
 * A draft model over the target's own KV cache: an engine of the same sequences, context and threads. Each of its
 * sequences holds what the target's holds, and may grow beyond by tokens that only the draft sees. It needs no prefill,
 * and what it reads of the past is exact. Its passes are of plan DRAFT.
 *
 * A sequence of the draft falls back to what the target holds when the target runs a pass with it, or commits,
 * truncates or copies to it. `truncate` in the draft goes no further back than that, and `copy` is the target's alone.
 * Opening a draft, and its passes, make the target forget what its own last pass computed and did not commit; committed
 * tokens are never touched. A target may have several drafts; a pass of one makes the others fall back.
 *
 * target: a native engine, to be closed after the draft. n_layers: of SELF_LAYERS, 1 .. the target's layers less one.
 * progress (may be NULL): "making the draft", in bytes. SERENO_ERR_INVALID names the layers allowed. On failure *out is
 * NULL.
 */
SERENO_API int sereno_engine_open_self_draft(sereno_engine *target, sereno_self_draft kind, int32_t n_layers,
                                             const sereno_progress *progress, sereno_engine **out, sereno_error *err);

/* Closes any engine and nulls; NULL is fine. A native engine's owner gets its cores back, unless something else has
 * moved it since; its class stays. */
SERENO_API void sereno_engine_close(sereno_engine **engine);

SERENO_END

#endif
