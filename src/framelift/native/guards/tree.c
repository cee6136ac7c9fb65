/* The GuardTree type: made from a specification, checked, explained. */
#include "tree.h"
#include "protocol.h"
#include "torch/tensor_probe.h"
#include "torch/torch_state.h"

#include <structmember.h>

static PyObject *tree_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"nodes", "relations", "nslots", "nfetched", "state", "names", NULL};
    PyObject *nodes, *relations, *state = Py_None, *names = Py_None;
    int nslots, nfetched;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!ii|OO:GuardTree", keywords, &PyList_Type, &nodes, &PyList_Type,
                                     &relations, &nslots, &nfetched, &state, &names)) {
        return NULL;
    }
    if (state != Py_None && !Py_IS_TYPE(state, &TorchState_Type)) {
        PyErr_SetString(PyExc_TypeError, "state is None or made by torch_state()");
        return NULL;
    }
    GuardTree *tree = (GuardTree *)type->tp_alloc(type, 0);
    if (tree == NULL) {
        return NULL;
    }
    tree->nslots = nslots;
    tree->nfetched = nfetched;
    tree->state = state != Py_None ? Py_NewRef(state) : NULL;
    if (names != Py_None) {
        tree->names = PySequence_Tuple(names);
        if (tree->names != NULL && PyTuple_GET_SIZE(tree->names) != PyList_GET_SIZE(nodes)) {
            PyErr_SetString(PyExc_ValueError, "there must be one name per node");
            Py_CLEAR(tree->names);
        }
    }
    if ((names != Py_None && tree->names == NULL) || tree_build(tree, nodes, relations) < 0) {
        Py_CLEAR(tree);
    }
    return (PyObject *)tree;
}

static void tree_dealloc(PyObject *self)
{
    GuardTree *tree = (GuardTree *)self;
    tree_clear(tree);
    Py_XDECREF(tree->state);
    Py_XDECREF(tree->names);
    Py_TYPE(self)->tp_free(self);
}

/* ---- for C ---- */

static int check_strictly(GuardTree *tree, PyObject *const *slots, PyObject *function, PyObject **fetched);

int guard_tree_check(PyObject *tree, PyObject *const *slots, PyObject *function, PyObject **fetched)
{
    if (UNLIKELY(((GuardTree *)tree)->strict)) {
        return check_strictly((GuardTree *)tree, slots, function, fetched);
    }
    return tree_check((GuardTree *)tree, slots, function, fetched, NULL);
}

Py_ssize_t guard_tree_nfetched(PyObject *tree)
{
    return ((GuardTree *)tree)->nfetched;
}

Py_ssize_t guard_tree_nslots(PyObject *tree)
{
    return ((GuardTree *)tree)->nslots;
}

int guard_tree_dead(PyObject *tree)
{
    return ((GuardTree *)tree)->death->dead;
}

/* ---- for Python ---- */

/* (slots, function) of a method call, as C wants them. */
static int read_slots(GuardTree *tree, PyObject *const *args, Py_ssize_t nargs, PyObject *const **slots,
                      PyObject **function)
{
    if (nargs < 1 || nargs > 2 || !PyTuple_Check(args[0]) || PyTuple_GET_SIZE(args[0]) != tree->nslots) {
        PyErr_Format(PyExc_TypeError, "a check takes a tuple of %d slots, and the function", tree->nslots);
        return -1;
    }
    *slots = ((PyTupleObject *)args[0])->ob_item;
    *function = nargs == 2 ? args[1] : Py_None;
    return 0;
}

