/* Which entry of a table takes a call.
 *
 * Lookup tries the entry that took the last call, then the entries that took calls like this one before (two hashed
 * indices of hints, by value and by shape), then all others. A hint is only a guess: guards decide always, so a stale
 * or colliding hint costs time and never correctness. That is why the indices may be small, bounded and forgetful. */
#include "table.h"
#include "guards/guards.h"
#include "torch/tensor_probe.h"

/* Entries that cannot be hit any more go on a miss, and every so many hits where there are no misses. */
#define DEAD_ENTRIES_EVERY 256

/* ---- hints ---------------------------------------------------------------------------------------------------- */

static bool is_plain_constant(PyObject *object)
{
    return PyLong_CheckExact(object) || PyUnicode_CheckExact(object) || PyFloat_CheckExact(object) ||
           PyBool_Check(object) || object == Py_None || PyBytes_CheckExact(object) || PyComplex_CheckExact(object);
}

/* Adds what an argument looks like to both hashes: a tensor its metadata, a constant its value, another object (a
 * module, say, that has entries of its own) its identity. Runs no Python code. */
static void add_look(uint64_t hashes[NINDICES], PyObject *object, int depth)
{
    static const int first = 0;
    uint64_t type = (uint64_t)(uintptr_t)Py_TYPE(object);
    if (is_plain_constant(object)) {
        hashes[BY_SHAPE] = mix_hash(hashes[BY_SHAPE], type);
        hashes[BY_VALUE] = mix_hash(hashes[BY_VALUE], type + (uint64_t)PyObject_Hash(object));
    } else if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) {
        Py_ssize_t size = PySequence_Fast_GET_SIZE(object);
        PyObject **items = PySequence_Fast_ITEMS(object);
        hashes[BY_SHAPE] = mix_hash(hashes[BY_SHAPE], type + (uint64_t)size);
        hashes[BY_VALUE] = mix_hash(hashes[BY_VALUE], type + (uint64_t)size);
        for (Py_ssize_t i = 0; depth && i < Py_MIN(size, 8); i++) {
            add_look(hashes, items[i], depth - 1);
        }
    } else if (PyDict_CheckExact(object)) {
        PyObject *key, *value;
        Py_ssize_t position = 0;
        for (int i = 0; depth && i < 8 && PyDict_Next(object, &position, &key, &value); i++) {
            add_look(hashes, key, depth - 1);
            add_look(hashes, value, depth - 1);
        }
    } else if (tensor_access.base && PyObject_TypeCheck(object, tensor_access.base)) {
        uint64_t shape = shape_hash(&object, &first, 1);
        hashes[BY_SHAPE] = mix_hash(hashes[BY_SHAPE], shape);
        hashes[BY_VALUE] = mix_hash(hashes[BY_VALUE], shape);
    } else {
        hashes[BY_SHAPE] = mix_hash(hashes[BY_SHAPE], type);
        hashes[BY_VALUE] = mix_hash(hashes[BY_VALUE], (uint64_t)(uintptr_t)object);
    }
}

void table_forget_hints(Table *table)
{
    for (int i = 0; i < NINDICES; i++) {
        PyMem_Free(table->index[i]);
        table->index[i] = NULL;
    }
    table->nsets = 0;
}

/* Hints are a help: without memory for them we do without. */
static void grow_index(Table *table)
{
    Py_ssize_t nsets = 4;
    while (nsets < table->count) {
        nsets *= 2;
    }
    if (table->nsets >= nsets) {
        return;
    }
    table_forget_hints(table);
    for (int i = 0; i < NINDICES; i++) {
        table->index[i] = PyMem_Calloc((size_t)(nsets * HINTS_PER_SET), sizeof(Hint));
        if (!table->index[i]) {
            table_forget_hints(table);
            return;
        }
    }
    table->nsets = nsets;
}

static void add_hint(Table *table, int index, uint64_t hash, Entry *entry)
{
    if (!table->nsets) {
        return;
    }
    Hint *set = table->index[index] + (Py_ssize_t)(hash & (uint64_t)(table->nsets - 1)) * HINTS_PER_SET;
    int victim = (int)(table->clock % HINTS_PER_SET);
    for (int i = 0; i < HINTS_PER_SET; i++) {
        if (set[i].hash == hash && set[i].entry == entry) {
            return;
        }
        if (!set[i].entry) {
            victim = i;
        }
    }
    set[victim] = (Hint){hash, entry};
}

