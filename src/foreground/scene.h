/*
 * The work of a frame, done in memory as a renderer without a GPU does it: layers of textures blended into a frame
 * buffer, a list of pictures scrolling through, text, particles, a walk along a scene graph. Thread: one at a time.
 */
#ifndef FOREGROUND_SCENE_H
#define FOREGROUND_SCENE_H

#include <stdint.h>

#include "profile.h"

typedef struct scene scene;

/* Allocates and fills textures, pictures and nodes. The profile is copied. On failure *out is NULL. */
int scene_open(const profile *p, scene **out, sereno_error *err);
void scene_close(scene **s);

/* Makes frame k: the same pixels for the same profile and k. Returns the mean time of a dependent load in
 * nanoseconds, 0 where the frame has none. */
double scene_draw(scene *s, uint64_t frame);

/* Hash of the frame last made: the same on every machine for the same profile and k. */
uint64_t scene_hash(const scene *s);

#endif
