/*
 * A recording of what a sensor was told and what it asked the machine, boundary by boundary, and of what the foreground
 * did meanwhile: with it a sensor of another version can be judged by what happened once (replay.h).
 *
 * The file, of version 1. Numbers are varints (varint.h) where nothing else is said; a text is its length and its
 * bytes, without any that is 0; reals are little-endian IEEE 754, of 8 bytes, or 4 where it says short.
 *
 *   "sereno-recording 1\n"
 *   texts      sereno's version; the processor; the model; the draft ("" without)
 *   quiet      1: nothing ran beside it, as far as its owner knows; 0: a foreground did
 *   cache      bytes of the last-level cache, 0: not known
 *   target     text isa; n_vocab, n_ctx, n_sequences, n_threads, activation_bits, is_self_draft, whether it shows a
 *              stream, weight_bytes, stream_bytes, kv_bytes; then pass_us of 1 to 128 tokens as reals, at each of
 *              recording_contexts
 *   draft      whether there is one; the same of it
 *   calibration  its length (0: none) and its text (calibration.h): baselines, and slopes in force; else those that
 *              ship are (slopes.h)
 *   foreground   when its windows begin, nanoseconds of one, how many; of each, short, its duty (0 .. 1), and the
 *              latency in ns and GB/s that it had itself, NaN where it looked at neither. Within a window it streams at
 *              the beginning of every millisecond.
 *   boundaries   how many were dropped, at the end, for want of room; how many follow, in how many bytes; these
 *   check      8 bytes, little-endian: hash_bytes of all before
 *
 * A boundary begins with a number: its lowest bit says that flags follow, the others are the difference of wall_ns from
 * the last one of this plan, batch and subgraph. Then come the flags (recording.c), and what they announce: position is
 * plan, batch, n_subgraphs and subgraph (else what follows in the pass, or begins it again); kind (else the last one's
 * here); slept_ns. Always there is then the time since the boundary before, less wall_ns, as a difference from the last
 * one here. Announced again: of a sample the differences of cpu_ns and run_delay_ns, and its age (else the sample is
 * that of the boundary before); the verdict's action and sleep_us; how many times page faults were counted, and each
 * time's difference; of a probe what its eight loads took, and what all of it took beyond them. Differences are zigzag
 * and modulo 2^64, so every time comes back to the nanosecond. A subgraph takes three bytes
 * or four, and what is asked some more: below 100 kB a second of SmolLM2 on one thread.
 *
 * Thread: a recording is immutable, a cursor belongs to one thread.
 */
#ifndef SENSE_RECORDING_H
#define SENSE_RECORDING_H

#include <stdio.h>

#include "sensor_parts.h"

enum {
    RECORDING_TEXT_MAX = 256, /* with its end */
    RECORDING_CONTEXTS = 2,
    RECORDING_WINDOWS_MAX = 1 << 20,
    RECORDING_EVENT_MAX = 256, /* bytes of a boundary, at most */
};

/* Contexts of pass_us: those at which sensor and governor ask (the engine's own, where that is shorter). */
extern const int32_t recording_contexts[RECORDING_CONTEXTS];

typedef struct recording_engine {
    char isa[RECORDING_TEXT_MAX];
    sereno_engine_info info; /* isa and stream are not its own */
    bool has_stream;
    double pass_us[RECORDING_CONTEXTS][SERENO_PREFILL_BATCH_MAX];
} recording_engine;

typedef struct recording_window {
    float duty, fg_latency_ns, fg_gbs;
} recording_window;

typedef struct recording {
    char version[RECORDING_TEXT_MAX], processor[RECORDING_TEXT_MAX];
    char model[RECORDING_TEXT_MAX], draft_model[RECORDING_TEXT_MAX];
    bool quiet, has_draft;
    uint64_t cache_bytes;
    recording_engine target, draft;
    sereno_calibration *calibration; /* NULL: none */
    uint64_t windows_begin_ns, window_ns;
    recording_window *windows;
    int32_t n_windows;
    uint64_t n_dropped, n_boundaries;
    uint8_t *boundaries; /* as in the file */
    size_t size;
} recording;

/* One boundary, with what the sensor then asked and was told, and the verdict. */
typedef struct recording_event {
    sereno_boundary boundary;
    sereno_verdict verdict;
    uint64_t faults[SENSOR_FAULTS_MAX]; /* page faults of the owner so far, each time it asked */
    int n_faults;
    bool probed;
    probe_times probe;
} recording_event;

/* From a file, or from its bytes. SERENO_ERR_IO: it cannot be read; SERENO_ERR_FORMAT: it is none, of another version,
 * or damaged, and where. On failure *out is NULL. */
int recording_load(const char *path, recording **out, sereno_error *err);
int recording_parse(const uint8_t *data, size_t size, recording **out, sereno_error *err);
void recording_close(recording **r);

/* Writes it; false where the file, or memory, is full. */
bool recording_write(const recording *r, FILE *to);

/* ---- Its boundaries ---- */

/* What both who writes and who reads know of the boundary to come; all zero at the beginning. */
typedef struct recording_codec recording_codec;

/* Its memory is touched at once. NULL: there is none. */
recording_codec *recording_codec_open(void);
void recording_codec_close(recording_codec **c);

/* Whether a boundary is one that can be kept: its numbers are within an engine's. */
bool recording_takes(const sereno_boundary *b);

/* Writes one that can be kept; returns how many bytes it took, up to RECORDING_EVENT_MAX. */
size_t recording_put(recording_codec *c, const recording_event *e, uint8_t *to);

/* The next one from *at, which goes on behind it; NULL, or what is wrong. */
const char *recording_take(recording_codec *c, const uint8_t **at, const uint8_t *end, recording_event *e);

#endif
