/* A program of somebody else: the umbrella header, one call of each part that needs no model. */
#include <sereno/sereno.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    sereno_error err = {0};
    sereno_model *model;
    sereno_sampler sampler = sereno_sampler_defaults();
    if (strcmp(sereno_version(), SERENO_VERSION) != 0) return 1;
    if (sereno_sampler_check(&sampler, &err) != 0) return 1;
    if (sereno_model_open("/dev/null", &model, &err) != SERENO_ERR_IO) return 1;
    printf("as it should be: %s\n", err.message);
    return 0;
}
