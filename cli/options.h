/*
 * Command-line options from a table: parsing, range checks and --help use the same rows. An option is written
 * --name VALUE or --name=VALUE, a short one -n VALUE. A row begins with kind, names and target, which every option has;
 * other fields are given by name. Thread: the main thread.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum option_kind {
    OPTION_FLAG,    /* bool */
    OPTION_INT,     /* int32_t, low .. high */
    OPTION_FLOAT,   /* float, low .. high; NaN is refused */
    OPTION_SEED,    /* uint64_t, decimal or 0x; -1: random */
    OPTION_TEXT,    /* const char * */
    OPTION_LIST,    /* option_list: may be given many times */
    OPTION_NUMBERS, /* option_numbers: int32_t separated by commas, each low .. high */
    OPTION_CHOICE,  /* int32_t: index into `choices` */
    OPTION_HEADING, /* no option: a line of --help */
} option_kind;

enum { OPTION_LIST_MAX = 64, OPTION_NUMBERS_MAX = 32 };

typedef struct option_list {
    const char *items[OPTION_LIST_MAX];
    int n;
} option_list;

typedef struct option_numbers {
    int32_t values[OPTION_NUMBERS_MAX];
    int n;
} option_numbers;

typedef struct option {
    option_kind kind;
    const char *names; /* "-n, --predict" */
    void *target;      /* of the kind's type */
    const char *value; /* the value's name in --help; flags have none */
    double low, high;
    const char *const *choices; /* NULL-terminated */
    bool *given;                /* set when the option occurs; may be NULL */
    const char *help;           /* what the option does, its default and why; a heading's text */
} option;

typedef struct command_line {
    const char *command;   /* "sereno run" */
    const char *summary;   /* one line */
    const char *arguments; /* as in "MODEL", "" for none */
    const char *examples;
    const option *options; /* ends with a row without help */
} command_line;

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 }; /* after a signal: interrupt_exit_code */
enum { PARSED_HELP = -1, PARSED_WRONG = -2 };

/*
 * Fills the targets and puts the remaining arguments into positional (room for max). Returns their number;
 * PARSED_WRONG: an error was printed to stderr; PARSED_HELP: --help was printed to stdout.
 */
int options_parse(const command_line *cl, int argc, char **argv, const char **positional, int max);

/* Prints a row as --help does; value may be NULL. */
void options_explain(const char *name, const char *value, const char *help);

/* Prints "sereno run: message" to stderr and returns EXIT_USAGE. */
int usage_error(const command_line *cl, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
