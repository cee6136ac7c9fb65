/* Accessors: one step from an object to another, by reading memory; never by calling anything of the user's. */
#include "tree.h"
#include "torch/tensor_probe.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <internal/pycore_moduleobject.h>
#pragma GCC diagnostic pop
#include <structmember.h>

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

/* ---- places ---- */

static PyObject **instance_dict_place(const Node *Py_UNUSED(node), PyObject *parent)
{
    return instance_dict_slot(parent);
}

static PyObject **type_place(const Node *Py_UNUSED(node), PyObject *parent)
{
    return (PyObject **)&parent->ob_type;
}

static PyObject **list_place(const Node *node, PyObject *parent)
{
    bool is_there = PyList_Check(parent) && node->index < PyList_GET_SIZE(parent);
    return is_there ? &((PyListObject *)parent)->ob_item[node->index] : NULL;
}

static PyObject **tuple_place(const Node *node, PyObject *parent)
{
    bool is_there = PyTuple_Check(parent) && node->index < PyTuple_GET_SIZE(parent);
    return is_there ? &((PyTupleObject *)parent)->ob_item[node->index] : NULL;
}

static inline PyObject **at_offset(PyObject *object, Py_ssize_t offset)
{
    return (PyObject **)((char *)object + offset);
}

static PyObject **slot_place(const Node *node, PyObject *parent)
{
    bool has_it = PyObject_TypeCheck(parent, (PyTypeObject *)node->held.object);
    return has_it ? at_offset(parent, node->index) : NULL;
}

static PyObject **field_place(const Node *node, PyObject *parent)
{
    return PyObject_TypeCheck(parent, node->kind->owner) ? at_offset(parent, node->kind->offset) : NULL;
}

/* Where an object keeps what an attribute of its type, as it is now, gives; NULL where that is computed. */
static PyObject **attribute_place(const Node *node, PyObject *object)
{
    PyObject *descriptor = _PyType_Lookup(Py_TYPE(object), node->held.object);
    if (descriptor != NULL && Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) {
        return kept_slot(object, (PyDescrObject *)descriptor);
    }
    if (descriptor == NULL || !Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) {
        return NULL;
    }
    const PyMemberDef *member = ((PyMemberDescrObject *)descriptor)->d_member;
    bool is_object = member->type == T_OBJECT || member->type == T_OBJECT_EX;
    return is_object ? at_offset(object, member->offset) : NULL;
}

/* ---- what is found ---- */

static PyObject *dict_item(const Node *node, PyObject *parent)
{
    PyObject *value;
    return PyDict_Check(parent) && dict_find(parent, &node->held, &value) == FOUND ? value : NULL;
}

static PyObject *class_attribute(const Node *node, PyObject *parent)
{
    return PyType_Check(parent) ? _PyType_Lookup((PyTypeObject *)parent, node->held.object) : NULL;
}

static PyObject *iterated(const Node *Py_UNUSED(node), PyObject *parent)
{
    return iterator_sequence(parent);
}

/* A read-only view of a mapping is a pointer to it. */
typedef struct {
    PyObject_HEAD PyObject *mapping;
} MappingProxy;

/* ---- what is made ---- */

static PyObject *or_nothing(PyObject *made)
{
    if (made == NULL) {
        PyErr_Clear();
    }
    return made;
}

/* A getter or member written in C: what a property or a Python descriptor would run is refused. */
static PyObject *c_attribute(const Node *node, PyObject *object)
{
    PyObject *descriptor = _PyType_Lookup(Py_TYPE(object), node->held.object);
    if (descriptor == NULL ||
        (!Py_IS_TYPE(descriptor, &PyGetSetDescr_Type) && !Py_IS_TYPE(descriptor, &PyMemberDescr_Type))) {
        return NULL;
    }
    Py_INCREF(descriptor);
    PyObject *result = Py_TYPE(descriptor)->tp_descr_get(descriptor, object, (PyObject *)Py_TYPE(object));
    Py_DECREF(descriptor);
    return or_nothing(result);
}

static PyObject *context_value(const Node *Py_UNUSED(node), PyObject *variable)
{
    PyObject *value = NULL; /* stays so where the variable has no value */
    if (PyContextVar_CheckExact(variable) && PyContextVar_Get(variable, NULL, &value) < 0) {
        PyErr_Clear();
    }
    return value;
}

static PyObject *array_type;

static PyObject *register_array_type(PyObject *Py_UNUSED(module), PyObject *type)
{
    Py_XSETREF(array_type, Py_NewRef(type));
    Py_RETURN_NONE;
}

/* A tensor in the memory of an array of NumPy's, as what is held makes it: of this very type, which runs no user's
 * code. */
static PyObject *array_tensor(const Node *node, PyObject *array)
{
    bool is_array = (PyObject *)Py_TYPE(array) == array_type;
    return is_array ? or_nothing(PyObject_CallOneArg(node->held.object, array)) : NULL;
}

