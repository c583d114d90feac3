#define _GNU_SOURCE
#include "shared_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Seals the page's size: if another process shortened it, our accesses would raise SIGBUS. */
enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static void *map(int fd) {
    void *page = mmap(NULL, SHARED_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

void *shared_page_create(int *fd) {
    int made = memfd_create("sereno-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    *fd = made < 0 ? -1 : fcntl(made, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); /* it must not be taken for a standard one */
    if (made >= 0) close(made);
    if (*fd < 0) return NULL;
    void *page = NULL;
    if (ftruncate(*fd, SHARED_PAGE_SIZE) == 0 && fcntl(*fd, F_ADD_SEALS, SEALS) == 0) page = map(*fd);
    if (!page) {
        close(*fd);
        *fd = -1;
    }
    return page;
}

void *shared_page_open(int fd) {
    struct stat info;
    if (fcntl(fd, F_GET_SEALS) != SEALS || fstat(fd, &info) != 0 || info.st_size != SHARED_PAGE_SIZE) return NULL;
    return map(fd);
}

void shared_page_close(void *page) {
    if (page) munmap(page, SHARED_PAGE_SIZE);
}
