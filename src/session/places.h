/* The user's folders for sereno's files. Source: XDG base directory specification. Thread: any, while no thread changes
 * the environment. */
#ifndef SESSION_PLACES_H
#define SESSION_PLACES_H

#include <stdbool.h>
#include <stddef.h>

/* The cache folder's path: ${XDG_CACHE_HOME:-~/.cache}/sereno. The folder need not exist. False: both variables are
 * unset, or the path is longer than `size`. */
bool places_cache(char *out, size_t size);

/* The path of `name` in a cache folder. folder NULL: the one of places_cache; "": none. False: there is no folder, or
 * the path is longer than `size`. */
bool places_in_cache(const char *folder, const char *name, char *out, size_t size);

/* Makes the folder in a cache folder for timings (sereno_engine_options) on this model of processor. False: as
 * places_in_cache, or the folder cannot be made. */
bool places_timing(const char *folder, char *out, size_t size);

#endif
