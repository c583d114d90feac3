/* Folders. Thread: any. */
#ifndef PLATFORM_FOLDER_H
#define PLATFORM_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* Makes a folder and missing folders above it, for this user alone. True: the folder exists. */
bool folder_make(const char *path);

/* The path ${XDG_CONFIG_HOME:-~/.config}/sereno/NAME. False: both variables are unset, or the path is longer than
 * `size`.
 */
bool folder_config(const char *name, char *out, size_t size);

/* The names in a folder that end with `suffix`, sorted, NULL-terminated; NULL: it cannot be read. The caller frees the
 * list, which is one block with its names. */
char **folder_names(const char *path, const char *suffix);

#endif
