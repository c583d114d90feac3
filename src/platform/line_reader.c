#include "line_reader.h"

#include <errno.h>
#include <string.h>

#include "interrupt.h"

static int hand_out(line_reader *r, size_t size, size_t newline, const char **line, size_t *line_size) {
    *line = r->text.data + r->taken;
    *line_size = size;
    r->taken += size + newline;
    return 1;
}

int line_read(line_reader *r, const char **line, size_t *size) {
    size_t left = r->text.size - r->taken, searched = 0;
    if (r->taken > 0) memmove(r->text.data, r->text.data + r->taken, left);
    r->text.size = left;
    r->taken = 0;
    for (;;) {
        if (interrupt_pending()) { /* whatever has been read already */
            errno = EINTR;
            return -1;
        }
        char block[4096];
        const char *newline = left > searched ? memchr(r->text.data + searched, '\n', left - searched) : NULL;
        if (newline) return hand_out(r, (size_t)(newline - r->text.data), 1, line, size);
        searched = left;
        int64_t n = interrupt_read(0, block, sizeof block);
        if (n < 0) return -1;
        if (n == 0) return left > 0 ? hand_out(r, left, 0, line, size) : 0;
        if (sereno_text_append(&r->text, block, (size_t)n, NULL) != SERENO_OK) {
            errno = ENOMEM;
            return -1;
        }
        left = r->text.size;
    }
}

void line_reader_close(line_reader *r) {
    sereno_text_free(&r->text);
    r->taken = 0;
}
