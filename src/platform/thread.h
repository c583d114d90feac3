/* Threads with a scheduling class, a nice value and an affinity. */
#ifndef PLATFORM_THREAD_H
#define PLATFORM_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "sereno/engine.h"
#include "sereno/error.h"

/*
 * Gives the calling thread a class (idle and batch: nice 19, too) where it has another; it may not be able to go back
 * (nice 19 to 0 needs rights). False: the system refuses it (sandboxes do, whatever it would change; rights may be
 * missing), or one of the two.
 */
bool thread_take_class(sereno_sched sched);

/* What a thread has changed about itself and can take back. Zeros: nothing. */
typedef struct thread_undo {
    bool pinned;
    unsigned char cores_before[128], cores_after[128]; /* a bit a core */
    int timer_slack_ns;                                /* before; 0: not changed */
} thread_undo;

/*
 * Keeps the calling thread to these cores; n_cpus 0: does nothing. undo may be NULL. SERENO_ERR_SYSTEM: it was refused;
 * SERENO_ERR_INVALID: a core does not exist or may not be used. On failure the thread may run where it could before.
 */
int thread_pin(const int *cpus, int n_cpus, thread_undo *undo, sereno_error *err);

/* Asks for timers of the calling thread that fire within about a microsecond of their time. undo may be NULL. */
void thread_precise_timers(thread_undo *undo);

/* Takes back what the calling thread changed, unless it runs on other cores by now; `undo` is as if it had changed
 * nothing. */
void thread_restore(thread_undo *undo);

/* As pthread_create, with every signal blocked in the new thread: signals reach the program's own threads. */
int thread_start(pthread_t *thread, void *(*entry)(void *), void *arg);

/* CPU time that all threads of this process have taken. */
uint64_t process_cpu_ns(void);

/* Page faults of the calling thread so far, those without a read from a disk included. Below a microsecond
 * (getrusage(2)). */
uint64_t thread_page_faults(void);

/* Kernel id of the calling thread. */
int thread_id(void);

/* The core that the calling thread runs on at this moment, -1 where the system does not say. A few nanoseconds. */
int thread_cpu(void);

/* Scheduling class and nice value that the kernel reports for a thread of this process. */
bool thread_read_class(int tid, sereno_sched *sched, int *nice_value);

#endif
