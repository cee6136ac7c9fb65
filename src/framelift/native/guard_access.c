/* Accessors: one step from an object to another, by reading memory; never by calling anything of the user's. */
#include "guard_tree.h"
#include "tensor_probe.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <internal/pycore_dict.h>
#pragma GCC diagnostic pop
#include <structmember.h>

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

/* Getters of classes and functions that do nothing but give what is kept. */
static PyObject **kept_slot(PyObject *object, PyDescrObject *getter)
{
    bool is_name = PyUnicode_CompareWithASCIIString(getter->d_name, "__name__") == 0;
    bool is_qualname = PyUnicode_CompareWithASCIIString(getter->d_name, "__qualname__") == 0;
    if (getter->d_type == &PyFunction_Type) {
        PyFunctionObject *function = (PyFunctionObject *)object;
        return is_name ? &function->func_name : is_qualname ? &function->func_qualname : NULL;
    }
    if (getter->d_type == &PyType_Type && PyType_HasFeature((PyTypeObject *)object, Py_TPFLAGS_HEAPTYPE)) {
        PyHeapTypeObject *type = (PyHeapTypeObject *)object;
        bool is_mro = PyUnicode_CompareWithASCIIString(getter->d_name, "__mro__") == 0; /* a member before 3.12 */
        return is_mro ? &type->ht_type.tp_mro : is_name ? &type->ht_name : is_qualname ? &type->ht_qualname : NULL;
    }
    return NULL;
}

/* Where an object keeps what an attribute of its type, as it is now, gives; NULL where that is computed. */
PyObject **member_slot(PyObject *object, PyObject *name)
{
    PyObject *descriptor = _PyType_Lookup(Py_TYPE(object), name);
    if (descriptor != NULL && Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) {
        return kept_slot(object, (PyDescrObject *)descriptor);
    }
    if (descriptor == NULL || !Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) {
        return NULL;
    }
    const PyMemberDef *member = ((PyMemberDescrObject *)descriptor)->d_member;
    bool is_object = member->type == T_OBJECT || member->type == T_OBJECT_EX;
    return is_object ? (PyObject **)((char *)object + member->offset) : NULL;
}

/* ---- the step ---- */

static PyObject *or_none(PyObject *object)
{
    return object != NULL ? object : Py_None;
}

/* A getter or member written in C: what a property or a Python descriptor would run is refused. */
static PyObject *c_attribute(PyObject *object, PyObject *name)
{
    PyObject *descriptor = _PyType_Lookup(Py_TYPE(object), name);
    if (descriptor == NULL ||
        (!Py_IS_TYPE(descriptor, &PyGetSetDescr_Type) && !Py_IS_TYPE(descriptor, &PyMemberDescr_Type))) {
        return NULL;
    }
    Py_INCREF(descriptor);
    PyObject *result = Py_TYPE(descriptor)->tp_descr_get(descriptor, object, (PyObject *)Py_TYPE(object));
    Py_DECREF(descriptor);
    if (result == NULL) {
        PyErr_Clear();
    }
    return result;
}

PyObject *access_borrowed(const Node *node, PyObject *parent)
{
    PyObject *value = NULL;
    switch (node->accessor) {
    case ACCESS_DICT_ITEM:
        return PyDict_Check(parent) && dict_find(parent, &node->held, &value) == FOUND ? value : NULL;
    case ACCESS_INSTANCE_DICT: {
        PyObject **slot = instance_dict_slot(parent);
        return slot != NULL ? *slot : NULL;
    }
    case ACCESS_TYPE_LOOKUP:
        return PyType_Check(parent) ? _PyType_Lookup((PyTypeObject *)parent, node->held.object) : NULL;
    case ACCESS_TYPE_OF:
        return (PyObject *)Py_TYPE(parent);
    case ACCESS_LIST_ITEM:
        return PyList_Check(parent) && node->index < PyList_GET_SIZE(parent) ? PyList_GET_ITEM(parent, node->index)
                                                                             : NULL;
    case ACCESS_TUPLE_ITEM:
        return PyTuple_Check(parent) && node->index < PyTuple_GET_SIZE(parent) ? PyTuple_GET_ITEM(parent, node->index)
                                                                               : NULL;
    case ACCESS_CELL_CONTENTS:
        return PyCell_Check(parent) ? ((PyCellObject *)parent)->ob_ref : NULL;
    case ACCESS_METHOD_SELF:
        return PyMethod_Check(parent) ? PyMethod_GET_SELF(parent) : NULL;
    case ACCESS_METHOD_FUNC:
        return PyMethod_Check(parent) ? PyMethod_GET_FUNCTION(parent) : NULL;
    case ACCESS_MODULE_DICT:
        return PyModule_Check(parent) ? PyModule_GetDict(parent) : NULL;
    case ACCESS_SLOT:
        return PyObject_TypeCheck(parent, (PyTypeObject *)node->held.object)
                   ? *(PyObject **)((char *)parent + node->index)
                   : NULL;
    case ACCESS_GETATTR: {
        PyObject **slot = member_slot(parent, node->held.object);
        return slot != NULL ? *slot : NULL;
    }
    default:
        break;
    }
    if (!PyFunction_Check(parent)) {
        return NULL;
    }
    PyFunctionObject *function = (PyFunctionObject *)parent;
    switch (node->accessor) {
    case ACCESS_FUNC_CODE:
        return function->func_code;
    case ACCESS_FUNC_GLOBALS:
        return function->func_globals;
    case ACCESS_FUNC_CLOSURE:
        return or_none(function->func_closure);
    case ACCESS_FUNC_DEFAULTS:
        return or_none(function->func_defaults);
    case ACCESS_FUNC_KWDEFAULTS:
        return or_none(function->func_kwdefaults);
    default:
        return NULL;
    }
}

