#include "scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"
#include "hash.h"
#include "pages.h"
#include "rng.h"
#include "sereno/clock.h"

enum {
    PIXEL_BYTES = 4,
    ITEM_ROWS = 64,   /* height of a row of the list, in pixels */
    GLYPH_SIDE = 16,  /* a mask is so many pixels wide and high */
    GLYPHS = 512,     /* masks in the atlas */
    PARTICLES = 8192, /* glyphs in memory; further ones repeat these */
    SPLAT_SIDE = 4,
    SHADED_AT_ONCE = 256, /* pixels: the widest loop that stays in the nearest cache */
    SHADED_ROWS = 16,     /* shading writes only into so many rows, which stay in a near cache */
    SHADING_STEPS = 24,
};

/* A mask of coverage, one byte a pixel and channel: so that blending is one loop over bytes. */
typedef struct glyph {
    uint8_t coverage[GLYPH_SIDE][GLYPH_SIDE * PIXEL_BYTES];
} glyph;

/* Where it is at time 0, and how far it goes a frame; in 1/65536 of the frame buffer's sides. */
typedef struct particle {
    uint16_t x, y, dx, dy;
    uint8_t colour[PIXEL_BYTES];
} particle;

/* A node of the scene graph fills a cache line, as an object with its bounds and matrix would. */
typedef struct node {
    uint32_t next;
    uint32_t bounds[15];
} node;

typedef struct block {
    void *data; /* NULL: the profile does not use it */
    size_t bytes;
} block;

struct scene {
    profile profile;
    uint64_t seed;
    block frame, textures, photos, nodes, glyphs, particles;
    size_t row_bytes;    /* of the frame buffer and of textures, which are as wide */
    size_t texture_rows; /* in memory */
    size_t photo_rows;   /* rows of photos in memory: pairs, each twice as wide as the frame buffer */
    uint32_t n_nodes;
};

/* ---- Making it ---- */

static int allocate(block *b, size_t bytes, bool huge, const char *what, sereno_error *err) {
    b->data = pages_alloc(bytes, huge);
    if (!b->data) return err_no_memory(err, what, bytes);
    b->bytes = bytes;
    return SERENO_OK;
}

/* Smooth patterns would do as well; what counts is that every page is there. */
static void fill(block *b, uint64_t seed) {
    uint64_t *words = b->data, state = seed;
    for (size_t i = 0; i < b->bytes / sizeof *words; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        words[i] = state ^ state >> 29;
    }
}

/* Rows of at least `rows` in `mib`. */
static size_t rows_in(float mib, size_t row_bytes, size_t rows) {
    size_t n = (size_t)((double)mib * 1048576) / row_bytes;
    return n > rows ? n : rows;
}

/* One ring through all nodes in random order (Sattolo's shuffle), so that no walk comes back early. */
static void link_nodes(node *nodes, uint32_t n, uint64_t seed) {
    rng r = {seed};
    for (uint32_t i = 0; i < n; i++) {
        nodes[i].next = i;
    }
    for (uint32_t i = n - 1; i > 0; i--) {
        uint32_t j = rng_below(&r, i), kept = nodes[i].next;
        nodes[i].next = nodes[j].next;
        nodes[j].next = kept;
    }
}

static void draw_glyphs(glyph *glyphs, uint64_t seed) {
    rng r = {seed};
    for (int g = 0; g < GLYPHS; g++) {
        for (int y = 0; y < GLYPH_SIDE; y++) {
            for (int x = 0; x < GLYPH_SIDE; x++) {
                memset(&glyphs[g].coverage[y][x * PIXEL_BYTES], (int)rng_below(&r, 256), PIXEL_BYTES);
            }
        }
    }
}

