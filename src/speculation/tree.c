#include "tree.h"

int32_t tree_add(candidate_tree *tree, int32_t parent, int32_t token, candidate_source source, float q) {
    float parent_p = parent == TREE_ROOT ? 1 : tree->list[parent].p, left = 1;
    for (int32_t i = parent + 1; i < tree->n; i++) {
        candidate *sibling = &tree->list[i];
        if (sibling->parent != parent) continue;
        if (sibling->token == token) {
            if (q > sibling->q) {
                sibling->q = q;
                sibling->p = parent_p * q;
            }
            return i;
        }
        left -= sibling->q;
    }
    if (tree->n == TREE_MAX) return -1;
    q *= left > 0 ? left : 0;
    tree->list[tree->n] = (candidate){.token = token,
                                      .parent = parent,
                                      .depth = parent == TREE_ROOT ? 1 : tree->list[parent].depth + 1,
                                      .source = source,
                                      .q = q,
                                      .p = parent_p * q,
                                      .input = -1};
    return tree->n++;
}

int32_t tree_child(const candidate_tree *tree, int32_t parent, int32_t token) {
    for (int32_t i = parent + 1; i < tree->n; i++) {
        const candidate *c = &tree->list[i];
        if (c->parent == parent && c->token == token && c->input >= 0) return i;
    }
    return -1;
}

int32_t tree_path(const candidate_tree *tree, int32_t node, int32_t *tokens) {
    int32_t depth = node == TREE_ROOT ? 0 : tree->list[node].depth;
    for (int32_t at = depth; node != TREE_ROOT; node = tree->list[node].parent) {
        tokens[--at] = tree->list[node].token;
    }
    return depth;
}
