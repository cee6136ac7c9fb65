/* Making a guard tree from its specification. */
#include "tree.h"

static int init_checks(Node *node, PyObject *checks, Death *death)
{
    Py_ssize_t n = PyList_GET_SIZE(checks);
    node->checks = NEW_ARRAY(Check, n);
    if (node->checks == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        int kind;
        PyObject *argument;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(checks, i), "iO;a check is (kind, argument)", &kind, &argument)) {
            return -1;
        }
        node->nchecks++; /* also of one that fails halfway: check_clear() copes */
        if (check_init(&node->checks[i], kind, argument, death) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The specification lists nodes in the order facts were noted; here every subtree becomes one piece. `order[i]` is the
 * place of specification node i. */
static void place(int node, int *next, int *order, int *original, const int *first_child, const int *sibling)
{
    original[*next] = node;
    order[node] = (*next)++;
    for (int child = first_child[node]; child >= 0; child = sibling[child]) {
        place(child, next, order, original, first_child, sibling);
    }
}

/* Parents by specification index, checked to come before their children. */
static int read_parents(PyObject *nodes, int *parents)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(nodes); i++) {
        PyObject *item = PyList_GET_ITEM(nodes, i);
        long parent =
            PyTuple_Check(item) && PyTuple_GET_SIZE(item) == 5 ? PyLong_AsLong(PyTuple_GET_ITEM(item, 0)) : -2;
        if (parent < -1 || parent >= i) {
            PyErr_Format(PyExc_ValueError, "guard node %zd is not (earlier parent, accessor, argument, checks, out)",
                         i);
            return -1;
        }
        parents[i] = (int)parent;
    }
    return 0;
}

static int build_node(GuardTree *tree, Node *node, PyObject *item, int parent)
{
    int accessor, out, ignored;
    PyObject *argument, *checks;
    if (!PyArg_ParseTuple(item, "iiOO!i", &ignored, &accessor, &argument, &PyList_Type, &checks, &out)) {
        return -1;
    }
    node->parent = parent;
    node->wanted = -1;
    node->kind = access_kind(accessor);
    if (node->kind == NULL || node->kind->init(node, argument, tree->death) < 0 ||
        init_checks(node, checks, tree->death) < 0) {
        return -1;
    }
    if ((parent < 0) != (accessor <= ACCESS_KNOWN) || (accessor == ACCESS_ARG && node->index >= tree->nslots)) {
        PyErr_Format(PyExc_ValueError, "accessor %d does not start a tree, or its slot does not exist", accessor);
        return -1;
    }
    if (out >= tree->nfetched || out < -1) {
        PyErr_Format(PyExc_ValueError, "no fetched object has the index %d", out);
        return -1;
    }
    if (out >= 0) {
        tree->outputs[tree->noutputs++] = (Output){.fetched = out, .node = (int)(node - tree->nodes)};
    }
    return 0;
}

/* The place of a node's value. */
static Value value_of_node(const GuardTree *tree, int node)
{
    int segment = 0;
    while (tree->segments[segment].end <= node) {
        segment++;
    }
    return (Value){segment, tree->nodes[node].wanted - tree->segments[segment].wanted};
}

/* Numbers the nodes whose values relations and outputs need, segment by segment. */
static void number_wanted(GuardTree *tree)
{
    for (int i = 0; i < tree->noutputs; i++) {
        tree->nodes[tree->outputs[i].node].wanted = 0;
    }
    for (int i = 0; i < tree->nrelations; i++) {
        for (int j = 0; j < tree->relations[i].count; j++) {
            tree->nodes[tree->relations[i].nodes[j]].wanted = 0;
        }
    }
    for (int i = 0; i < tree->nsegments; i++) {
        Segment *segment = &tree->segments[i];
        segment->wanted = tree->nwanted;
        for (int j = segment->start; j < segment->end; j++) {
            if (tree->nodes[j].wanted == 0) {
                tree->nodes[j].wanted = tree->nwanted++;
            }
        }
        segment->nwanted = tree->nwanted - segment->wanted;
    }
    for (int i = 0; i < tree->noutputs; i++) {
        tree->outputs[i].value = value_of_node(tree, tree->outputs[i].node);
    }
}

