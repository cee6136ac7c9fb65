/* Checks: one fact about one object, told without running anything of the user's. */
#include "guard_tree.h"
#include "ordered.h"
#include "tensor_probe.h"

static int compare_op(PyObject *op)
{
    static const struct {
        const char *text;
        int op;
    } table[] = {{"<", Py_LT}, {"<=", Py_LE}, {"==", Py_EQ}, {"!=", Py_NE}, {">", Py_GT}, {">=", Py_GE}};
    for (size_t i = 0; PyUnicode_Check(op) && i < Py_ARRAY_LENGTH(table); i++) {
        if (PyUnicode_CompareWithASCIIString(op, table[i].text) == 0) {
            return table[i].op;
        }
    }
    PyErr_Format(PyExc_ValueError, "no comparison %R", op);
    return -1;
}

/* Values that are compared with <, ==, ...: the comparison of these types is C code. */
static bool is_scalar(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyUnicode_Type;
}

static int hold_items(Check *check, PyObject *items, Death *death)
{
    PyObject *sequence = PySequence_List(items);
    if (sequence == NULL) {
        return -1;
    }
    Py_ssize_t n = PyList_GET_SIZE(sequence);
    check->held = PyMem_Calloc((size_t)n + 1, sizeof(Held));
    int result = check->held == NULL ? (PyErr_NoMemory(), -1) : 0;
    while (result == 0 && check->count < n) {
        result = held_init(&check->held[check->count], PyList_GET_ITEM(sequence, check->count), death);
        check->count += result == 0;
    }
    Py_DECREF(sequence);
    return result;
}

