/* schedstat_parse on any bytes: what it accepts is three numbers, and it reads them right. */
#include <inttypes.h>
#include <string.h>

#include "fuzz.h"
#include "procfs.h"

/* "digits digits digits\n" and nothing else. */
static void check_shape(const char *text, size_t size) {
    static const char ends[] = "  \n";
    size_t at = 0;
    for (int field = 0; field < 3; field++) {
        size_t start = at;
        while (at < size && text[at] >= '0' && text[at] <= '9') at++;
        CHECK(at > start && at < size && text[at] == ends[field]);
        at++;
    }
    CHECK(at == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    schedstat parsed, again;
    if (!schedstat_parse(text, size, &parsed)) return 0;
    check_shape(text, size);
    char written[64];
    int length = snprintf(written, sizeof written, "%" PRIu64 " %" PRIu64 " 1\n", parsed.cpu_ns, parsed.run_delay_ns);
    CHECK(length > 0 && (size_t)length < sizeof written);
    CHECK(schedstat_parse(written, (size_t)length, &again));
    CHECK(again.cpu_ns == parsed.cpu_ns && again.run_delay_ns == parsed.run_delay_ns);
    /* The first number as written, but for leading zeros. */
    while (size > 1 && text[0] == '0' && text[1] != ' ') text++, size--;
    size_t digits = (size_t)(strchr(written, ' ') - written);
    CHECK(digits < size && memcmp(text, written, digits + 1) == 0);
    return 0;
}
