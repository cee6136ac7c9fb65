/* How a guard tree holds the objects it compares with: constants strongly, everything else weakly. */
#include "tree.h"

#include <structmember.h>

static PyObject *death_call(PyObject *self, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    ((Death *)self)->dead = true;
    Py_RETURN_NONE;
}

PyTypeObject Death_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framelift.native._core.Death",
    .tp_basicsize = sizeof(Death),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_call = death_call,
    .tp_doc = "Callback of a guard tree's weak references.",
};

/* Stands for an object that is held by its parts, where a specification is handed back. */
typedef struct {
    PyObject_HEAD Py_ssize_t address;
} ByParts;

static PyMemberDef by_parts_members[] = {
    {"address", T_PYSSIZET, offsetof(ByParts, address), READONLY, "What id() says of the object."},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject ByParts_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framelift.native._core.ByParts",
    .tp_basicsize = sizeof(ByParts),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_members = by_parts_members,
    .tp_doc = "An object a guard tree cannot hold weakly, and so knows by its address and parts.",
};

/* torch's value types (dtype, device, Size, ...), registered when torch is first used. */
#define MAX_REGISTERED 16
static PyTypeObject *registered[MAX_REGISTERED];
static int nregistered;

int register_constant_types(PyObject *types)
{
    PyObject *sequence = PySequence_Fast(types, "constant types must be a sequence");
    if (sequence == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); i++) {
        PyObject *type = PySequence_Fast_GET_ITEM(sequence, i);
        if (!PyType_Check(type) || constant_type((PyTypeObject *)type)) {
            continue;
        }
        if (nregistered == MAX_REGISTERED) {
            PyErr_SetString(PyExc_RuntimeError, "too many constant types");
            Py_DECREF(sequence);
            return -1;
        }
        registered[nregistered++] = (PyTypeObject *)Py_NewRef(type);
    }
    Py_DECREF(sequence);
    return 0;
}

/* Types whose instances are immutable and whose comparison is C code all the way, if their items are such. */
bool constant_type(PyTypeObject *type)
{
    if (type == &PyLong_Type || type == &PyUnicode_Type || type == &PyBool_Type || type == &PyFloat_Type ||
        type == Py_TYPE(Py_None) || type == &PyTuple_Type || type == &PyBytes_Type || type == &PyComplex_Type ||
        type == &PyFrozenSet_Type || type == &PyRange_Type || type == &PySlice_Type || type == &PyEllipsis_Type ||
        type == Py_TYPE(Py_NotImplemented)) {
        return true;
    }
    for (int i = 0; i < nregistered; i++) {
        if (type == registered[i]) {
            return true;
        }
    }
    return false;
}

static bool is_constant_below(PyObject *object, int depth)
{
    PyTypeObject *type = Py_TYPE(object);
    if (depth > 64 || !constant_type(type)) {
        return false;
    }
    if (PyTuple_Check(object)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
            if (!is_constant_below(PyTuple_GET_ITEM(object, i), depth + 1)) {
                return false;
            }
        }
    } else if (type == &PyFrozenSet_Type) {
        Py_ssize_t pos = 0;
        PyObject *item;
        Py_hash_t hash;
        while (_PySet_NextEntry(object, &pos, &item, &hash)) {
            if (!is_constant_below(item, depth + 1)) {
                return false;
            }
        }
    } else if (type == &PySlice_Type) {
        PySliceObject *slice = (PySliceObject *)object;
        return is_constant_below(slice->start, depth + 1) && is_constant_below(slice->stop, depth + 1) &&
               is_constant_below(slice->step, depth + 1);
    }
    return true;
}

bool is_constant(PyObject *object)
{
    return is_constant_below(object, 0);
}

