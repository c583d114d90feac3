/*
 * How many compute threads fit a process: the cores that it may run on, and the CPU time that its control groups grant.
 * Thread: any.
 * Source: the kernel's Documentation/admin-guide/cputopology.rst, admin-guide/cgroup-v2.rst (cpu.max) and
 * scheduler/sched-bwc.rst (cpu.cfs_quota_us).
 */
#ifndef PLATFORM_CPU_BUDGET_H
#define PLATFORM_CPU_BUDGET_H

typedef struct cpu_budget {
    int cores;    /* physical cores, at least 1: hardware threads of one core count once */
    double quota; /* CPU time a second that the control groups grant, the least of all ancestors; INFINITY: no limit */
} cpu_budget;

/* Of the cores `cpus`. root: the folder in which /proc and /sys lie; "": the machine's own. What cannot be read sets no
 * limit, and a core without topology counts as one. */
cpu_budget cpu_budget_read(const char *root, const int *cpus, int n_cpus);

/* Compute threads that fit: one core is left to the foreground, and no more threads run than the quota pays for, since
 * the kernel would stop all of them for the rest of each period. At least 1. */
int cpu_budget_threads(const cpu_budget *budget);

/* The same for the calling thread on this machine. */
int cpu_default_threads(void);

#endif