static PyObject *check_tuple(GuardTree *tree, PyObject *const *slots, PyObject *function)
{
    PyObject *fetched = PyTuple_New(tree->nfetched);
    if (fetched == NULL) {
        return NULL;
    }
    int hit = tree_check(tree, slots, function, ((PyTupleObject *)fetched)->ob_item, NULL);
    if (hit == 1) {
        return fetched;
    }
    Py_DECREF(fetched);
    return hit == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *tree_check_method(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *const *slots, *function;
    return read_slots((GuardTree *)self, args, nargs, &slots, &function) < 0
               ? NULL
               : check_tuple((GuardTree *)self, slots, function);
}

static PyObject *node_name(GuardTree *tree, int node)
{
    int original = tree->nodes[node].original;
    return tree->names != NULL ? Py_NewRef(PyTuple_GET_ITEM(tree->names, original))
                               : PyUnicode_FromFormat("node %d", original);
}

/* Names of the members of a relation. */
static PyObject *relation_names(GuardTree *tree, const Relation *relation)
{
    PyObject *names = PyTuple_New(relation->count);
    for (int i = 0; names != NULL && i < relation->count; i++) {
        put_item(&names, i, node_name(tree, relation->nodes[i]));
    }
    return names;
}

/* Which object died that the guards depend on: the first of them. */
static PyObject *death_words(GuardTree *tree)
{
    for (int i = 0; i < tree->nnodes; i++) {
        const Node *node = &tree->nodes[i];
        bool dead = node->held.object != NULL && held_is_dead(&node->held);
        for (int j = 0; j < node->nchecks && !dead; j++) {
            const Check *check = &node->checks[j];
            dead = check->kind->number == CHECK_IS && held_is_dead(check->held);
        }
        if (dead) {
            PyObject *name = node_name(tree, i);
            PyObject *words = name ? PyUnicode_FromFormat("%S was an object that is gone now", name) : NULL;
            Py_XDECREF(name);
            return words;
        }
    }
    return PyUnicode_FromString("an object that the guards depend on is gone");
}

/* describe(kind, name, argument, found) in words; found is what the guard met: for an accessor, its parent. */
static PyObject *failure_words(GuardTree *tree, const Failure *failure)
{
    if (failure->kind == FAILED_DEAD) {
        return death_words(tree);
    }
    if (failure->kind == FAILED_STATE) {
        PyObject *words = torch_state_describe(tree->state);
        if (words == Py_None) {
            Py_SETREF(words, PyUnicode_FromString("torch's state changed"));
        }
        return words;
    }
    PyObject *name = NULL, *argument = NULL, *words = NULL;
    if (failure->relation >= 0) {
        const Relation *relation = &tree->relations[failure->relation];
        name = relation_names(tree, relation);
        argument = relation->kind->failure(relation);
    } else {
        const Node *node = &tree->nodes[failure->node];
        name = node_name(tree, failure->node);
        const Check *check = failure->check >= 0 ? &node->checks[failure->check] : NULL;
        argument = check != NULL ? check->kind->argument(check) : node->kind->argument(node);
    }
    if (name != NULL && argument != NULL && protocol.describe != NULL) {
        words = PyObject_CallFunction(protocol.describe, "iOOO", failure->kind, name, argument,
                                      failure->found != NULL ? failure->found : Py_None);
    } else if (name != NULL && argument != NULL) {
        words = PyUnicode_FromFormat("%S: guard %d on %.200R does not hold", name, failure->kind, argument);
    }
    Py_XDECREF(name);
    Py_XDECREF(argument);
    return words;
}

static PyObject *explain(GuardTree *tree, PyObject *const *slots, PyObject *function)
{
    Failure failure = {.node = -1, .check = -1, .relation = -1};
    PyObject **fetched = NEW_ARRAY(PyObject *, tree->nfetched);
    if (fetched == NULL) {
        return NULL;
    }
    int hit = tree_check(tree, slots, function, fetched, &failure);
    for (int i = 0; i < tree->nfetched; i++) {
        Py_XDECREF(fetched[i]);
    }
    PyMem_Free(fetched);
    PyObject *result = NULL;
    if (hit == 1) {
        result = Py_NewRef(Py_None);
    } else if (hit == 0) {
        PyObject *words = failure_words(tree, &failure);
        if (words != NULL) {
            int node = failure.node >= 0 ? tree->nodes[failure.node].original : -1;
            result = Py_BuildValue("(iiN)", node, failure.kind, words);
        }
    }
    Py_XDECREF(failure.found);
    return result;
}

static PyObject *tree_explain(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *const *slots, *function;
    return read_slots((GuardTree *)self, args, nargs, &slots, &function) < 0
               ? NULL
               : explain((GuardTree *)self, slots, function);
}

/* Whether the reference in Python says the same as a check did: `fetched` is a tuple, or None for a miss. */
static int agrees_with_reference(GuardTree *tree, PyObject *slots, PyObject *function, PyObject *fetched)
{
    if (protocol.disagreement == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "check_strict needs framelift.guards.reference to be imported");
        return -1;
    }
    PyObject *problem = PyObject_CallFunctionObjArgs(protocol.disagreement, tree, slots, function, fetched, NULL);
    if (problem != NULL && problem != Py_None) {
        PyErr_SetObject(PyExc_AssertionError, problem);
    }
    int agrees = problem == Py_None ? 0 : -1;
    Py_XDECREF(problem);
    return agrees;
}

