#include "histogram.h"

/* Values below 64 have a bucket each; above, the six bits after the leading one choose it. */
static int bucket_of(uint64_t value) {
    if (value < HISTOGRAM_SUB) return (int)value;
    int shift = 63 - __builtin_clzll(value) - 6;
    return (shift + 1) * HISTOGRAM_SUB + (int)(value >> shift & (HISTOGRAM_SUB - 1));
}

static uint64_t upper_bound(int bucket) {
    if (bucket < HISTOGRAM_SUB) return (uint64_t)bucket;
    int shift = bucket / HISTOGRAM_SUB - 1;
    uint64_t low = (uint64_t)(HISTOGRAM_SUB + bucket % HISTOGRAM_SUB) << shift;
    return low + (((uint64_t)1 << shift) - 1);
}

void histogram_add(histogram *h, uint64_t value) {
    h->bucket[bucket_of(value)]++;
    h->count++;
}

uint64_t histogram_quantile(const histogram *h, double quantile) {
    uint64_t seen = 0;
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen > 0 && (double)seen >= quantile * (double)h->count) return upper_bound(i);
    }
    return 0;
}
