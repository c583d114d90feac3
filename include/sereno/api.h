/*
 * Version, symbol visibility and linkage. Every public symbol carries SERENO_API; all others are hidden. Each public
 * header's declarations stand between SERENO_BEGIN and SERENO_END, which give them C linkage in C++.
 */
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

#ifdef __cplusplus
#define SERENO_BEGIN extern "C" {
#define SERENO_END   }
#else
#define SERENO_BEGIN
#define SERENO_END
#endif

SERENO_BEGIN

/* SERENO_VERSION of the library that is linked. Static storage. */
SERENO_API const char *sereno_version(void);

SERENO_END

#endif
