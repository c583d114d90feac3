#include "profile.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "folder.h"
#include "hash.h"
#include "ini.h"
#include "number.h"
#include "output_file.h"
#include "philox.h"
#include "shipped_profiles.h"
#include "utf8.h"
#include "whole_file.h"

/* ---- The keys ---- */

typedef enum key_kind { KEY_NAME, KEY_TEXT, KEY_INT, KEY_FLOAT } key_kind;

typedef struct key_row {
    const char *section, *key;
    key_kind kind;
    size_t offset; /* in the profile */
    double low, high, standard;
} key_row;

#define AT(field) offsetof(profile, field)

/* In the order in which they are written. Upper bounds keep sums of them within integers and memory. */
static const key_row keys[] = {
    {"profile", "name", KEY_NAME, AT(name), 0, 0, 0},
    {"profile", "about", KEY_TEXT, AT(about), 0, 0, 0},
    {"frames", "fps", KEY_INT, AT(fps), 1, 1000, 60},
    {"frames", "burst_ms", KEY_INT, AT(burst_ms), 1, 600000, 1000},
    {"frames", "rest_ms", KEY_INT, AT(rest_ms), 0, 600000, 0},
    {"amount", "scale", KEY_FLOAT, AT(scale), PROFILE_SCALE_MIN, PROFILE_SCALE_MAX, 1},
    {"amount", "spread", KEY_FLOAT, AT(spread), 0, 1, 0},
    {"amount", "heavy_share", KEY_FLOAT, AT(heavy_share), 0, 1, 0},
    {"amount", "heavy", KEY_FLOAT, AT(heavy), 1, 10, 1},
    {"work", "width", KEY_INT, AT(width), 64, 8192, 1280},
    {"work", "height", KEY_INT, AT(height), 64, 8192, 720},
    {"work", "layers", KEY_FLOAT, AT(layers), 0, 1e3, 0},
    {"work", "photos", KEY_FLOAT, AT(photos), 0, 1e4, 0},
    {"work", "glyphs", KEY_FLOAT, AT(glyphs), 0, 1e7, 0},
    {"work", "particles", KEY_FLOAT, AT(particles), 0, 1e7, 0},
    {"work", "loads", KEY_FLOAT, AT(loads), 0, 1e8, 0},
    {"work", "shading", KEY_FLOAT, AT(shading), 0, 1e9, 0},
    {"data", "texture_mib", KEY_FLOAT, AT(texture_mib), 1, 4096, 64},
    {"data", "photo_mib", KEY_FLOAT, AT(photo_mib), 1, 4096, 64},
    {"data", "scene_mib", KEY_FLOAT, AT(scene_mib), 1, 4096, 16},
};

enum { N_KEYS = sizeof keys / sizeof *keys };

static void *field_of(profile *p, const key_row *row) {
    return (char *)p + row->offset;
}

static profile standard_profile(void) {
    profile p = {0};
    for (int i = 0; i < N_KEYS; i++) {
        if (keys[i].kind == KEY_INT) *(int32_t *)field_of(&p, &keys[i]) = (int32_t)keys[i].standard;
        if (keys[i].kind == KEY_FLOAT) *(float *)field_of(&p, &keys[i]) = (float)keys[i].standard;
    }
    return p;
}

static bool is_name(const char *text) {
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return length > 0 && text[length] == '\0' && length < PROFILE_NAME_MAX;
}

/* ---- Reading ---- */

typedef struct parser {
    profile *out;
    int seen_at[N_KEYS]; /* line of each key, 0: not yet */
} parser;

static int on_section(void *ctx, const char *name, sereno_error *err) {
    (void)ctx;
    char known[128] = "";
    for (int i = 0; i < N_KEYS; i++) {
        if (strcmp(keys[i].section, name) == 0) return SERENO_OK;
        if (i == 0 || strcmp(keys[i].section, keys[i - 1].section) != 0) err_list(known, sizeof known, keys[i].section);
    }
    return err_set(err, SERENO_ERR_FORMAT, "there is no section [%s]; there are %s", name, known);
}

