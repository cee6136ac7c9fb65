/* Entry and Table: the specialisations of one code object under one key. Which of them takes a call: lookup.c. */
#include "table.h"
#include "tail.h"
#include "entry.h"
#include "guards/guards.h"

#include <structmember.h>

static Table *all_tables;

/* ---- Entry ---------------------------------------------------------------------------------------------------- */

static bool entry_is_dead(Entry *entry)
{
    return !entry->tree || guard_tree_dead(entry->tree);
}

static int entry_traverse(Entry *self, visitproc visit, void *arg)
{
    Py_VISIT(self->tree);
    Py_VISIT(self->residual);
    Py_VISIT(self->label);
    if (self->direct) {
        Py_VISIT(self->direct->function);
        Py_VISIT(self->direct->judge);
    }
    return 0;
}

static int entry_clear(Entry *self)
{
    self->nslots = -1; /* fits no call from now on, should a finalizer make one */
    Py_CLEAR(self->tree);
    Py_CLEAR(self->residual);
    Py_CLEAR(self->label);
    Direct *direct = self->direct;
    self->direct = NULL;
    direct_free(direct);
    return 0;
}

static void entry_dealloc(Entry *self)
{
    PyObject_GC_UnTrack(self);
    entry_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *entry_repr(Entry *self)
{
    return PyUnicode_FromFormat("<Entry %R: %llu hits>", self->label, (unsigned long long)self->hits);
}

static PyObject *entry_get_dead(Entry *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(entry_is_dead(self));
}

static PyObject *entry_get_table(Entry *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->table ? (PyObject *)self->table : Py_None);
}

static PyMemberDef entry_members[] = {
    {"tree", T_OBJECT_EX, offsetof(Entry, tree), READONLY, "the guard tree"},
    {"residual", T_OBJECT_EX, offsetof(Entry, residual), READONLY, "the function that takes slots and fetched objects"},
    {"label", T_OBJECT_EX, offsetof(Entry, label), 0, "whatever the installer called it"},
    {"hits", T_ULONGLONG, offsetof(Entry, hits), READONLY, "calls this entry took"},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef entry_getset[] = {
    {"table", (getter)entry_get_table, NULL, "the table it is in, or None", NULL},
    {"dead", (getter)entry_get_dead, NULL, "something the guards refer to is gone: this entry cannot be hit again",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject Entry_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framelift.native._core.Entry",
    .tp_doc = "One specialisation of a code object: a guard tree and the residual function it admits to.",
    .tp_basicsize = sizeof(Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)entry_dealloc,
    .tp_traverse = (traverseproc)entry_traverse,
    .tp_clear = (inquiry)entry_clear,
    .tp_repr = (reprfunc)entry_repr,
    .tp_members = entry_members,
    .tp_getset = entry_getset,
};

/* ---- Table ---------------------------------------------------------------------------------------------------- */

static void table_remove_at(Table *table, Py_ssize_t i)
{
    Entry *entry = table->entries[i];
    table->count--;
    memmove(table->entries + i, table->entries + i + 1, (size_t)(table->count - i) * sizeof(Entry *));
    if (table->recent == entry) {
        table->recent = table->count ? table->entries[table->count - 1] : NULL;
    }
    table_forget_hints(table);
    entry->table = NULL;
    Py_DECREF(entry);
}

void table_drop_dead(Table *table)
{
    for (Py_ssize_t i = table->count - 1; i >= 0; i--) {
        if (i < table->count && entry_is_dead(table->entries[i])) {
            table_remove_at(table, i);
        }
    }
}

static void table_drop_all(Table *table)
{
    Entry **entries = table->entries;
    Py_ssize_t count = table->count;
    table->entries = NULL;
    table->recent = NULL;
    table->count = table->capacity = 0;
    table_forget_hints(table);
    for (Py_ssize_t i = 0; i < count; i++) {
        entries[i]->table = NULL;
        Py_DECREF(entries[i]);
    }
    PyMem_Free(entries);
}

/* Called when something the key holds weakly has died: nobody can ask for this table again. */
static PyObject *table_key_died(PyObject *table_reference, PyObject *Py_UNUSED(reference))
{
    PyObject *table = PyObject_CallNoArgs(table_reference);
    if (!table) {
        return NULL;
    }
    if (table != Py_None) {
        table_drop_all((Table *)table);
        table_disown((Table *)table);
    }
    Py_DECREF(table);
    Py_RETURN_NONE;
}

static PyMethodDef key_died_method = {"key_died", table_key_died, METH_O, NULL};

static int table_watch_key(Table *table, PyObject *part)
{
    if (PyTuple_Check(part)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(part); i++) {
            if (table_watch_key(table, PyTuple_GET_ITEM(part, i)) < 0) {
                return -1;
            }
        }
        return 0;
    }
    if (!PyWeakref_CheckRef(part)) {
        return 0;
    }
    PyObject *referent = PyObject_CallNoArgs(part);
    if (!referent || referent == Py_None) {
        Py_XDECREF(referent);
        return referent ? 0 : -1;
    }
    /* The callback must not keep the table alive, and the collector may call it after the table is gone: when parts
     * of a key die together it calls back for all of them, and the first call drops the table. */
    PyObject *reference = PyWeakref_NewRef((PyObject *)table, NULL);
    PyObject *callback = reference ? PyCFunction_New(&key_died_method, reference) : NULL;
    PyObject *watch = callback ? PyWeakref_NewRef(referent, callback) : NULL;
    int result = watch ? PyList_Append(table->watches, watch) : -1;
    Py_XDECREF(watch);
    Py_XDECREF(callback);
    Py_XDECREF(reference);
    Py_DECREF(referent);
    return result;
}

static PyObject *table_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"key", NULL};
    PyObject *key;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Table", names, &key) || PyObject_Hash(key) == -1) {
        return NULL;
    }
    Table *self = (Table *)type->tp_alloc(type, 0);
    if (!self) {
        return NULL;
    }
    self->key = Py_NewRef(key);
    self->next = all_tables;
    if (all_tables) {
        all_tables->previous = self;
    }
    all_tables = self;
    if (!(self->watches = PyList_New(0)) || table_watch_key(self, key) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int table_traverse(Table *self, visitproc visit, void *arg)
{
    Py_VISIT(self->key);
    Py_VISIT(self->watches);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        Py_VISIT(self->entries[i]);
    }
    return 0;
}

