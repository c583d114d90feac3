/* The texts of profiles/ *.ini, compiled in; cmake/profiles.cmake makes the table. Thread: any. */
#ifndef FOREGROUND_SHIPPED_PROFILES_H
#define FOREGROUND_SHIPPED_PROFILES_H

#include <stddef.h>

typedef struct shipped_profile {
    const char *name, *text; /* the file's name without .ini; its text, `size` bytes and a 0 */
    size_t size;
} shipped_profile;

extern const shipped_profile shipped_profiles[];  /* by name; ends with a row without one */
extern const char *const shipped_profile_names[]; /* the same names, NULL-terminated */

#endif
