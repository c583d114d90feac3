/* Threads with a scheduling class, a nice value and an affinity. */
#ifndef PLATFORM_THREAD_H
#define PLATFORM_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "sereno/engine.h"
#include "sereno/error.h"

/* How a thread asks to be scheduled: the class (idle and batch also set nice 19) and, if n_cpus > 0,
 * the cores it may run on. */
typedef struct thread_class {
    sereno_sched sched;
    const int *cpus; /* borrowed while the call runs */
    int n_cpus;
} thread_class;

/*
 * Applies the class to the calling thread. It may not be able to go back (nice 19 to 0 needs rights).
 * SERENO_ERR_SYSTEM names what was refused; SERENO_ERR_INVALID a core that does not exist.
 */
int thread_apply_class(const thread_class *wanted, sereno_error *err);

/* As pthread_create, with every signal blocked in the new thread: signals reach the program's own threads. */
int thread_start(pthread_t *thread, void *(*entry)(void *), void *arg);

/* CPU time that all threads of this process have taken. */
uint64_t process_cpu_ns(void);

/* Page faults of the calling thread since it began, whether they needed the disk or not. About a third of a
 * microsecond. */
uint64_t thread_page_faults(void);

/* Kernel id of the calling thread. */
int thread_id(void);

/* The core that the calling thread runs on at this moment, -1 where the system does not say. A few nanoseconds. */
int thread_cpu(void);

/* Scheduling class and nice value that the kernel reports for a thread of this process. */
bool thread_read_class(int tid, sereno_sched *sched, int *nice_value);

#endif
