/*
 * Sensing for an engine of your own: makes a governor's signals (governor.h) of how long its pieces of work take,
 * against what each takes when nothing else runs.
 *
 * A unit is a piece of work that comes again and again and takes about as long each time: a layer, a kernel, a slice of
 * a matrix. What streams weights through the memory feels a foreground that does so too; what computes out of caches
 * feels nothing, and is left out. Units well below a millisecond sense best.
 *
 * Guarantees: what a unit takes alone is learned as it goes, by unit and batch, as a low quantile of what is seen. It
 * comes down within 16 samples, and rises by at most 2 % a minute, only while nothing seems to contend: bursts do not
 * raise it, and what contends for hours is not learned away. Nothing is allocated but when a meter is opened.
 *
 * Needs libsereno-governor alone. Thread: one at a time. Source: SERENO (OSDI 2026), "endogenous sensing".
 */
#ifndef SERENO_METER_H
#define SERENO_METER_H

#include "sereno/error.h"
#include "sereno/governor.h"

SERENO_BEGIN

typedef struct sereno_work_unit {
    bool streams;       /* it reads far more than caches hold; others give no signal */
    double expected_us; /* what one token takes alone, about; 0: not known, then the first block of samples tells */
    double slope;       /* how much longer it takes beside somebody who streams all they can, as a share; 0: 0.5 */
} sereno_work_unit;

enum { SERENO_METER_UNITS_MAX = 4096 };

typedef struct sereno_meter sereno_meter;

/* units: n_units of them, 1 .. SERENO_METER_UNITS_MAX, copied. SERENO_ERR_INVALID names what is out of range. On
 * failure *out is NULL. */
SERENO_API int sereno_meter_open(const sereno_work_unit *units, int32_t n_units, sereno_meter **out, sereno_error *err);
SERENO_API void sereno_meter_close(sereno_meter **meter);

/*
 * A unit (0 .. n_units - 1) has run for a batch (1 .. SERENO_PREFILL_BATCH_MAX) in wall_ns and ended at now_ns. Gives
 * slowdown, or no signal: where the unit does not stream or nothing is known of it at this batch yet, and where it took
 * eight times its usual time, which is no contention but a lost core. Leave out what ran right after a rest: threads
 * that wake are slow by themselves.
 */
SERENO_API sereno_signals sereno_meter_read(sereno_meter *meter, int32_t unit, int32_t batch, uint64_t wall_ns,
                                            uint64_t now_ns);

SERENO_END

#endif
