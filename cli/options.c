#include "options.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "errors.h"
#include "number.h"

enum { HELP_INDENT = 30, HELP_WIDTH = 100 };

int usage_error(const command_line *cl, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", cl->command);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n%s --help explains the options.\n", cl->command);
    va_end(args);
    return EXIT_USAGE;
}

/* Prints text broken into lines that all begin in the help column; `at` is where the cursor is. */
static void print_wrapped(const char *text, int at) {
    while (*text) {
        for (; at < HELP_INDENT; at++) {
            putchar(' ');
        }
        size_t length = strlen(text), room = HELP_WIDTH - HELP_INDENT;
        if (length > room) {
            size_t cut = room;
            while (cut > 0 && text[cut] != ' ') cut--;
            length = cut > 0 ? cut : room;
        }
        printf("%.*s\n", (int)length, text);
        text += length;
        text += strspn(text, " ");
        at = 0;
    }
}

void options_explain(const char *name, const char *value, const char *help) {
    int at = printf("  %s%s%s", name, value ? " " : "", value ? value : "");
    if (at >= HELP_INDENT) {
        putchar('\n');
        at = 0;
    }
    print_wrapped(help, at);
}

static void print_option(const option *o) {
    if (o->kind == OPTION_HEADING) printf("\n%s\n", o->help);
    else options_explain(o->names, o->value, o->help);
}

static void print_help(const command_line *cl) {
    printf("%s: %s\n\nusage: %s [options]%s%s\n", cl->command, cl->summary, cl->command, *cl->arguments ? " " : "",
           cl->arguments);
    for (const option *o = cl->options; o->help; o++) {
        print_option(o);
    }
    options_explain("-h, --help", NULL, "this text");
    if (cl->examples) printf("\nexamples:\n%s", cl->examples);
    puts("\nexit codes: 0 success, 1 failure, 2 wrong usage, 130 ended by Ctrl-C, 143 by SIGTERM");
}

/* Whether `name` (length bytes) is among "-n, --predict". */
static bool has_name(const option *o, const char *name, size_t length) {
    for (const char *at = o->names; at && *at; at += strspn(at, ", ")) {
        size_t n = strcspn(at, ",");
        if (n == length && memcmp(at, name, n) == 0) return true;
        at += n;
    }
    return false;
}

/* A row that lacks what its kind needs would refuse every value, or take any. */
static void assert_whole(const command_line *cl) {
    for (const option *o = cl->options; o->help; o++) {
        bool has_range = o->kind == OPTION_INT || o->kind == OPTION_FLOAT || o->kind == OPTION_NUMBERS;
        if (o->kind == OPTION_HEADING) continue;
        assert(o->names && o->target && (o->value != NULL) == (o->kind != OPTION_FLAG));
        assert((o->low < o->high) == has_range && (o->choices != NULL) == (o->kind == OPTION_CHOICE));
    }
}

static const option *find_option(const command_line *cl, const char *name, size_t length) {
    for (const option *o = cl->options; o->help; o++) {
        if (o->kind != OPTION_HEADING && has_name(o, name, length)) return o;
    }
    return NULL;
}

static int set_number(const command_line *cl, const option *o, const char *name, const char *text) {
    char *end;
    errno = 0;
    double value = o->kind == OPTION_INT ? (double)strtoll(text, &end, 10) : number_parse(text, &end);
    if (end == text || *end || errno == ERANGE || isnan(value)) {
        return usage_error(cl, "%s needs a number, not '%s'", name, text);
    }
    if (value < o->low || value > o->high) {
        return usage_error(cl, "%s is %s; %g to %.10g is allowed", name, text, o->low, o->high);
    }
    if (o->kind == OPTION_INT) *(int32_t *)o->target = (int32_t)value;
    else *(float *)o->target = (float)value;
    return 0;
}