static bool frozensets_equal(PyObject *a, PyObject *b)
{
    if (PySet_GET_SIZE(a) != PySet_GET_SIZE(b)) {
        return false;
    }
    Py_ssize_t pos = 0;
    PyObject *item;
    Py_hash_t hash;
    while (_PySet_NextEntry(a, &pos, &item, &hash)) {
        Py_ssize_t other_pos = 0;
        PyObject *other;
        Py_hash_t other_hash;
        bool found = false;
        while (!found && _PySet_NextEntry(b, &other_pos, &other, &other_hash)) {
            found = hash == other_hash && constants_equal(item, other);
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

bool constants_equal(PyObject *a, PyObject *b)
{
    PyTypeObject *type = Py_TYPE(a);
    if (type != Py_TYPE(b)) {
        return false;
    }
    if (a == b) {
        return true;
    }
    if (type == &PyFloat_Type) { /* bit for bit: 0.0 is not -0.0, a nan is itself */
        double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
        return memcmp(&x, &y, sizeof(x)) == 0;
    }
    if (type == &PyComplex_Type) {
        Py_complex x = ((PyComplexObject *)a)->cval, y = ((PyComplexObject *)b)->cval;
        return memcmp(&x, &y, sizeof(x)) == 0;
    }
    if (PyTuple_Check(a) && constant_type(type)) {
        if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) {
            return false;
        }
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++) {
            if (!constants_equal(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) {
                return false;
            }
        }
        return true;
    }
    if (type == &PyFrozenSet_Type) {
        return frozensets_equal(a, b);
    }
    if (type == &PySlice_Type) {
        PySliceObject *x = (PySliceObject *)a, *y = (PySliceObject *)b;
        return constants_equal(x->start, y->start) && constants_equal(x->stop, y->stop) &&
               constants_equal(x->step, y->step);
    }
    if (!constant_type(type)) {
        return false;
    }
    PyObject *result = PyObject_RichCompare(a, b, Py_EQ);
    if (result == NULL) {
        PyErr_Clear();
        return false;
    }
    Py_DECREF(result);
    return result == Py_True;
}

bool held_matches(const Held *held, PyObject *found)
{
    return held->constant ? constants_equal(held->object, found) : held_is(held, found);
}

/* ---- holding ---- */

static int hold_weakly(PyObject *object, Death *death, PyObject **anchor)
{
    *anchor = PyWeakref_NewRef(object, (PyObject *)death);
    return *anchor == NULL ? -1 : 0;
}

static int add_part(Held *held, Py_ssize_t offset, Death *death)
{
    PyObject *value = *(PyObject **)((char *)held->object + offset), *anchor = NULL;
    if (value != NULL) {
        if (is_constant(value) || Py_TYPE(value) == &PyBaseObject_Type || /* a mark, which keeps nothing else alive */
            (PyType_Check(value) && !PyType_HasFeature((PyTypeObject *)value, Py_TPFLAGS_HEAPTYPE))) {
            anchor = Py_NewRef(value);
        } else if (hold_weakly(value, death, &anchor) < 0) {
            return -1;
        }
    }
    int n = held->nparts++;
    held->parts[n].offset = offset;
    held->parts[n].value = value;
    held->parts[n].anchor = anchor;
    return 0;
}

static int add_word(Held *held, Py_ssize_t offset)
{
    int n = held->nparts++;
    held->parts[n].offset = offset;
    held->parts[n].value = *(PyObject **)((char *)held->object + offset);
    held->parts[n].anchor = NULL;
    return 0;
}

/* Offset of a member that a built-in type publishes, -1 if it does not. */
static Py_ssize_t member_offset(PyTypeObject *type, const char *name)
{
    for (PyMemberDef *member = type->tp_members; member != NULL && member->name != NULL; member++) {
        if (strcmp(member->name, name) == 0) {
            return member->offset;
        }
    }
    return -1;
}

static int add_members(Held *held, PyTypeObject *type, const char *const *names, Death *death)
{
    for (; *names != NULL; names++) {
        Py_ssize_t offset = member_offset(type, *names);
        if (offset < 0) {
            PyErr_Format(PyExc_TypeError, "%s has no member %s", type->tp_name, *names);
            return -1;
        }
        if (add_part(held, offset, death) < 0) {
            return -1;
        }
    }
    return 0;
}

static int hold_by_parts(Held *held, Death *death)
{
    static const char *const property_members[] = {"fget", "fset", "fdel", NULL};
    static const char *const wrapper_members[] = {"__func__", NULL};
    PyObject *object = held->object;
    PyTypeObject *type = Py_TYPE(object);
    held->parts = NEW_ARRAY(HeldPart, MAX_PARTS);
    if (held->parts == NULL) {
        return -1;
    }
    if (type == &PyProperty_Type) {
        return add_members(held, type, property_members, death);
    }
    if (type == &PyStaticMethod_Type || type == &PyClassMethod_Type) {
        return add_members(held, type, wrapper_members, death);
    }
    /* Descriptors of C code: the class they belong to and the definition they were made from. */
    if (type == &PyMemberDescr_Type || type == &PyGetSetDescr_Type || type == &PyMethodDescr_Type ||
        type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type) {
        Py_ssize_t definition = type == &PyMemberDescr_Type    ? (Py_ssize_t)offsetof(PyMemberDescrObject, d_member)
                                : type == &PyGetSetDescr_Type  ? (Py_ssize_t)offsetof(PyGetSetDescrObject, d_getset)
                                : type == &PyWrapperDescr_Type ? (Py_ssize_t)offsetof(PyWrapperDescrObject, d_base)
                                                               : (Py_ssize_t)offsetof(PyMethodDescrObject, d_method);
        return add_part(held, (Py_ssize_t)offsetof(PyDescrObject, d_type), death) < 0 ? -1 : add_word(held, definition);
    }
    if (type == &PyTuple_Type && PyTuple_GET_SIZE(object) + 2 <= MAX_PARTS) {
        int result = add_word(held, (Py_ssize_t)offsetof(PyObject, ob_type));
        result = result < 0 ? result : add_word(held, (Py_ssize_t)offsetof(PyVarObject, ob_size));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object) && result == 0; i++) {
            result =
                add_part(held, (Py_ssize_t)(offsetof(PyTupleObject, ob_item) + (size_t)i * sizeof(PyObject *)), death);
        }
        return result;
    }
    if (member_place(object, &held->member)) {
        Py_INCREF(held->member.key);
        return add_part(held, (Py_ssize_t)offsetof(PyObject, ob_type), death);
    }
    PyErr_Format(PyExc_TypeError, "a guard cannot hold a %s object weakly", type->tp_name);
    return -1;
}

