/* Memos: what a tree found below one root, kept as memory words that must not have changed.
 *
 * A walk that succeeds reads a number of memory words: versions of dictionaries and types, pointers to types and
 * instance dictionaries, items of lists, cells. While all of them are what they were, the walk would find the same
 * objects and succeed again; so they are noted with their addresses, and checking again is a loop of comparisons. Two
 * rules make that sound:
 *
 *   order    An address is read only after the words before it have shown that the object it lies in is still there:
 *            words are noted in the order of the walk, parents first. Nothing is held meanwhile, because nothing that
 *            could free an object runs.
 *   steady   A pointer that is what it was need not point to the object it pointed to: memory is used again. What a
 *            version covers is the same object, since versions are never used again and what is stored in a
 *            dictionary or type stays alive with it; so is an object that a guard holds. Only of such steady objects
 *            are immutable properties taken for granted; of others they are checked again.
 *
 * What cannot be told by words is checked by an operation among them, in place. What might run Python code (and with
 * it free anything) comes late: after all words, by walking, with references held.
 *
 * A dictionary whose version changed is looked at key by key, and the memo mended if it leads to the same objects. */
#include "guard_tree.h"
#include "tensor_probe.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <internal/pycore_dict.h>
#include <internal/pycore_moduleobject.h>
#pragma GCC diagnostic pop

uint64_t memo_last_id;

/* ---- growing ---- */

static bool grow(void **items, int count, int *room, size_t size)
{
    if (count < *room) {
        return true;
    }
    int wanted = *room == 0 ? 16 : *room * 2;
    void *grown = PyMem_Realloc(*items, (size_t)wanted * size);
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *room = wanted;
    return true;
}

/* Adds a place to an array; NULL without memory. */
#define ADD(array)                                                                                                     \
    (grow((void **)&(array).items, (array).count, &(array).room, sizeof(*(array).items))                               \
         ? &(array).items[(array).count++]                                                                             \
         : NULL)

void memo_free(Memo *memo)
{
    if (memo != NULL) {
        PyMem_Free(memo->words.items);
        PyMem_Free(memo->owners.items);
        PyMem_Free(memo->operations.items);
        PyMem_Free(memo->tensors.items);
        PyMem_Free(memo->late.items);
        PyMem_Free(memo->objects);
        PyMem_Free(memo->wanted);
        PyMem_Free(memo->types);
        PyMem_Free(memo->exchange);
        PyMem_Free(memo);
    }
}

/* ---- noting ---- */

typedef enum { NOTED, LATE, FAILED } Noted;

typedef struct {
    const GuardTree *tree;
    const Segment *segment;
    Memo *memo;
    bool *steady; /* of the segment's nodes */
} Recorder;

static Noted note_word(Memo *memo, int node, bool version, const void *address, uint64_t expected)
{
    Word *word = ADD(memo->words);
    int *owner = ADD(memo->owners);
    if (word == NULL || owner == NULL) {
        return FAILED;
    }
    *word = (Word){address, expected};
    *owner = version ? ~node : node;
    int last = memo->operations.count - 1;
    if (last >= 0 && memo->operations.items[last].kind == WORDS) {
        memo->operations.items[last].count++;
        return NOTED;
    }
    Operation *operation = ADD(memo->operations);
    if (operation == NULL) {
        return FAILED;
    }
    *operation = (Operation){.kind = WORDS, .node = node, .first = memo->words.count - 1, .count = 1};
    return NOTED;
}

static Noted note_pointer(Memo *memo, int node, const void *address)
{
    return note_word(memo, node, false, address, *(const Bits *)address);
}

static Noted note_check(Memo *memo, int node, const Check *check, PyObject *object)
{
    Operation *operation = ADD(memo->operations);
    if (operation == NULL) {
        return FAILED;
    }
    *operation = (Operation){.kind = CHECK, .node = node, .check = check, .object = object};
    return NOTED;
}