static int hold_one(Check *check, PyObject *object, Death *death)
{
    check->held = PyMem_Calloc(1, sizeof(Held));
    if (check->held == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    check->count = 1;
    return held_init(check->held, object, death);
}

static int wrong(const char *what, PyObject *argument)
{
    PyErr_Format(PyExc_TypeError, "%s, not %.100R", what, argument);
    return -1;
}

static int init_compare(Check *check, PyObject *argument, Death *death)
{
    if (!PyTuple_Check(argument) || PyTuple_GET_SIZE(argument) != 3 || !is_scalar(PyTuple_GET_ITEM(argument, 1))) {
        return wrong("COMPARE takes (op, scalar, outcome)", argument);
    }
    check->op = compare_op(PyTuple_GET_ITEM(argument, 0));
    int expected = PyObject_IsTrue(PyTuple_GET_ITEM(argument, 2));
    check->expected = expected > 0;
    return check->op < 0 || expected < 0 ? -1 : hold_one(check, PyTuple_GET_ITEM(argument, 1), death);
}

int check_init(Check *check, int kind, PyObject *argument, Death *death)
{
    memset(check, 0, sizeof(*check));
    check->kind = kind;
    switch (kind) {
    case CHECK_TYPE:
        return PyType_Check(argument) ? hold_one(check, argument, death) : wrong("TYPE takes a class", argument);
    case CHECK_IS:
    case CHECK_NOT_IS:
        return hold_one(check, argument, death);
    case CHECK_EQUALS:
        return is_constant(argument) ? hold_one(check, argument, death) : wrong("EQUALS takes a constant", argument);
    case CHECK_COMPARE:
        return init_compare(check, argument, death);
    case CHECK_LENGTH:
    case CHECK_NOTHING_AHEAD:
    case CHECK_CONTEXT_UNSET:
        check->count = PyNumber_AsSsize_t(argument, PyExc_OverflowError);
        return check->count == -1 && PyErr_Occurred() ? -1 : 0;
    case CHECK_DICT_KEYS:
    case CHECK_SET_EQUALS:
    case CHECK_SET_ORDER:
    case CHECK_TYPE_KEYS:
        return hold_items(check, argument, death);
    case CHECK_KEY_ABSENT:
    case CHECK_MEMBER:
    case CHECK_NO_MEMBER:
        return hold_one(check, argument, death);
    case CHECK_TYPE_ABSENT:
    case CHECK_TYPE_LACKS:
    case CHECK_TYPE_OWNS:
    case CHECK_HASATTR:
    case CHECK_NO_ATTR:
        return PyUnicode_CheckExact(argument) ? hold_one(check, argument, death) : wrong("a name is a str", argument);
    case CHECK_REGISTRATIONS:
        return PyLong_CheckExact(argument) ? hold_one(check, argument, death) : wrong("a token is an int", argument);
    case CHECK_CELL_EMPTY:
    case CHECK_NONEMPTY:
    case CHECK_UNWATCHED:
        return 0;
    case CHECK_TENSOR:
        check->tensor = tensor_guard_new(argument, death);
        return check->tensor == NULL ? -1 : 0;
    default:
        PyErr_Format(PyExc_ValueError, "no check has the number %d", kind);
        return -1;
    }
}

void check_clear(Check *check)
{
    for (Py_ssize_t i = 0; check->held != NULL && i < check->count; i++) {
        held_clear(&check->held[i]);
    }
    PyMem_Free(check->held);
    check->held = NULL;
    if (check->tensor != NULL) {
        tensor_guard_free(check->tensor);
        check->tensor = NULL;
    }
}

static PyObject *held_tuple(const Check *check)
{
    PyObject *items = PyTuple_New(check->count);
    for (Py_ssize_t i = 0; items != NULL && i < check->count; i++) {
        PyObject *item = held_get(&check->held[i]);
        if (item == NULL) {
            Py_CLEAR(items);
            break;
        }
        PyTuple_SET_ITEM(items, i, item);
    }
    return items;
}

PyObject *check_argument(const Check *check)
{
    static const char *const ops[] = {"<", "<=", "==", "!=", ">", ">="};
    switch (check->kind) {
    case CHECK_LENGTH:
    case CHECK_NOTHING_AHEAD:
    case CHECK_CONTEXT_UNSET:
        return PyLong_FromSsize_t(check->count);
    case CHECK_COMPARE:
        return Py_BuildValue("(sOO)", ops[check->op], check->held->object, check->expected ? Py_True : Py_False);
    case CHECK_DICT_KEYS:
    case CHECK_SET_EQUALS:
    case CHECK_SET_ORDER:
    case CHECK_TYPE_KEYS:
        return held_tuple(check);
    case CHECK_CELL_EMPTY:
    case CHECK_NONEMPTY:
    case CHECK_UNWATCHED:
        Py_RETURN_NONE;
    case CHECK_TENSOR:
        return tensor_guard_spec(check->tensor);
    default:
        return held_get(check->held);
    }
}

/* ---- the checks ---- */

static PyTypeObject *deque_type, *thread_local_type;
static PyObject *get_cache_token;

static PyObject *imported(const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *found = module != NULL ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    return found;
}

int guard_check_setup(void)
{
    deque_type = (PyTypeObject *)imported("_collections", "deque");
    thread_local_type = (PyTypeObject *)imported("_thread", "_local");
    get_cache_token = deque_type != NULL && thread_local_type != NULL ? imported("_abc", "get_cache_token") : NULL;
    return get_cache_token == NULL ? -1 : 0;
}

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

PyObject *thread_dict(PyObject *object)
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

static int nothing_ahead(const Check *check, PyObject *iterator)
{
    PyObject *item = iterator_ahead(iterator, check->count);
    Py_XDECREF(item);
    return item == NULL && is_walking_iterator(iterator);
}

/* Whether a variable is not set in this context; with a count of 1, nor has a default. */
static int context_unset(const Check *check, PyObject *variable)
{
    if (!PyContextVar_CheckExact(variable)) {
        return 0;
    }
    PyObject *value = NULL;
    if (check->count == 0) {
        value = context_own(variable);
    } else if (PyContextVar_Get(variable, NULL, &value) < 0) {
        PyErr_Clear();
    }
    Py_XDECREF(value);
    return value == NULL;
}

static int dict_keys_hold(const Check *check, PyObject *dict)
{
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != check->count) {
        return 0;
    }
    if (PyODict_Check(dict) && check->count > 1) { /* its order is not that of the dictionary below it */
        const OrderedNode *node = ordered_first(dict);
        for (Py_ssize_t i = 0; i < check->count; i++, node = node->next) {
            if (node == NULL || !held_matches(&check->held[i], node->key)) {
                return 0;
            }
        }
        return node == NULL;
    }
    Py_ssize_t pos = 0;
    PyObject *key, *value;
    for (Py_ssize_t i = 0; PyDict_Next(dict, &pos, &key, &value); i++) {
        if (!held_matches(&check->held[i], key)) {
            return 0;
        }
    }
    return 1;
}

/* Whether a set holds that very object, without asking it for its hash. */
static bool has_member(PyObject *set, const Held *member)
{
    const PySetObject *members = (const PySetObject *)set;
    for (Py_ssize_t i = 0; i <= members->mask; i++) {
        PyObject *found = members->table[i].key;
        if (found != NULL && (held_matches(member, found) || held_refers_to_same(member, found))) {
            return true;
        }
    }
    return false;
}

static int set_equals(const Check *check, PyObject *set)
{
    if (!PyAnySet_Check(set) || PySet_GET_SIZE(set) != check->count) {
        return 0;
    }
    Py_ssize_t pos = 0;
    PyObject *item;
    Py_hash_t hash;
    while (_PySet_NextEntry(set, &pos, &item, &hash)) {
        bool found = false;
        for (Py_ssize_t i = 0; !found && i < check->count; i++) {
            const Held *held = &check->held[i];
            found = held->constant ? hash == held->hash && constants_equal(held->object, item) : held_is(held, item);
        }
        if (!found) {
            return 0;
        }
    }
    return 1;
}

