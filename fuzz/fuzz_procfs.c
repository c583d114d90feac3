/*
 * The parsers of procfs.h on any bytes. schedstat_parse accepts only three numbers, autogroup_parse only the kernel's
 * line with a valid nice value, and both read them correctly.
 */
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

static void try_schedstat(const char *text, size_t size) {
    schedstat parsed, again;
    if (!schedstat_parse(text, size, &parsed)) return;
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
}

/* The line that the kernel writes, read by the C library. */
static void try_autogroup(const char *text, size_t size) {
    int nice_value, again;
    if (!autogroup_parse(text, size, &nice_value)) return;
    char line[4096], written[64];
    CHECK(!memchr(text, '\0', size));
    if (size >= sizeof line) return;
    memcpy(line, text, size);
    line[size] = '\0';
    int read_value = 0, number_at = -1, nice_at = -1, end = -1;
    sscanf(line, "/autogroup-%n%*[0-9] nice %n%d%n", &number_at, &nice_at, &read_value, &end);
    CHECK(number_at > 0 && nice_at > number_at && end > nice_at && strcmp(line + end, "\n") == 0);
    /* sscanf would also accept blanks and a plus; the parser must not */
    size_t digits = strspn(line + number_at, "0123456789");
    CHECK(line + number_at + digits + strlen(" nice ") == line + nice_at);
    CHECK(memcmp(line + number_at + digits, " nice ", strlen(" nice ")) == 0);
    CHECK(strspn(line + nice_at, "-0123456789") == (size_t)(end - nice_at));
    CHECK(read_value == nice_value && nice_value >= -20 && nice_value <= 19);
    int length = snprintf(written, sizeof written, "/autogroup-0 nice %d\n", nice_value);
    CHECK(autogroup_parse(written, (size_t)length, &again) && again == nice_value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try_schedstat((const char *)data, size);
    try_autogroup((const char *)data, size);
    return 0;
}