static Noted note_lookup(Memo *memo, int node, PyObject *dict, PyObject *expected)
{
    Operation *operation = ADD(memo->operations);
    if (operation == NULL) {
        return FAILED;
    }
    *operation = (Operation){.kind = LOOKUP, .node = node, .object = dict, .expected = expected};
    return NOTED;
}

bool memo_has_check(const Node *node, int kind)
{
    for (int i = 0; i < node->nchecks; i++) {
        if (node->checks[i].kind == kind) {
            return true;
        }
    }
    return false;
}

/* Whether stores to this dictionary change its version. CPython 3.13.0 forgets to for the attributes of an instance
 * that are stored in the instance itself (python/cpython#125608). */
static bool version_counts(PyObject *dict)
{
#if SINCE_313
    PyDictValues *values = ((PyDictObject *)dict)->ma_values;
    return dict_versions_reliable || values == NULL || !values->embedded;
#else
    (void)dict;
    return true;
#endif
}

/* A member: its place depends on the type of the object, and on what that type says. */
static Noted note_member(Memo *memo, int node, PyObject *object, PyObject *const *slot)
{
    PyTypeObject *type = Py_TYPE(object);
    bool heap = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
    if (slot == NULL || *slot == NULL || (heap && type->tp_version_tag == 0)) {
        return LATE;
    }
    Noted noted = note_pointer(memo, node, &object->ob_type);
    if (noted == NOTED && heap) {
        noted = note_pointer(memo, node, &type->tp_version_tag);
    }
    return noted == NOTED ? note_pointer(memo, node, slot) : noted;
}

/* How the object of a node was reached; sets whether it is steady. */
static Noted note_access(Recorder *recorder, int index, PyObject *object)
{
    const Node *node = &recorder->tree->nodes[index];
    const Segment *segment = recorder->segment;
    Memo *memo = recorder->memo;
    bool *steady = &recorder->steady[index - segment->start];
    if (node->parent < 0) {
        *steady = node->accessor == ACCESS_KNOWN && node->held.nparts == 0;
        return NOTED;
    }
    const Node *above = &recorder->tree->nodes[node->parent];
    PyObject *parent = memo->objects[node->parent - segment->start];
    bool parent_steady = recorder->steady[node->parent - segment->start];
    const void *address;
    switch (node->accessor) {
    case ACCESS_DICT_ITEM:
        *steady = version_counts(parent);
        return *steady ? NOTED : note_lookup(memo, index, parent, object);
    case ACCESS_TYPE_LOOKUP:
        *steady = true;
        return NOTED; /* by the version of its type, or late with it */
    case ACCESS_INSTANCE_DICT:
        /* Where the dictionary is depends on the type, which something must hold, and on the size of the object. */
        if (!memo_has_check(above, CHECK_TYPE) || (Py_TYPE(parent)->tp_itemsize != 0 && !parent_steady)) {
            return LATE;
        }
        return note_pointer(memo, index, instance_dict_slot(parent));
    case ACCESS_SLOT:
        return memo_has_check(above, CHECK_TYPE) ? note_pointer(memo, index, (char *)parent + node->index) : LATE;
    case ACCESS_TYPE_OF:
        *steady = memo_has_check(above, CHECK_TYPE); /* which holds the type, and noted it */
        return *steady ? NOTED : note_pointer(memo, index, &parent->ob_type);
    case ACCESS_GETATTR:
        return note_member(memo, index, parent, member_slot(parent, node->held.object));
    case ACCESS_LIST_ITEM:
        return note_pointer(memo, index, &((PyListObject *)parent)->ob_item[node->index]);
    case ACCESS_CELL_CONTENTS:
        return note_pointer(memo, index, &((PyCellObject *)parent)->ob_ref);
    case ACCESS_FUNC_CODE:
        return note_pointer(memo, index, &((PyFunctionObject *)parent)->func_code);
    case ACCESS_FUNC_DEFAULTS:
        return note_pointer(memo, index, &((PyFunctionObject *)parent)->func_defaults);
    case ACCESS_FUNC_KWDEFAULTS:
        return note_pointer(memo, index, &((PyFunctionObject *)parent)->func_kwdefaults);
    /* What cannot be exchanged in a steady object is steady with it. */
    case ACCESS_TUPLE_ITEM:
        address = &((PyTupleObject *)parent)->ob_item[node->index];
        break;
    case ACCESS_FUNC_GLOBALS:
        address = &((PyFunctionObject *)parent)->func_globals;
        break;
    case ACCESS_FUNC_CLOSURE:
        address = &((PyFunctionObject *)parent)->func_closure;
        break;
    case ACCESS_METHOD_SELF:
        address = &((PyMethodObject *)parent)->im_self;
        break;
    case ACCESS_METHOD_FUNC:
        address = &((PyMethodObject *)parent)->im_func;
        break;
    case ACCESS_MODULE_DICT:
        address = &((PyModuleObject *)parent)->md_dict;
        break;
    default:
        return LATE;
    }
    *steady = parent_steady;
    return parent_steady ? NOTED : note_pointer(memo, index, address);
}

