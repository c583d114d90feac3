/* The texts of profiles/ *.ini, compiled in; the table is made by cmake/profiles.cmake. Thread: any. */
#ifndef FOREGROUND_SHIPPED_PROFILES_H
#define FOREGROUND_SHIPPED_PROFILES_H

#include <stddef.h>

typedef struct shipped_profile {
    const char *name, *text; /* of the file, without .ini; `size` bytes and a 0 */
    size_t size;
} shipped_profile;

extern const shipped_profile shipped_profiles[];  /* by name; ends with a row without one */
extern const char *const shipped_profile_names[]; /* the same names, NULL-terminated */

#endif