/* ---- lookup --------------------------------------------------------------------------------------------------- */

int entry_check(Entry *entry, Call *call, PyObject *function)
{
    if (UNLIKELY(call->nslots != entry->nslots)) {
        return 0;
    }
    if (call_reserve(call, entry->nfetched) < 0) {
        return -1;
    }
    return guard_tree_check(entry->tree, call->slots, function, call->room + call->nslots);
}

/* The entries are held while their guards run: a check may free objects and so run code that changes the table. */
static int check_held(Entry *entry, Call *call, PyObject *function)
{
    Py_INCREF(entry);
    int result = entry_check(entry, call, function);
    if (result != 1) {
        Py_DECREF(entry);
    }
    return result;
}

static Entry *lookup_by_hint(Table *table, int index, uint64_t hash, Call *call, PyObject *function, bool *failed)
{
    for (int i = 0; i < HINTS_PER_SET && table->nsets; i++) {
        Hint *hint = table->index[index] + (Py_ssize_t)(hash & (uint64_t)(table->nsets - 1)) * HINTS_PER_SET + i;
        Entry *entry = hint->entry;
        if (hint->hash == hash && entry && entry != table->recent) {
            int result = check_held(entry, call, function);
            if (result) {
                *failed = result < 0;
                return result > 0 ? entry : NULL;
            }
        }
    }
    return NULL;
}

static Entry *lookup_one_by_one(Table *table, Call *call, PyObject *function, bool *failed)
{
    for (Py_ssize_t i = table->count - 1; i >= 0; i--) {
        if (i >= table->count || table->entries[i] == table->recent) {
            continue;
        }
        Entry *entry = table->entries[i];
        int result = check_held(entry, call, function);
        if (result) {
            *failed = result < 0;
            return result > 0 ? entry : NULL;
        }
    }
    return NULL;
}

static Entry *lookup_among_others(Table *table, Call *call, PyObject *function, bool *failed)
{
    uint64_t hashes[NINDICES] = {1, 1};
    for (Py_ssize_t i = 0; i < call->nslots; i++) {
        if (call->slots[i]) {
            add_look(hashes, call->slots[i], 2);
        }
    }
    grow_index(table);
    for (int index = 0; index < NINDICES; index++) {
        Entry *entry = lookup_by_hint(table, index, hashes[index], call, function, failed);
        if (entry && index > 0 && entry->table == table) {
            add_hint(table, BY_VALUE, hashes[BY_VALUE], entry);
        }
        if (entry || *failed) {
            return entry;
        }
    }
    Entry *entry = lookup_one_by_one(table, call, function, failed);
    if (entry && entry->table == table) {
        add_hint(table, BY_VALUE, hashes[BY_VALUE], entry);
        add_hint(table, BY_SHAPE, hashes[BY_SHAPE], entry);
    }
    return entry;
}

void entry_count_hit(Entry *entry)
{
    Table *table = entry->table;
    entry->hits++;
    if (table) {
        entry->used = ++table->clock;
        if (UNLIKELY(table->clock % DEAD_ENTRIES_EVERY == 0)) {
            table_drop_dead(table);
        }
    }
}

Entry *table_lookup(Table *table, Call *call, PyObject *function, bool *failed)
{
    *failed = false;
    Entry *entry = table->recent;
    if (LIKELY(entry != NULL)) {
        int result = check_held(entry, call, function);
        if (LIKELY(result == 1)) {
            table->hits++;
            entry_count_hit(entry);
            return entry;
        }
        if (result < 0) {
            *failed = true;
            return NULL;
        }
    }
    entry = NULL;
    if (table->count > 1) {
        entry = lookup_among_others(table, call, function, failed);
    }
    if (entry) {
        if (entry->table == table) {
            table->recent = entry;
        }
        table->hits++;
        entry_count_hit(entry);
    } else if (!*failed) {
        table_drop_dead(table);
    }
    return entry;
}
