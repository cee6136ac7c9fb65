/* What the parts of the extension share: the state of a thread, the C stack's marks. */
#ifndef FRAMELIFT_COMMON_H
#define FRAMELIFT_COMMON_H

#include "compat.h"

/* The parts of the extension: `NAME_init` of each adds to the module what it has for Python. */
#define PARTS(X)                                                                                                       \
    X(protocol), X(code_tables), X(table), X(entry), X(hook), X(tail), X(fallbacks), X(guard_held), X(guard_storage),  \
        X(guard_access), X(guard_check), X(guard_relation), X(guard_program), X(guard_enum), X(guard_lru),             \
        X(guard_memo), X(guards), X(tensor_calibrate), X(torch_state), X(torch_state_parts), X(classes), X(instances), \
        X(signals), X(ordered), X(module_call)
#define PART_INIT(name) name##_init(PyObject *module)

int PARTS(PART_INIT);

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* A new array of zeros, never NULL for being empty; without memory NULL, and an exception is set. */
#define NEW_ARRAY(type, n) ((type *)new_zeros((size_t)(n), sizeof(type)))

static inline void *new_zeros(size_t n, size_t size)
{
    void *zeros = PyMem_Calloc(n, size);
    if (zeros == NULL) {
        PyErr_NoMemory();
    }
    return zeros;
}

/* Fills a place of a new tuple or list, and takes over the item; without one (an exception is set) drops the whole. */
static inline void put_item(PyObject **sequence, Py_ssize_t place, PyObject *item)
{
    if (item == NULL) {
        Py_CLEAR(*sequence);
    } else if (PyTuple_CheckExact(*sequence)) {
        PyTuple_SET_ITEM(*sequence, place, item);
    } else {
        PyList_SET_ITEM(*sequence, place, item);
    }
}

/* A new tuple of borrowed objects. */
static inline PyObject *new_tuple(PyObject *const *items, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple && i < n; i++) {
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(items[i]));
    }
    return tuple;
}

/* Sets a switch as Python says. */
static inline PyObject *set_switch(bool *where, PyObject *flag)
{
    int value = PyObject_IsTrue(flag);
    if (value < 0) {
        return NULL;
    }
    *where = value;
    Py_RETURN_NONE;
}

/* A class of _core for `with name():`, whose blocks have no state of their own: `enter` and `leave` are told nothing.
 */
#define BLOCK_TYPE(type, name, doc, enter, leave)                                                                      \
    static PyMethodDef type##_methods[] = {                                                                            \
        {"__enter__", enter, METH_NOARGS, NULL},                                                                       \
        {"__exit__", (PyCFunction)leave, METH_VARARGS, NULL},                                                          \
        {NULL, NULL, 0, NULL},                                                                                         \
    };                                                                                                                 \
    static PyTypeObject type = {                                                                                       \
        PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framelift.native._core." name,                                       \
        .tp_doc = name "()\n\n" doc,                                                                                   \
        .tp_basicsize = sizeof(PyObject),                                                                              \
        .tp_flags = Py_TPFLAGS_DEFAULT,                                                                                \
        .tp_new = PyType_GenericNew,                                                                                   \
        .tp_methods = type##_methods,                                                                                  \
    };

static inline uint64_t mix_hash(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ (hash >> 29);
}

/* By whom frames are lifted; all zero: by nobody. The references are held by the run_hooked() or the block. */
typedef struct {
    PyObject *context;   /* asked about frames; NULL: none */
    PyObject *key;       /* the key of the tables that frames are looked up in */
    struct Block *block; /* NULL: a run_hooked(), which always ends in turn */
} Lifting;

typedef struct {
    int suspended;   /* > 0: lifted callables act as their functions, frames are left alone */
    int undisturbed; /* > 0: signals wait */
    bool holds_signals;
    int within_lifted; /* how many calls of lifted callables are in progress */
    Lifting lifting;
    struct Tail *giving; /* whose arguments are dropped once its function's frame has them */
    PyObject *failure;   /* a graph that raised, until its call is run by Python (frames/fallbacks.h); NULL: none */
    PyObject *interrupt; /* an exception put off until the frame that is being resumed can handle it; NULL: none */
    Frame *passing;      /* the frame the hook handed on last, to tell when it comes round in a circle */
    /* Marks on the C stack, which grows down: addresses below one have reached it. All UINTPTR_MAX until the stack's
     * bounds were read. */
    uintptr_t shallow; /* no longer shallow: recursion is worth accounting for */
    uintptr_t deep;    /* deep */
    uintptr_t used_up; /* going on would overflow it */
} ThreadData;

extern _Thread_local ThreadData thread_data;

/* Whether entries are used at all is decided in Python (runtime/stance.py). So that calls need not go there, they look
 * at two words: `asks` is set while some context may have said no, and the dict's version changes when anybody else
 * may have. */
typedef struct {
    bool asks;
    const uint64_t *version; /* of the dict */
    uint64_t known;
    PyObject *dict;
    PyObject *ask;     /* ask() -> whether Python runs everything */
    PyObject *instead; /* instead(lifted) -> the Lifted to call in its place, or None; NULL if there is never one */
} Stance;

extern Stance stance;

bool stance_says_python(ThreadData *thread);

/* Lifted callables act as their functions, and frames are left alone. */
static inline bool python_runs_all(ThreadData *thread)
{
    return UNLIKELY(thread->suspended) ||
           (UNLIKELY(stance.asks || *stance.version != stance.known) && stance_says_python(thread));
}

/* The slow halves of the two questions below (module.c). */
bool stack_is_deep_slow(ThreadData *thread, uintptr_t here);

/* More than a quarter of this thread's C stack is in use. Every call through this extension is a recursion in C, where
 * a plain Python call is none; from here on we neither lift frames nor hide our recursion from CPython. */
static inline bool stack_is_deep(ThreadData *thread)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return UNLIKELY(here < thread->deep) && stack_is_deep_slow(thread, here);
}

/* Going on would overflow the C stack: CPython 3.11 has no brake of its own once the recursion limit was raised. */
static inline bool stack_is_used_up(ThreadData *thread)
{
    return stack_is_deep(thread) && (uintptr_t)__builtin_frame_address(0) < thread->used_up;
}

PyObject *raise_used_up(void);

PyObject *call_nested_slow(ThreadData *thread, PyObject *callable, PyObject *const *args, size_t nargsf,
                           PyObject *kwnames);

/* Calls a callable from C without the recursion being counted, unless the stack is deep. (While it is shallow, what is
 * counted does not matter yet.) */
static inline PyObject *call_nested(ThreadData *thread, PyObject *callable, PyObject *const *args, size_t nargsf,
                                    PyObject *kwnames)
{
    if (UNLIKELY((uintptr_t)__builtin_frame_address(0) < thread->shallow)) {
        return call_nested_slow(thread, callable, args, nargsf, kwnames);
    }
    return PyObject_Vectorcall(callable, args, nargsf, kwnames);
}

#endif
