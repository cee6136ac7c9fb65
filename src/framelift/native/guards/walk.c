/* Checking a tree: by memos where they stand, else node by node, which is always right. */
#include "tree.h"
#include "torch/torch_state.h"

/* What one check works with. Walked objects are held until it ends; those of memos are not (see memo.c), unless
 * something may run Python code before it ends. */
typedef struct {
    GuardTree *tree;
    PyObject *const *slots;
    PyObject *function;
    Failure *failure;
    Found *found;      /* by segment */
    PyObject **roots;  /* by segment; the value of a segment with a single node */
    PyObject **values; /* by node, owned; NULL until a walk */
    PyObject **wanted; /* of walked segments; NULL until a walk */
} Walk;

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

static inline PyObject *root_object(const Walk *walk, const Segment *segment)
{
    const Node *node = &walk->tree->nodes[segment->start];
    switch (node->kind->number) {
    case ACCESS_ARG:
        return walk->slots[node->index];
    case ACCESS_FUNCTION:
        return walk->function;
    default:
        return node->held.object;
    }
}

static inline int run_checks(const Walk *walk, int index, PyObject *object)
{
    const Node *node = &walk->tree->nodes[index];
    for (int i = 0; i < node->nchecks; i++) {
        int holds = check_holds(&node->checks[i], object);
        if (holds != 1) {
            return holds < 0 ? -1 : fail(walk->failure, node->checks[i].kind->number, index, i, object);
        }
    }
    return 1;
}

static int make_room(Walk *walk)
{
    if (walk->values != NULL) {
        return 0;
    }
    size_t n = (size_t)walk->tree->nnodes, wanted = (size_t)walk->tree->nwanted;
    walk->values = NEW_ARRAY(PyObject *, n + wanted);
    walk->wanted = walk->values + n;
    return walk->values != NULL ? 0 : -1;
}

/* Nodes [start, end), whose parents are in walk->values (but for a root). */
static int walk_nodes(Walk *walk, int start, int end, PyObject *root)
{
    for (int i = start; i < end; i++) {
        const Node *node = &walk->tree->nodes[i];
        PyObject *parent = node->parent >= 0 ? walk->values[node->parent] : NULL;
        PyObject *object = parent != NULL ? access_step(node, parent) : Py_XNewRef(root);
        if (object == NULL) {
            return fail(walk->failure, node->kind->number, i, -1, parent);
        }
        walk->values[i] = object;
        if (node->wanted >= 0) {
            walk->wanted[node->wanted] = object;
        }
        int holds = run_checks(walk, i, object);
        if (holds != 1) {
            return holds;
        }
    }
    return 1;
}

/* ---- memos ---- */

static inline int find_memo(const Segment *segment, PyObject *root)
{
    for (int i = 0; i < segment->nmemos; i++) {
        if (segment->roots[i] == root) {
            return i;
        }
    }
    return -1;
}

/* Keeps a memo of what was just walked, in the given place or a new one. Memos that are replaced before they were of
 * any use (a fresh list in every call) are noted less and less often. */
static void keep_memo(Walk *walk, Segment *segment, PyObject *root, int place)
{
    if (segment->pause > 0 || walk->tree->late > 0) { /* late: a check further out is using the memos */
        segment->pause -= segment->pause > 0;
        return;
    }
    Memo *memo = memo_record(walk->tree, segment, walk->values + segment->start);
    if (memo == NULL) {
        segment->pause = 255;
        return;
    }
    if (place < 0 && segment->nmemos < MAX_MEMOS) {
        place = segment->nmemos++;
    } else if (place < 0) {
        place = segment->next;
        segment->next = (segment->next + 1) % MAX_MEMOS;
    }
    Memo *old = segment->memos[place];
    segment->roots[place] = root;
    segment->memos[place] = memo;
    if (old != NULL) {
        segment->backoff = old->hits > 0 ? 0 : segment->backoff < 128 ? 2 * segment->backoff + 1 : 255;
        segment->pause = segment->backoff;
        memo_free(old);
    }
}

static int check_segment(Walk *walk, int index)
{
    Segment *segment = &walk->tree->segments[index];
    PyObject *root = root_object(walk, segment);
    Found *found = &walk->found[index];
    int place = -1;
    if (walk->failure == NULL && (place = find_memo(segment, root)) >= 0) {
        Memo *memo = segment->memos[place];
        int stands = memo_check(walk->tree, segment, memo);
        if (stands >= 0) {
            *found = (Found){memo->wanted, memo};
            return stands;
        }
    }
    if (make_room(walk) < 0) {
        return -1;
    }
    *found = (Found){walk->wanted + segment->wanted, NULL};
    int holds = walk_nodes(walk, segment->start, segment->end, root);
    if (holds == 1 && walk->failure == NULL) {
        keep_memo(walk, segment, root, place);
    }
    return holds;
}

/* Whether what remains to be done may run Python code. */
static bool has_late(const Walk *walk)
{
    bool late = walk->tree->asks_python;
    for (int i = walk->tree->nleaves; i < walk->tree->nsegments; i++) {
        late |= walk->found[i].memo != NULL && walk->found[i].memo->late.count > 0;
    }
    return late;
}

