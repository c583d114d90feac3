/* Folders. Thread: any. */
#ifndef PLATFORM_FOLDER_H
#define PLATFORM_FOLDER_H

#include <stdbool.h>

/* Makes a folder and those above it where they are missing, for this user alone; true when it is there. */
bool folder_make(const char *path);

#endif