static int fill_scene(scene *s, sereno_error *err) {
    const profile *p = &s->profile;
    int status = allocate(&s->frame, (size_t)p->height * s->row_bytes, true, "the frame buffer", err);
    if (!status && p->layers > 0) {
        s->texture_rows = rows_in(p->texture_mib, s->row_bytes, 1);
        status = allocate(&s->textures, s->texture_rows * s->row_bytes, true, "textures", err);
        if (!status) fill(&s->textures, s->seed + 1);
    }
    if (!status && p->photos > 0) {
        s->photo_rows = rows_in(p->photo_mib, 4 * s->row_bytes, 1);
        status = allocate(&s->photos, s->photo_rows * 4 * s->row_bytes, true, "pictures", err);
        if (!status) fill(&s->photos, s->seed + 2);
    }
    if (!status && p->loads > 0) {
        s->n_nodes = (uint32_t)((double)p->scene_mib * 1048576 / sizeof(node));
        /* Objects of a heap lie in small pages. */
        status = allocate(&s->nodes, (size_t)s->n_nodes * sizeof(node), false, "the scene's nodes", err);
        if (!status) link_nodes(s->nodes.data, s->n_nodes, s->seed + 3);
    }
    if (!status && p->glyphs > 0) {
        status = allocate(&s->glyphs, GLYPHS * sizeof(glyph), true, "glyphs", err);
        if (!status) draw_glyphs(s->glyphs.data, s->seed + 4);
    }
    if (!status && p->particles > 0) {
        status = allocate(&s->particles, PARTICLES * sizeof(particle), true, "particles", err);
        if (!status) fill(&s->particles, s->seed + 5);
    }
    return status;
}

int scene_open(const profile *p, scene **out, sereno_error *err) {
    *out = NULL;
    scene *s = calloc(1, sizeof *s);
    if (!s) return err_no_memory(err, "a scene", sizeof *s);
    s->profile = *p;
    s->seed = hash_bytes(p->name, strlen(p->name));
    s->row_bytes = (size_t)p->width * PIXEL_BYTES;
    int status = fill_scene(s, err);
    if (status) scene_close(&s);
    *out = s;
    return status;
}

static void release(block *b) {
    pages_free(b->data, b->bytes);
}

void scene_close(scene **scene) {
    struct scene *s = *scene;
    *scene = NULL;
    if (!s) return;
    release(&s->frame);
    release(&s->textures);
    release(&s->photos);
    release(&s->nodes);
    release(&s->glyphs);
    release(&s->particles);
    free(s);
}

/* ---- Loops over pixels; restrict, so that they become vector code ---- */

static void clear_row(uint32_t *restrict to, size_t n, uint32_t colour) {
    for (size_t i = 0; i < n; i++) {
        to[i] = colour;
    }
}

/* opacity 0 .. 256 */
static void blend_row(uint8_t *restrict to, const uint8_t *restrict from, size_t n, uint16_t opacity) {
    uint16_t rest = (uint16_t)(256 - opacity);
    for (size_t i = 0; i < n; i++) {
        to[i] = (uint8_t)((uint16_t)(from[i] * opacity + to[i] * rest) >> 8);
    }
}

/* Means of 2 x 2 texels, two channels of a pixel at once. */
static void shrink_row(uint32_t *restrict to, const uint32_t *restrict upper, const uint32_t *restrict lower,
                       size_t n) {
    const uint32_t even = 0x00ff00ff, half = 0x00020002;
    for (size_t i = 0; i < n; i++) {
        uint32_t a = upper[2 * i], b = upper[2 * i + 1], c = lower[2 * i], d = lower[2 * i + 1];
        uint32_t low = (a & even) + (b & even) + (c & even) + (d & even) + half;
        uint32_t high = (a >> 8 & even) + (b >> 8 & even) + (c >> 8 & even) + (d >> 8 & even) + half;
        to[i] = (low >> 2 & even) | (high >> 2 & even) << 8;
    }
}

static void cover_row(uint8_t *restrict to, const uint8_t *restrict coverage, const uint8_t *restrict ink) {
    for (int i = 0; i < GLYPH_SIDE * PIXEL_BYTES; i++) {
        to[i] = (uint8_t)((uint16_t)(ink[i] * coverage[i] + to[i] * (256 - coverage[i])) >> 8);
    }
}

static void add_row(uint8_t *restrict to, const uint8_t *restrict light) {
    for (int i = 0; i < SPLAT_SIDE * PIXEL_BYTES; i++) {
        int sum = to[i] + light[i];
        to[i] = (uint8_t)(sum < 255 ? sum : 255);
    }
}

