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
#include "tree.h"
#include "torch/tensor_probe.h"

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

struct Recorder {
    const GuardTree *tree;
    const Segment *segment;
    Memo *memo;
    bool *steady;  /* of the segment's nodes */
    Needed needed; /* of the object at hand */
};

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

static Noted note_check(Recorder *recorder, int node, const Check *check, PyObject *object)
{
    Operation *operation = ADD(recorder->memo->operations);
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

bool memo_has_check(const Node *node, int number)
{
    for (int i = 0; i < node->nchecks; i++) {
        if (node->checks[i].kind->number == number) {
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

/* ---- accessors ---- */

static inline bool *steady_of(Recorder *recorder, int node)
{
    return &recorder->steady[node - recorder->segment->start];
}

static inline PyObject *object_of(const Recorder *recorder, int node)
{
    return recorder->memo->objects[node - recorder->segment->start];
}

static inline const Node *node_above(const Recorder *recorder, int node)
{
    return &recorder->tree->nodes[recorder->tree->nodes[node].parent];
}

/* The word where the parent keeps an object. What cannot be exchanged in a steady object is steady with it. */
static Noted note_place(Recorder *recorder, int index, PyObject *parent)
{
    const Node *node = &recorder->tree->nodes[index];
    bool *steady = steady_of(recorder, index);
    *steady = node->kind->memo->fixed && *steady_of(recorder, node->parent);
    if (*steady) {
        return NOTED;
    }
    PyObject **place = node->kind->place(node, parent);
    return place != NULL ? note_pointer(recorder->memo, index, place) : FAILED;
}

static Noted note_dict_item(Recorder *recorder, int index, PyObject *parent)
{
    bool *steady = steady_of(recorder, index);
    *steady = version_counts(parent);
    return *steady ? NOTED : note_lookup(recorder->memo, index, parent, object_of(recorder, index));
}

static Noted note_type_lookup(Recorder *recorder, int index, PyObject *Py_UNUSED(parent))
{
    *steady_of(recorder, index) = true;
    return NOTED; /* by the version of its type, or late with it */
}

/* Where the dictionary is depends on the type, which something must hold, and on the size of the object. */
static Noted note_instance_dict(Recorder *recorder, int index, PyObject *parent)
{
    bool placed = memo_has_check(node_above(recorder, index), CHECK_TYPE) &&
                  (Py_TYPE(parent)->tp_itemsize == 0 || *steady_of(recorder, recorder->tree->nodes[index].parent));
    return placed ? note_place(recorder, index, parent) : LATE;
}

static Noted note_slot(Recorder *recorder, int index, PyObject *parent)
{
    return memo_has_check(node_above(recorder, index), CHECK_TYPE) ? note_place(recorder, index, parent) : LATE;
}

static Noted note_type_of(Recorder *recorder, int index, PyObject *parent)
{
    if (!memo_has_check(node_above(recorder, index), CHECK_TYPE)) {
        return note_place(recorder, index, parent);
    }
    *steady_of(recorder, index) = true; /* the check holds the type, and noted it */
    return NOTED;
}

/* A member: its place depends on the type of the object, and on what that type says. */
static Noted note_member(Recorder *recorder, int index, PyObject *object)
{
    const Node *node = &recorder->tree->nodes[index];
    Memo *memo = recorder->memo;
    PyTypeObject *type = Py_TYPE(object);
    PyObject **place = node->kind->place(node, object);
    bool heap = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
    if (place == NULL || *place == NULL || (heap && type->tp_version_tag == 0)) {
        return LATE;
    }
    Noted noted = note_pointer(memo, index, &object->ob_type);
    if (noted == NOTED && heap) {
        noted = note_pointer(memo, index, &type->tp_version_tag);
    }
    return noted == NOTED ? note_pointer(memo, index, place) : noted;
}

/* What is reached stands in the parent: noted is its place, or a version that changes with it. */
const AccessMemo memo_of_dict_item = {note_dict_item, .needs = {.dict_version = true}};
const AccessMemo memo_of_type_lookup = {note_type_lookup, .needs = {.type_version = true}};
const AccessMemo memo_of_instance_dict = {note_instance_dict, .needs = {0}};
const AccessMemo memo_of_slot = {note_slot, .needs = {0}};
const AccessMemo memo_of_type_of = {note_type_of, .outside = true};
const AccessMemo memo_of_member = {note_member, .needs = {0}};
const AccessMemo memo_of_list_item = {note_place, .needs = {.size = true, .items = true}};
const AccessMemo memo_of_fixed_item = {note_place, .needs = {.size = true}, .fixed = true};
const AccessMemo memo_of_field = {note_place, .needs = {0}};
const AccessMemo memo_of_fixed_field = {note_place, .fixed = true};

/* How the object of a node was reached; sets whether it is steady. */
static Noted note_access(Recorder *recorder, int index)
{
    const Node *node = &recorder->tree->nodes[index];
    if (node->parent < 0) {
        *steady_of(recorder, index) = node->kind->number == ACCESS_KNOWN && node->held.nparts == 0;
        return NOTED;
    }
    const AccessMemo *access = node->kind->memo;
    return access != NULL ? access->note(recorder, index, object_of(recorder, node->parent)) : LATE;
}

/* ---- checks ---- */

/* An object that a guard on it holds: its pointer says which one it is. */
static bool is_held_by(const Node *node, PyObject *object)
{
    for (int i = 0; i < node->nchecks; i++) {
        const Check *check = &node->checks[i];
        bool holds_it = check->kind->number == CHECK_IS || check->kind->number == CHECK_EQUALS;
        if (holds_it && check->held->object == object && check->held->nparts == 0) {
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
        const AccessMemo *access = tree->nodes[child].kind->memo;
        if (access == NULL || !access->outside) {
            return true;
        }
    }
    for (int i = 0; i < node->nchecks; i++) {
        if (node->checks[i].kind->memo->inside) {
            return true;
        }
    }
    return false;
}

/* The type, where it is guarded or where the inside of the object is read. */
static Noted note_type(Recorder *recorder, int index, PyObject *object)
{
    const Node *node = &recorder->tree->nodes[index];
    bool held = memo_has_check(node, CHECK_TYPE), heap = PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE);
    if (*steady_of(recorder, index)) {
        /* The same object; but instances of most classes, and modules, can be given another class. */
        return held && (heap || PyModule_Check(object)) ? note_pointer(recorder->memo, index, &object->ob_type) : NOTED;
    }
    if (!held) {
        if (node->kind->is_dict || !memo_reads_inside(recorder->tree, index)) {
            return NOTED;
        }
        if (heap) {
            return LATE; /* a type that nothing holds may be freed, and its place reused */
        }
    }
    return note_pointer(recorder->memo, index, &object->ob_type);
}

static Noted note_nothing(Recorder *Py_UNUSED(recorder), int Py_UNUSED(index), const Check *Py_UNUSED(check),
                          PyObject *Py_UNUSED(object))
{
    return NOTED;
}

static Noted note_late(Recorder *Py_UNUSED(recorder), int Py_UNUSED(index), const Check *Py_UNUSED(check),
                       PyObject *Py_UNUSED(object))
{
    return LATE;
}

static Noted note_unless_steady(Recorder *recorder, int index, const Check *check, PyObject *object)
{
    return *steady_of(recorder, index) ? NOTED : note_check(recorder, index, check, object);
}

static Noted note_length(Recorder *recorder, int index, const Check *check, PyObject *object)
{
    bool steady = *steady_of(recorder, index);
    if (PyList_Check(object) || (PyTuple_Check(object) && !steady)) {
        recorder->needed.size = true;
        return NOTED;
    }
    if (PyDict_Check(object) && version_counts(object)) {
        recorder->needed.dict_version = true;
        return NOTED;
    }
    return steady && constant_type(Py_TYPE(object)) ? NOTED : note_check(recorder, index, check, object);
}

static Noted note_dict(Recorder *recorder, int index, const Check *check, PyObject *object)
{
    recorder->needed.dict_version |= version_counts(object);
    return recorder->needed.dict_version ? NOTED : note_check(recorder, index, check, object);
}

static Noted note_keys(Recorder *recorder, int index, const Check *check, PyObject *object)
{
    /* The order of an OrderedDict may change while the dictionary below does not. */
    bool is_ordered = PyODict_Check(object) && check->count > 1;
    return (is_ordered ? note_check : note_dict)(recorder, index, check, object);
}

static Noted note_set(Recorder *recorder, int index, const Check *check, PyObject *object)
{
    bool is_fixed = *steady_of(recorder, index) && PyFrozenSet_CheckExact(object);
    return is_fixed ? NOTED : note_check(recorder, index, check, object);
}

static Noted note_class(Recorder *recorder, int Py_UNUSED(index), const Check *Py_UNUSED(check),
                        PyObject *Py_UNUSED(object))
{
    recorder->needed.type_version = true;
    return NOTED;
}

static Noted note_cell(Recorder *recorder, int index, const Check *Py_UNUSED(check), PyObject *object)
{
    return note_pointer(recorder->memo, index, &((PyCellObject *)object)->ob_ref);
}

static Noted note_tensor(Recorder *recorder, int Py_UNUSED(index), const Check *check, PyObject *object)
{
    if (!check->tensor->native) {
        return LATE;
    }
    TensorCheck *tensor = ADD(recorder->memo->tensors);
    if (tensor == NULL) {
        return FAILED;
    }
    *tensor = (TensorCheck){object, tensor_impl(object), check->tensor};
    return NOTED;
}

/* What of a check is noted: nothing (it holds for good, or words of the access or the type tell), the check itself
 * unless the object is steady, or always; a version, a size or a word that stands for it; or it comes late. */
const CheckMemo memo_of_nothing = {note_nothing, .inside = false};
const CheckMemo memo_unless_steady = {note_unless_steady, .inside = false};
const CheckMemo memo_always = {note_check, .inside = false};
const CheckMemo memo_of_length = {note_length, .inside = true};
const CheckMemo memo_of_dict = {note_dict, .inside = true};
const CheckMemo memo_of_keys = {note_keys, .inside = true};
const CheckMemo memo_of_set = {note_set, .inside = false};
const CheckMemo memo_of_class = {note_class, .inside = true};
const CheckMemo memo_of_cell = {note_cell, .inside = true};
const CheckMemo memo_of_tensor = {note_tensor, .inside = false};
const CheckMemo memo_late = {note_late, .inside = false};
const CheckMemo memo_late_inside = {note_late, .inside = true};

/* ---- objects ---- */

static Noted note_needed(Recorder *recorder, int index, PyObject *object)
{
    Memo *memo = recorder->memo;
    const Needed *needed = &recorder->needed;
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

/* What the step to a child needs: of a steady object, no more than what may change in it. */
static void add_needs(Needed *needed, const AccessMemo *access, PyObject *object, bool steady)
{
    needed->dict_version |= access->needs.dict_version && version_counts(object);
    needed->type_version |= access->needs.type_version;
    needed->size |= access->needs.size && !(access->fixed && steady);
    needed->items |= access->needs.items;
}

static Noted note_object(Recorder *recorder, int index, PyObject *object)
{
    const GuardTree *tree = recorder->tree;
    const Node *node = &tree->nodes[index];
    bool *steady = steady_of(recorder, index);
    *steady |= is_held_by(node, object);
    Noted noted = note_type(recorder, index, object);
    recorder->needed = (Needed){0};
    for (int i = 0; noted == NOTED && i < node->nchecks; i++) {
        noted = node->checks[i].kind->memo->note(recorder, index, &node->checks[i], object);
    }
    for (int child = index + 1; noted == NOTED && child < node->end; child = tree->nodes[child].end) {
        if (tree->nodes[child].kind->memo != NULL) {
            add_needs(&recorder->needed, tree->nodes[child].kind->memo, object, *steady);
        }
    }
    return noted == NOTED ? note_needed(recorder, index, object) : noted;
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
    bool by_key = node->kind->memo != NULL && node->kind->memo->needs.dict_version;
    if (!by_key || node->end != index + 1 || words != memo->words.count || operations != memo->operations.count ||
        memo->tensors.count > tensors + 1) {
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
    Noted noted = note_access(recorder, index);
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
    Recorder recorder = {tree, segment, memo, PyMem_Calloc(n, sizeof(bool)), {0}};
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