static PyObject *tree_check_strict(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    GuardTree *tree = (GuardTree *)self;
    PyObject *const *slots, *function;
    if (read_slots(tree, args, nargs, &slots, &function) < 0) {
        return NULL;
    }
    PyObject *fetched = check_tuple(tree, slots, function);
    if (fetched != NULL && agrees_with_reference(tree, args[0], function, fetched) < 0) {
        Py_CLEAR(fetched);
    }
    return fetched;
}

static int check_strictly(GuardTree *tree, PyObject *const *slots, PyObject *function, PyObject **fetched)
{
    PyObject *given = new_tuple(slots, tree->nslots);
    PyObject *found = given != NULL ? check_tuple(tree, slots, function) : NULL;
    int result = found != NULL && agrees_with_reference(tree, given, function, found) == 0 ? found != Py_None : -1;
    for (int i = 0; result == 1 && i < tree->nfetched; i++) {
        fetched[i] = Py_NewRef(PyTuple_GET_ITEM(found, i));
    }
    Py_XDECREF(given);
    Py_XDECREF(found);
    return result;
}

static PyObject *node_spec(GuardTree *tree, int index)
{
    const Node *node = &tree->nodes[index];
    PyObject *checks = PyList_New(node->nchecks);
    for (int i = 0; checks != NULL && i < node->nchecks; i++) {
        const CheckKind *kind = node->checks[i].kind;
        put_item(&checks, i, Py_BuildValue("(iN)", kind->number, kind->argument(&node->checks[i])));
    }
    int out = -1;
    for (int i = 0; i < tree->noutputs; i++) {
        if (tree->outputs[i].node == index) {
            out = tree->outputs[i].fetched;
        }
    }
    int parent = node->parent < 0 ? -1 : tree->nodes[node->parent].original;
    return Py_BuildValue("(iiNNi)", parent, node->kind->number, node->kind->argument(node), checks, out);
}

/* The specification again, from what is still alive: the tree keeps no reference to the one it was made from. */
static PyObject *tree_nodes(PyObject *self, void *Py_UNUSED(closure))
{
    GuardTree *tree = (GuardTree *)self;
    PyObject *result = PyList_New(tree->nnodes);
    for (int i = 0; result != NULL && i < tree->nnodes; i++) {
        put_item(&result, tree->nodes[i].original, node_spec(tree, i));
    }
    return result;
}

static PyObject *tree_relations(PyObject *self, void *Py_UNUSED(closure))
{
    GuardTree *tree = (GuardTree *)self;
    PyObject *result = PyList_New(tree->nrelations);
    for (int i = 0; result != NULL && i < tree->nrelations; i++) {
        const Relation *relation = &tree->relations[i];
        put_item(&result, i, Py_BuildValue("(iN)", relation->kind->number, relation->kind->argument(tree, relation)));
    }
    return result;
}

static PyObject *tree_dead(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((GuardTree *)self)->death->dead);
}

