/* Folders. Thread: any. */
#ifndef PLATFORM_FOLDER_H
#define PLATFORM_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* Makes a folder and those above it where they are missing, for this user alone; true when it is there. */
bool folder_make(const char *path);

/* Path of something of ours among the user's configuration: ${XDG_CONFIG_HOME:-~/.config}/sereno/NAME. False: there is
 * no such place, or no room. */
bool folder_config(const char *name, char *out, size_t size);

/* Names in a folder that end so, in order, as a list that ends with NULL; NULL when it cannot be read. The caller
 * frees it, and nothing else: the names lie behind it. */
char **folder_names(const char *path, const char *suffix);

#endif
