/* The commands of the program; each parses its own options. argv begins after the command's name. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

int cmd_bench(int argc, char **argv);
int cmd_bench_corun(int argc, char **argv);
int cmd_bench_decode(int argc, char **argv);
int cmd_bench_kernels(int argc, char **argv);
int cmd_bench_memory(int argc, char **argv);
int cmd_bench_passes(int argc, char **argv);
int cmd_calibrate(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_check_exactness(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_foreground(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_sense(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);

typedef struct command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} command;

typedef struct command_group {
    const char *name, *summary; /* "sereno bench" */
    const command *commands;    /* ends with a row without a name */
    const char *last_words;     /* of the help, after "NAME COMMAND --help explains a command" */
} command_group;

/* Calls the command that argv[0] names, or prints the list: for --help, or as an error. Returns the exit code. */
int command_dispatch(const command_group *group, int argc, char **argv);

#endif
