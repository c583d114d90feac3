#include "synthetic.h"

#include "hash.h"

static uint64_t noise(const synthetic_acceptance *s, int32_t position, int32_t sibling, uint64_t what) {
    return hash_u64(s->seed ^
                    hash_u64(((uint64_t)(uint32_t)position << 32) + ((uint64_t)(uint32_t)sibling << 2) + what));
}

bool synthetic_accepts(const synthetic_acceptance *s, float rate, int32_t position, int32_t sibling) {
    return (double)(noise(s, position, sibling, 0) >> 11) * 0x1p-53 < (double)rate;
}

int32_t synthetic_token(const synthetic_acceptance *s, int32_t position, int32_t sibling, int32_t n_vocab) {
    return (int32_t)(noise(s, position, sibling, 1) % (uint64_t)n_vocab);
}
