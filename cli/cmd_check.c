/* sereno check: finds the check and calls it. */
#include "command.h"

static const command checks[] = {
    {"exactness", "that speculation changes no answer: random trials against plain decoding", cmd_check_exactness},
    {0},
};

int cmd_check(int argc, char **argv) {
    static const command_group check = {"sereno check", "prove on this machine what sereno promises", checks, ""};
    return command_dispatch(&check, argc, argv);
}