/* A value of each pixel, iterated as procedural shaders do; it stays within [-1, 1]. */
static void shade_row(uint32_t *restrict to, float at, float step) {
    float x[SHADED_AT_ONCE], y[SHADED_AT_ONCE];
    for (int i = 0; i < SHADED_AT_ONCE; i++) {
        x[i] = at + step * (float)i;
        y[i] = 0.25f;
    }
    for (int n = 0; n < SHADING_STEPS; n++) {
        for (int i = 0; i < SHADED_AT_ONCE; i++) {
            float bent = x[i] * (1.5f - 0.5f * x[i] * x[i]); /* maps [-1, 1] onto itself */
            x[i] = 0.75f * bent + 0.25f * y[i];
            y[i] = 0.5f * y[i] - 0.5f * bent * x[i];
        }
    }
    for (int i = 0; i < SHADED_AT_ONCE; i++) {
        to[i] ^= (uint32_t)(int32_t)((x[i] + y[i]) * 8388608.0f);
    }
}

/* ---- Parts of a frame ---- */

static uint8_t *frame_row(const scene *s, size_t row) {
    return (uint8_t *)s->frame.data + row * s->row_bytes;
}

/* A random number that belongs to a part of a frame, the `i`th of its kind. */
static uint64_t choice(const scene *s, uint64_t frame, uint32_t kind, uint64_t i) {
    return hash_u64(s->seed ^ hash_u64(frame * 8 + kind + 1) ^ i * UINT64_C(0x9e3779b97f4a7c15));
}

static size_t amount(float of, double weight) {
    return (size_t)llround((double)of * weight);
}

enum { KIND_BACKGROUND, KIND_LAYER, KIND_PHOTO, KIND_GLYPH, KIND_PARTICLE, KIND_WALK, KIND_SHADING };

/* Clears the frame buffer: otherwise rest of the frame before would remain. */
static void draw_background(scene *s, uint64_t frame) {
    uint32_t colour = (uint32_t)choice(s, frame, KIND_BACKGROUND, 0);
    for (size_t row = 0; row < (size_t)s->profile.height; row++) {
        clear_row((uint32_t *)(void *)frame_row(s, row), (size_t)s->profile.width, colour);
    }
}

/* Each layer shows another place of the textures in each frame: no cache holds what comes next. */
static void draw_layers(scene *s, uint64_t frame, size_t rows) {
    size_t height = (size_t)s->profile.height;
    for (size_t i = 0; i < rows; i++) {
        uint64_t random = choice(s, frame, KIND_LAYER, i / height);
        size_t from = (size_t)((random >> 8) % s->texture_rows + i % height) % s->texture_rows;
        uint16_t opacity = (uint16_t)(64 + random % 64 + i % 64);
        blend_row(frame_row(s, i % height), (const uint8_t *)s->textures.data + from * s->row_bytes, s->row_bytes,
                  opacity);
    }
}

/* The list scrolls by some pixels a frame; rows that scroll in show new pictures. */
static void draw_photos(scene *s, uint64_t frame, size_t rows) {
    const size_t speed = 24, texels = 2 * (size_t)s->profile.width;
    for (size_t i = 0; i < rows; i++) {
        uint64_t random = choice(s, frame, KIND_PHOTO, i / ITEM_ROWS);
        size_t from = (size_t)(random % s->photo_rows + i % ITEM_ROWS) % s->photo_rows;
        size_t to = (i + (size_t)(frame % UINT32_MAX) * speed) % (size_t)s->profile.height;
        const uint32_t *upper = (const uint32_t *)s->photos.data + from * 2 * texels;
        shrink_row((uint32_t *)(void *)frame_row(s, to), upper, upper + texels, texels / 2);
    }
}

