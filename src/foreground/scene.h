/*
 * The work of a frame, as a renderer without a GPU does it in memory: layers of textures blended into a frame buffer, a
 * scrolling list of pictures, text, particles, a walk along a scene graph. Thread: one at a time.
 */
#ifndef FOREGROUND_SCENE_H
#define FOREGROUND_SCENE_H

#include <stdint.h>

#include "profile.h"

typedef struct scene scene;

/* Allocates and fills textures, pictures and nodes. Copies the profile. On failure *out is NULL. SERENO_ERR_NO_MEMORY.
 */
int scene_open(const profile *p, scene **out, sereno_error *err);
void scene_close(scene **s);

/* Draws a frame: the same pixels for the same profile and frame number. Returns the mean time of a dependent load in
 * nanoseconds; 0: the frame has none. */
double scene_draw(scene *s, uint64_t frame);

/* Hash of the frame drawn last: the same on every machine for the same profile and frame number. */
uint64_t scene_hash(const scene *s);

#endif
