/* Relations between the objects of several nodes. */
#include "guard_tree.h"
#include "tensor_probe.h"

static inline PyObject *value_of(const Found *found, Value value)
{
    return found[value.segment].wanted[value.local];
}

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
static bool distinct(const GuardTree *tree, int index, const Found *found)
{
    const Relation *relation = &tree->relations[index];
    uint64_t bit = index < 64 ? (uint64_t)1 << index : 0;
    Memo *single = relation->single >= 0 ? found[relation->single].memo : NULL;
    if (single != NULL && (single->distinct & bit) != 0) {
        return true;
    }
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
    if (single != NULL) {
        single->distinct |= bit;
        return true;
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

int relation_holds(const GuardTree *tree, int index, const Found *found)
{
    const Relation *relation = &tree->relations[index];
    if (relation->kind == REL_DISTINCT) {
        return distinct(tree, index, found);
    }
    PyObject *first = value_of(found, relation->values[0]), *second = value_of(found, relation->values[1]);
    if (relation->kind == REL_SAME) {
        return first == second;
    }
    int overlap = tensors_overlap(first, second);
    return overlap < 0 ? -1 : (overlap == 1) == relation->expected;
}