static int table_tp_clear(Table *self)
{
    Py_CLEAR(self->watches);
    table_drop_all(self);
    return 0; /* the key stays: a lifted callable may ask for it as long as it can be called */
}

static void table_dealloc(Table *self)
{
    PyObject_GC_UnTrack(self);
    if (self->previous) {
        self->previous->next = self->next;
    } else {
        all_tables = self->next;
    }
    if (self->next) {
        self->next->previous = self->previous;
    }
    if (self->weakrefs) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    table_tp_clear(self);
    Py_CLEAR(self->key);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *table_repr(Table *self)
{
    return PyUnicode_FromFormat("<Table %R: %zd entries, %llu hits, %llu misses>", self->key, self->count,
                                (unsigned long long)self->hits, (unsigned long long)self->misses);
}

static bool has_constant(PyCodeObject *code, PyObject *constant)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); i++) {
        if (PyTuple_GET_ITEM(code->co_consts, i) == constant) {
            return true;
        }
    }
    return false;
}

static PyObject *table_install(Table *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"tree", "residual", "label", "direct", NULL};
    PyObject *tree, *residual, *label = Py_None, *direct = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!|OO:install", names, &GuardTree_Type, &tree, &PyFunction_Type,
                                     &residual, &label, &direct)) {
        return NULL;
    }
    Py_ssize_t nslots = guard_tree_nslots(tree), nfetched = guard_tree_nfetched(tree);
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(residual);
    int unfit = CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    if ((code->co_flags & unfit) || code->co_kwonlyargcount || code->co_nfreevars ||
        code->co_argcount != nslots + nfetched ||
        (code->co_flags & (CO_OPTIMIZED | CO_NEWLOCALS)) != (CO_OPTIMIZED | CO_NEWLOCALS)) {
        PyErr_Format(PyExc_ValueError,
                     "residual code %R must be a flat function: %zd slots and %zd fetched objects as positional "
                     "arguments, and no free variables",
                     code->co_name, nslots, nfetched);
        return NULL;
    }
    if (self->code && nslots != code_nslots(self->code)) {
        PyErr_Format(PyExc_ValueError, "the guards of %R read %zd slots, but a frame of %R has %zd", code->co_name,
                     nslots, self->code->co_name, code_nslots(self->code));
        return NULL;
    }
    if (code_never_lift(code) < 0) {
        return NULL;
    }
    if (self->count == self->capacity) {
        Py_ssize_t capacity = self->capacity ? 2 * self->capacity : 2;
        Entry **entries = PyMem_Resize(self->entries, Entry *, capacity);
        if (!entries) {
            return PyErr_NoMemory();
        }
        self->entries = entries;
        self->capacity = capacity;
    }
    Entry *entry = (Entry *)Entry_Type.tp_alloc(&Entry_Type, 0);
    if (!entry) {
        return NULL;
    }
    if (direct != Py_None && !(entry->direct = direct_new(direct, nslots + nfetched))) {
        Py_DECREF(entry);
        return NULL;
    }
    entry->table = self;
    entry->tree = Py_NewRef(tree);
    entry->residual = Py_NewRef(residual);
    entry->label = Py_NewRef(label);
    entry->nslots = nslots;
    entry->nfetched = nfetched;
    entry->reruns = has_constant(code, rerun_marker);
    entry->leaves = has_constant(code, step_function);
    entry->used = ++self->clock;
    self->entries[self->count++] = (Entry *)Py_NewRef(entry);
    self->recent = entry;
    self->skip = false;
    return (PyObject *)entry;
}

