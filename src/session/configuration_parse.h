/* What a configuration file says, without the file. Thread: any. */
#ifndef SESSION_CONFIGURATION_PARSE_H
#define SESSION_CONFIGURATION_PARSE_H

#include <stddef.h>

#include "sereno/configuration.h"

/* As sereno_configuration_read of a file with this text; messages begin with the line, and codes are those of what is
 * wrong. */
int configuration_parse(sereno_configuration *c, const char *text, size_t size, sereno_error *err);

#endif
