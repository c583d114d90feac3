#include "ini.h"

#include <stdbool.h>
#include <string.h>

#include "errors.h"
#include "utf8.h"

typedef struct parser {
    const ini_reader *reader;
    bool in_section;
    char section[INI_LINE_BYTES_MAX + 1];
    int line;
} parser;

/* Cuts blanks at both ends, in place. */
static char *trimmed(char *text) {
    static const char blanks[] = " \t\r";
    text += strspn(text, blanks);
    for (size_t n = strlen(text); n > 0 && strchr(blanks, text[n - 1]); n--) {
        text[n - 1] = '\0';
    }
    return text;
}

static int begin_section(parser *p, char *text, size_t length, sereno_error *err) {
    if (text[length - 1] != ']') {
        return err_set(err, SERENO_ERR_FORMAT, "'%s' begins a section, but has no ] at its end", text);
    }
    text[length - 1] = '\0';
    const char *name = trimmed(text + 1);
    memcpy(p->section, name, strlen(name) + 1);
    p->in_section = true;
    return p->reader->on_section(p->reader->ctx, p->section, err);
}

static int parse_key(const parser *p, char *text, sereno_error *err) {
    char *equals = strchr(text, '=');
    if (!equals) {
        return err_set(err, SERENO_ERR_FORMAT, "'%s' is neither 'key = value' nor '[section]' nor '# comment'", text);
    }
    *equals = '\0';
    const char *key = trimmed(text), *value = trimmed(equals + 1);
    if (!p->in_section) return err_set(err, SERENO_ERR_FORMAT, "'%s' comes before the first [section]", key);
    return p->reader->on_key(p->reader->ctx, p->section, key, value, p->line, err);
}

static int parse_line(parser *p, const char *line, size_t size, sereno_error *err) {
    char copy[INI_LINE_BYTES_MAX + 1];
    if (size >= sizeof copy) {
        return err_set(err, SERENO_ERR_FORMAT, "the line has %zu bytes; 0 to %d are allowed", size, INI_LINE_BYTES_MAX);
    }
    if (memchr(line, '\0', size)) return err_set(err, SERENO_ERR_FORMAT, "a zero byte: this is not text");
    memcpy(copy, line, size);
    copy[size] = '\0';
    char *text = trimmed(copy);
    size_t length = strlen(text);
    if (length == 0 || *text == '#' || *text == ';') return SERENO_OK;
    return *text == '[' ? begin_section(p, text, length, err) : parse_key(p, text, err);
}

int ini_parse(const char *text, size_t size, const ini_reader *reader, sereno_error *err) {
    parser p = {.reader = reader};
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        sereno_error inner = {0};
        p.line++;
        int status = parse_line(&p, text + at, length, &inner);
        if (status) {
            utf8_make_printable(inner.message);
            return err_set(err, status, "line %d: %s", p.line, inner.message);
        }
        at += length + 1;
    }
    return SERENO_OK;
}