static int set_numbers(const command_line *cl, const option *o, const char *name, const char *text) {
    option_numbers *numbers = o->target;
    numbers->n = 0;
    for (const char *at = text;; at++) {
        char *end;
        errno = 0;
        long long value = strtoll(at, &end, 10);
        if (end == at || (*end && *end != ',') || errno == ERANGE) {
            return usage_error(cl, "%s needs numbers separated by commas, not '%s'", name, text);
        }
        if ((double)value < o->low || (double)value > o->high) {
            return usage_error(cl, "%s has %lld; %g to %.10g is allowed", name, value, o->low, o->high);
        }
        if (numbers->n == OPTION_NUMBERS_MAX) {
            return usage_error(cl, "%s has more than %d numbers", name, OPTION_NUMBERS_MAX);
        }
        numbers->values[numbers->n++] = (int32_t)value;
        at = end;
        if (!*at) return 0;
    }
}

static int set_seed(const command_line *cl, const option *o, const char *name, const char *text) {
    char *end;
    errno = 0;
    bool any = strcmp(text, "-1") == 0;
    unsigned long long value = any ? random_seed() : strtoull(text, &end, 0);
    if (!any && (end == text || *end || errno == ERANGE || strchr(text, '-'))) {
        return usage_error(cl, "%s needs a number from 0 to 2^64 - 1, or -1 for a random one, not '%s'", name, text);
    }
    *(uint64_t *)o->target = value;
    return 0;
}

static int set_choice(const command_line *cl, const option *o, const char *name, const char *text) {
    char known[128] = "";
    for (int32_t i = 0; o->choices[i]; i++) {
        if (strcmp(o->choices[i], text) == 0) {
            *(int32_t *)o->target = i;
            return 0;
        }
        err_list(known, sizeof known, o->choices[i]);
    }
    return usage_error(cl, "%s is '%s'; it can be %s", name, text, known);
}

static int set_option(const command_line *cl, const option *o, const char *name, const char *text) {
    if (o->given) *o->given = true;
    switch (o->kind) {
    case OPTION_INT:
    case OPTION_FLOAT: return set_number(cl, o, name, text);
    case OPTION_NUMBERS: return set_numbers(cl, o, name, text);
    case OPTION_SEED: return set_seed(cl, o, name, text);
    case OPTION_CHOICE: return set_choice(cl, o, name, text);
    case OPTION_TEXT: *(const char **)o->target = text; return 0;
    case OPTION_LIST: {
        option_list *list = o->target;
        if (list->n == OPTION_LIST_MAX) return usage_error(cl, "%s is given more than %d times", name, OPTION_LIST_MAX);
        list->items[list->n++] = text;
        return 0;
    }
    default: *(bool *)o->target = true; return 0;
    }
}

/* Parses the option at argv[*i] and moves *i to its last word. */
static int parse_option(const command_line *cl, int argc, char **argv, int *i) {
    const char *word = argv[*i], *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    const option *o = find_option(cl, word, length);
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), word);
    if (!o) return usage_error(cl, "there is no option '%s'", name);
    if (o->kind == OPTION_FLAG) {
        return equals ? usage_error(cl, "%s takes no value", name) : set_option(cl, o, name, NULL);
    }
    if (equals) return set_option(cl, o, name, equals + 1);
    if (*i + 1 == argc) return usage_error(cl, "%s needs a value (%s)", name, o->value);
    return set_option(cl, o, name, argv[++*i]);
}

int options_parse(const command_line *cl, int argc, char **argv, const char **positional, int max) {
    int n = 0;
    bool only_positional = false;
    assert_whole(cl);
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (!only_positional && (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)) {
            print_help(cl);
            return PARSED_HELP;
        }
        if (!only_positional && strcmp(word, "--") == 0) {
            only_positional = true;
        } else if (!only_positional && word[0] == '-' && word[1] != '\0') {
            if (parse_option(cl, argc, argv, &i) != 0) return PARSED_WRONG;
        } else if (n == max) {
            usage_error(cl, "'%s' is one argument too many", word);
            return PARSED_WRONG;
        } else {
            positional[n++] = word;
        }
    }
    return n;
}
