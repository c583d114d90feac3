#define _GNU_SOURCE
#include "thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "errors.h"

enum { NICEST = 19 };

/* The kernel's, by sereno_sched. */
static const int policies[] = {
    [SERENO_SCHED_IDLE] = SCHED_IDLE,
    [SERENO_SCHED_BATCH] = SCHED_BATCH,
    [SERENO_SCHED_NORMAL] = SCHED_OTHER,
};

_Static_assert(sizeof(cpu_set_t) == sizeof((thread_undo){0}.cores_before), "a set of cores is kept in one");

int thread_pin(const int *cpus, int n_cpus, thread_undo *undo, sereno_error *err) {
    if (n_cpus == 0) return SERENO_OK;
    cpu_set_t before, set, taken;
    CPU_ZERO(&set);
    for (int i = 0; i < n_cpus; i++) {
        if (cpus[i] < 0 || cpus[i] >= CPU_SETSIZE) {
            return err_set(err, SERENO_ERR_INVALID, "core %d does not exist", cpus[i]);
        }
        CPU_SET(cpus[i], &set);
    }
    bool known = sched_getaffinity(0, sizeof before, &before) == 0;
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        return err_set(err, errno == EINVAL ? SERENO_ERR_INVALID : SERENO_ERR_SYSTEM,
                       "cannot run on the cores asked for: %s", strerror(errno));
    }
    /* the kernel leaves out missing cores without an error */
    if (sched_getaffinity(0, sizeof taken, &taken) == 0 && !CPU_EQUAL(&set, &taken)) {
        if (known) sched_setaffinity(0, sizeof before, &before);
        return err_set(err, SERENO_ERR_INVALID, "not all of the cores asked for exist or may be used");
    }
    if (!undo || !known || CPU_EQUAL(&before, &set)) return SERENO_OK;
    undo->pinned = true;
    memcpy(undo->cores_before, &before, sizeof before);
    memcpy(undo->cores_after, &set, sizeof set);
    return SERENO_OK;
}

void thread_precise_timers(thread_undo *undo) {
    int before = undo ? prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL) : 0;
    if (before > 1) undo->timer_slack_ns = before;
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

void thread_restore(thread_undo *undo) {
    cpu_set_t now;
    bool as_left =
        undo->pinned && sched_getaffinity(0, sizeof now, &now) == 0 && memcmp(&now, undo->cores_after, sizeof now) == 0;
    if (as_left) {
        memcpy(&now, undo->cores_before, sizeof now);
        sched_setaffinity(0, sizeof now, &now);
    }
    if (undo->timer_slack_ns > 0) prctl(PR_SET_TIMERSLACK, (unsigned long)undo->timer_slack_ns, 0UL, 0UL, 0UL);
    *undo = (thread_undo){0};
}

/* Makes a call only for a change: sandboxes refuse these calls even if they would change nothing. */
bool thread_take_class(sereno_sched sched) {
    bool wants_nice = sched != SERENO_SCHED_NORMAL;
    sereno_sched present = sched;
    int nice_value = NICEST;
    bool known = thread_read_class(thread_id(), &present, &nice_value), taken = true;
    if (!known || present != sched) taken = sched_setscheduler(0, policies[sched], &(struct sched_param){0}) == 0;
    if (wants_nice && (!known || nice_value != NICEST)) {
        taken &= setpriority(PRIO_PROCESS, (id_t)thread_id(), NICEST) == 0;
    }
    return taken;
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
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt : 0;
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
    for (int i = 0; i < (int)(sizeof policies / sizeof *policies); i++) {
        if (policies[i] == policy) {
            *sched = (sereno_sched)i;
            return true;
        }
    }
    return false;
}
