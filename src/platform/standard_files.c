#include "standard_files.h"

#include <fcntl.h>
#include <unistd.h>

bool standard_files_hold(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) continue;
        /* It takes the lowest number that is free, which is this one. Not to be written, be it for output: what is lost
         * must not look as if it had been written. Children have it, too. */
        if (open("/dev/null", O_RDONLY) != fd) return false;
    }
    return true;
}
