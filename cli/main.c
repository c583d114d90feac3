/* sereno: finds the command and calls it. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "options.h"
#include "sereno/api.h"

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"run", "answer a prompt, or chat", cmd_run},
    {"inspect", "show what is in a GGUF file", cmd_inspect},
    {"tokenize", "show the tokens of a text", cmd_tokenize},
    {"convert", "write a model with its weights in another type", cmd_convert},
};

enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_commands(FILE *to) {
    fputs("sereno: a language model in the background, not felt by what is in front\n\nusage: sereno COMMAND "
          "[options]\n\n",
          to);
    for (int i = 0; i < N_COMMANDS; i++) {
        fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
    }
    fputs("\nsereno COMMAND --help explains a command; sereno --version prints the version.\n", to);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        print_commands(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_commands(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("sereno %s\n", sereno_version());
        return 0;
    }
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 2, argv + 2);
    }
    fprintf(stderr, "sereno: there is no command '%s'\n\n", argv[1]);
    print_commands(stderr);
    return EXIT_USAGE;
}
