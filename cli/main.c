/* sereno: finds the command and calls it. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "sereno/api.h"
#include "standard_files.h"
#include "support.h"

static const command commands[] = {
    {"run", "answer a prompt, or chat", cmd_run},
    {"inspect", "show what is in a GGUF file", cmd_inspect},
    {"tokenize", "show the tokens of a text", cmd_tokenize},
    {"convert", "write a model with its weights in another type", cmd_convert},
    {"calibrate", "learn what this machine is like when it is quiet, and how it feels contention", cmd_calibrate},
    {"sense", "show how well contention is sensed, beside a foreground of known weight", cmd_sense},
    {"foreground", "make frames that can jank, to run something beside", cmd_foreground},
    {"bench", "measure memory, kernels and passes", cmd_bench},
    {"check", "prove on this machine what sereno promises", cmd_check},
    {0},
};

int main(int argc, char **argv) {
    static const command_group sereno = {"sereno", "a language model in the background, not felt by what is in front",
                                         commands, "; sereno --version prints the version"};
    if (!standard_files_hold()) return EXIT_FAILED;
    int code = 0;
    if (argc > 1 && strcmp(argv[1], "--version") == 0) printf("sereno %s\n", sereno_version());
    else code = command_dispatch(&sereno, argc - 1, argv + 1);
    const diagnostics d = {.to = stderr, .command = "sereno"};
    return code ? code : finish_output(&d, code); /* failed writes of commands that do not check, such as --help */
}