int held_init(Held *held, PyObject *object, Death *death)
{
    memset(held, 0, sizeof(*held));
    held->object = object;
    if (is_constant(object)) {
        held->constant = true;
        held->anchor = Py_NewRef(object);
        held->hash = PyObject_Hash(object);
        if (held->hash == -1) { /* a slice: never looked up as a key */
            PyErr_Clear();
        }
        return 0;
    }
    if (PyType_Check(object) && !PyType_HasFeature((PyTypeObject *)object, Py_TPFLAGS_HEAPTYPE)) {
        held->anchor = Py_NewRef(object);
        held->hash = PyObject_Hash(object);
        return 0;
    }
    if (PyWeakref_CheckRefExact(object) && !((PyWeakReference *)object)->wr_callback) {
        held->anchor = Py_NewRef(object); /* keeps nothing else alive */
        return 0;
    }
    int result = PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)) ? hold_weakly(object, death, &held->anchor)
                                                           : hold_by_parts(held, death);
    if (result < 0) {
        held_clear(held);
    }
    return result;
}

void held_clear(Held *held)
{
    Py_CLEAR(held->anchor);
    for (int i = 0; i < held->nparts; i++) {
        Py_CLEAR(held->parts[i].anchor);
    }
    held->nparts = 0;
    PyMem_Free(held->parts);
    held->parts = NULL;
    Py_CLEAR(held->member.key);
    held->object = NULL;
}

bool has_its_parts(const Held *held)
{
    for (int i = 0; i < held->nparts; i++) {
        if (*(PyObject **)((char *)held->object + held->parts[i].offset) != held->parts[i].value) {
            return false;
        }
    }
    return held->member.key == NULL || is_kept(Py_TYPE(held->object), &held->member, held->object);
}

bool held_refers_to_same(const Held *held, PyObject *found)
{
    bool are_references =
        held->anchor == held->object && PyWeakref_CheckRefExact(held->object) && PyWeakref_CheckRefExact(found);
    if (!are_references) {
        return false;
    }
    PyObject *mine = weakref_get(held->object), *theirs = weakref_get(found);
    bool same = mine == theirs && mine != Py_None;
    Py_XDECREF(mine);
    Py_XDECREF(theirs);
    return same;
}

static bool died(PyObject *object, PyObject *anchor)
{
    if (anchor == NULL || anchor == object) {
        return false;
    }
    PyObject *alive = weakref_get(anchor);
    Py_XDECREF(alive);
    return alive == Py_None;
}

/* The class of a member that it still keeps, new; NULL where it does not, or where there is none. */
static PyObject *keeping_class(const Held *held)
{
    PyObject *anchor = held->member.key != NULL ? held->parts[0].anchor : NULL;
    PyObject *cls = anchor != NULL ? weakref_get(anchor) : NULL;
    if (cls != NULL && (cls == Py_None || !is_kept((PyTypeObject *)cls, &held->member, held->object))) {
        Py_CLEAR(cls);
    }
    return cls;
}

bool held_is_dead(const Held *held)
{
    if (held->member.key != NULL) {
        PyObject *cls = keeping_class(held);
        Py_XDECREF(cls);
        return cls == NULL;
    }
    bool dead = died(held->object, held->anchor);
    for (int i = 0; i < held->nparts && !dead; i++) {
        dead = died(held->parts[i].value, held->parts[i].anchor);
    }
    return dead;
}

PyObject *held_get(const Held *held)
{
    PyObject *object = held->object;
    if (object == NULL) {
        Py_RETURN_NONE;
    }
    if (held->member.key != NULL) {
        PyObject *cls = keeping_class(held), *member = Py_NewRef(cls != NULL ? object : Py_None);
        Py_XDECREF(cls);
        return member;
    }
    if (held->anchor == NULL) { /* held by parts, which may be alive when their wrapper is not */
        ByParts *stand_in = PyObject_New(ByParts, &ByParts_Type);
        if (stand_in != NULL) {
            stand_in->address = (Py_ssize_t)object;
        }
        return (PyObject *)stand_in;
    }
    if (held->anchor == object) {
        return Py_NewRef(object);
    }
    return weakref_get(held->anchor);
}

static PyObject *is_constant_type(PyObject *Py_UNUSED(module), PyObject *type)
{
    return PyBool_FromLong(PyType_Check(type) && constant_type((PyTypeObject *)type));
}

static PyMethodDef methods[] = {
    {"is_constant_type", is_constant_type, METH_O, "Whether guards compare objects of this type by value."},
    {NULL, NULL, 0, NULL},
};

int guard_held_init(PyObject *module)
{
    if (PyType_Ready(&Death_Type) < 0 || PyModule_AddType(module, &ByParts_Type) < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, methods);
}
