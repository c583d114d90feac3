/* A core for what runs beside the LLM: an aggressor, a foreground. */
#ifndef CLI_FREE_CORE_H
#define CLI_FREE_CORE_H

#include "machine_options.h"

/* The last core of this process that is not among those of --cpu; -1 without --cpu, where the scheduler finds one by
 * itself, and where there is none. Call it before an engine takes its cores: the owner keeps to these from then on. */
int free_core(const machine_options *machine);

#endif
