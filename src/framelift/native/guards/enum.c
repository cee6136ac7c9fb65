/* Members of Enum classes. Those that are numbers or strings take no weak references; but their class keeps them, under
 * a name or a value, and forgets them only if the program edits its tables. So a guard holds where they are kept. */
#include "tree.h"

static PyTypeObject *enum_type;
/* Members by name; and by value, which is where combined flags are found. */
static PyObject *tables[2];

/* Borrowed; NULL where the class has no such table. */
static PyObject *table_of(PyTypeObject *cls, int which)
{
    PyObject *table = _PyType_Lookup(cls, tables[which]);
    return table != NULL && PyDict_CheckExact(table) ? table : NULL;
}

bool member_place(PyObject *object, MemberPlace *place)
{
    PyTypeObject *cls = Py_TYPE(object);
    if (!PyType_IsSubtype(Py_TYPE(cls), enum_type)) {
        return false;
    }
    for (place->table = 0; place->table < 2; place->table++) {
        PyObject *table = table_of(cls, place->table), *member;
        Py_ssize_t pos = 0;
        while (table != NULL && PyDict_Next(table, &pos, &place->key, &member)) {
            /* Others may have an `__eq__` of their own. */
            if (member == object && (PyUnicode_CheckExact(place->key) || PyLong_CheckExact(place->key))) {
                return true;
            }
        }
    }
    place->key = NULL;
    return false;
}

bool is_kept(PyTypeObject *cls, const MemberPlace *place, PyObject *object)
{
    PyObject *table = table_of(cls, place->table), *member;
    Held key = {.object = place->key, .constant = true, .hash = PyObject_Hash(place->key)};
    return table != NULL && dict_find(table, &key, &member) == FOUND && member == object;
}

static PyObject *is_enum_member(PyObject *Py_UNUSED(module), PyObject *object)
{
    MemberPlace place;
    return PyBool_FromLong(member_place(object, &place));
}

static PyMethodDef methods[] = {
    {"is_enum_member", is_enum_member, METH_O, "Whether an object is a member that its Enum class keeps."},
    {NULL, NULL, 0, NULL},
};

int guard_enum_init(PyObject *module)
{
    enum_type = (PyTypeObject *)imported("enum", "EnumMeta");
    tables[0] = PyUnicode_InternFromString("_member_map_");
    tables[1] = PyUnicode_InternFromString("_value2member_map_");
    return enum_type == NULL || tables[0] == NULL || tables[1] == NULL ? -1 : PyModule_AddFunctions(module, methods);
}
