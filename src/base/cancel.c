/* Relaxed, because the flag orders no other data. Lock-free, so that signal handlers may call these. */
#include "sereno/cancel.h"

_Static_assert(__atomic_always_lock_free(sizeof(int32_t), 0), "a signal handler must not wait for a lock");

bool sereno_cancel_request(sereno_cancel *cancel) {
    return __atomic_exchange_n(&cancel->requested, 1, __ATOMIC_RELAXED) != 0;
}

void sereno_cancel_reset(sereno_cancel *cancel) {
    __atomic_store_n(&cancel->requested, 0, __ATOMIC_RELAXED);
}

bool sereno_cancel_requested(const sereno_cancel *cancel) {
    return cancel && __atomic_load_n(&cancel->requested, __ATOMIC_RELAXED) != 0;
}