/* An object that a guard on it holds: its pointer says which one it is. */
static bool is_held_by(const Node *node, PyObject *object)
{
    for (int i = 0; i < node->nchecks; i++) {
        const Check *check = &node->checks[i];
        if ((check->kind == CHECK_IS || check->kind == CHECK_EQUALS) && check->held->object == object &&
            check->held->nparts == 0) {
            return true;
        }
    }
    return object == Py_None;
}

/* Whether words inside the object are noted, so that its layout must be known first. */
bool memo_reads_inside(const GuardTree *tree, int index)
{
    const Node *node = &tree->nodes[index];
    for (int child = index + 1; child < node->end; child = tree->nodes[child].end) {
        if (tree->nodes[child].accessor != ACCESS_TYPE_OF) {
            return true;
        }
    }
    for (int i = 0; i < node->nchecks; i++) {
        switch (node->checks[i].kind) {
        case CHECK_LENGTH:
        case CHECK_NONEMPTY:
        case CHECK_DICT_KEYS:
        case CHECK_KEY_ABSENT:
        case CHECK_TYPE_ABSENT:
        case CHECK_TYPE_LACKS:
        case CHECK_TYPE_OWNS:
        case CHECK_TYPE_KEYS:
        case CHECK_CELL_EMPTY:
            return true;
        default:
            break;
        }
    }
    return false;
}

/* The type, where it is guarded or where the inside of the object is read. */
static Noted note_type(Recorder *recorder, int index, PyObject *object)
{
    const Node *node = &recorder->tree->nodes[index];
    bool held = memo_has_check(node, CHECK_TYPE), heap = PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE);
    if (recorder->steady[index - recorder->segment->start]) {
        /* The same object; but instances of most classes, and modules, can be given another class. */
        return held && (heap || PyModule_Check(object)) ? note_pointer(recorder->memo, index, &object->ob_type) : NOTED;
    }
    if (!held) {
        bool always_dict = node->accessor == ACCESS_INSTANCE_DICT || node->accessor == ACCESS_FUNC_GLOBALS ||
                           node->accessor == ACCESS_MODULE_DICT;
        if (always_dict || !memo_reads_inside(recorder->tree, index)) {
            return NOTED;
        }
        if (heap) {
            return LATE; /* a type that nothing holds may be freed, and its place reused */
        }
    }
    return note_pointer(recorder->memo, index, &object->ob_type);
}

/* Versions and sizes that stand for checks of this object and for the steps to its children; each at most once. */
typedef struct {
    bool dict_version, type_version, size, items;
} Needed;

