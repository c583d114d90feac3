/* Version and symbol visibility. Every public symbol carries SERENO_API; all others are hidden. */
#ifndef SERENO_API_H
#define SERENO_API_H

#define SERENO_VERSION "0.1.0"

#if defined(__GNUC__)
#define SERENO_API                        __attribute__((visibility("default")))
#define SERENO_PRINTF(fmt_arg, first_arg) __attribute__((format(printf, fmt_arg, first_arg)))
#else
#define SERENO_API
#define SERENO_PRINTF(fmt_arg, first_arg)
#endif

/* SERENO_VERSION of the library that is linked. Static storage. */
SERENO_API const char *sereno_version(void);

#endif
