#include "corun_foregrounds.h"

#include <string.h>

#include "errors.h"
#include "json_values.h"

int corun_foregrounds_find(const char *text, corun_foregrounds *out, sereno_error *err) {
    *out = (corun_foregrounds){.fps_max = 1};
    if (strlen(text) >= sizeof out->text) return err_set(err, SERENO_ERR_INVALID, "--foreground is too long");
    memcpy(out->text, text, strlen(text) + 1);
    for (char *name = out->text, *next; name; name = next) {
        next = strchr(name, ',');
        if (next) *next++ = '\0';
        int i = out->n;
        if (i == CORUN_FOREGROUNDS_MAX) {
            return err_set(err, SERENO_ERR_INVALID, "more than %d foregrounds", CORUN_FOREGROUNDS_MAX);
        }
        if (strlen(name) >= CORUN_FOREGROUND_MAX) {
            return err_set(err, SERENO_ERR_INVALID, "foreground '%s' has a name of more than %d bytes", name,
                           CORUN_FOREGROUND_MAX - 1);
        }
        profile *p = &out->profiles[i];
        int status = profile_find(name, p, &out->tuned[i], err);
        if (status) return status;
        out->names[out->n++] = name;
        if (p->fps > out->fps_max) out->fps_max = p->fps;
        if (p->rest_ms > out->rest_ms_max) out->rest_ms_max = p->rest_ms;
    }
    return SERENO_OK;
}

json_t *json_foregrounds(const corun_foregrounds *f) {
    json_t *list = json_array();
    for (int i = 0; i < f->n; i++) {
        const profile *p = &f->profiles[i];
        json_array_append_new(list, json_pack("{s:o, s:i, s:o, s:b, s:o}", "name", json_name(f->names[i]), "fps",
                                              p->fps, "scale", json_float(p->scale), "tuned", f->tuned[i], "hash",
                                              json_hash(profile_hash(p))));
    }
    return list;
}
