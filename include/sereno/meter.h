/*
 * Sensing for an engine of your own. The meter makes a governor's signals (governor.h) from the times of the engine's
 * pieces of work, against the time that each takes when nothing else runs.
 *
 * A unit is a piece of work that repeats and takes about as long each time: a layer, a kernel, a slice of a matrix. A
 * unit that streams weights from memory is slowed by a foreground that streams, too. A unit that computes out of caches
 * is not, and gives no signal. Units well below a millisecond sense best.
 *
 * Guarantees: the meter learns a baseline by unit and batch, as a low quantile of what it sees. A baseline falls within
 * 16 samples. It rises by at most 2 % a minute, and only while nothing seems to contend, so that neither bursts nor
 * hours of contention raise it. Nothing is allocated after a meter is opened.
 *
 * Needs libsereno-governor alone. Thread: any, one at a time for each meter. Source: SERENO (OSDI 2026), "endogenous
 * sensing".
 */
#ifndef SERENO_METER_H
#define SERENO_METER_H

#include "sereno/error.h"
#include "sereno/governor.h"

SERENO_BEGIN

typedef struct sereno_work_unit {
    bool streams;       /* it reads far more than caches hold; false: it gives no signal */
    double expected_us; /* about the time of one token alone; 0: not known, the first block of samples tells */
    double slope;       /* share by which it takes longer beside a foreground of intensity 1; 0: 0.5 */
} sereno_work_unit;

enum { SERENO_METER_UNITS_MAX = 4096 };

typedef struct sereno_meter sereno_meter;

/* units: n_units of them, 1 .. SERENO_METER_UNITS_MAX, copied. SERENO_ERR_INVALID names what is out of range. On
 * failure *out is NULL. */
SERENO_API int sereno_meter_open(const sereno_work_unit *units, int32_t n_units, sereno_meter **out, sereno_error *err);
/* Frees and nulls; NULL is fine. */
SERENO_API void sereno_meter_close(sereno_meter **meter);

/*
 * A unit (0 .. n_units - 1) has run for a batch (1 .. SERENO_PREFILL_BATCH_MAX) in wall_ns and ended at now_ns. Returns
 * its slowdown. There is no signal if the unit does not stream; if it has no baseline at this batch yet; and if it took
 * more than eight times its baseline, because then it lost its core. Leave out units that ran right after a rest:
 * waking threads are slow by themselves.
 */
SERENO_API sereno_signals sereno_meter_read(sereno_meter *meter, int32_t unit, int32_t batch, uint64_t wall_ns,
                                            uint64_t now_ns);

SERENO_END

#endif
