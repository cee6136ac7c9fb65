/* Relations between the objects of several nodes. */
#include "guard_tree.h"
#include "tensor_probe.h"

static inline size_t place_of(const PyObject *object, size_t mask)
{
    return ((uintptr_t)object * 0x9E3779B97F4A7C15u >> 32) & mask;
}

/* Whether the table has it; adds it if it does not and `add` says so. */
static bool table_has(const Relation *relation, PyObject *object, bool add)
{
    size_t i = place_of(object, relation->mask);
    for (; relation->table[i] != NULL; i = (i + 1) & relation->mask) {
        if (relation->table[i] == object) {
            return true;
        }
    }
    if (add) {
        relation->table[i] = object;
    }
    return false;
}

/* All values from memos into the table; false if two are the same. */
static bool fill_table(const GuardTree *tree, const Relation *relation, const Found *found)
{
    memset(relation->table, 0, (relation->mask + 1) * sizeof(PyObject *));
    memset(relation->ids, 0, (size_t)tree->nsegments * sizeof(uint64_t));
    for (int i = 0; i < relation->count; i++) {
        if (found[relation->values[i].segment].memo != NULL &&
            table_has(relation, value_of(found, relation->values[i]), true)) {
            return false;
        }
    }
    for (int i = 0; i < tree->nsegments; i++) {
        relation->ids[i] = found[i].memo != NULL ? found[i].memo->id : 0;
    }
    return true;
}

/* A table of everything, for once. */
static bool distinct_once(const GuardTree *tree, const Relation *relation, const Found *found)
{
    memset(relation->table, 0, (relation->mask + 1) * sizeof(PyObject *));
    memset(relation->ids, 0, (size_t)tree->nsegments * sizeof(uint64_t));
    for (int i = 0; i < relation->count; i++) {
        if (table_has(relation, value_of(found, relation->values[i]), true)) {
            return false;
        }
    }
    return true;
}

/* Pairwise different objects. Those that memos found are remembered: while the memos stand, only what was walked to
 * (arguments, mostly) has to be looked up among them. */
static bool distinct(const GuardTree *tree, const Relation *relation, const Found *found)
{
    bool stand = true;
    int walked = 0;
    for (int i = 0; i < tree->nsegments; i++) {
        const Memo *memo = found[i].memo;
        stand &= relation->ids[i] == (memo != NULL ? memo->id : 0);
        walked += memo == NULL ? relation->starts[i + 1] - relation->starts[i] : 0;
    }
    PyObject *seen[8];
    if (walked > (int)Py_ARRAY_LENGTH(seen)) {
        return distinct_once(tree, relation, found);
    }
    if (!stand && !fill_table(tree, relation, found)) {
        memset(relation->ids, 0, (size_t)tree->nsegments * sizeof(uint64_t));
        return false;
    }
    int nseen = 0;
    for (int i = 0; i < tree->nsegments; i++) {
        for (int j = relation->starts[i]; found[i].memo == NULL && j < relation->starts[i + 1]; j++) {
            PyObject *object = value_of(found, relation->values[j]);
            if (table_has(relation, object, false)) {
                return false;
            }
            for (int k = 0; k < nseen; k++) {
                if (seen[k] == object) {
                    return false;
                }
            }
            seen[nseen++] = object;
        }
    }
    return true;
}

/* ---- memory ---- */

/* Whether the tensor of a node is known to be one whose metadata is read without Python, by a check on that node. */
static bool reads_natively(const Node *node)
{
    for (int i = 0; i < node->nchecks; i++) {
        if (node->checks[i].kind == CHECK_TENSOR && node->checks[i].tensor->native) {
            return true;
        }
    }
    return false;
}

static int disjoint_pairwise(const Relation *relation, const Found *found)
{
    for (int i = 0; i < relation->nwritten; i++) {
        for (int j = i + 1; j < relation->count; j++) {
            int overlap = tensors_overlap(value_of(found, relation->values[i]), value_of(found, relation->values[j]));
            if (overlap != 0) {
                return overlap < 0 ? -1 : 0;
            }
        }
    }
    return 1;
}

