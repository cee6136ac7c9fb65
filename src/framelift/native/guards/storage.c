/* What containers and the like hold, read where they store it: nothing of the user's is asked. */
#include "tree.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <internal/pycore_dict.h>
#pragma GCC diagnostic pop

/* ---- dictionaries ---- */

static inline Py_ssize_t key_index(const PyDictKeysObject *keys, size_t i)
{
    int log2size = keys->dk_log2_size;
    if (log2size < 8) {
        return ((const int8_t *)keys->dk_indices)[i];
    }
    if (log2size < 16) {
        return ((const int16_t *)keys->dk_indices)[i];
    }
    if (log2size < 32) {
        return ((const int32_t *)keys->dk_indices)[i];
    }
    return (Py_ssize_t)((const int64_t *)keys->dk_indices)[i];
}

/* Equality as a dictionary sees it: 1, True and 1.0 are the same key. */
static int same_key(PyObject *key, PyObject *found)
{
    if (PyUnicode_CheckExact(key) && PyUnicode_CheckExact(found)) {
        return PyUnicode_Compare(key, found) == 0 ? FOUND : ABSENT;
    }
    if (!is_constant(found)) {
        return UNDECIDED;
    }
    PyObject *result = PyObject_RichCompare(key, found, Py_EQ);
    if (result == NULL) {
        PyErr_Clear();
        return UNDECIDED;
    }
    Py_DECREF(result);
    return result == Py_True ? FOUND : ABSENT;
}

/* The probe sequence of CPython's dictionaries. Comparing happens here and not in CPython because a user's key with
 * the same hash must not be asked. */
static int find_constant(PyDictObject *dict, const Held *key, PyObject **value)
{
    PyDictKeysObject *keys = dict->ma_keys;
    bool unicode = DK_IS_UNICODE(keys);
    if (unicode && !PyUnicode_CheckExact(key->object)) {
        return ABSENT; /* no other constant equals a str */
    }
    size_t mask = (size_t)DK_SIZE(keys) - 1, perturb = (size_t)key->hash, i = perturb & mask;
    for (;;) {
        Py_ssize_t ix = key_index(keys, i);
        if (ix == DKIX_EMPTY) {
            return ABSENT;
        }
        if (ix >= 0) {
            PyObject *found, *item;
            Py_hash_t hash;
            if (unicode) {
                PyDictUnicodeEntry *entry = &DK_UNICODE_ENTRIES(keys)[ix];
                found = entry->me_key;
                item = entry->me_value;
                hash = ((PyASCIIObject *)found)->hash;
            } else {
                PyDictKeyEntry *entry = &DK_ENTRIES(keys)[ix];
                found = entry->me_key;
                item = entry->me_value;
                hash = entry->me_hash;
            }
            int same = found == key->object ? FOUND : hash == key->hash ? same_key(key->object, found) : ABSENT;
            if (same == UNDECIDED) {
                return UNDECIDED;
            }
            if (same == FOUND) {
                *value = dict->ma_values != NULL ? dict->ma_values->values[ix] : item;
                return *value != NULL ? FOUND : ABSENT;
            }
        }
        perturb >>= 5;
        i = (i * 5 + perturb + 1) & mask;
    }
}

int dict_find(PyObject *dict, const Held *key, PyObject **value)
{
    if (key->constant) {
        return find_constant((PyDictObject *)dict, key, value);
    }
    Py_ssize_t pos = 0;
    PyObject *found;
    while (PyDict_Next(dict, &pos, &found, value)) {
        if (held_is(key, found) || held_refers_to_same(key, found)) {
            return FOUND;
        }
    }
    return ABSENT;
}

PyObject **instance_dict_slot(PyObject *object)
{
    /* The dictionary of a class is not its instance dictionary: TYPE_LOOKUP is for classes. */
    if (Py_TYPE(object)->tp_dictoffset == 0 || PyType_Check(object)) {
        return NULL;
    }
    PyObject **slot = _PyObject_GetDictPtr(object);
    if (slot == NULL) {
        PyErr_Clear();
        return NULL;
    }
    if (*slot == NULL) { /* nothing was ever stored: reading obj.__dict__ makes an empty one */
        PyObject *made = PyObject_GenericGetDict(object, NULL);
        if (made == NULL) {
            PyErr_Clear();
            return NULL;
        }
        Py_DECREF(made);
        slot = _PyObject_GetDictPtr(object);
    }
    return slot != NULL && *slot != NULL ? slot : NULL;
}

