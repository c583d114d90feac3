/* Standard input, output and error. Thread: the main thread, before anything else. */
#ifndef PLATFORM_STANDARD_FILES_H
#define PLATFORM_STANDARD_FILES_H

#include <stdbool.h>

/*
 * Sees to it that descriptors 0 to 2 are open, or the next file that is opened would be taken for a standard one:
 * reading would find it, and answers would be written into it. One that is missing reads as empty, and writing to it
 * fails. For the start of `main`. False: there is no /dev/null.
 */
bool standard_files_hold(void);

#endif
