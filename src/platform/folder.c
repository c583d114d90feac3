#include "folder.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool folder_make(const char *path) {
    char part[4096];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part) return false;
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0') continue;
        snprintf(part, sizeof part, "%.*s", (int)i, path);
        (void)mkdir(part, 0700); /* it may be there; whether it is a folder is asked at the end */
    }
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}