static int set_number(const parser *p, const key_row *row, const char *value, sereno_error *err) {
    char *end;
    errno = 0;
    double number = row->kind == KEY_INT ? (double)strtoll(value, &end, 10) : number_parse(value, &end);
    if (end == value || *end || isnan(number)) {
        return err_set(err, SERENO_ERR_FORMAT, "'%s' needs a%s number, not '%s'", row->key,
                       row->kind == KEY_INT ? " whole" : "", value);
    }
    if (number < row->low || number > row->high) {
        return err_set(err, SERENO_ERR_FORMAT, "'%s' is %s; %g to %.10g is allowed", row->key, value, row->low,
                       row->high);
    }
    if (row->kind == KEY_INT) *(int32_t *)field_of(p->out, row) = (int32_t)number;
    else *(float *)field_of(p->out, row) = (float)number;
    return SERENO_OK;
}

static int set_value(const parser *p, const key_row *row, const char *value, sereno_error *err) {
    size_t size = strlen(value);
    if (row->kind == KEY_NAME) {
        if (!is_name(value)) {
            return err_set(err, SERENO_ERR_FORMAT, "'%s' is '%s'; 1 to %d of a-z, 0-9 and - are allowed", row->key,
                           value, PROFILE_NAME_MAX - 1);
        }
        memcpy(field_of(p->out, row), value, size + 1);
        return SERENO_OK;
    }
    if (row->kind != KEY_TEXT) return set_number(p, row, value, err);
    if (size >= sizeof p->out->about) {
        return err_set(err, SERENO_ERR_FORMAT, "'%s' has %zu bytes; 0 to %zu are allowed", row->key, size,
                       sizeof p->out->about - 1);
    }
    char *about = field_of(p->out, row);
    memcpy(about, value, size + 1);
    utf8_make_printable(about);
    return SERENO_OK;
}

static int on_key(void *ctx, const char *section, const char *key, const char *value, int line, sereno_error *err) {
    parser *p = ctx;
    for (int i = 0; i < N_KEYS; i++) {
        if (strcmp(keys[i].key, key) != 0 || strcmp(keys[i].section, section) != 0) continue;
        if (p->seen_at[i]) {
            return err_set(err, SERENO_ERR_FORMAT, "'%s' was given in line %d already", key, p->seen_at[i]);
        }
        p->seen_at[i] = line;
        return set_value(p, &keys[i], value, err);
    }
    return err_set(err, SERENO_ERR_FORMAT, "there is no key '%s' in [%s]", key, section);
}

int profile_parse(const char *name, const char *text, size_t size, profile *out, sereno_error *err) {
    profile parsed = standard_profile();
    if (is_name(name)) memcpy(parsed.name, name, strlen(name) + 1);
    parser p = {.out = &parsed};
    int status = ini_parse(text, size, &(ini_reader){on_section, on_key, &p}, err);
    if (status) return status;
    if (!*parsed.name) {
        return err_set(err, SERENO_ERR_FORMAT, "'name' is missing in [profile], and the file's is not of a-z, 0-9, -");
    }
    *out = parsed;
    return SERENO_OK;
}

/* ---- Finding and keeping ---- */

const char *const *profile_names(void) {
    return shipped_profile_names;
}

static bool tuned_folder(char *out, size_t size) {
    return folder_config("profiles", out, size);
}

static bool tuned_path(const char *name, char *out, size_t size) {
    char folder[4096];
    if (!tuned_folder(folder, sizeof folder)) return false;
    int length = snprintf(out, size, "%s/%s.ini", folder, name);
    return length > 0 && (size_t)length < size;
}

static int read_profile(const char *path, profile *out, sereno_error *err) {
    enum { FILE_BYTES_MAX = 1 << 20 };
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char name[PROFILE_NAME_MAX];
    const char *dot = strrchr(base, '.');
    snprintf(name, sizeof name, "%.*s", (int)(dot ? (size_t)(dot - base) : strlen(base)), base);
    char *text;
    size_t size;
    int status = file_read_whole(path, FILE_BYTES_MAX, &text, &size, err);
    if (status) return status;
    sereno_error inner = {0};
    status = profile_parse(name, text, size, out, &inner);
    if (status) err_set(err, status, "profile '%s': %s", path, inner.message);
    free(text);
    return status;
}