/* ---- containers ---- */

static PyTypeObject *deque_type, *thread_local_type;

Py_ssize_t stored_length(PyObject *object)
{
    if (PyDict_Check(object)) {
        return PyDict_GET_SIZE(object);
    }
    if (PyList_Check(object)) {
        return PyList_GET_SIZE(object);
    }
    if (PyTuple_Check(object)) {
        return PyTuple_GET_SIZE(object);
    }
    if (PyAnySet_Check(object)) {
        return PySet_GET_SIZE(object);
    }
    if (PyUnicode_Check(object)) {
        return PyUnicode_GET_LENGTH(object);
    }
    if (PyBytes_Check(object)) {
        return PyBytes_GET_SIZE(object);
    }
    if (PyByteArray_Check(object)) {
        return PyByteArray_GET_SIZE(object);
    }
    PyTypeObject *type = Py_TYPE(object);
    bool deque = is_deque(object);
    if (type != &PyRange_Type && type != &PyDictKeys_Type && type != &PyDictValues_Type && type != &PyDictItems_Type &&
        !deque) {
        return -1; /* a __len__ might run */
    }
    /* A subclass of deque may have a __len__ of its own. */
    Py_ssize_t length = deque ? deque_type->tp_as_sequence->sq_length(object) : PyObject_Size(object);
    if (length < 0) {
        PyErr_Clear();
    }
    return length;
}

bool is_deque(PyObject *object)
{
    return PyObject_TypeCheck(object, deque_type);
}

PyObject *deque_item(PyObject *deque, Py_ssize_t index)
{
    return deque_type->tp_as_sequence->sq_item(deque, index);
}

PyObject *thread_dict(const Node *Py_UNUSED(node), PyObject *object)
{
    /* In a thread that is new to it, an object with an __init__ of its own would run that. */
    if (!PyObject_TypeCheck(object, thread_local_type) || Py_TYPE(object)->tp_init != PyBaseObject_Type.tp_init) {
        return NULL;
    }
    PyObject *name = PyUnicode_InternFromString("__dict__");
    PyObject *dict = name == NULL ? NULL : thread_local_type->tp_getattro(object, name);
    Py_XDECREF(name);
    if (dict == NULL) {
        PyErr_Clear();
    }
    return dict;
}

PyObject *context_own(PyObject *variable)
{
    PyObject *value = NULL;
    if (!PyContextVar_CheckExact(variable)) {
        return NULL;
    }
    if (PyContextVar_Get(variable, Py_Ellipsis, &value) < 0) { /* the default that is told from every other value ... */
        PyErr_Clear();
        return NULL;
    }
    if (value == Py_Ellipsis) { /* ... unless it is that value */
        PyObject *again = NULL;
        Py_CLEAR(value);
        if (PyContextVar_Get(variable, Py_NotImplemented, &again) == 0 && again != Py_NotImplemented) {
            return again;
        }
        Py_XDECREF(again);
    }
    return value;
}

/* ---- for Python ---- */

static PyObject *can_look_up(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *dict, *key, *value;
    if (!PyArg_ParseTuple(args, "O!O", &PyDict_Type, &dict, &key)) {
        return NULL;
    }
    Held held = {.object = key, .constant = true, .hash = PyObject_Hash(key)};
    if (held.hash == -1) {
        return NULL;
    }
    return PyBool_FromLong(dict_find(dict, &held, &value) != UNDECIDED);
}

static PyMethodDef methods[] = {
    {"can_look_up", can_look_up, METH_VARARGS,
     "can_look_up(dict, key): whether a constant key is found, or not, without asking another key of the dict."},
    {NULL, NULL, 0, NULL},
};

PyObject *imported(const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *found = module != NULL ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    return found;
}

int guard_storage_init(PyObject *module)
{
    deque_type = (PyTypeObject *)imported("_collections", "deque");
    thread_local_type = (PyTypeObject *)imported("_thread", "_local");
    return deque_type == NULL || thread_local_type == NULL ? -1 : PyModule_AddFunctions(module, methods);
}