/* What memos left for the end. From here on everything wanted is held. */
static int check_late(Walk *walk)
{
    GuardTree *tree = walk->tree;
    if (make_room(walk) < 0) {
        return -1;
    }
    for (int i = tree->nleaves; i < tree->nsegments; i++) {
        const Segment *segment = &tree->segments[i];
        const Memo *memo = walk->found[i].memo;
        if (memo == NULL) {
            continue;
        }
        for (int j = segment->start; j < segment->end; j++) {
            int wanted = tree->nodes[j].wanted;
            if (wanted >= 0 && memo->wanted[wanted - segment->wanted] != NULL) {
                walk->values[j] = walk->wanted[wanted] = Py_NewRef(memo->objects[j - segment->start]);
            }
        }
        for (int j = 0; j < memo->late.count; j++) {
            int parent = tree->nodes[memo->late.items[j]].parent;
            if (walk->values[parent] == NULL) {
                walk->values[parent] = Py_NewRef(memo->objects[parent - segment->start]);
            }
        }
        walk->found[i].wanted = walk->wanted + segment->wanted;
    }
    for (int i = tree->nleaves; i < tree->nsegments; i++) {
        const Memo *memo = walk->found[i].memo;
        for (int j = 0; memo != NULL && j < memo->late.count; j++) {
            walk->found[i].memo = NULL; /* which does not stand for what comes late */
            int node = memo->late.items[j], holds = walk_nodes(walk, node, tree->nodes[node].end, NULL);
            if (holds != 1) {
                return holds;
            }
        }
    }
    return 1;
}

/* ---- relations ---- */

/* Whether a memo stands for the relations between the objects it found. */
static inline bool is_settled(const Walk *walk, int segment)
{
    const Memo *memo = walk->found[segment].memo;
    return memo != NULL && memo->related;
}

static int check_relations(Walk *walk)
{
    const GuardTree *tree = walk->tree;
    bool settled = true;
    for (int i = tree->nleaves; i < tree->nsegments; i++) {
        settled &= is_settled(walk, i);
    }
    int n = settled ? tree->ncrossing : tree->nrelations;
    for (int i = 0; i < n; i++) {
        int index = settled ? tree->crossing[i] : i, inside = tree->relations[index].inside;
        int holds = inside >= 0 && is_settled(walk, inside) ? 1 : relation_holds(tree, index, walk->found);
        if (holds != 1) {
            fail(walk->failure, tree->relations[index].kind->number, -1, -1, NULL);
            if (walk->failure != NULL) {
                walk->failure->relation = index;
            }
            return holds;
        }
    }
    for (int i = tree->nleaves; !settled && i < tree->nsegments; i++) {
        if (walk->found[i].memo != NULL) {
            walk->found[i].memo->related = true;
        }
    }
    return 1;
}

/* ---- the whole ---- */

static int check_all(Walk *walk)
{
    GuardTree *tree = walk->tree;
    for (int i = 0; i < tree->nleaves; i++) {
        PyObject *root = walk->roots[i] = root_object(walk, &tree->segments[i]);
        walk->found[i] = (Found){&walk->roots[i], NULL};
        int holds = root != NULL ? run_checks(walk, tree->segments[i].start, root)
                                 : fail(walk->failure, ACCESS_ARG, tree->segments[i].start, -1, NULL);
        if (holds != 1) {
            return holds;
        }
    }
    if (tree->state != NULL) {
        int same = torch_state_matches(tree->state);
        if (same != 1) {
            return same < 0 ? -1 : fail(walk->failure, FAILED_STATE, -1, -1, NULL);
        }
    }
    for (int i = tree->nleaves; i < tree->nsegments; i++) {
        int holds = check_segment(walk, i);
        if (holds != 1) {
            return holds;
        }
    }
    bool late = has_late(walk);
    tree->late += late;
    int holds = late ? check_late(walk) : 1;
    holds = holds == 1 ? check_relations(walk) : holds;
    tree->late -= late;
    return holds;
}

int tree_check(GuardTree *tree, PyObject *const *slots, PyObject *function, PyObject **fetched, Failure *failure)
{
    enum { SMALL = 16 };
    Found found[SMALL];
    PyObject *roots[SMALL];
    if (tree->death->dead) {
        return fail(failure, FAILED_DEAD, -1, -1, NULL);
    }
    Walk walk = {tree, slots, function, failure, found, roots, NULL, NULL};
    size_t n = (size_t)tree->nsegments;
    void *large = NULL;
    if (n > SMALL) {
        large = PyMem_Malloc(n * (sizeof(Found) + sizeof(PyObject *)));
        if (large == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        walk.found = large;
        walk.roots = (PyObject **)(walk.found + n);
    }
    int result = check_all(&walk);
    if (result == 1) {
        for (int i = 0; i < tree->noutputs; i++) {
            const Output *output = &tree->outputs[i];
            fetched[output->fetched] = Py_NewRef(walk.found[output->value.segment].wanted[output->value.local]);
        }
    }
    if (walk.values != NULL) {
        for (int i = 0; i < tree->nnodes; i++) {
            Py_XDECREF(walk.values[i]);
        }
        PyMem_Free(walk.values);
    }
    PyMem_Free(large);
    return result;
}
