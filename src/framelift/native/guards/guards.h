/* The guard tree: facts about the inputs of a frame, checked without running Python code.
 *
 * A tree is made from a specification (tree.c) of nodes, each reached from its parent by one accessor
 * (access.c) and carrying checks (check.c). What hit before is replayed as a list of memory words
 * (memo.c). A tree holds nothing of the user's strongly (held.c). */
#ifndef FRAMELIFT_GUARDS_H
#define FRAMELIFT_GUARDS_H

#include "common.h"

/* 1 hit (new references in fetched), 0 miss, -1 error. Never leaves an exception set unless it answers -1. */
int guard_tree_check(PyObject *tree, PyObject *const *slots, PyObject *function, PyObject **fetched);
Py_ssize_t guard_tree_nfetched(PyObject *tree);
Py_ssize_t guard_tree_nslots(PyObject *tree);
int guard_tree_dead(PyObject *tree);

/* Over the metadata of the tensors in those slots; another object hashes to its type. */
uint64_t shape_hash(PyObject *const *slots, const int *which, int n);

extern PyTypeObject GuardTree_Type;

#endif