/* A read-only view of a mapping is a pointer to it. */
typedef struct {
    PyObject_HEAD PyObject *mapping;
} MappingProxy;

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

static PyObject *array_type;

PyObject *register_array_type(PyObject *module, PyObject *type)
{
    (void)module;
    Py_XSETREF(array_type, Py_NewRef(type));
    Py_RETURN_NONE;
}

/* A tensor in the memory of an array of NumPy's, as `make` makes it: of this very type, which runs no user's code. */
static PyObject *array_tensor(PyObject *array, PyObject *make)
{
    if ((PyObject *)Py_TYPE(array) != array_type) {
        return NULL;
    }
    PyObject *tensor = PyObject_CallOneArg(make, array);
    if (tensor == NULL) {
        PyErr_Clear();
    }
    return tensor;
}

static PyObject *or_nothing(PyObject *made)
{
    if (made == NULL) {
        PyErr_Clear();
    }
    return made;
}

/* What the copy protocol says of an object whose very type brings its own part of it, written in C. */
static PyObject *reduced(PyObject *object)
{
    static PyObject *name;
    if (name == NULL && (name = or_nothing(PyUnicode_InternFromString("__reduce__"))) == NULL) {
        return NULL;
    }
    PyObject *method = _PyType_Lookup(Py_TYPE(object), name);
    bool is_own = method != NULL && Py_IS_TYPE(method, &PyMethodDescr_Type) &&
                  ((PyDescrObject *)method)->d_type == Py_TYPE(object);
    return is_own ? or_nothing(PyObject_CallOneArg(method, object)) : NULL;
}

/* What a function written in C says that takes nothing: it knows the thread that calls. */
static PyObject *result_of(PyObject *function)
{
    return PyCFunction_CheckExact(function) ? or_nothing(PyObject_CallNoArgs(function)) : NULL;
}

PyObject *access_step(const Node *node, PyObject *parent)
{
    if (node->accessor == ACCESS_GETATTR) {
        return c_attribute(parent, node->held.object);
    }
    if (node->accessor == ACCESS_LRU_RESULT) {
        return Py_XNewRef(lru_result(parent, &node->held));
    }
    if (node->accessor == ACCESS_CONTEXT_VALUE) {
        PyObject *value = NULL; /* stays so where the variable has no value */
        if (PyContextVar_CheckExact(parent) && PyContextVar_Get(parent, NULL, &value) < 0) {
            PyErr_Clear();
        }
        return value;
    }
    switch (node->accessor) {
    case ACCESS_AHEAD:
        return iterator_ahead(parent, node->index);
    case ACCESS_ITERATED:
        return Py_XNewRef(iterator_sequence(parent));
    case ACCESS_REDUCED:
        return reduced(parent);
    case ACCESS_RESULT:
        return result_of(parent);
    case ACCESS_REFERENT:
        return PyWeakref_CheckRef(parent) ? weakref_get(parent) : NULL;
    case ACCESS_OFFSET:
        return or_nothing(tensor_offset(parent));
    case ACCESS_PROXIED:
        return Py_IS_TYPE(parent, &PyDictProxy_Type) ? Py_NewRef(((MappingProxy *)parent)->mapping) : NULL;
    case ACCESS_THREAD_DICT:
        return thread_dict(parent);
    case ACCESS_AS_TENSOR:
        return array_tensor(parent, node->held.object);
    case ACCESS_CONTEXT_OWN:
        return context_own(parent);
    case ACCESS_DEQUE_ITEM:
        return is_deque(parent) && node->index < stored_length(parent) ? deque_item(parent, node->index) : NULL;
    default:
        return Py_XNewRef(access_borrowed(node, parent));
    }
}