/* A tensor without the class it has, as what is held makes it: which leaves alone what is no tensor. */
static PyObject *plain_tensor(const Node *node, PyObject *tensor)
{
    return or_nothing(PyObject_CallOneArg(node->held.object, tensor));
}

/* What the copy protocol says of an object whose very type brings its own part of it, written in C. */
static PyObject *reduced(const Node *Py_UNUSED(node), PyObject *object)
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
static PyObject *result_of(const Node *Py_UNUSED(node), PyObject *function)
{
    return PyCFunction_CheckExact(function) ? or_nothing(PyObject_CallNoArgs(function)) : NULL;
}

static PyObject *item_ahead(const Node *node, PyObject *iterator)
{
    return iterator_ahead(iterator, node->index);
}

static PyObject *referent(const Node *Py_UNUSED(node), PyObject *reference)
{
    return PyWeakref_CheckRef(reference) ? weakref_get(reference) : NULL;
}

static PyObject *own_context_value(const Node *Py_UNUSED(node), PyObject *variable)
{
    return context_own(variable);
}

static PyObject *item_of_deque(const Node *node, PyObject *object)
{
    return is_deque(object) && node->index < stored_length(object) ? deque_item(object, node->index) : NULL;
}

/* ---- what accessors are made of: how it is read, and handed back ---- */

static int read_index(Node *node, PyObject *argument, Death *Py_UNUSED(death))
{
    node->index = PyNumber_AsSsize_t(argument, PyExc_OverflowError);
    if (node->index < 0 && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "an index of a guard counts from the start");
    }
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *index_read(const Node *node)
{
    return PyLong_FromSsize_t(node->index);
}

static int hold_object(Node *node, PyObject *argument, Death *death)
{
    return held_init(&node->held, argument, death);
}

static int hold_name(Node *node, PyObject *argument, Death *death)
{
    if (!PyUnicode_CheckExact(argument)) {
        PyErr_Format(PyExc_TypeError, "a name is a str, not %.100R", argument);
        return -1;
    }
    return held_init(&node->held, argument, death);
}

static PyObject *held_object(const Node *node)
{
    return held_get(&node->held);
}

static bool slot_descriptor(PyObject *object)
{
    return Py_IS_TYPE(object, &PyMemberDescr_Type) && ((PyMemberDescrObject *)object)->d_member->type == T_OBJECT_EX;
}

static int hold_slot(Node *node, PyObject *argument, Death *death)
{
    if (!slot_descriptor(argument)) {
        PyErr_Format(PyExc_TypeError, "SLOT takes the descriptor of a slot, not %.100R", argument);
        return -1;
    }
    PyMemberDescrObject *descriptor = (PyMemberDescrObject *)argument;
    node->index = descriptor->d_member->offset;
    return held_init(&node->held, (PyObject *)descriptor->d_common.d_type, death);
}

static PyObject *held_slot(const Node *node)
{
    PyObject *owner = held_get(&node->held);
    return owner == NULL ? NULL : Py_BuildValue("(Nn)", owner, node->index);
}

static int hold_nothing(Node *Py_UNUSED(node), PyObject *Py_UNUSED(argument), Death *Py_UNUSED(death))
{
    return 0;
}

/* ---- the kinds ---- */

#define INDEX  read_index, index_read
#define OBJECT hold_object, held_object
#define NAME   hold_name, held_object
#define SLOT   hold_slot, held_slot
#define NONE   hold_nothing, held_object
/* A field of all objects of a type. */
#define FIELD(type, object, field) .place = field_place, .owner = &(type), .offset = offsetof(object, field)
#define FUNCTION(field)            FIELD(PyFunction_Type, PyFunctionObject, field)

