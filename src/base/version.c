#include "sereno/api.h"

const char *sereno_version(void) {
    return SERENO_VERSION;
}
