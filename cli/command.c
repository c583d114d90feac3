#include "command.h"

#include <stdio.h>
#include <string.h>

#include "options.h"

static void print_commands(const command_group *g, FILE *to) {
    fprintf(to, "%s: %s\n\nusage: %s COMMAND [options]\n\n", g->name, g->summary, g->name);
    for (const command *c = g->commands; c->name; c++) {
        fprintf(to, "  %-10s %s\n", c->name, c->summary);
    }
    fprintf(to, "\n%s COMMAND --help explains a command%s.\n", g->name, g->last_words);
}

int command_dispatch(const command_group *g, int argc, char **argv) {
    if (argc < 1) {
        print_commands(g, stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0 || strcmp(argv[0], "help") == 0) {
        print_commands(g, stdout);
        return 0;
    }
    for (const command *c = g->commands; c->name; c++) {
        if (strcmp(argv[0], c->name) == 0) return c->run(argc - 1, argv + 1);
    }
    fprintf(stderr, "%s: there is no command '%s'\n\n", g->name, argv[0]);
    print_commands(g, stderr);
    return EXIT_USAGE;
}
