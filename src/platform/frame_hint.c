#define _GNU_SOURCE
#include "frame_hint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "errors.h"

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes cannot share the lock of an atomic");

enum { MODE = 0600, READ_TRIES = 4 };

/*
 * A writer changes a frame in three stores: begin 0, deadline, begin. If a reader sees the same begin before and after
 * it reads the deadline, the two belong together. A writer that dies between the stores leaves no frame.
 */
typedef struct frame_memory {
    _Atomic uint64_t begin_ns; /* 0: no frame */
    _Atomic uint64_t deadline_ns;
    uint64_t unused[6]; /* a cache line of its own; 0 */
} frame_memory;

_Static_assert(sizeof(frame_memory) == 64, "the size says that it is ours");

struct sereno_frame_hint {
    frame_memory *memory;
    bool writes;
    uint64_t begun_ns; /* of the frame that this handle has begun and not ended; 0: none */
};

/* ---- Opening ---- */

static int cannot_use(const char *name, int reason, sereno_error *err) {
    bool refused = reason == EINVAL || reason == ENAMETOOLONG || reason == ELOOP || reason == EACCES || reason == EPERM;
    return err_set(err, refused ? SERENO_ERR_INVALID : SERENO_ERR_IO, "cannot use the shared memory '%s': %s", name,
                   strerror(reason));
}

/* Accepts only a file that this user alone can write. An empty file was left by a creator that died. Its memory is
 * reserved, too, because writing to a hole in full shared memory would raise SIGBUS. */
static int check(const char *name, int fd, sereno_error *err) {
    struct stat info;
    if (fstat(fd, &info) != 0) return cannot_use(name, errno, err);
    const char *problem = !S_ISREG(info.st_mode)                                      ? "it is no memory"
                          : info.st_uid != geteuid()                                  ? "it belongs to another user"
                          : (info.st_mode & 07777) != MODE                            ? "its mode is not 0600"
                          : info.st_size != 0 && info.st_size != sizeof(frame_memory) ? "it has another size"
                                                                                      : NULL;
    if (problem) return err_set(err, SERENO_ERR_INVALID, "cannot use the shared memory '%s': %s", name, problem);
    int reason = posix_fallocate(fd, 0, sizeof(frame_memory)); /* two that do this at once do the same */
    return reason == 0 ? SERENO_OK : cannot_use(name, reason, err);
}

static int map(const char *name, bool writes, sereno_frame_hint *hint, sereno_error *err) {
    int fd = shm_open(name, O_RDWR | O_CREAT, MODE);
    if (fd < 0) return cannot_use(name, errno, err);
    int status = check(name, fd, err);
    if (!status) {
        void *memory = mmap(NULL, sizeof(frame_memory), writes ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
        if (memory == MAP_FAILED) status = cannot_use(name, errno, err);
        else hint->memory = memory;
    }
    close(fd);
    return status;
}

static int open_hint(const char *name, bool writes, sereno_frame_hint **out, sereno_error *err) {
    char usual[64];
    snprintf(usual, sizeof usual, "/sereno-frame-%lu", (unsigned long)geteuid());
    *out = NULL;
    sereno_frame_hint *hint = calloc(1, sizeof *hint);
    if (!hint) return err_no_memory(err, "frame hints", sizeof *hint);
    hint->writes = writes;
    int status = map(name ? name : usual, writes, hint, err);
    if (status) sereno_frame_hint_close(&hint);
    *out = hint;
    return status;
}

int sereno_frame_hint_open(const char *name, sereno_frame_hint **out, sereno_error *err) {
    return open_hint(name, true, out, err);
}

int sereno_frame_hint_watch(const char *name, sereno_frame_hint **out, sereno_error *err) {
    return open_hint(name, false, out, err);
}

int frame_hint_open_private(sereno_frame_hint **out, sereno_error *err) {
    sereno_frame_hint *hint = *out = calloc(1, sizeof *hint);
    if (!hint) return err_no_memory(err, "frame hints", sizeof *hint);
    hint->writes = true;
    void *memory = mmap(NULL, sizeof(frame_memory), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
        hint->memory = memory;
        return SERENO_OK;
    }
    sereno_frame_hint_close(out);
    return err_no_memory(err, "frame hints", sizeof(frame_memory));
}

void sereno_frame_hint_close(sereno_frame_hint **hint) {
    sereno_frame_hint *h = *hint;
    *hint = NULL;
    if (!h) return;
    if (h->memory) {
        sereno_frame_end(h, 0);
        munmap(h->memory, sizeof *h->memory);
    }
    free(h);
}

/* ---- Frames ---- */

void sereno_frame_begin(sereno_frame_hint *hint, uint64_t now_ns, uint64_t deadline_ns) {
    if (!hint->writes) return;
    frame_memory *m = hint->memory;
    if (now_ns == 0) now_ns = 1;
    uint64_t budget_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 1;
    if (budget_ns > SERENO_FRAME_NS_MAX) budget_ns = SERENO_FRAME_NS_MAX;
    atomic_store_explicit(&m->begin_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&m->deadline_ns, now_ns + budget_ns, memory_order_release);
    atomic_store_explicit(&m->begin_ns, now_ns, memory_order_release);
    hint->begun_ns = now_ns;
}

void sereno_frame_end(sereno_frame_hint *hint, uint64_t now_ns) {
    (void)now_ns; /* the memory holds the present frame alone */
    uint64_t begun_ns = hint->begun_ns;
    hint->begun_ns = 0;
    if (begun_ns == 0) return;
    /* Unless another foreground has begun one since. */
    atomic_compare_exchange_strong_explicit(&hint->memory->begin_ns, &begun_ns, 0, memory_order_release,
                                            memory_order_relaxed);
}

/* Whether a frame counts: not if no writer of this program could have written it. */
static bool counts(uint64_t begin_ns, uint64_t deadline_ns, uint64_t now_ns) {
    if (begin_ns == 0 || begin_ns > now_ns) return false;
    if (deadline_ns <= begin_ns || deadline_ns - begin_ns > SERENO_FRAME_NS_MAX) return false;
    return now_ns <= deadline_ns || now_ns - deadline_ns < SERENO_FRAME_OVERDUE_NS;
}

sereno_frame_state sereno_frame_read(const sereno_frame_hint *hint, uint64_t now_ns) {
    const frame_memory *m = hint->memory;
    for (int i = 0; i < READ_TRIES; i++) {
        uint64_t begin_ns = atomic_load_explicit(&m->begin_ns, memory_order_acquire);
        uint64_t deadline_ns = atomic_load_explicit(&m->deadline_ns, memory_order_acquire);
        if (atomic_load_explicit(&m->begin_ns, memory_order_relaxed) != begin_ns) continue;
        if (!counts(begin_ns, deadline_ns, now_ns)) break;
        return (sereno_frame_state){true, begin_ns, deadline_ns};
    }
    return (sereno_frame_state){0};
}
