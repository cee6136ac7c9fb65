/* Checking again what a memo noted (see record.c), and mending a memo after changes that do not matter. */
#include "tree.h"
#include "torch/tensor_probe.h"

/* ---- mending ---- */

static bool checks_hold(const Node *node, PyObject *object)
{
    for (int i = 0; i < node->nchecks; i++) {
        /* Tensors are checked after the words in any case. */
        if (node->checks[i].kind->number != CHECK_TENSOR && check_holds(&node->checks[i], object) != 1) {
            return false;
        }
    }
    return true;
}

static bool is_late(const Memo *memo, int node)
{
    for (int i = 0; i < memo->late.count; i++) {
        if (memo->late.items[i] == node) {
            return true;
        }
    }
    return false;
}

/* What was steady because a version stood for it has to be looked at: the same object, for all that was taken for
 * granted? Below an object with a version of its own, or with words of its own, those tell. */
static bool still_same(const GuardTree *tree, const Segment *segment, Memo *memo, int index, PyObject *parent)
{
    const Node *node = &tree->nodes[index];
    int local = index - segment->start;
    if (is_late(memo, index)) {
        return true;
    }
    PyObject *object = access_borrowed(node, parent);
    if (object == NULL || !checks_hold(node, object)) {
        return false;
    }
    if (object != memo->objects[local]) {
        int exchange = memo->exchange[local];
        if (exchange == FIXED) {
            return false;
        }
        if (exchange >= 0) {
            TensorCheck *check = &memo->tensors.items[exchange];
            if (Py_TYPE(object) != check->guard->type) {
                return false;
            }
            check->tensor = object;
            check->impl = tensor_impl(object);
        }
        memo->objects[local] = object;
        memo->types[local] = Py_TYPE(object);
        if (node->wanted >= 0) {
            memo->wanted[node->wanted - segment->wanted] = object;
            memo->id = ++memo_last_id;
            memo->related = false;
        }
        return true;
    }
    if (Py_TYPE(object) != memo->types[local] ||
        (PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) && memo_reads_inside(tree, index) &&
         !memo_has_check(node, CHECK_TYPE))) {
        return memo->exchange[local] != FIXED;
    }
    for (int i = index + 1; i < node->end; i = tree->nodes[i].end) {
        const AccessMemo *access = tree->nodes[i].kind->memo;
        if (access != NULL && access->fixed && !still_same(tree, segment, memo, i, object)) {
            return false;
        }
    }
    return true;
}

/* A dictionary or a type has another version: whether all that the version stood for is as it was. */
static bool mend(const GuardTree *tree, const Segment *segment, Memo *memo, int index)
{
    const Node *node = &tree->nodes[index];
    PyObject *object = memo->objects[index - segment->start];
    if (!checks_hold(node, object)) {
        return false;
    }
    for (int i = index + 1; i < node->end; i = tree->nodes[i].end) {
        const AccessMemo *access = tree->nodes[i].kind->memo;
        bool by_version = access != NULL && (access->needs.dict_version || access->needs.type_version);
        if (by_version && !still_same(tree, segment, memo, i, object)) {
            return false;
        }
    }
    return PyType_Check(object) ? ((PyTypeObject *)object)->tp_version_tag != 0 : true;
}

/* ---- checking again ---- */

enum { AHEAD = 6 };

/* 1 all is as it was, 0 a check does not hold, -1 something changed: walk */
int memo_check(const GuardTree *tree, const Segment *segment, Memo *memo)
{
    for (int i = 0; i < memo->operations.count; i++) {
        const Operation *operation = &memo->operations.items[i];
        if (operation->kind == WORDS) {
            Word *word = &memo->words.items[operation->first], *end = word + operation->count;
            for (; word < end; word++) {
                if (LIKELY(*word->address == word->expected)) {
                    continue;
                }
                int owner = memo->owners.items[word - memo->words.items];
                if (owner >= 0) {
                    return -1;
                }
                if (!mend(tree, segment, memo, ~owner)) {
                    return -1;
                }
                word->expected = *word->address; /* looking may have given a type its version */
            }
        } else if (operation->kind == LOOKUP) {
            PyObject *value = NULL;
            if (dict_find(operation->object, &tree->nodes[operation->node].held, &value) != FOUND ||
                value != operation->expected) {
                return -1;
            }
        } else if (check_holds(operation->check, operation->object) != 1) {
            return 0;
        }
    }
    const TensorCheck *tensor = memo->tensors.items, *end = tensor + memo->tensors.count;
    for (; tensor < end; tensor++) {
        if (end - tensor > AHEAD) {
            /* Tensors lie all over the memory; their addresses are known long before they are needed. */
            __builtin_prefetch(tensor[AHEAD].impl + tensor_access.metadata);
            __builtin_prefetch(tensor[AHEAD].impl + tensor_access.keys);
            __builtin_prefetch(tensor[AHEAD].tensor);
        }
        if (!tensor_guard_holds_native(tensor->guard, tensor->tensor)) {
            return 0;
        }
    }
    memo->hits++;
    return 1;
}

/* ---- at import ---- */

bool dict_versions_reliable = true;

/* Changes an attribute of an instance whose dictionary exists, and whether the dictionary's version tells. */
static int change_tells(PyObject *instance, PyDictObject *dict, const char *name, PyObject *value)
{
    uint64_t before = dict->ma_version_tag;
    int result = value != NULL ? PyObject_SetAttrString(instance, name, value) : PyObject_DelAttrString(instance, name);
    return result < 0 ? -1 : dict->ma_version_tag != before;
}

static PyObject *dict_tags_reliable(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(dict_versions_reliable);
}

static PyMethodDef methods[] = {
    {"dict_tags_reliable", dict_tags_reliable, METH_NOARGS,
     "Whether every store to a dictionary changes its version (not in CPython 3.13.0)."},
    {NULL, NULL, 0, NULL},
};

int guard_memo_init(PyObject *module)
{
    PyObject *cls = PyObject_CallFunction((PyObject *)&PyType_Type, "s(){}", "Probe"), *dict = NULL;
    PyObject *instance = cls != NULL ? PyObject_CallNoArgs(cls) : NULL;
    int result = instance != NULL ? PyObject_SetAttrString(instance, "first", Py_None) : -1;
    if (result == 0 && (dict = PyObject_GenericGetDict(instance, NULL)) == NULL) {
        result = -1;
    }
    const struct {
        const char *name;
        PyObject *value;
    } changes[] = {{"first", Py_True}, {"second", Py_True}, {"second", Py_False}, {"first", NULL}};
    for (size_t i = 0; result == 0 && i < Py_ARRAY_LENGTH(changes); i++) {
        int tells = change_tells(instance, (PyDictObject *)dict, changes[i].name, changes[i].value);
        result = tells < 0 ? -1 : 0;
        dict_versions_reliable &= tells != 0;
    }
    Py_XDECREF(dict);
    Py_XDECREF(instance);
    Py_XDECREF(cls);
    return result < 0 ? -1 : PyModule_AddFunctions(module, methods);
}