static PyObject *table_remove(Table *self, PyObject *entry)
{
    for (Py_ssize_t i = 0; i < self->count; i++) {
        if ((PyObject *)self->entries[i] == entry) {
            table_remove_at(self, i);
            Py_RETURN_NONE;
        }
    }
    PyErr_SetString(PyExc_ValueError, "the entry is not in this table");
    return NULL;
}

static PyObject *table_clear_method(Table *self, PyObject *Py_UNUSED(ignored))
{
    table_drop_all(self);
    self->hits = self->misses = 0;
    self->skip = self->cut = false;
    Py_RETURN_NONE;
}

static int by_use(const void *left, const void *right)
{
    uint64_t a = (*(Entry *const *)left)->used, b = (*(Entry *const *)right)->used;
    return a < b ? 1 : a > b ? -1 : 0;
}

static PyObject *table_get_entries(Table *self, void *Py_UNUSED(closure))
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < self->count; i++) {
        if (PyList_Append(list, (PyObject *)self->entries[i]) < 0) {
            Py_CLEAR(list);
        }
    }
    if (list && PyList_GET_SIZE(list) > 1) {
        qsort(((PyListObject *)list)->ob_item, (size_t)PyList_GET_SIZE(list), sizeof(PyObject *), by_use);
    }
    return list;
}

static PyObject *table_get_code(Table *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->code ? (PyObject *)self->code : Py_None);
}

static PyMethodDef table_methods[] = {
    {"install", (PyCFunction)(void (*)(void))table_install, METH_VARARGS | METH_KEYWORDS,
     "install(tree, residual, label=None, direct=None) -> Entry\n\n"
     "Adds an entry; it is the first to be tried on the next call. With direct=(function, inputs, output, outputs) "
     "the\n"
     "residual function returns function(...)[output] of as many outputs, on the slots and fetched objects with these\n"
     "indices, and nothing else; it is then not run."},
    {"remove", (PyCFunction)table_remove, METH_O, "remove(entry)\n\nDrops one entry."},
    {"clear", (PyCFunction)table_clear_method, METH_NOARGS, "clear()\n\nDrops all entries, and zeroes the counters."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef table_members[] = {
    {"key", T_OBJECT_EX, offsetof(Table, key), READONLY, "what the table was asked for with"},
    {"hits", T_ULONGLONG, offsetof(Table, hits), READONLY, "calls an entry took"},
    {"misses", T_ULONGLONG, offsetof(Table, misses), READONLY, "calls no entry took"},
    {"skip", T_BOOL, offsetof(Table, skip), 0, "the frame hook leaves frames of this code alone"},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Table, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef table_getset[] = {
    {"entries", (getter)table_get_entries, NULL, "the entries, most recently used first (a new list)", NULL},
    {"code", (getter)table_get_code, NULL, "the code object that owns the table, or None", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject Table_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framelift.native._core.Table",
    .tp_doc = "Table(key)\n\nThe entries of one code object under one set of options.",
    .tp_basicsize = sizeof(Table),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = table_new,
    .tp_dealloc = (destructor)table_dealloc,
    .tp_traverse = (traverseproc)table_traverse,
    .tp_clear = (inquiry)table_tp_clear,
    .tp_repr = (reprfunc)table_repr,
    .tp_methods = table_methods,
    .tp_members = table_members,
    .tp_getset = table_getset,
    .tp_weaklistoffset = offsetof(Table, weakrefs),
};

static PyObject *list_all_tables(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObject *list = PyList_New(0);
    /* Appending may collect garbage and so unlink tables: the one in hand is held, so its next is always valid. */
    Table *table = (Table *)Py_XNewRef(all_tables);
    while (list && table) {
        if (PyList_Append(list, (PyObject *)table) < 0) {
            Py_CLEAR(list);
        }
        Table *next = (Table *)Py_XNewRef(table->next);
        Py_DECREF(table);
        table = next;
    }
    Py_XDECREF(table);
    return list;
}

static PyMethodDef functions[] = {
    {"all_tables", list_all_tables, METH_NOARGS, "all_tables() -> list[Table]\n\nEvery table alive in this process."},
    {NULL, NULL, 0, NULL},
};

int table_init(PyObject *module)
{
    if (PyModule_AddType(module, &Entry_Type) < 0 || PyModule_AddType(module, &Table_Type) < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