static int build(GuardTree *tree, PyObject *nodes, PyObject *relations, int *scratch)
{
    int n = (int)PyList_GET_SIZE(nodes), next = 0;
    int *parents = scratch, *order = scratch + n, *original = scratch + 2 * n, *first_child = scratch + 3 * n,
        *sibling = scratch + 4 * n;
    if (read_parents(nodes, parents) < 0) {
        return -1;
    }
    for (int i = 0; i < n; i++) {
        first_child[i] = sibling[i] = -1;
    }
    for (int i = n - 1; i >= 0; i--) { /* backwards, so that children end up in the order they were given */
        if (parents[i] >= 0) {
            sibling[i] = first_child[parents[i]];
            first_child[parents[i]] = i;
        }
    }
    int roots = 0;
    for (int i = 0; i < n; i++) {
        roots += parents[i] < 0;
    }
    tree->segments = NEW_ARRAY(Segment, roots);
    if (tree->segments == NULL) {
        return -1;
    }
    for (int with_children = 0; with_children <= 1; with_children++) { /* what is cheap to tell comes first */
        for (int i = 0; i < n; i++) {
            if (parents[i] < 0 && (first_child[i] >= 0) == with_children) {
                Segment *segment = &tree->segments[tree->nsegments++];
                segment->start = next;
                place(i, &next, order, original, first_child, sibling);
                segment->end = next;
                tree->nleaves += !with_children;
            }
        }
    }
    for (int i = 0; i < n; i++) {
        Node *node = &tree->nodes[i];
        int parent = parents[original[i]];
        tree->nnodes = i + 1;
        node->original = original[i];
        if (build_node(tree, node, PyList_GET_ITEM(nodes, original[i]), parent < 0 ? -1 : order[parent]) < 0) {
            return -1;
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        Node *node = &tree->nodes[i];
        node->end = node->end > i + 1 ? node->end : i + 1;
        if (node->parent >= 0 && tree->nodes[node->parent].end < node->end) {
            tree->nodes[node->parent].end = node->end;
        }
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(relations); i++) {
        int kind;
        PyObject *argument;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(relations, i), "iO;a relation is (kind, nodes)", &kind, &argument) ||
            relation_init(tree, &tree->relations[tree->nrelations++], kind, argument, order) < 0) {
            return -1;
        }
    }
    number_wanted(tree);
    for (int i = 0; i < tree->nrelations; i++) {
        Relation *relation = &tree->relations[i];
        for (int j = 0; j < relation->count; j++) {
            relation->values[j] = value_of_node(tree, relation->nodes[j]);
        }
        if (relation_prepare(tree, relation) < 0) {
            return -1;
        }
        if (relation->inside < tree->nleaves) {
            relation->inside = -1; /* a single object, which no memo is made of */
            tree->crossing[tree->ncrossing++] = i;
        }
    }
    return 0;
}

static int allocate(GuardTree *tree, size_t nodes, size_t relations)
{
    tree->death = PyObject_New(Death, &Death_Type);
    if (tree->death == NULL) {
        return -1;
    }
    tree->death->dead = false;
    bool complete = (tree->nodes = NEW_ARRAY(Node, nodes)) != NULL &&
                    (tree->outputs = NEW_ARRAY(Output, nodes)) != NULL &&
                    (tree->relations = NEW_ARRAY(Relation, relations)) != NULL &&
                    (tree->crossing = NEW_ARRAY(int, relations)) != NULL;
    return complete ? 0 : -1;
}

int tree_build(GuardTree *tree, PyObject *nodes, PyObject *relations)
{
    size_t n = (size_t)PyList_GET_SIZE(nodes);
    int *scratch = NEW_ARRAY(int, 5 * n);
    if (scratch == NULL) {
        return -1;
    }
    int result = allocate(tree, n, (size_t)PyList_GET_SIZE(relations));
    if (result == 0) {
        result = build(tree, nodes, relations, scratch);
    }
    PyMem_Free(scratch);
    if (result == 0 && tree->noutputs != tree->nfetched) {
        PyErr_Format(PyExc_ValueError, "%d of %d fetched objects come from a node", tree->noutputs, tree->nfetched);
        result = -1;
    }
    return result;
}

void tree_clear(GuardTree *tree)
{
    for (int i = 0; i < tree->nnodes; i++) {
        held_clear(&tree->nodes[i].held);
        for (int j = 0; j < tree->nodes[i].nchecks; j++) {
            check_clear(&tree->nodes[i].checks[j]);
        }
        PyMem_Free(tree->nodes[i].checks);
    }
    for (int i = 0; i < tree->nsegments; i++) {
        for (int j = 0; j < tree->segments[i].nmemos; j++) {
            memo_free(tree->segments[i].memos[j]);
        }
    }
    for (int i = 0; i < tree->nrelations; i++) {
        relation_clear(&tree->relations[i]);
    }
    PyMem_Free(tree->nodes);
    PyMem_Free(tree->segments);
    PyMem_Free(tree->outputs);
    PyMem_Free(tree->relations);
    PyMem_Free(tree->crossing);
    Py_XDECREF(tree->death);
}