static void draw_text(scene *s, uint64_t frame, size_t n) {
    const glyph *glyphs = s->glyphs.data;
    size_t columns = (size_t)s->profile.width / GLYPH_SIDE, lines = (size_t)s->profile.height / GLYPH_SIDE;
    uint8_t ink[GLYPH_SIDE * PIXEL_BYTES];
    for (size_t i = 0; i < sizeof ink; i++) {
        ink[i] = (uint8_t)(choice(s, frame, KIND_GLYPH, UINT64_MAX) >> i % PIXEL_BYTES * 8);
    }
    for (size_t i = 0; i < n; i++) {
        const glyph *g = &glyphs[choice(s, frame, KIND_GLYPH, i) % GLYPHS];
        size_t x = i % columns * GLYPH_SIDE, y = i / columns % lines * GLYPH_SIDE;
        for (size_t row = 0; row < GLYPH_SIDE; row++) {
            cover_row(frame_row(s, y + row) + x * PIXEL_BYTES, g->coverage[row], ink);
        }
    }
}

static void draw_particles(scene *s, uint64_t frame, size_t n) {
    const particle *particles = s->particles.data;
    size_t width = (size_t)s->profile.width - SPLAT_SIDE, height = (size_t)s->profile.height - SPLAT_SIDE;
    for (size_t i = 0; i < n; i++) {
        const particle *p = &particles[i % PARTICLES];
        uint64_t time = frame + i / PARTICLES * 97;
        size_t x = (uint16_t)(p->x + time * p->dx) * width >> 16, y = (uint16_t)(p->y + time * p->dy) * height >> 16;
        uint8_t light[SPLAT_SIDE * PIXEL_BYTES] = {0};
        for (size_t b = 0; b < sizeof light; b++) {
            light[b] = p->colour[b % PIXEL_BYTES] >> 2;
        }
        for (size_t row = 0; row < SPLAT_SIDE; row++) {
            add_row(frame_row(s, y + row) + x * PIXEL_BYTES, light);
        }
    }
}

/* The sums along the way end in a pixel. Returns nanoseconds a load. */
static double walk_nodes(scene *s, uint64_t frame, size_t n) {
    if (n == 0) return 0;
    const node *nodes = s->nodes.data;
    uint32_t at = (uint32_t)(choice(s, frame, KIND_WALK, 0) % s->n_nodes), sum = 0;
    uint64_t start_ns = sereno_system_now_ns();
    for (size_t i = 0; i < n; i++) {
        at = nodes[at].next;
        sum = sum * 31 + at;
    }
    uint64_t took_ns = sereno_system_now_ns() - start_ns;
    memcpy(frame_row(s, 0), &sum, sizeof sum);
    return (double)took_ns / (double)n;
}

static void draw_shading(scene *s, uint64_t frame, size_t pixels) {
    size_t width = (size_t)s->profile.width, a_row = width / SHADED_AT_ONCE;
    if (a_row == 0) a_row = 1; /* a narrow frame buffer: runs go over the ends of rows */
    size_t places = a_row * SHADED_ROWS;
    float phase = (float)(choice(s, frame, KIND_SHADING, 0) % 1024) / 1024.0f;
    for (size_t i = 0; i < (pixels + SHADED_AT_ONCE - 1) / SHADED_AT_ONCE; i++) {
        size_t place = i % places * SHADED_AT_ONCE;
        float at = -0.9f + 0.5f * phase + 0.0005f * (float)(i % 1024);
        shade_row((uint32_t *)s->frame.data + place, at, 0.001f);
    }
}

double scene_draw(scene *s, uint64_t frame) {
    const profile *p = &s->profile;
    double weight = (double)p->scale * profile_frame_weight(p, frame);
    draw_background(s, frame);
    if (p->layers > 0) draw_layers(s, frame, amount(p->layers * (float)p->height, weight));
    if (p->photos > 0) draw_photos(s, frame, amount(p->photos * ITEM_ROWS, weight));
    if (p->glyphs > 0) draw_text(s, frame, amount(p->glyphs, weight));
    if (p->particles > 0) draw_particles(s, frame, amount(p->particles, weight));
    if (p->shading > 0) draw_shading(s, frame, amount(p->shading, weight));
    return p->loads > 0 ? walk_nodes(s, frame, amount(p->loads, weight)) : 0;
}

uint64_t scene_hash(const scene *s) {
    return hash_bytes(s->frame.data, s->frame.bytes);
}
