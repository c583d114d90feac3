/*
 * What a foreground does each frame: a profile, read from an INI file. Profiles that ship are compiled in from
 * profiles/ *.ini; one that was tuned to this machine takes the place of the shipped one.
 *
 * All amounts are of a frame of weight 1 at scale 1; fractions are fine (half a layer: half of its rows). Frame k has a
 * weight that depends on the profile and k alone, so that every run of a profile asks for the same work. Thread: any.
 */
#ifndef FOREGROUND_PROFILE_H
#define FOREGROUND_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sereno/error.h"

enum { PROFILE_NAME_MAX = 64 };

#define PROFILE_SCALE_MIN 0.001
#define PROFILE_SCALE_MAX 1000.0

typedef struct profile {
    char name[PROFILE_NAME_MAX]; /* "social-1"; [a-z0-9-]+ */
    char about[160];             /* one line for people */
    /* When frames are made. */
    int32_t fps;               /* 1 .. 1000 */
    int32_t burst_ms, rest_ms; /* frames for burst_ms, then none for rest_ms; rest_ms 0: always */
    /* How much. */
    float scale;              /* multiplies all work but clearing the frame buffer; what tuning changes */
    float spread;             /* of the weights, whose median is 1: sigma of their logarithm, 0 .. 1 */
    float heavy_share, heavy; /* so many frames (0 .. 1) weigh so many times as much (1 .. 10) */
    /* Work. */
    int32_t width, height; /* frame buffer, 4 bytes a pixel */
    float layers;          /* textured layers blended over the whole frame buffer */
    float photos;          /* rows of a list scrolling in: pictures, four texels to a pixel */
    float glyphs;          /* 16 x 16 coverage masks blended */
    float particles;       /* moved and splatted */
    float loads;           /* dependent loads along the scene's nodes; timed: the memory latency it sees */
    float shading;         /* pixels shaded by arithmetic alone, without memory */
    /* Data behind it. */
    float texture_mib, photo_mib, scene_mib;
} profile;

/*
 * Parses an INI text; keys that are missing keep their defaults. SERENO_ERR_FORMAT names line, key, value and range:
 * unknown sections or keys, values out of range, a key twice. `name` is the profile's unless the text has its own.
 */
int profile_parse(const char *name, const char *text, size_t size, profile *out, sereno_error *err);

/*
 * By name (the tuned one under ${XDG_CONFIG_HOME:-~/.config}/sereno/profiles/NAME.ini, else the one that ships), or by
 * path if there is a '/' in it. *tuned (may be NULL): whether it is the tuned one. SERENO_ERR_INVALID lists the names.
 */
int profile_find(const char *name_or_path, profile *out, bool *tuned, sereno_error *err);

/* The one that ships, tuned or not: what tuning starts from. SERENO_ERR_INVALID lists the names. */
int profile_find_shipped(const char *name, profile *out, sereno_error *err);

/*
 * Writes it as an INI text to the place of tuned profiles; `comment`: what a person should know, a line. path: where it
 * lies. SERENO_ERR_IO: there is no such place, or it cannot be written.
 */
int profile_save_tuned(const profile *p, const char *comment, char *path, size_t path_size, sereno_error *err);

/* Names of those that ship, NULL-terminated. */
const char *const *profile_names(void);

/* Of every key: equal for profiles that ask for the same work. */
uint64_t profile_hash(const profile *p);

/* Weight of frame k, and whether vsync number v (from the start of the loop) lies in a burst; vsync 0 does. */
double profile_frame_weight(const profile *p, uint64_t frame);
bool profile_makes_frames_at(const profile *p, uint64_t vsync);

#endif
