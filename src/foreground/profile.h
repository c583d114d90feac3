/*
 * A profile: the work of a foreground's frames, read from an INI file. Shipped profiles are compiled in from
 * profiles/ *.ini. A profile tuned to this machine replaces the shipped one of its name.
 *
 * All amounts are those of a frame of weight 1 at scale 1. Fractions are allowed: half a layer is half of its rows. The
 * weight of frame k depends on the profile and k alone, so that every run of a profile does the same work. Thread: any.
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
    float scale;              /* multiplies all work but clearing the frame buffer; tuning changes it */
    float spread;             /* 0 .. 1: sigma of the weights' logarithm; their median is 1 */
    float heavy_share, heavy; /* a share of frames (0 .. 1) weighs `heavy` times as much (1 .. 10) */
    /* Work. */
    int32_t width, height; /* frame buffer, 4 bytes a pixel */
    float layers;          /* textured layers blended over the whole frame buffer */
    float photos;          /* rows of a list scrolling in: pictures, four texels to a pixel */
    float glyphs;          /* 16 x 16 coverage masks blended */
    float particles;       /* moved and splatted */
    float loads;           /* dependent loads along the scene's nodes; their time is the memory latency it sees */
    float shading;         /* pixels shaded by arithmetic alone, without memory */
    /* Data behind it. */
    float texture_mib, photo_mib, scene_mib;
} profile;

/*
 * Parses an INI text; missing keys keep their defaults. name: the profile's, unless the text has a name.
 * SERENO_ERR_FORMAT names line, key, value and range: an unknown section or key, a value out of range, a key twice.
 */
int profile_parse(const char *name, const char *text, size_t size, profile *out, sereno_error *err);

/*
 * Finds a profile. By name: the tuned one in ${XDG_CONFIG_HOME:-~/.config}/sereno/profiles/NAME.ini, else the shipped
 * one. A name with a '/' is a path. *tuned (may be NULL): whether it is the tuned one. SERENO_ERR_INVALID lists the
 * names; errors of reading and parsing a file.
 */
int profile_find(const char *name_or_path, profile *out, bool *tuned, sereno_error *err);

/* Finds the shipped profile, even if there is a tuned one; tuning starts from it. SERENO_ERR_INVALID lists the names.
 */
int profile_find_shipped(const char *name, profile *out, sereno_error *err);

/*
 * Writes a profile as INI text to the folder of tuned profiles, with `comment` as a comment line. path: gets the file's
 * path. SERENO_ERR_IO: there is no such folder, or the file cannot be written.
 */
int profile_save_tuned(const profile *p, const char *comment, char *path, size_t path_size, sereno_error *err);

/* Names of the shipped profiles, NULL-terminated, static. */
const char *const *profile_names(void);

/* A hash of all keys: equal for profiles with the same work. */
uint64_t profile_hash(const profile *p);

/* Weight of a frame; whether a vsync, counted from the start of the loop, lies in a burst. Vsync 0 does. */
double profile_frame_weight(const profile *p, uint64_t frame);
bool profile_makes_frames_at(const profile *p, uint64_t vsync);

#endif
