/* Threads with a scheduling class, a nice value and an affinity. Thread: any, unless it says otherwise. */
#ifndef PLATFORM_THREAD_H
#define PLATFORM_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "sereno/engine.h"
#include "sereno/error.h"

/*
 * Gives the calling thread a class, and with idle and batch nice 19. It may not be able to go back, because going from
 * nice 19 to 0 needs privileges. Makes no system call for a class or nice value that the thread has already, because
 * sandboxes refuse such calls. False: the system refuses the class or the nice value.
 */
bool thread_take_class(sereno_sched sched);

/* Changes of a thread that thread_restore can take back. All zero: none. */
typedef struct thread_undo {
    bool pinned;
    unsigned char cores_before[128], cores_after[128]; /* a bit a core */
    int timer_slack_ns;                                /* before the change; 0: not changed */
} thread_undo;

/*
 * Pins the calling thread to these cores; n_cpus 0: does nothing. undo may be NULL. SERENO_ERR_INVALID: a core does not
 * exist or may not be used; SERENO_ERR_SYSTEM: another refusal. On failure the thread may run where it could before.
 */
int thread_pin(const int *cpus, int n_cpus, thread_undo *undo, sereno_error *err);

/* Makes the calling thread's timers fire within about a microsecond of their time. undo may be NULL. */
void thread_precise_timers(thread_undo *undo);

/* Takes back the calling thread's changes and empties `undo`. If the thread was pinned again since, its cores stay. */
void thread_restore(thread_undo *undo);

/* As pthread_create, with every signal blocked in the new thread, so that signals reach the program's own threads. */
int thread_start(pthread_t *thread, void *(*entry)(void *), void *arg);

/* CPU time of all threads of this process. */
uint64_t process_cpu_ns(void);

/* Page faults of the calling thread so far, minor and major. Takes less than a microsecond (getrusage(2)). */
uint64_t thread_page_faults(void);

/* Kernel id of the calling thread. */
int thread_id(void);

/* The core that the calling thread runs on now; -1: not known. Takes a few nanoseconds. */
int thread_cpu(void);

/* Scheduling class and nice value that the kernel reports for a thread of this process (tid: kernel id). False: it
 * reports none, or another class. */
bool thread_read_class(int tid, sereno_sched *sched, int *nice_value);

#endif