/* For tests and figures: (memos kept, their hits, words, operations, tensors, late nodes) over all segments. */
static PyObject *tree_memo_info(PyObject *self, PyObject *Py_UNUSED(unused))
{
    GuardTree *tree = (GuardTree *)self;
    unsigned long long hits = 0;
    int memos = 0, words = 0, operations = 0, tensors = 0, late = 0;
    for (int i = 0; i < tree->nsegments; i++) {
        for (int j = 0; j < tree->segments[i].nmemos; j++) {
            const Memo *memo = tree->segments[i].memos[j];
            memos++;
            hits += memo->hits;
            words += memo->words.count;
            operations += memo->operations.count;
            tensors += memo->tensors.count;
            late += memo->late.count;
        }
    }
    return Py_BuildValue("{sisKsisisisi}", "memos", memos, "hits", hits, "words", words, "operations", operations,
                         "tensors", tensors, "late", late);
}

static PyMethodDef tree_methods[] = {
    {"memo_info", tree_memo_info, METH_NOARGS, "How much of the tree is remembered, and how often that was of use."},
    {"check", (PyCFunction)(void (*)(void))tree_check_method, METH_FASTCALL,
     "check(slots, function) -> tuple of fetched objects, or None for a miss."},
    {"check_strict", (PyCFunction)(void (*)(void))tree_check_strict, METH_FASTCALL,
     "check(), compared with the reference in Python; AssertionError where they disagree."},
    {"explain", (PyCFunction)(void (*)(void))tree_explain, METH_FASTCALL,
     "explain(slots, function) -> (node, kind, words) of the first guard that does not hold, or None."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef tree_getset[] = {
    {"nodes", tree_nodes, NULL, "The nodes this tree was made from; what has died is None.", NULL},
    {"relations", tree_relations, NULL, "The relations this tree was made from.", NULL},
    {"dead", tree_dead, NULL, "Whether an object the guards depend on has died: the tree never hits again.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef tree_members[] = {
    {"nslots", T_INT, offsetof(GuardTree, nslots), READONLY, "Number of slots a check takes."},
    {"nfetched", T_INT, offsetof(GuardTree, nfetched), READONLY, "Number of objects a hit fetches."},
    {"state", T_OBJECT, offsetof(GuardTree, state), READONLY, "The TorchState the guards were made under, or None."},
    {"names", T_OBJECT, offsetof(GuardTree, names), READONLY, "Names of the nodes, or None."},
    {"strict", T_BOOL, offsetof(GuardTree, strict), 0, "Compare every check with the reference in Python."},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject GuardTree_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framelift.native._core.GuardTree",
    .tp_basicsize = sizeof(GuardTree),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = tree_new,
    .tp_dealloc = tree_dealloc,
    .tp_methods = tree_methods,
    .tp_getset = tree_getset,
    .tp_members = tree_members,
    .tp_doc = "GuardTree(nodes, relations, nslots, nfetched, state=None, names=None)\n--\n\n"
              "Facts about the inputs of a frame. See framelift.guards.accessors and checks for the kinds of nodes and "
              "checks.",
};

int add_kind(PyObject *module, const char *prefix, const char *name, int number, size_t expected)
{
    char full[64];
    if ((size_t)number != expected) {
        PyErr_Format(PyExc_SystemError, "%s_%s has the number %d in the place of %zu", prefix, name, number, expected);
        return -1;
    }
    PyOS_snprintf(full, sizeof(full), "%s_%s", prefix, name);
    return PyModule_AddIntConstant(module, full, number);
}

int guards_init(PyObject *module)
{
    bool added = PyModule_AddType(module, &GuardTree_Type) == 0 &&
                 PyModule_AddIntConstant(module, "FAILED_STATE", FAILED_STATE) == 0 &&
                 PyModule_AddIntConstant(module, "FAILED_DEAD", FAILED_DEAD) == 0;
    return added ? 0 : -1;
}
