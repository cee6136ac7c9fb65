/* The tables of a code object, kept in its extra data: they live and die with the code.
 *
 * Code objects are invisible to the garbage collector, so nothing a table holds may lead back to its code: guard trees
 * hold the user's objects weakly, and residual functions have globals of their own. */
#include "table.h"

typedef struct {
    bool never; /* residual code, or code the user disabled: the frame hook leaves it alone under every key */
    Py_ssize_t count;
    Table **tables; /* references */
} CodeTables;

static Py_ssize_t extra_index = -1;

static void code_tables_free(void *extra)
{
    CodeTables *tables = extra;
    if (!tables) {
        return;
    }
    /* The code is being freed: first make it unreachable from all its tables, then let them go. */
    for (Py_ssize_t i = 0; i < tables->count; i++) {
        tables->tables[i]->code = NULL;
    }
    for (Py_ssize_t i = 0; i < tables->count; i++) {
        Py_DECREF(tables->tables[i]);
    }
    PyMem_Free(tables->tables);
    PyMem_Free(tables);
}

static CodeTables *code_tables_get(PyCodeObject *code)
{
    void *extra = NULL;
    code_extra_get((PyObject *)code, extra_index, &extra); /* fails only for what is no code object */
    return extra;
}

static CodeTables *code_tables_make(PyCodeObject *code)
{
    CodeTables *tables = code_tables_get(code);
    if (!tables) {
        if (!(tables = NEW_ARRAY(CodeTables, 1))) {
            return NULL;
        }
        if (code_extra_set((PyObject *)code, extra_index, tables) < 0) {
            PyMem_Free(tables);
            return NULL;
        }
    }
    return tables;
}

bool code_is_never_lifted(PyCodeObject *code)
{
    CodeTables *tables = code_tables_get(code);
    return tables && tables->never;
}

int code_never_lift(PyCodeObject *code)
{
    CodeTables *tables = code_tables_make(code);
    if (!tables) {
        return -1;
    }
    tables->never = true;
    return 0;
}

static int code_tables_add(PyCodeObject *code, Table *table)
{
    CodeTables *tables = code_tables_make(code);
    if (!tables) {
        return -1;
    }
    Table **grown = PyMem_Resize(tables->tables, Table *, tables->count + 1);
    if (!grown) {
        PyErr_NoMemory();
        return -1;
    }
    tables->tables = grown;
    tables->tables[tables->count++] = (Table *)Py_NewRef(table);
    table->code = code;
    return 0;
}

Table *table_find(PyCodeObject *code, PyObject *key, bool *failed)
{
    *failed = false;
    CodeTables *tables = code_tables_get(code);
    for (Py_ssize_t i = 0; tables && i < tables->count; i++) {
        if (tables->tables[i]->key == key) {
            return (Table *)Py_NewRef(tables->tables[i]);
        }
    }
    /* Comparing may run code that adds or drops tables. */
    for (Py_ssize_t i = 0; tables && i < tables->count; i++) {
        Table *table = (Table *)Py_NewRef(tables->tables[i]);
        int equal = PyObject_RichCompareBool(table->key, key, Py_EQ);
        if (equal > 0) {
            return table;
        }
        Py_DECREF(table);
        if (equal < 0) {
            *failed = true;
            return NULL;
        }
    }
    return NULL;
}

Table *table_find_or_make(PyCodeObject *code, PyObject *key)
{
    bool failed;
    Table *table = table_find(code, key, &failed);
    if (table || failed) {
        return table;
    }
    Table *fresh = (Table *)PyObject_CallOneArg((PyObject *)&Table_Type, key);
    if (!fresh) {
        return NULL;
    }
    /* Hashing the key may have let another thread make the table. */
    table = table_find(code, key, &failed);
    if (!table && !failed && code_tables_add(code, fresh) == 0) {
        table = (Table *)Py_NewRef(fresh);
    }
    Py_DECREF(fresh);
    return table;
}

void table_disown(Table *table)
{
    CodeTables *tables = table->code ? code_tables_get(table->code) : NULL;
    table->code = NULL;
    for (Py_ssize_t i = 0; tables && i < tables->count; i++) {
        if (tables->tables[i] == table) {
            tables->count--;
            memmove(tables->tables + i, tables->tables + i + 1, (size_t)(tables->count - i) * sizeof(Table *));
            Py_DECREF(table);
            return;
        }
    }
}

/* ---- for Python ----------------------------------------------------------------------------------------------- */

static PyObject *py_table_for(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *code, *key;
    if (!PyArg_ParseTuple(args, "O!O:table_for", &PyCode_Type, &code, &key)) {
        return NULL;
    }
    return (PyObject *)table_find_or_make((PyCodeObject *)code, key);
}

static PyObject *py_tables_of(PyObject *Py_UNUSED(module), PyObject *code)
{
    if (!PyCode_Check(code)) {
        PyErr_Format(PyExc_TypeError, "tables_of() needs a code object, not %.100s", Py_TYPE(code)->tp_name);
        return NULL;
    }
    CodeTables *tables = code_tables_get((PyCodeObject *)code);
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && tables && i < tables->count; i++) {
        if (PyList_Append(list, (PyObject *)tables->tables[i]) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *py_never_lift(PyObject *Py_UNUSED(module), PyObject *code)
{
    if (!PyCode_Check(code)) {
        PyErr_Format(PyExc_TypeError, "never_lift() needs a code object, not %.100s", Py_TYPE(code)->tp_name);
        return NULL;
    }
    if (code_never_lift((PyCodeObject *)code) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"table_for", py_table_for, METH_VARARGS,
     "table_for(code, key) -> Table\n\nThe code object's table for this key, made on the first request."},
    {"tables_of", py_tables_of, METH_O, "tables_of(code) -> list[Table]\n\nAll tables the code object owns."},
    {"never_lift", py_never_lift, METH_O, "never_lift(code)\n\nThe frame hook leaves frames of this code alone."},
    {NULL, NULL, 0, NULL},
};

int code_tables_init(PyObject *module)
{
    if (extra_index < 0 && (extra_index = code_extra_request(code_tables_free)) < 0) {
        PyErr_SetString(PyExc_ImportError, "CPython has no room for another user of code objects' extra data");
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
