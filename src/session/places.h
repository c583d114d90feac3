/* Where things of this user's are kept, as the XDG base directory specification has it. Thread: any, as long as none
 * changes the environment. */
#ifndef SESSION_PLACES_H
#define SESSION_PLACES_H

#include <stdbool.h>
#include <stddef.h>

/* The cache folder: ${XDG_CACHE_HOME:-~/.cache}/sereno. It need not be there. False: there is no such place, or no
 * room. */
bool places_cache(char *out, size_t size);

/* Path of something in a cache folder; folder NULL: that one, "": nowhere, which is false as above. */
bool places_in_cache(const char *folder, const char *name, char *out, size_t size);

/* The folder in a cache folder for timings (sereno_engine_options) of a processor like this one; makes it. False: as
 * above, or it cannot be made. */
bool places_timing(const char *folder, char *out, size_t size);

#endif
