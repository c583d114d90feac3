/*
 * The parsers of optional sensors on any bytes. Accepted values are within the ranges of their headers, are the same
 * when they are written and read again, and agree with another way of reading them.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "energy.h"
#include "fuzz.h"
#include "perf.h"
#include "psi.h"

/* ---- Pressure ---- */

static void check_pressure(const psi_line *l) {
    CHECK(l->avg10 >= 0 && l->avg10 <= 100 && l->avg60 >= 0 && l->avg60 <= 100 && l->avg300 >= 0 && l->avg300 <= 100);
}

static int write_pressure(char *out, size_t size, const char *name, const psi_line *l) {
    return snprintf(out, size, "%s avg10=%.2f avg60=%.2f avg300=%.2f total=%" PRIu64 "\n", name, (double)l->avg10,
                    (double)l->avg60, (double)l->avg300, l->total_us);
}

static int same_pressure(const psi_line *a, const psi_line *b) {
    return a->avg10 == b->avg10 && a->avg60 == b->avg60 && a->avg300 == b->avg300 && a->total_us == b->total_us;
}

/* How many lines begin so. */
static int count_lines(const char *text, size_t size, const char *begin) {
    int n = 0;
    size_t length = strlen(begin);
    for (size_t at = 0; at + length <= size; at++) {
        n += (at == 0 || text[at - 1] == '\n') && memcmp(text + at, begin, length) == 0;
    }
    return n;
}

static void try_psi(const char *text, size_t size) {
    psi parsed, again;
    if (!psi_parse(text, size, &parsed)) return;
    CHECK(size > 0 && text[size - 1] == '\n');
    CHECK(count_lines(text, size, "some ") == 1);
    CHECK(count_lines(text, size, "full ") == parsed.has_full);
    check_pressure(&parsed.some);
    check_pressure(&parsed.full);
    CHECK(parsed.has_full || same_pressure(&parsed.full, &(psi_line){0}));
    char written[512];
    int length = write_pressure(written, sizeof written, "some", &parsed.some);
    if (parsed.has_full)
        length += write_pressure(written + length, sizeof written - (size_t)length, "full", &parsed.full);
    CHECK(length > 0 && (size_t)length < sizeof written);
    CHECK(psi_parse(written, (size_t)length, &again) && again.has_full == parsed.has_full);
    CHECK(same_pressure(&again.some, &parsed.some) && same_pressure(&again.full, &parsed.full));
}

/* ---- Energy ---- */

static void try_energy(const char *text, size_t size) {
    uint64_t value, again, between;
    if (!energy_parse(text, size, &value)) return;
    char written[32];
    int length = snprintf(written, sizeof written, "%" PRIu64 "\n", value);
    CHECK(energy_parse(written, (size_t)length, &again) && again == value);
    while (size > 2 && *text == '0') text++, size--; /* as written, but for leading zeros */
    CHECK((size_t)length == size && memcmp(text, written, size) == 0);
    /* A counter of this range has counted less than a round between any two looks. */
    uint64_t half = value / 2;
    CHECK(energy_between(half, value, value, &between) && between == value - half);
    CHECK(energy_between(value, half, value, &between) && between == half);
    CHECK(value == UINT64_MAX || !energy_between(value + 1, 0, value, &between));
}

/* ---- Counters ---- */

static const uint64_t ids[PERF_COUNTERS] = {[PERF_STALLS] = 41, [PERF_MISSES] = 42};

static void try_perf(const uint8_t *data, size_t size) {
    perf_sample parsed;
    if (!perf_parse(data, size, ids, &parsed)) return;
    uint64_t header[3], row[2];
    CHECK(size >= sizeof header);
    memcpy(header, data, sizeof header);
    CHECK(size == sizeof header + sizeof row * header[0]);
    CHECK(parsed.enabled_ns == header[1] && parsed.running_ns == header[2] && header[2] <= header[1]);
    int seen[PERF_COUNTERS] = {0};
    for (size_t at = sizeof header; at < size; at += sizeof row) {
        memcpy(row, data + at, sizeof row);
        for (int i = 0; i < PERF_COUNTERS; i++) {
            if (row[1] != ids[i]) continue;
            seen[i]++;
            CHECK(parsed.counts[i] == row[0]);
        }
    }
    for (int i = 0; i < PERF_COUNTERS; i++) CHECK(seen[i] == 1);
    double cplm = perf_cplm(&(perf_sample){0}, &parsed);
    CHECK(parsed.counts[PERF_MISSES] == 0 ? isnan(cplm) : isfinite(cplm) && cplm >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try_psi((const char *)data, size);
    try_energy((const char *)data, size);
    try_perf(data, size);
    return 0;
}
