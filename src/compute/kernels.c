#include "kernels.h"

#include <stddef.h>
#include <string.h>

#include "cpu.h"
#include "errors.h"

extern const kernels kernels_portable;
#ifdef SERENO_HAVE_AVX512
extern const kernels kernels_avx512;
#endif

static bool always(void) {
    return true;
}

/* Best first. */
static const struct {
    const kernels *table;
    bool (*supported)(void);
} isas[] = {
#ifdef SERENO_HAVE_AVX512
    {&kernels_avx512, cpu_has_avx512_vnni},
#endif
    {&kernels_portable, always},
};

enum { N_ISAS = sizeof isas / sizeof *isas };

int kernels_available(const kernels **out, int max) {
    int n = 0;
    for (int i = 0; i < N_ISAS && n < max; i++) {
        if (isas[i].supported()) out[n++] = isas[i].table;
    }
    return n;
}

int kernels_find(const char *name, const kernels **out, sereno_error *err) {
    char known[64] = "";
    for (int i = 0; i < N_ISAS; i++) {
        bool supported = isas[i].supported();
        if (!name ? supported : strcmp(name, isas[i].table->name) == 0) {
            if (!supported) {
                return err_set(err, SERENO_ERR_UNSUPPORTED, "this processor does not run the '%s' kernels", name);
            }
            *out = isas[i].table;
            return SERENO_OK;
        }
        err_list(known, sizeof known, isas[i].table->name);
    }
    return err_set(err, SERENO_ERR_INVALID, "there are no kernels called '%s'; this build has: %s", name, known);
}
