/* Folders. Thread: any. */
#ifndef PLATFORM_FOLDER_H
#define PLATFORM_FOLDER_H

#include <stdbool.h>

/* Makes a folder and those above it where they are missing, for this user alone; true when it is there. */
bool folder_make(const char *path);

/* Names in a folder that end so, in order, as a list that ends with NULL; NULL when it cannot be read. The caller
 * frees it, and nothing else: the names lie behind it. */
char **folder_names(const char *path, const char *suffix);

#endif