static const AccessKind access_kinds[] = {
    /* Those that start a tree are not reached from anywhere. */
    {ACCESS_ARG, "ARG", INDEX, .memo = NULL},
    {ACCESS_FUNCTION, "FUNCTION", NONE, .memo = NULL},
    {ACCESS_KNOWN, "KNOWN", OBJECT, .memo = NULL},
    {3, "DICT_ITEM", OBJECT, .find = dict_item, .memo = &memo_of_dict_item},
    {4, "INSTANCE_DICT", NONE, .place = instance_dict_place, .memo = &memo_of_instance_dict, .is_dict = true},
    {5, "TYPE_LOOKUP", NAME, .find = class_attribute, .memo = &memo_of_type_lookup},
    {6, "TYPE_OF", NONE, .place = type_place, .memo = &memo_of_type_of},
    {7, "LIST_ITEM", INDEX, .place = list_place, .memo = &memo_of_list_item},
    {8, "TUPLE_ITEM", INDEX, .place = tuple_place, .memo = &memo_of_fixed_item},
    {9, "CELL_CONTENTS", NONE, FIELD(PyCell_Type, PyCellObject, ob_ref), .memo = &memo_of_field},
    {10, "FUNC_CODE", NONE, FUNCTION(func_code), .memo = &memo_of_field},
    {11, "FUNC_GLOBALS", NONE, FUNCTION(func_globals), .memo = &memo_of_fixed_field, .is_dict = true},
    {12, "FUNC_CLOSURE", NONE, FUNCTION(func_closure), .memo = &memo_of_fixed_field, .otherwise = Py_None},
    {13, "FUNC_DEFAULTS", NONE, FUNCTION(func_defaults), .memo = &memo_of_field, .otherwise = Py_None},
    {14, "FUNC_KWDEFAULTS", NONE, FUNCTION(func_kwdefaults), .memo = &memo_of_field, .otherwise = Py_None},
    {15, "METHOD_SELF", NONE, FIELD(PyMethod_Type, PyMethodObject, im_self), .memo = &memo_of_fixed_field},
    {16, "METHOD_FUNC", NONE, FIELD(PyMethod_Type, PyMethodObject, im_func), .memo = &memo_of_fixed_field},
    {17, "MODULE_DICT", NONE, FIELD(PyModule_Type, PyModuleObject, md_dict), .memo = &memo_of_fixed_field,
     .is_dict = true},
    {18, "SLOT", SLOT, .place = slot_place, .memo = &memo_of_slot},
    {19, "GETATTR", NAME, .place = attribute_place, .make = c_attribute, .memo = &memo_of_member},
    {20, "LRU_RESULT", OBJECT, .find = lru_result},
    {21, "CONTEXT_VALUE", NONE, .make = context_value},
    {22, "AHEAD", INDEX, .make = item_ahead},
    {23, "ITERATED", NONE, .find = iterated},
    {24, "REDUCED", NONE, .make = reduced},
    {25, "DEQUE_ITEM", INDEX, .make = item_of_deque},
    {26, "PROXIED", NONE, FIELD(PyDictProxy_Type, MappingProxy, mapping)},
    {27, "CONTEXT_OWN", NONE, .make = own_context_value},
    {28, "THREAD_DICT", NONE, .make = thread_dict},
    {29, "AS_TENSOR", OBJECT, .make = array_tensor},
    {30, "RESULT", NONE, .make = result_of},
    {31, "REFERENT", NONE, .make = referent},
    {32, "OFFSET", NONE, .make = tensor_offset},
    {33, "AS_PLAIN", OBJECT, .make = plain_tensor},
};

/* ---- for Python ---- */

/* read_slot(object, owner, offset, default): for the reference, which is given what the tree knows of a SLOT. */
static PyObject *read_slot(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object, *owner, *otherwise;
    Py_ssize_t offset;
    if (!PyArg_ParseTuple(args, "OO!nO", &object, &PyType_Type, &owner, &offset, &otherwise)) {
        return NULL;
    }
    PyObject *value = NULL;
    if (PyObject_TypeCheck(object, (PyTypeObject *)owner) && offset > 0 &&
        offset + (Py_ssize_t)sizeof(PyObject *) <= ((PyTypeObject *)owner)->tp_basicsize) {
        value = *(PyObject **)((char *)object + offset);
    }
    return Py_NewRef(value != NULL ? value : otherwise);
}

static PyObject *is_slot(PyObject *Py_UNUSED(module), PyObject *descriptor)
{
    return PyBool_FromLong(slot_descriptor(descriptor));
}

static PyMethodDef methods[] = {
    {"register_array_type", register_array_type, METH_O, "Say what NumPy's arrays are."},
    {"is_slot", is_slot, METH_O, "Whether guards can read what a descriptor stands for: that of a name in __slots__."},
    {"read_slot", read_slot, METH_VARARGS, "What a slot at an offset holds."},
    {NULL, NULL, 0, NULL},
};

const AccessKind *access_kind(int number)
{
    const AccessKind *kind = ROW_OF(access_kinds, number);
    if (kind == NULL) {
        PyErr_Format(PyExc_ValueError, "no accessor has the number %d", number);
    }
    return kind;
}

int guard_access_init(PyObject *module)
{
    return PyModule_AddFunctions(module, methods) < 0 ? -1 : ADD_KINDS(module, "ACCESS", access_kinds);
}

/* ---- the step ---- */

PyObject *access_borrowed(const Node *node, PyObject *parent)
{
    const AccessKind *kind = node->kind;
    if (kind->place == NULL) {
        return kind->find != NULL ? kind->find(node, parent) : NULL;
    }
    PyObject **place = kind->place(node, parent);
    return place == NULL ? NULL : *place != NULL ? *place : kind->otherwise;
}

PyObject *access_step(const Node *node, PyObject *parent)
{
    const AccessKind *kind = node->kind;
    return kind->make != NULL ? kind->make(node, parent) : Py_XNewRef(access_borrowed(node, parent));
}
