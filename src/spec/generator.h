/* What benches do with a generator that no one else should. Read sereno/generate.h first. */
#ifndef SPEC_GENERATOR_H
#define SPEC_GENERATOR_H

#include "sereno/generate.h"
#include "synthetic.h"

/* From now on candidates are accepted by chance (borrowed); NULL: by what the model says. */
void generator_set_synthetic(sereno_generator *g, const synthetic_acceptance *synthetic);

#endif
