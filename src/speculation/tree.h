/*
 * The candidate tree of one sequence and one step: tokens that may follow the last committed token, each with its
 * estimated probability of being accepted. That last token is the root and no candidate. Of siblings at most one can be
 * accepted.
 *
 * Guarantee: the children of a node differ, a parent stands before its children, and a candidate's probability is at
 * most its parent's, so that taking candidates by falling probability never takes one without its ancestors.
 */
#ifndef SPECULATION_TREE_H
#define SPECULATION_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "ngram.h"

enum { TREE_ROOT = -1, TREE_MAX = 256 };

typedef enum candidate_source {
    CANDIDATE_DRAFT_MODEL, /* the draft model's first choice */
    CANDIDATE_RUNNER_UP,   /* its second choice */
    CANDIDATE_NGRAM,
} candidate_source;

typedef struct candidate {
    int32_t token;
    int32_t parent; /* index, or TREE_ROOT */
    int32_t depth;  /* 1: child of the root */
    candidate_source source;
    bool from_ngram; /* the n-gram cache proposed it, too or alone; then `match` is set */
    ngram_match match;
    int32_t lead;  /* CANDIDATE_DRAFT_MODEL: class of the draft's lead (planner_lead) */
    float q;       /* 0..1: probability of being accepted if its parent is */
    float p;       /* 0..1: of being accepted */
    int32_t input; /* its input in the pass; -1: not in it */
} candidate;

typedef struct candidate_tree {
    int32_t n;
    candidate list[TREE_MAX];
} candidate_tree;

/*
 * Adds a child; q: probability that it is accepted if its parent is and none of its siblings so far. If a sibling has
 * the same token, raises that one's q instead. Returns the index of the child or sibling, -1 when the tree is full.
 */
int32_t tree_add(candidate_tree *tree, int32_t parent, int32_t token, candidate_source source, float q);

/* The child of a node (or TREE_ROOT) with this token among those in the pass (input >= 0), or -1. */
int32_t tree_child(const candidate_tree *tree, int32_t parent, int32_t token);

/* Writes the tokens of the path down to `node`, itself included, and returns how many: its depth. */
int32_t tree_path(const candidate_tree *tree, int32_t node, int32_t *tokens);

#endif