static int by_start(const void *a, const void *b)
{
    const Span *x = *(const Span *const *)a, *y = *(const Span *const *)b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Sorted by their start, a span overlaps an earlier one if it begins before the furthest end so far: that of the
 * written ones concerns every span, that of the others only the written ones. */
static int spans_disjoint(const Relation *relation)
{
    const Span **sorted = PyMem_Malloc(((size_t)relation->count + 1) * sizeof(Span *));
    if (sorted == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int n = 0, result = 1;
    for (int i = 0; i < relation->count; i++) {
        if (relation->spans[i].start < relation->spans[i].end) {
            sorted[n++] = &relation->spans[i];
        }
    }
    qsort(sorted, (size_t)n, sizeof(Span *), by_start);
    uintptr_t written_end = 0, other_end = 0;
    for (int i = 0; result == 1 && i < n; i++) {
        bool written = sorted[i] - relation->spans < relation->nwritten;
        result = sorted[i]->start >= written_end && (!written || sorted[i]->start >= other_end);
        uintptr_t *end = written ? &written_end : &other_end;
        *end = sorted[i]->end > *end ? sorted[i]->end : *end;
    }
    PyMem_Free(sorted);
    return result;
}

/* No tensor that is written to shares memory with another one. */
static int disjoint(Relation *relation, const Found *found)
{
    if (!relation->native) {
        return disjoint_pairwise(relation, found);
    }
    bool same = relation->known;
    for (int i = 0; i < relation->count; i++) {
        int moved = tensor_span_update(value_of(found, relation->values[i]), &relation->spans[i]);
        if (moved < 0) {
            relation->known = false;
            return disjoint_pairwise(relation, found);
        }
        same &= moved == 0;
    }
    int result = same ? 1 : spans_disjoint(relation);
    relation->known = result == 1;
    return result;
}

/* ---- all relations ---- */

static int by_segment(const void *a, const void *b)
{
    return ((const Value *)a)->segment - ((const Value *)b)->segment;
}

static inline bool is_pair(const Relation *relation)
{
    return relation->count == 2;
}

static int prepare_distinct(const GuardTree *tree, Relation *relation)
{
    size_t room = 8, segments = (size_t)tree->nsegments;
    while (room < 2 * (size_t)relation->count) {
        room *= 2;
    }
    relation->mask = room - 1;
    relation->table = PyMem_Calloc(room, sizeof(PyObject *));
    relation->ids = PyMem_Calloc(segments + 1, sizeof(uint64_t));
    relation->starts = PyMem_Calloc(segments + 1, sizeof(int));
    if (relation->table == NULL || relation->ids == NULL || relation->starts == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    qsort(relation->values, (size_t)relation->count, sizeof(Value), by_segment);
    for (int i = 0, value = 0; i <= tree->nsegments; i++) {
        while (value < relation->count && relation->values[value].segment < i) {
            value++;
        }
        relation->starts[i] = value;
    }
    return 0;
}

/* The segment that all values are of, or -1. */
static int common_segment(const Relation *relation)
{
    int segment = relation->count > 0 ? relation->values[0].segment : -1;
    for (int i = 1; i < relation->count; i++) {
        segment = relation->values[i].segment == segment ? segment : -1;
    }
    return segment;
}

static int prepare_program(GuardTree *tree, Relation *relation)
{
    bool *natively = PyMem_Calloc((size_t)relation->count + 1, sizeof(bool));
    if (natively == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < relation->count; i++) {
        natively[i] = reads_natively(&tree->nodes[relation->nodes[i]]);
    }
    tree->asks_python |= !program_prepare(relation->program, natively);
    PyMem_Free(natively);
    return 0;
}

int relation_prepare(GuardTree *tree, Relation *relation)
{
    bool of_pointers = relation->kind == REL_SAME || relation->kind == REL_DISTINCT;
    relation->inside = of_pointers ? common_segment(relation) : -1;
    if (relation->kind == REL_DISTINCT) {
        return is_pair(relation) ? 0 : prepare_distinct(tree, relation);
    }
    if (relation->kind == REL_PROGRAM) {
        return prepare_program(tree, relation);
    }
    if (relation->kind == REL_OVERLAP || relation->kind == REL_DISJOINT) {
        relation->native = tensor_access.storage >= 0;
        for (int i = 0; i < relation->count; i++) {
            relation->native &= reads_natively(&tree->nodes[relation->nodes[i]]);
        }
        tree->asks_python |= !relation->native;
        relation->spans = PyMem_Calloc((size_t)relation->count + 1, sizeof(Span));
        if (relation->spans == NULL) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return 0;
}

void relation_clear(Relation *relation)
{
    PyMem_Free(relation->nodes);
    PyMem_Free(relation->values);
    PyMem_Free(relation->starts);
    PyMem_Free(relation->ids);
    PyMem_Free(relation->table);
    PyMem_Free(relation->spans);
    program_free(relation->program);
}

int relation_holds(const GuardTree *tree, int index, const Found *found)
{
    Relation *relation = &tree->relations[index];
    if (relation->kind == REL_DISTINCT && !is_pair(relation)) {
        return distinct(tree, relation, found);
    }
    if (relation->kind == REL_DISJOINT) {
        return disjoint(relation, found);
    }
    if (relation->kind == REL_PROGRAM) {
        return program_holds(relation->program, relation->values, found);
    }
    PyObject *first = value_of(found, relation->values[0]), *second = value_of(found, relation->values[1]);
    if (relation->kind == REL_SAME || relation->kind == REL_DISTINCT) {
        return (first == second) == (relation->kind == REL_SAME);
    }
    int overlap = tensors_overlap(first, second);
    return overlap < 0 ? -1 : (overlap == 1) == relation->expected;
}
