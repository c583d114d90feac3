#include "pipe.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <unistd.h>

enum { WAIT_MAX = 8 };

void pipe_wait(const int *fds, bool *readable, int n, uint64_t timeout_ns) {
    assert(n <= WAIT_MAX);
    struct pollfd list[WAIT_MAX];
    for (int i = 0; i < n; i++) {
        list[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    }
    uint64_t ms = timeout_ns / 1000000 + (timeout_ns % 1000000 != 0);
    int status = poll(list, (nfds_t)n, ms < 1u << 30 ? (int)ms : 1 << 30);
    for (int i = 0; i < n; i++) {
        readable[i] = status > 0 && list[i].revents != 0;
    }
}

size_t pipe_read(int fd, void *out, size_t size) {
    ssize_t n;
    do {
        n = read(fd, out, size);
    } while (n < 0 && errno == EINTR);
    return n > 0 ? (size_t)n : 0;
}

bool pipe_read_all(int fd, void *out, size_t size) {
    for (size_t done = 0; done < size;) {
        size_t n = pipe_read(fd, (char *)out + done, size - done);
        if (n == 0) return false;
        done += n;
    }
    return true;
}

bool pipe_write_all(int fd, const void *data, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, (const char *)data + done, size - done);
        if (n < 0 && errno != EINTR) return false;
        if (n > 0) done += (size_t)n;
    }
    return true;
}

void pipe_close(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}