static Noted note_one_check(Recorder *recorder, int index, const Check *check, PyObject *object, Needed *needed)
{
    bool steady = recorder->steady[index - recorder->segment->start];
    Memo *memo = recorder->memo;
    switch (check->kind) {
    case CHECK_TYPE:
    case CHECK_NOT_IS:
        return NOTED;
    case CHECK_IS:
        return steady ? NOTED : note_check(memo, index, check, object); /* it is held by its parts only */
    case CHECK_EQUALS:
    case CHECK_COMPARE:
        return steady ? NOTED : note_check(memo, index, check, object);
    case CHECK_LENGTH:
    case CHECK_NONEMPTY:
        if (PyList_Check(object) || (PyTuple_Check(object) && !steady)) {
            needed->size = true;
            return NOTED;
        }
        if (PyDict_Check(object) && version_counts(object)) {
            needed->dict_version = true;
            return NOTED;
        }
        return steady && constant_type(Py_TYPE(object)) ? NOTED : note_check(memo, index, check, object);
    case CHECK_DICT_KEYS:
        if (PyODict_Check(object) && check->count > 1) {
            /* Its order may change while the dictionary below does not. */
            return note_check(memo, index, check, object);
        }
        /* fall through */
    case CHECK_KEY_ABSENT:
        needed->dict_version |= version_counts(object);
        return needed->dict_version ? NOTED : note_check(memo, index, check, object);
    case CHECK_SET_EQUALS:
    case CHECK_SET_ORDER:
    case CHECK_MEMBER:
    case CHECK_NO_MEMBER:
        return steady && PyFrozenSet_CheckExact(object) ? NOTED : note_check(memo, index, check, object);
    case CHECK_TYPE_ABSENT:
    case CHECK_TYPE_LACKS:
    case CHECK_TYPE_OWNS:
        needed->type_version = true;
        return NOTED;
    case CHECK_REGISTRATIONS:
    case CHECK_UNWATCHED:
        return note_check(memo, index, check, object);
    case CHECK_CELL_EMPTY:
        return note_pointer(memo, index, &((PyCellObject *)object)->ob_ref);
    case CHECK_TENSOR:
        if (check->tensor->native) {
            TensorCheck *tensor = ADD(memo->tensors);
            if (tensor == NULL) {
                return FAILED;
            }
            *tensor = (TensorCheck){object, tensor_impl(object), check->tensor};
            return NOTED;
        }
        return LATE;
    default:
        return LATE; /* HASATTR, NO_ATTR may make the instance dictionary */
    }
}

static Noted note_needed(Recorder *recorder, int index, PyObject *object, const Needed *needed)
{
    Memo *memo = recorder->memo;
    Noted noted = NOTED;
    if (needed->dict_version) {
        noted = note_word(memo, index, true, &((PyDictObject *)object)->ma_version_tag,
                          ((PyDictObject *)object)->ma_version_tag);
    }
    if (needed->type_version) {
        if (((PyTypeObject *)object)->tp_version_tag == 0) {
            return LATE; /* the interpreter has run out of versions */
        }
        noted = note_word(memo, index, true, &((PyTypeObject *)object)->tp_version_tag,
                          *(const Bits *)&((PyTypeObject *)object)->tp_version_tag);
    }
    if (needed->size && noted == NOTED) {
        noted = note_pointer(memo, index, &((PyVarObject *)object)->ob_size);
    }
    if (needed->items && noted == NOTED) {
        noted = note_pointer(memo, index, &((PyListObject *)object)->ob_item);
    }
    return noted;
}

static Noted note_object(Recorder *recorder, int index, PyObject *object)
{
    const Node *node = &recorder->tree->nodes[index];
    bool *steady = &recorder->steady[index - recorder->segment->start];
    *steady |= is_held_by(node, object);
    Noted noted = note_type(recorder, index, object);
    Needed needed = {0};
    for (int i = 0; noted == NOTED && i < node->nchecks; i++) {
        noted = note_one_check(recorder, index, &node->checks[i], object, &needed);
    }
    for (int child = index + 1; noted == NOTED && child < node->end; child = recorder->tree->nodes[child].end) {
        switch (recorder->tree->nodes[child].accessor) {
        case ACCESS_DICT_ITEM:
            needed.dict_version |= version_counts(object);
            break;
        case ACCESS_TYPE_LOOKUP:
            needed.type_version = true;
            break;
        case ACCESS_LIST_ITEM:
            needed.size = needed.items = true;
            break;
        case ACCESS_TUPLE_ITEM:
            needed.size |= !*steady;
            break;
        default:
            break;
        }
    }
    return noted == NOTED ? note_needed(recorder, index, object, &needed) : noted;
}

