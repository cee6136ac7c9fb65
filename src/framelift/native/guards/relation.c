/* Relations between the objects of several nodes. */
#include "tree.h"
#include "torch/tensor_probe.h"

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
        if (node->checks[i].kind->number == CHECK_TENSOR && node->checks[i].tensor->native) {
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
    const Span **sorted = NEW_ARRAY(const Span *, relation->count);
    if (sorted == NULL) {
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

static int prepare_distinct(GuardTree *tree, Relation *relation)
{
    if (is_pair(relation)) {
        return 0;
    }
    size_t room = 8, segments = (size_t)tree->nsegments;
    while (room < 2 * (size_t)relation->count) {
        room *= 2;
    }
    relation->mask = room - 1;
    if ((relation->table = NEW_ARRAY(PyObject *, room)) == NULL ||
        (relation->ids = NEW_ARRAY(uint64_t, segments)) == NULL ||
        (relation->starts = NEW_ARRAY(int, segments + 1)) == NULL) {
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
    bool *natively = NEW_ARRAY(bool, relation->count);
    if (natively == NULL) {
        return -1;
    }
    for (int i = 0; i < relation->count; i++) {
        natively[i] = reads_natively(&tree->nodes[relation->nodes[i]]);
    }
    tree->asks_python |= !program_prepare(relation->program, natively);
    PyMem_Free(natively);
    return 0;
}

static int prepare_memory(GuardTree *tree, Relation *relation)
{
    relation->native = tensor_access.storage >= 0;
    for (int i = 0; i < relation->count; i++) {
        relation->native &= reads_natively(&tree->nodes[relation->nodes[i]]);
    }
    tree->asks_python |= !relation->native;
    relation->spans = NEW_ARRAY(Span, relation->count);
    return relation->spans != NULL ? 0 : -1;
}

/* ---- what relations are made of: how it is read, and handed back ---- */

/* Adds nodes to the members. */
static int add_members(const GuardTree *tree, Relation *relation, PyObject *sequence, const int *order)
{
    Py_ssize_t n = PySequence_Size(sequence);
    int *nodes = n < 0 ? NULL : PyMem_Resize(relation->nodes, int, (size_t)(relation->count + n) + 1);
    if (nodes == NULL) {
        return n < 0 ? -1 : (PyErr_NoMemory(), -1);
    }
    relation->nodes = nodes;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        long node = item != NULL ? PyLong_AsLong(item) : -1;
        Py_XDECREF(item);
        if (node < 0 || node >= tree->nnodes) {
            PyErr_Format(PyExc_ValueError, "a relation names node %ld, which does not exist", node);
            return -1;
        }
        relation->nodes[relation->count++] = order[node];
    }
    return 0;
}

/* Nodes [start, end), by their numbers in the specification. */
static PyObject *members(const GuardTree *tree, const Relation *relation, int start, int end)
{
    PyObject *list = PyList_New(end - start);
    for (int i = start; list != NULL && i < end; i++) {
        put_item(&list, i - start, PyLong_FromLong(tree->nodes[relation->nodes[i]].original));
    }
    return list;
}

static PyObject *all_members(const GuardTree *tree, const Relation *relation)
{
    return members(tree, relation, 0, relation->count);
}

/* The argument as a tuple of so many, new; NULL with an exception set: it is another. */
static PyObject *tuple_of(const Relation *relation, PyObject *argument, Py_ssize_t n)
{
    PyObject *tuple = PySequence_Tuple(argument);
    if (tuple != NULL && PyTuple_GET_SIZE(tuple) != n) {
        PyErr_Format(PyExc_ValueError, "relation %d does not take %.100R", relation->kind->number, argument);
        Py_CLEAR(tuple);
    }
    return tuple;
}

/* (a, b) */
static int read_pair(GuardTree *tree, Relation *relation, PyObject *argument, const int *order)
{
    PyObject *pair = tuple_of(relation, argument, 2);
    int result = pair != NULL ? add_members(tree, relation, pair, order) : -1;
    Py_XDECREF(pair);
    return result;
}

/* (a, ...) */
static int read_members(GuardTree *tree, Relation *relation, PyObject *argument, const int *order)
{
    return add_members(tree, relation, argument, order);
}

/* (a, b, whether) */
static int read_overlap(GuardTree *tree, Relation *relation, PyObject *argument, const int *order)
{
    PyObject *given = tuple_of(relation, argument, 3), *pair = given != NULL ? PyTuple_GetSlice(given, 0, 2) : NULL;
    int result = pair != NULL ? add_members(tree, relation, pair, order) : -1;
    relation->expected = result == 0 && PyTuple_GET_ITEM(given, 2) == Py_True;
    Py_XDECREF(pair);
    Py_XDECREF(given);
    return result;
}

static PyObject *overlap_read(const GuardTree *tree, const Relation *relation)
{
    PyObject *given = all_members(tree, relation);
    if (given != NULL && PyList_Append(given, relation->expected ? Py_True : Py_False) < 0) {
        Py_CLEAR(given);
    }
    return given;
}

/* ((written, ...), (other, ...)) */
static int read_disjoint(GuardTree *tree, Relation *relation, PyObject *argument, const int *order)
{
    PyObject *given = tuple_of(relation, argument, 2);
    int result = given != NULL ? add_members(tree, relation, PyTuple_GET_ITEM(given, 0), order) : -1;
    relation->nwritten = relation->count;
    result = result == 0 ? add_members(tree, relation, PyTuple_GET_ITEM(given, 1), order) : -1;
    Py_XDECREF(given);
    return result;
}

static PyObject *disjoint_read(const GuardTree *tree, const Relation *relation)
{
    return Py_BuildValue("[NN]", members(tree, relation, 0, relation->nwritten),
                         members(tree, relation, relation->nwritten, relation->count));
}

/* ((a, ...), program) */
static int read_program(GuardTree *tree, Relation *relation, PyObject *argument, const int *order)
{
    PyObject *given = tuple_of(relation, argument, 2);
    int result = given != NULL ? add_members(tree, relation, PyTuple_GET_ITEM(given, 0), order) : -1;
    relation->program = result == 0 ? program_new(PyTuple_GET_ITEM(given, 1), relation->count) : NULL;
    Py_XDECREF(given);
    return relation->program != NULL ? 0 : -1;
}

static PyObject *program_read(const GuardTree *tree, const Relation *relation)
{
    return Py_BuildValue("[NN]", all_members(tree, relation), program_given(relation->program));
}

/* ---- what is told of a failure ---- */

static PyObject *expected(const Relation *relation)
{
    return PyBool_FromLong(relation->expected);
}

static PyObject *failed_fact(const Relation *relation)
{
    return program_failure(relation->program);
}

/* ---- the relations ---- */

static inline bool is_one_object(const Relation *relation, const Found *found)
{
    return value_of(found, relation->values[0]) == value_of(found, relation->values[1]);
}

static int same_holds(const GuardTree *Py_UNUSED(tree), Relation *relation, const Found *found)
{
    return is_one_object(relation, found);
}

static int distinct_holds(const GuardTree *tree, Relation *relation, const Found *found)
{
    return is_pair(relation) ? !is_one_object(relation, found) : distinct(tree, relation, found);
}

static int overlap_holds(const GuardTree *Py_UNUSED(tree), Relation *relation, const Found *found)
{
    int overlap = tensors_overlap(value_of(found, relation->values[0]), value_of(found, relation->values[1]));
    return overlap < 0 ? -1 : (overlap == 1) == relation->expected;
}

static int disjoint_holds(const GuardTree *Py_UNUSED(tree), Relation *relation, const Found *found)
{
    return disjoint(relation, found);
}

static int program_relation_holds(const GuardTree *Py_UNUSED(tree), Relation *relation, const Found *found)
{
    return program_holds(relation->program, relation->values, found);
}

/* ---- the kinds ---- */

static const RelationKind relation_kinds[] = {
    {REL_SAME, "SAME", read_pair, all_members, NULL, same_holds, expected, true},
    {201, "DISTINCT", read_members, all_members, prepare_distinct, distinct_holds, expected, true},
    {202, "OVERLAP", read_overlap, overlap_read, prepare_memory, overlap_holds, expected, false},
    {203, "DISJOINT", read_disjoint, disjoint_read, prepare_memory, disjoint_holds, expected, false},
    {204, "PROGRAM", read_program, program_read, prepare_program, program_relation_holds, failed_fact, false},
};

int guard_relation_init(PyObject *module)
{
    return ADD_KINDS(module, "REL", relation_kinds);
}

int relation_init(GuardTree *tree, Relation *relation, int number, PyObject *argument, const int *order)
{
    relation->kind = ROW_OF(relation_kinds, number);
    if (relation->kind == NULL) {
        PyErr_Format(PyExc_ValueError, "no relation has the number %d", number);
        return -1;
    }
    if (relation->kind->init(tree, relation, argument, order) < 0) {
        return -1;
    }
    relation->values = NEW_ARRAY(Value, relation->count);
    return relation->values != NULL ? 0 : -1;
}

int relation_prepare(GuardTree *tree, Relation *relation)
{
    relation->inside = relation->kind->of_pointers ? common_segment(relation) : -1;
    return relation->kind->prepare != NULL ? relation->kind->prepare(tree, relation) : 0;
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
