#define _GNU_SOURCE
#include "thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "errors.h"

enum { NICEST = 19 };

/* Kernel value and name of each class, by sereno_sched. */
static const struct {
    int policy;
    const char *name;
} classes[] = {
    [SERENO_SCHED_IDLE] = {SCHED_IDLE, "SCHED_IDLE"},
    [SERENO_SCHED_BATCH] = {SCHED_BATCH, "SCHED_BATCH"},
    [SERENO_SCHED_NORMAL] = {SCHED_OTHER, "SCHED_OTHER"},
};

static int apply_affinity(const thread_class *wanted, sereno_error *err) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < wanted->n_cpus; i++) {
        if (wanted->cpus[i] < 0 || wanted->cpus[i] >= CPU_SETSIZE) {
            return err_set(err, SERENO_ERR_INVALID, "core %d does not exist", wanted->cpus[i]);
        }
        CPU_SET(wanted->cpus[i], &set);
    }
    cpu_set_t taken;
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        return err_set(err, errno == EINVAL ? SERENO_ERR_INVALID : SERENO_ERR_SYSTEM,
                       "cannot run on the cores asked for: %s", strerror(errno));
    }
    /* The kernel leaves out cores that are not there without a word. */
    if (sched_getaffinity(0, sizeof taken, &taken) == 0 && !CPU_EQUAL(&set, &taken)) {
        return err_set(err, SERENO_ERR_INVALID, "not all of the cores asked for exist or may be used");
    }
    return SERENO_OK;
}

int thread_apply_class(const thread_class *wanted, sereno_error *err) {
    if (wanted->n_cpus > 0) {
        int status = apply_affinity(wanted, err);
        if (status) return status;
    }
    struct sched_param param = {0};
    if (sched_setscheduler(0, classes[wanted->sched].policy, &param) != 0) {
        return err_set(err, SERENO_ERR_SYSTEM, "cannot change the scheduling class to %s: %s",
                       classes[wanted->sched].name, strerror(errno));
    }
    if (wanted->sched != SERENO_SCHED_NORMAL && setpriority(PRIO_PROCESS, (id_t)thread_id(), NICEST) != 0) {
        return err_set(err, SERENO_ERR_SYSTEM, "cannot set nice %d: %s", NICEST, strerror(errno));
    }
    return SERENO_OK;
}

int thread_start(pthread_t *thread, void *(*entry)(void *), void *arg) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(thread, NULL, entry, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

uint64_t process_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t thread_page_faults(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) != 0) return 0;
    return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}

int thread_id(void) {
    return (int)syscall(SYS_gettid);
}

int thread_cpu(void) {
    return sched_getcpu();
}

bool thread_read_class(int tid, sereno_sched *sched, int *nice_value) {
    int policy = sched_getscheduler(tid) & ~SCHED_RESET_ON_FORK;
    errno = 0;
    *nice_value = getpriority(PRIO_PROCESS, (id_t)tid);
    if (policy < 0 || errno != 0) return false;
    for (int i = 0; i < (int)(sizeof classes / sizeof *classes); i++) {
        if (classes[i].policy == policy) {
            *sched = (sereno_sched)i;
            return true;
        }
    }
    return false;
}
