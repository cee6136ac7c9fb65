/* Checking a tree node by node: the way that is always right. */
#include "guard_tree.h"
#include "tensor_probe.h"
#include "torch_state.h"

static int fail(Failure *failure, int kind, int node, int check, PyObject *found)
{
    if (failure != NULL) {
        failure->kind = kind;
        failure->node = node;
        failure->check = check;
        failure->found = Py_XNewRef(found);
    }
    return 0;
}

static PyObject *root_object(const Node *node, PyObject *const *slots, PyObject *function)
{
    switch (node->accessor) {
    case ACCESS_ARG:
        return slots[node->index];
    case ACCESS_FUNCTION:
        return function;
    default:
        return node->held.object;
    }
}

static int run_checks(const Node *node, int index, PyObject *object, Failure *failure)
{
    for (int i = 0; i < node->nchecks; i++) {
        int holds = check_holds(&node->checks[i], object);
        if (holds != 1) {
            return holds < 0 ? -1 : fail(failure, node->checks[i].kind, index, i, object);
        }
    }
    return 1;
}

/* Leaves new references in values[] for the nodes it got to, NULL for the others. */
static int walk_segment(const GuardTree *tree, const Segment *segment, PyObject *root, PyObject **values,
                        Failure *failure)
{
    for (int i = segment->start; i < segment->end; i++) {
        const Node *node = &tree->nodes[i];
        PyObject *object = i == segment->start ? Py_XNewRef(root) : access_step(node, values[node->parent]);
        if (object == NULL) {
            return fail(failure, node->accessor, i, -1, i == segment->start ? NULL : values[node->parent]);
        }
        values[i] = object;
        int holds = run_checks(node, i, object, failure);
        if (holds != 1) {
            return holds;
        }
    }
    return 1;
}

static int relation_holds(const Relation *relation, PyObject *const *wanted)
{
    switch (relation->kind) {
    case REL_SAME:
        return wanted[relation->values[0]] == wanted[relation->values[1]];
    case REL_OVERLAP: {
        int overlap = tensors_overlap(wanted[relation->values[0]], wanted[relation->values[1]]);
        return overlap < 0 ? -1 : (overlap == 1) == relation->expected;
    }
    default:
        for (int i = 0; i < relation->count; i++) {
            for (int j = i + 1; j < relation->count; j++) {
                if (wanted[relation->values[i]] == wanted[relation->values[j]]) {
                    return 0;
                }
            }
        }
        return 1;
    }
}

static int walk(GuardTree *tree, PyObject *const *slots, PyObject *function, PyObject **values, PyObject **wanted,
                Failure *failure)
{
    for (int i = 0; i < tree->nsegments; i++) {
        const Segment *segment = &tree->segments[i];
        PyObject *root = root_object(&tree->nodes[segment->start], slots, function);
        int holds = walk_segment(tree, segment, root, values, failure);
        if (holds != 1) {
            return holds;
        }
    }
    for (int i = 0; i < tree->nnodes; i++) {
        if (tree->nodes[i].wanted >= 0) {
            wanted[tree->nodes[i].wanted] = values[i];
        }
    }
    for (int i = 0; i < tree->nrelations; i++) {
        int holds = relation_holds(&tree->relations[i], wanted);
        if (holds != 1) {
            if (failure != NULL) {
                failure->relation = i;
            }
            return holds < 0 ? -1 : fail(failure, tree->relations[i].kind, -1, -1, NULL);
        }
    }
    return 1;
}

int tree_walk(GuardTree *tree, PyObject *const *slots, PyObject *function, PyObject **fetched, Failure *failure)
{
    if (tree->death->dead) {
        return fail(failure, FAILED_DEAD, -1, -1, NULL);
    }
    if (tree->state != NULL) {
        int same = torch_state_matches(tree->state);
        if (same != 1) {
            return same < 0 ? -1 : fail(failure, FAILED_STATE, -1, -1, NULL);
        }
    }
    PyObject **values = PyMem_Calloc((size_t)(tree->nnodes + tree->nwanted) + 1, sizeof(PyObject *));
    if (values == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    PyObject **wanted = values + tree->nnodes;
    int result = walk(tree, slots, function, values, wanted, failure);
    for (int i = 0; result == 1 && i < tree->noutputs; i++) {
        fetched[tree->outputs[i].fetched] = Py_NewRef(wanted[tree->outputs[i].wanted]);
    }
    for (int i = 0; i < tree->nnodes; i++) {
        Py_XDECREF(values[i]);
    }
    PyMem_Free(values);
    return result;
}
