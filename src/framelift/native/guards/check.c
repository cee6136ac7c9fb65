/* Checks: one fact about one object, told without running anything of the user's. */
#include "tree.h"
#include "ordered.h"
#include "torch/tensor_probe.h"

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
    check->held = NEW_ARRAY(Held, n);
    int result = check->held == NULL ? -1 : 0;
    while (result == 0 && check->count < n) {
        result = held_init(&check->held[check->count], PyList_GET_ITEM(sequence, check->count), death);
        check->count += result == 0;
    }
    Py_DECREF(sequence);
    return result;
}

static int hold_one(Check *check, PyObject *object, Death *death)
{
    check->held = NEW_ARRAY(Held, 1);
    if (check->held == NULL) {
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

/* ---- what checks are made of: how it is read, and handed back ---- */

static int hold_class(Check *check, PyObject *argument, Death *death)
{
    return PyType_Check(argument) ? hold_one(check, argument, death) : wrong("TYPE takes a class", argument);
}

static int hold_constant(Check *check, PyObject *argument, Death *death)
{
    return is_constant(argument) ? hold_one(check, argument, death) : wrong("EQUALS takes a constant", argument);
}

static int hold_name(Check *check, PyObject *argument, Death *death)
{
    return PyUnicode_CheckExact(argument) ? hold_one(check, argument, death) : wrong("a name is a str", argument);
}

static int hold_token(Check *check, PyObject *argument, Death *death)
{
    return PyLong_CheckExact(argument) ? hold_one(check, argument, death) : wrong("a token is an int", argument);
}

static PyObject *held_one(const Check *check)
{
    return held_get(check->held);
}

static PyObject *held_items(const Check *check)
{
    PyObject *items = PyTuple_New(check->count);
    for (Py_ssize_t i = 0; items != NULL && i < check->count; i++) {
        put_item(&items, i, held_get(&check->held[i]));
    }
    return items;
}

static int read_count(Check *check, PyObject *argument, Death *Py_UNUSED(death))
{
    check->count = PyNumber_AsSsize_t(argument, PyExc_OverflowError);
    return check->count == -1 && PyErr_Occurred() ? -1 : 0;
}

static PyObject *count_read(const Check *check)
{
    return PyLong_FromSsize_t(check->count);
}

static int read_nothing(Check *Py_UNUSED(check), PyObject *Py_UNUSED(argument), Death *Py_UNUSED(death))
{
    return 0;
}

static PyObject *nothing_read(const Check *Py_UNUSED(check))
{
    Py_RETURN_NONE;
}

static int hold_comparison(Check *check, PyObject *argument, Death *death)
{
    if (!PyTuple_Check(argument) || PyTuple_GET_SIZE(argument) != 3 || !is_scalar(PyTuple_GET_ITEM(argument, 1))) {
        return wrong("COMPARE takes (op, scalar, outcome)", argument);
    }
    check->op = compare_op(PyTuple_GET_ITEM(argument, 0));
    int expected = PyObject_IsTrue(PyTuple_GET_ITEM(argument, 2));
    check->expected = expected > 0;
    return check->op < 0 || expected < 0 ? -1 : hold_one(check, PyTuple_GET_ITEM(argument, 1), death);
}

static PyObject *held_comparison(const Check *check)
{
    static const char *const ops[] = {"<", "<=", "==", "!=", ">", ">="};
    return Py_BuildValue("(sOO)", ops[check->op], check->held->object, check->expected ? Py_True : Py_False);
}

static int hold_tensor(Check *check, PyObject *argument, Death *death)
{
    check->tensor = tensor_guard_new(argument, death);
    return check->tensor == NULL ? -1 : 0;
}

static PyObject *held_tensor(const Check *check)
{
    return tensor_guard_spec(check->tensor);
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

static PyObject *get_cache_token;

/* ---- the checks ---- */

static int is_of_type(const Check *check, PyObject *object)
{
    return (PyObject *)Py_TYPE(object) == check->held->object;
}

static int is_the_object(const Check *check, PyObject *object)
{
    return held_is(check->held, object);
}

static int is_another(const Check *check, PyObject *object)
{
    return object != check->held->object;
}

static int equals(const Check *check, PyObject *object)
{
    return constants_equal(check->held->object, object);
}

static int length_is(const Check *check, PyObject *object)
{
    return stored_length(object) == check->count;
}

static int is_nonempty(const Check *Py_UNUSED(check), PyObject *object)
{
    return stored_length(object) > 0;
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

static int key_absent(const Check *check, PyObject *dict)
{
    PyObject *value;
    return PyDict_Check(dict) && dict_find(dict, check->held, &value) == ABSENT;
}

/* Whether a set holds that very object, without asking it for its hash. */
static int has_member(const Check *check, PyObject *set)
{
    const PySetObject *members = (const PySetObject *)set;
    const Held *member = check->held;
    if (!PyAnySet_Check(set)) {
        return 0;
    }
    for (Py_ssize_t i = 0; i <= members->mask; i++) {
        PyObject *found = members->table[i].key;
        if (found != NULL && (held_matches(member, found) || held_refers_to_same(member, found))) {
            return 1;
        }
    }
    return 0;
}

static int lacks_member(const Check *check, PyObject *set)
{
    return PyAnySet_Check(set) && !has_member(check, set);
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

static int lacks_attribute(const Check *check, PyObject *object)
{
    return !has_attribute(check, object);
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
static int registrations_hold(const Check *check, PyObject *Py_UNUSED(object))
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

static int class_keys_hold(const Check *check, PyObject *object)
{
    return is_heap_class(object) && dict_keys_hold(check, ((PyTypeObject *)object)->tp_dict);
}

static int class_lacks(const Check *check, PyObject *object)
{
    return is_heap_class(object) && key_absent(check, ((PyTypeObject *)object)->tp_dict);
}

static int class_owns(const Check *check, PyObject *object)
{
    PyObject *value;
    return is_heap_class(object) && dict_find(((PyTypeObject *)object)->tp_dict, check->held, &value) == FOUND;
}

static int class_has_nowhere(const Check *check, PyObject *object)
{
    return PyType_Check(object) && _PyType_Lookup((PyTypeObject *)object, check->held->object) == NULL;
}

static int cell_is_empty(const Check *Py_UNUSED(check), PyObject *object)
{
    return PyCell_Check(object) && ((PyCellObject *)object)->ob_ref == NULL;
}

/* Whether nothing of the program's is called when the object dies. What guards wait for deaths with does not count. */
static int is_unwatched(const Check *Py_UNUSED(check), PyObject *object)
{
    if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) {
        return 1;
    }
    PyWeakReference *reference = *(PyWeakReference **)PyObject_GET_WEAKREFS_LISTPTR(object);
    for (; reference != NULL; reference = reference->wr_next) {
        if (reference->wr_callback != NULL && !Py_IS_TYPE(reference->wr_callback, &Death_Type)) {
            return 0;
        }
    }
    return 1;
}

static int tensor_holds(const Check *check, PyObject *object)
{
    return tensor_guard_holds(check->tensor, object);
}

/* ---- the kinds ---- */

static const CheckKind check_kinds[] = {
    {CHECK_TYPE, "TYPE", hold_class, held_one, is_of_type, &memo_of_nothing},
    {CHECK_IS, "IS", hold_one, held_one, is_the_object, &memo_unless_steady}, /* else it is held by its parts only */
    {102, "NOT_IS", hold_one, held_one, is_another, &memo_of_nothing},
    {CHECK_EQUALS, "EQUALS", hold_constant, held_one, equals, &memo_unless_steady},
    {104, "COMPARE", hold_comparison, held_comparison, compare_holds, &memo_unless_steady},
    {105, "LENGTH", read_count, count_read, length_is, &memo_of_length},
    {106, "DICT_KEYS", hold_items, held_items, dict_keys_hold, &memo_of_keys},
    {107, "KEY_ABSENT", hold_one, held_one, key_absent, &memo_of_dict},
    {108, "SET_EQUALS", hold_items, held_items, set_equals, &memo_of_set},
    {109, "TYPE_ABSENT", hold_name, held_one, class_has_nowhere, &memo_of_class},
    {110, "HASATTR", hold_name, held_one, has_attribute, &memo_late}, /* these two may make an instance dictionary */
    {111, "NO_ATTR", hold_name, held_one, lacks_attribute, &memo_late},
    {112, "CELL_EMPTY", read_nothing, nothing_read, cell_is_empty, &memo_of_cell},
    {CHECK_TENSOR, "TENSOR", hold_tensor, held_tensor, tensor_holds, &memo_of_tensor},
    {114, "REGISTRATIONS", hold_token, held_one, registrations_hold, &memo_always},
    {115, "MEMBER", hold_one, held_one, has_member, &memo_of_set},
    {116, "NO_MEMBER", hold_one, held_one, lacks_member, &memo_of_set},
    {117, "NOTHING_AHEAD", read_count, count_read, nothing_ahead, &memo_late},
    {118, "CONTEXT_UNSET", read_count, count_read, context_unset, &memo_late},
    {119, "SET_ORDER", hold_items, held_items, set_order_holds, &memo_of_set},
    {120, "TYPE_KEYS", hold_items, held_items, class_keys_hold, &memo_late_inside},
    {121, "NONEMPTY", read_nothing, nothing_read, is_nonempty, &memo_of_length},
    {122, "TYPE_LACKS", hold_name, held_one, class_lacks, &memo_of_class},
    {123, "TYPE_OWNS", hold_name, held_one, class_owns, &memo_of_class},
    {124, "UNWATCHED", read_nothing, nothing_read, is_unwatched, &memo_always},
};

static PyObject *py_is_unwatched(PyObject *Py_UNUSED(module), PyObject *object)
{
    return PyBool_FromLong(is_unwatched(NULL, object));
}

static PyMethodDef methods[] = {
    {"is_unwatched", py_is_unwatched, METH_O, "Whether no weak reference calls anything when an object dies."},
    {NULL, NULL, 0, NULL},
};

int guard_check_init(PyObject *module)
{
    get_cache_token = imported("_abc", "get_cache_token");
    if (get_cache_token == NULL || PyModule_AddFunctions(module, methods) < 0) {
        return -1;
    }
    return ADD_KINDS(module, "CHECK", check_kinds);
}

int check_init(Check *check, int number, PyObject *argument, Death *death)
{
    memset(check, 0, sizeof(*check));
    check->kind = ROW_OF(check_kinds, number);
    if (check->kind == NULL) {
        PyErr_Format(PyExc_ValueError, "no check has the number %d", number);
        return -1;
    }
    return check->kind->init(check, argument, death);
}
