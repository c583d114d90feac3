#include "standard_files.h"

#include <fcntl.h>
#include <unistd.h>

bool standard_files_hold(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) continue;
        /* open takes the lowest free number, which is this one. Read-only, for output too, so that lost output is
         * an error. Children inherit it. */
        if (open("/dev/null", O_RDONLY) != fd) return false;
    }
    return true;
}
