/*
 * A recording: what a sensor was told and what it asked the machine, boundary by boundary, and what the foreground did
 * meanwhile. A replay shows what another version of the sensor would have said (replay.h).
 *
 * The file, version 1. Numbers are varints (varint.h) unless stated otherwise. A text is its length and its bytes, none
 * of which is 0. Reals are little-endian IEEE 754 of 8 bytes, or of 4 bytes where it says short.
 *
 *   "sereno-recording 1\n"
 *   texts      sereno's version; the processor; the model; the draft ("" without)
 *   quiet      1: nothing ran beside it, as far as the caller knows; 0: a foreground did
 *   cache      bytes of the last-level cache; 0: not known
 *   target     text isa; n_vocab, n_ctx, n_sequences, n_threads, activation_bits, is_self_draft, whether it shows a
 *              stream, weight_bytes, stream_bytes, kv_bytes; then pass_us of 1 to 128 tokens as reals, at each of
 *              recording_contexts
 *   draft      whether there is a draft model; then the same as of the target
 *   calibration  its length (0: none) and its text (calibration.h). Without one the shipped slopes hold (slopes.h)
 *   foreground   time at which its windows begin, nanoseconds of a window, number of windows. Of each window, as short
 *              reals: the foreground's duty (0 .. 1), and its own latency in ns and rate in GB/s, NaN if not measured.
 *              Within a window the foreground streams at the beginning of every millisecond
 *   boundaries   number dropped at the end for want of room; number that follow; their bytes in all; the boundaries
 *   check      8 bytes, little-endian: hash_bytes of everything before
 *
 * A boundary consists of these fields. "Here" means at the last boundary of the same plan, batch, n_subgraphs and
 * subgraph. A field with a flag's name in front is there if that flag is set (recording_codec.c).
 *
 *   number     lowest bit: flags follow; the others: wall_ns, as a difference from here
 *   flags      if there are any
 *   POSITION   plan, batch, n_subgraphs, subgraph; without it, the next subgraph of the pass, or the first of another
 *   KIND       kind; without it, as here
 *   SLEPT      slept_ns; without it, 0
 *   gap        time since the boundary before, less wall_ns, as a difference from here
 *   SAMPLE     differences of cpu_ns and run_delay_ns, and sample_age_ns; without it, the sample of the boundary before
 *   VERDICT    action, sleep_us; without it, continue
 *   FAULTS     how many times page faults were counted, and the difference of each count from the one before
 *   PROBE      time of the eight loads, and difference of the probe's whole time from that
 *
 * Differences are zigzag and modulo 2^64, so every time comes back to the nanosecond. A subgraph takes three or four
 * bytes, and a few more where the sensor asked: below 100 kB per second of SmolLM2 on one thread.
 *
 * Thread: a recording is immutable; a codec belongs to one thread.
 */
#ifndef SENSE_RECORDING_H
#define SENSE_RECORDING_H

#include <stdio.h>

#include "sensor_parts.h"

enum {
    RECORDING_TEXT_MAX = 256, /* with the terminating 0 */
    RECORDING_CONTEXTS = 2,
    RECORDING_WINDOWS_MAX = 1 << 20,
    RECORDING_EVENT_MAX = 256, /* most bytes of a boundary */
};

/* Contexts of pass_us: those that sensor and governor ask for, or the engine's own if that is shorter. */
extern const int32_t recording_contexts[RECORDING_CONTEXTS];

typedef struct recording_engine {
    char isa[RECORDING_TEXT_MAX];
    sereno_engine_info info; /* its isa and stream do not count: see isa and has_stream */
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

/* One boundary, with the machine's answers to the sensor and the verdict. */
typedef struct recording_event {
    sereno_boundary boundary;
    sereno_verdict verdict;
    uint64_t faults[SENSOR_FAULTS_MAX]; /* page faults of the owner so far, at each question */
    int n_faults;
    bool probed;
    probe_times probe;
} recording_event;

/* load reads a file, parse its bytes. SERENO_ERR_IO: the file cannot be read; SERENO_ERR_FORMAT: this is no recording,
 * or of another version, or damaged, and where; SERENO_ERR_NO_MEMORY. On failure *out is NULL. */
int recording_load(const char *path, recording **out, sereno_error *err);
int recording_parse(const uint8_t *data, size_t size, recording **out, sereno_error *err);
void recording_close(recording **r);

/* False: writing failed, or there was no memory. */
bool recording_write(const recording *r, FILE *to);

/* ---- Boundaries ---- */

/* What writer and reader both expect of the next boundary, from the ones before. */
typedef struct recording_codec recording_codec;

/* Touches all of its memory. NULL: there is no memory. */
recording_codec *recording_codec_open(void);
void recording_codec_close(recording_codec **c);

/* Whether a boundary can be written: its numbers are in the ranges of an engine. */
bool recording_takes(const sereno_boundary *b);

/* Writes a boundary for which recording_takes is true. Returns its bytes, at most RECORDING_EVENT_MAX. */
size_t recording_put(recording_codec *c, const recording_event *e, uint8_t *to);

/* Reads the next boundary from *at, and moves *at behind it. NULL, or what is wrong (static). */
const char *recording_take(recording_codec *c, const uint8_t **at, const uint8_t *end, recording_event *e);

#endif
