#include "sereno/configuration.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "configuration_parse.h"
#include "errors.h"
#include "folder.h"
#include "ini.h"
#include "output_file.h"

enum { KEY_SIZE = 64, PATH_SIZE = 4096 };

sereno_configuration sereno_configuration_defaults(void) {
    return (sereno_configuration){.policy = SERENO_POLICY_BALANCED,
                                  .params_given = sereno_governor_defaults(SERENO_POLICY_BALANCED)};
}

/* ---- Giving ---- */

/* Row of a key, -1: there is none. */
static int row_of(const char *key) {
    const sereno_governor_key *keys = sereno_governor_keys();
    for (int i = 0; keys[i].name; i++) {
        assert(i < SERENO_CONFIGURATION_KEYS_MAX);
        if (strcmp(keys[i].name, key) == 0) return i;
    }
    return -1;
}

static int give(sereno_configuration *c, const char *key, const char *value, sereno_error *err) {
    int status = sereno_governor_set(&c->params_given, key, value, err);
    if (!status) c->set[row_of(key)] = true;
    return status;
}

int sereno_configuration_set_policy(sereno_configuration *c, const char *name, sereno_error *err) {
    char known[128] = "";
    for (int i = 0; i < SERENO_POLICIES; i++) {
        const char *policy = sereno_policy_name((sereno_policy)i);
        if (strcmp(policy, name) == 0) {
            c->policy = (sereno_policy)i;
            c->policy_given = true;
            return SERENO_OK;
        }
        err_list(known, sizeof known, policy);
    }
    return err_set(err, SERENO_ERR_INVALID, "policy is '%s'; it can be %s", name, known);
}

int sereno_configuration_set(sereno_configuration *c, const char *key_value, sereno_error *err) {
    const char *equals = strchr(key_value, '=');
    char key[KEY_SIZE];
    if (!equals || equals == key_value || (size_t)(equals - key_value) >= sizeof key) {
        return err_set(err, SERENO_ERR_INVALID, "'%s' is no setting; KEY=VALUE is needed", key_value);
    }
    snprintf(key, sizeof key, "%.*s", (int)(equals - key_value), key_value);
    return give(c, key, equals + 1, err);
}

/* Puts the values of `from` that are set, and that `unless` (NULL: nothing) does not have, into `to`. */
static void copy_given(const sereno_configuration *from, const bool *unless, sereno_governor_params *to) {
    const sereno_governor_key *keys = sereno_governor_keys();
    for (int i = 0; keys[i].name; i++) {
        if (!from->set[i] || (unless && unless[i])) continue;
        memcpy((char *)to + keys[i].offset, (const char *)&from->params_given + keys[i].offset, sizeof(double));
    }
}

/* ---- Files ---- */

typedef struct parsing {
    sereno_configuration file;
    int policy_line, line_of[SERENO_CONFIGURATION_KEYS_MAX];
} parsing;

static int on_section(void *ctx, const char *name, sereno_error *err) {
    (void)ctx;
    if (strcmp(name, "governor") == 0) return SERENO_OK;
    return err_set(err, SERENO_ERR_FORMAT, "there is no section [%s]; there is governor", name);
}

static int on_key(void *ctx, const char *section, const char *key, const char *value, int line, sereno_error *err) {
    (void)section;
    parsing *p = ctx;
    bool is_policy = strcmp(key, "policy") == 0;
    int row = is_policy ? -1 : row_of(key);
    int *line_of = is_policy ? &p->policy_line : row >= 0 ? &p->line_of[row] : NULL;
    if (line_of && *line_of) {
        return err_set(err, SERENO_ERR_FORMAT, "'%s' was given in line %d already", key, *line_of);
    }
    if (line_of) *line_of = line;
    return is_policy ? sereno_configuration_set_policy(&p->file, value, err) : give(&p->file, key, value, err);
}

int configuration_parse(sereno_configuration *c, const char *text, size_t size, sereno_error *err) {
    parsing p = {.file = sereno_configuration_defaults()};
    int status = ini_parse(text, size, &(ini_reader){on_section, on_key, &p}, err);
    if (status) return status;
    if (!c->policy_given && p.file.policy_given) {
        c->policy = p.file.policy;
        c->policy_given = true;
    }
    copy_given(&p.file, c->set, &c->params_given);
    for (int i = 0; i < SERENO_CONFIGURATION_KEYS_MAX; i++) c->set[i] |= p.file.set[i];
    return SERENO_OK;
}

/* Reads any kind of file, /dev/null and pipes, too. */
static int read_all(const char *path, char *text, size_t *size, sereno_error *err) {
    FILE *file = fopen(path, "rbe");
    if (!file) return err_set(err, SERENO_ERR_IO, "cannot open '%s': %s", path, strerror(errno));
    *size = fread(text, 1, SERENO_CONFIGURATION_BYTES_MAX + 1, file);
    int status = SERENO_OK;
    if (ferror(file)) status = err_set(err, SERENO_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
    else if (*size > SERENO_CONFIGURATION_BYTES_MAX) {
        status = err_set(err, SERENO_ERR_FORMAT, "configuration '%s' has more than %d bytes", path,
                         SERENO_CONFIGURATION_BYTES_MAX);
    }
    fclose(file);
    return status;
}

int sereno_configuration_read(sereno_configuration *c, const char *path, sereno_error *err) {
    char place[PATH_SIZE];
    if (!path && folder_config("sereno.ini", place, sizeof place) && path_exists(place)) path = place;
    if (!path) return SERENO_OK;
    char *text = malloc(SERENO_CONFIGURATION_BYTES_MAX + 1);
    if (!text) return err_no_memory(err, "a configuration", SERENO_CONFIGURATION_BYTES_MAX + 1);
    size_t size = 0;
    int status = read_all(path, text, &size, err);
    if (!status) {
        sereno_error inner = {0};
        if (configuration_parse(c, text, size, &inner)) {
            status = err_set(err, SERENO_ERR_FORMAT, "configuration '%s', %s", path, inner.message);
        }
    }
    free(text);
    return status;
}

/* ---- What comes of it ---- */

int sereno_configuration_params(const sereno_configuration *c, sereno_governor_params *out, sereno_error *err) {
    *out = sereno_governor_defaults(c->policy);
    copy_given(c, NULL, out);
    return sereno_governor_check(out, err);
}