static int set_order_holds(const Check *check, PyObject *set)
{
    if (!PyAnySet_Check(set) || PySet_GET_SIZE(set) != check->count) {
        return 0;
    }
    Py_ssize_t pos = 0;
    PyObject *item;
    Py_hash_t hash;
    for (Py_ssize_t i = 0; _PySet_NextEntry(set, &pos, &item, &hash); i++) {
        if (!held_matches(&check->held[i], item)) {
            return 0;
        }
    }
    return 1;
}

/* Whether the attribute is there: in the type, in the dictionary of the instance, or in a class itself. */
static int has_attribute(const Check *check, PyObject *object)
{
    if (_PyType_Lookup(Py_TYPE(object), check->held->object) != NULL ||
        (PyType_Check(object) && _PyType_Lookup((PyTypeObject *)object, check->held->object) != NULL)) {
        return 1;
    }
    PyObject **slot = instance_dict_slot(object), *value;
    return slot != NULL && PyDict_Check(*slot) ? dict_find(*slot, check->held, &value) != ABSENT : 0;
}

static int compare_holds(const Check *check, PyObject *object)
{
    if (!is_scalar(object)) {
        return 0;
    }
    PyObject *result = PyObject_RichCompare(object, check->held->object, check->op);
    if (result == NULL) {
        PyErr_Clear();
        return 0;
    }
    Py_DECREF(result);
    return (result == Py_True) == check->expected;
}

/* Whether no class was registered with an abstract class since: until then abstract classes repeat their answers. */
static int registrations_hold(const Check *check)
{
    PyObject *token = PyObject_CallNoArgs(get_cache_token);
    if (token == NULL) {
        PyErr_Clear();
        return 0;
    }
    int same = constants_equal(check->held->object, token);
    Py_DECREF(token);
    return same;
}

/* Whether an object is a class that can be changed: those of C keep their namespaces elsewhere. */
static bool is_heap_class(PyObject *object)
{
    return PyType_Check(object) && PyType_HasFeature((PyTypeObject *)object, Py_TPFLAGS_HEAPTYPE);
}

/* Whether nothing of the program's is called when the object dies. What guards wait for deaths with does not count. */
bool is_unwatched(PyObject *object)
{
    if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) {
        return true;
    }
    PyWeakReference *reference = *(PyWeakReference **)PyObject_GET_WEAKREFS_LISTPTR(object);
    for (; reference != NULL; reference = reference->wr_next) {
        if (reference->wr_callback != NULL && !Py_IS_TYPE(reference->wr_callback, &Death_Type)) {
            return false;
        }
    }
    return true;
}

int check_holds(const Check *check, PyObject *object)
{
    PyObject *value;
    switch (check->kind) {
    case CHECK_TYPE:
        return (PyObject *)Py_TYPE(object) == check->held->object;
    case CHECK_IS:
        return held_is(check->held, object);
    case CHECK_NOT_IS:
        return object != check->held->object;
    case CHECK_EQUALS:
        return constants_equal(check->held->object, object);
    case CHECK_COMPARE:
        return compare_holds(check, object);
    case CHECK_LENGTH:
        return stored_length(object) == check->count;
    case CHECK_NONEMPTY:
        return stored_length(object) > 0;
    case CHECK_UNWATCHED:
        return is_unwatched(object);
    case CHECK_NOTHING_AHEAD:
        return nothing_ahead(check, object);
    case CHECK_CONTEXT_UNSET:
        return context_unset(check, object);
    case CHECK_DICT_KEYS:
        return dict_keys_hold(check, object);
    case CHECK_KEY_ABSENT:
        return PyDict_Check(object) && dict_find(object, check->held, &value) == ABSENT;
    case CHECK_SET_EQUALS:
        return set_equals(check, object);
    case CHECK_SET_ORDER:
        return set_order_holds(check, object);
    case CHECK_MEMBER:
        return PyAnySet_Check(object) && has_member(object, check->held);
    case CHECK_NO_MEMBER:
        return PyAnySet_Check(object) && !has_member(object, check->held);
    case CHECK_TYPE_KEYS:
        return is_heap_class(object) && dict_keys_hold(check, ((PyTypeObject *)object)->tp_dict);
    case CHECK_TYPE_LACKS:
        return is_heap_class(object) && dict_find(((PyTypeObject *)object)->tp_dict, check->held, &value) == ABSENT;
    case CHECK_TYPE_OWNS:
        return is_heap_class(object) && dict_find(((PyTypeObject *)object)->tp_dict, check->held, &value) == FOUND;
    case CHECK_TYPE_ABSENT:
        return PyType_Check(object) && _PyType_Lookup((PyTypeObject *)object, check->held->object) == NULL;
    case CHECK_HASATTR:
        return has_attribute(check, object);
    case CHECK_NO_ATTR:
        return !has_attribute(check, object);
    case CHECK_CELL_EMPTY:
        return PyCell_Check(object) && ((PyCellObject *)object)->ob_ref == NULL;
    case CHECK_REGISTRATIONS:
        return registrations_hold(check);
    case CHECK_TENSOR:
        return tensor_guard_holds(check->tensor, object);
    default:
        return 0;
    }
}
