#include "folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
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

bool folder_config(const char *name, char *out, size_t size) {
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    bool given = config && *config;
    if (!given && (!home || !*home)) return false;
    int length = snprintf(out, size, "%s%s/sereno/%s", given ? config : home, given ? "" : "/.config", name);
    return length > 0 && (size_t)length < size;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool ends_with(const char *name, const char *suffix) {
    size_t n = strlen(name), end = strlen(suffix);
    return n >= end && strcmp(name + n - end, suffix) == 0;
}

/* Counts matching names and their bytes; with `list` writes them too, as far as they fit. */
static void read_names(DIR *folder, const char *suffix, char **list, size_t max, size_t max_bytes, size_t *n,
                       size_t *bytes) {
    char *at = list ? (char *)(list + max + 1) : NULL;
    *n = *bytes = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        size_t size = strlen(entry->d_name) + 1;
        if (!ends_with(entry->d_name, suffix)) continue;
        if (list) {
            if (*n == max || *bytes + size > max_bytes) break; /* came since they were counted */
            memcpy(at + *bytes, entry->d_name, size);
            list[*n] = at + *bytes;
        }
        ++*n;
        *bytes += size;
    }
}

char **folder_names(const char *path, const char *suffix) {
    DIR *folder = opendir(path);
    if (!folder) return NULL;
    size_t max, max_bytes, n, bytes;
    read_names(folder, suffix, NULL, 0, 0, &max, &max_bytes);
    char **list = calloc(1, (max + 1) * sizeof *list + max_bytes);
    if (list) {
        rewinddir(folder);
        read_names(folder, suffix, list, max, max_bytes, &n, &bytes);
        qsort(list, n, sizeof *list, by_name);
    }
    closedir(folder);
    return list;
}