int profile_find_shipped(const char *name, profile *out, sereno_error *err) {
    char known[256] = "";
    for (const shipped_profile *s = shipped_profiles; s->name; s++) {
        if (strcmp(s->name, name) == 0) return profile_parse(s->name, s->text, s->size, out, err);
        err_list(known, sizeof known, s->name);
    }
    return err_set(err, SERENO_ERR_INVALID,
                   "there is no profile '%s'; there are %s; the path of an .ini file needs a /", name, known);
}

int profile_find(const char *name_or_path, profile *out, bool *tuned, sereno_error *err) {
    char path[4096];
    if (tuned) *tuned = false;
    if (strchr(name_or_path, '/')) return read_profile(name_or_path, out, err);
    if (is_name(name_or_path) && tuned_path(name_or_path, path, sizeof path) && path_exists(path)) {
        if (tuned) *tuned = true;
        return read_profile(path, out, err);
    }
    return profile_find_shipped(name_or_path, out, err);
}

static void write_profile(const profile *p, const char *comment, FILE *to) {
    fputs("# ", to);
    for (const char *c = comment; *c; c++) {
        fputc(*c == '\n' || *c == '\r' ? ' ' : *c, to);
    }
    fputc('\n', to);
    profile copy = *p;
    for (int i = 0; i < N_KEYS; i++) {
        const void *field = field_of(&copy, &keys[i]);
        if (i == 0 || strcmp(keys[i].section, keys[i - 1].section) != 0) fprintf(to, "\n[%s]\n", keys[i].section);
        fprintf(to, "%s = ", keys[i].key);
        switch (keys[i].kind) {
        case KEY_INT: fprintf(to, "%d\n", (int)*(const int32_t *)field); break;
        case KEY_FLOAT: number_print(to, "%.9g\n", (double)*(const float *)field); break;
        default: fprintf(to, "%s\n", (const char *)field); break;
        }
    }
}

int profile_save_tuned(const profile *p, const char *comment, char *path, size_t path_size, sereno_error *err) {
    char folder[4096];
    if (!tuned_folder(folder, sizeof folder) || !tuned_path(p->name, path, path_size)) {
        return err_set(err, SERENO_ERR_IO, "there is no place for tuned profiles: set XDG_CONFIG_HOME or HOME");
    }
    if (!folder_make(folder)) return err_set(err, SERENO_ERR_IO, "cannot make the folder '%s'", folder);
    output_file *file;
    int status = output_file_open(path, true, &file, err);
    if (status) return status;
    write_profile(p, comment, file->to);
    status = output_file_commit(file, err);
    output_file_close(&file);
    return status;
}

uint64_t profile_hash(const profile *p) {
    uint64_t hash = 0;
    for (int i = 0; i < N_KEYS; i++) {
        const char *field = (const char *)p + keys[i].offset;
        size_t size = keys[i].kind == KEY_INT || keys[i].kind == KEY_FLOAT ? sizeof(int32_t) : strlen(field);
        hash = hash_u64(hash) ^ hash_bytes(field, size);
    }
    return hash;
}

/* ---- Frames ---- */

double profile_frame_weight(const profile *p, uint64_t frame) {
    const double two_pi = 6.283185307179586;
    uint32_t counter[4] = {(uint32_t)frame, (uint32_t)(frame >> 32), 0, 0};
    philox_block noise = philox(hash_bytes(p->name, strlen(p->name)), counter);
    double radius = sqrt(-2 * log((double)philox_unit(noise.word[0])));
    double normal = radius * cos(two_pi * (double)philox_unit(noise.word[1]));
    double weight = exp((double)p->spread * normal);
    return philox_unit(noise.word[2]) < p->heavy_share ? weight * (double)p->heavy : weight;
}

bool profile_makes_frames_at(const profile *p, uint64_t vsync) {
    if (p->rest_ms == 0) return true;
    /* In units of 1 / fps of a millisecond, in which vsyncs and bursts are whole numbers. */
    uint64_t fps = (uint64_t)p->fps, cycle = (uint64_t)(p->burst_ms + p->rest_ms) * fps;
    return vsync % cycle * 1000 % cycle < (uint64_t)p->burst_ms * fps;
}
