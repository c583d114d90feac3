/* Parses the text of a configuration file. Thread: any. */
#ifndef SESSION_CONFIGURATION_PARSE_H
#define SESSION_CONFIGURATION_PARSE_H

#include <stddef.h>

#include "sereno/configuration.h"

/* As sereno_configuration_read of a file with this text. Messages begin with the line. SERENO_ERR_FORMAT: the file's
 * syntax; SERENO_ERR_INVALID: a key or value. */
int configuration_parse(sereno_configuration *c, const char *text, size_t size, sereno_error *err);

#endif
