/* Standard input, output and error. Thread: the main thread, before anything else. */
#ifndef PLATFORM_STANDARD_FILES_H
#define PLATFORM_STANDARD_FILES_H

#include <stdbool.h>

/*
 * Opens missing descriptors among 0 to 2 on /dev/null. Otherwise the next opened file would get such a number, and
 * answers would be written into it. A descriptor opened so reads as empty, and writing to it fails. Called at the start
 * of `main`. False: there is no /dev/null.
 */
bool standard_files_hold(void);

#endif