/* Whether the walk would find this again: Python code may have run since it did. */
static bool still_found(const Recorder *recorder, int index, PyObject *object)
{
    const Node *node = &recorder->tree->nodes[index];
    const Segment *segment = recorder->segment;
    if (node->parent >= 0 && access_borrowed(node, recorder->memo->objects[node->parent - segment->start]) != object) {
        return false;
    }
    for (int i = 0; i < node->nchecks; i++) {
        if (check_holds(&node->checks[i], object) != 1) {
            return false;
        }
    }
    return true;
}

/* How mending may exchange the object of a leaf: freely, if nothing was noted about it; with its tensor check, if that
 * was all. */
static int how_exchangeable(const Recorder *recorder, int index, int words, int operations, int tensors)
{
    const Memo *memo = recorder->memo;
    const Node *node = &recorder->tree->nodes[index];
    if (node->accessor != ACCESS_DICT_ITEM || node->end != index + 1 || words != memo->words.count ||
        operations != memo->operations.count || memo->tensors.count > tensors + 1) {
        return FIXED;
    }
    return tensors == memo->tensors.count ? FREE : tensors;
}

static Noted note_node(Recorder *recorder, int index)
{
    Memo *memo = recorder->memo;
    int local = index - recorder->segment->start;
    PyObject *object = memo->objects[local];
    int words = memo->words.count, operations = memo->operations.count, tensors = memo->tensors.count;
    Noted noted = note_access(recorder, index, object);
    if (noted == NOTED) {
        noted = note_object(recorder, index, object);
    }
    memo->types[local] = Py_TYPE(object);
    memo->exchange[local] = noted == NOTED ? how_exchangeable(recorder, index, words, operations, tensors) : FIXED;
    return noted == NOTED && !still_found(recorder, index, object) ? FAILED : noted;
}

/* The memo of a successful walk, or NULL: not worth it or out of memory. `values` are those of the segment's nodes. */
Memo *memo_record(const GuardTree *tree, const Segment *segment, PyObject *const *values)
{
    size_t n = (size_t)(segment->end - segment->start);
    Memo *memo = PyMem_Calloc(1, sizeof(Memo));
    Recorder recorder = {tree, segment, memo, PyMem_Calloc(n, sizeof(bool))};
    Noted noted = FAILED;
    int collecting = PyGC_Disable(); /* nothing runs while words are noted */
    if (memo != NULL && recorder.steady != NULL) {
        memo->objects = PyMem_Malloc(n * sizeof(PyObject *));
        memo->wanted = PyMem_Calloc((size_t)segment->nwanted + 1, sizeof(PyObject *));
        memo->exchange = PyMem_Calloc(n, sizeof(int));
        memo->types = PyMem_Calloc(n, sizeof(PyTypeObject *));
        bool complete = memo->objects != NULL && memo->wanted != NULL && memo->exchange != NULL && memo->types != NULL;
        noted = complete ? NOTED : FAILED;
    }
    if (noted == NOTED) {
        memo->root = values[0];
        memo->id = ++memo_last_id;
        memcpy(memo->objects, values, n * sizeof(PyObject *));
    }
    for (int i = segment->start; noted == NOTED && i < segment->end; i++) {
        noted = note_node(&recorder, i);
        if (noted == LATE && i > segment->start) { /* it and all below it */
            int *late = ADD(memo->late);
            noted = late != NULL ? NOTED : FAILED;
            if (late != NULL) {
                *late = i;
                i = tree->nodes[i].end - 1;
            }
        } else if (tree->nodes[i].wanted >= 0) {
            memo->wanted[tree->nodes[i].wanted - segment->wanted] = values[i - segment->start];
        }
    }
    PyMem_Free(recorder.steady);
    if (collecting) {
        PyGC_Enable();
    }
    if (noted != NOTED) {
        memo_free(memo);
        return NULL;
    }
    return memo;
}
