/* Snapshots of torch's state and their comparison with the present.
 *
 * calibrate.py registers the parts of the state: a name in words and a Python getter each. A snapshot keeps what
 * the getters said, for its words; to compare it with the present, a part is read without Python where this torch
 * allows it: from memory (the thread's own state, flags of at::Context) or by calling a C++ getter that neither throws
 * nor locks nor allocates. The rest is asked of the Python getters. */
#include "torch_state.h"
#include "torch_state_parts.h"

/* Where this thread's copies of torch's thread-local state are; found once per thread. */
typedef struct {
    int64_t registration;
    const uint64_t *keys;
    const uint8_t *autograd;
    const char *functions;
} ThreadState;

static _Thread_local ThreadState thread_state;

typedef struct {
    PyObject_HEAD int64_t registration;
    uint64_t keys[2];
    uint8_t bytes[MAX_PARTS_OF_STATE]; /* in the order of the global `bytes` */
    int64_t native[MAX_PARTS_OF_STATE];
    PyObject *values; /* tuple of what the getters said */
} TorchState;

static const ThreadState *this_thread(void)
{
    ThreadState *thread = &thread_state;
    if (UNLIKELY(thread->registration != state_parts.registration)) {
        thread->keys = torch_symbol(THREAD_KEYS);
        thread->autograd = call_for_address(THREAD_AUTOGRAD);
        thread->functions = call_for_address(THREAD_FUNCTIONS);
        thread->registration = state_parts.registration;
    }
    return thread;
}

/* Of a thread's PythonTorchFunctionTLS: an enumerator, then a vector of 16-byte elements. calibrate.py tests this. */
static inline int64_t function_override(const ThreadState *thread)
{
    return *(const int32_t *)thread->functions;
}

static inline int64_t function_modes(const ThreadState *thread)
{
    const char *const *vector = (const char *const *)(thread->functions + 8);
    return (vector[1] - vector[0]) / 16;
}

static inline int64_t read_part(const Part *part, const ThreadState *thread)
{
    switch (part->reader) {
    case BYTE:
        return *part->read.byte;
    case CALL_FLAG:
        return part->read.flag();
    case CALL_DEVICE:
        return part->read.device((int8_t)part->first);
    case CALL_CONTEXT:
        return part->read.context(state_parts.context);
    case CALL_PRECISION: {
        int precision = part->read.precision(state_parts.context, part->first, part->second);
        return precision <= 1 ? 0 : precision; /* "none" and "ieee" compute the same */
    }
    case AUTOGRAD:
        return thread->autograd[state_parts.autograd_flags];
    case OVERRIDE:
        return function_override(thread);
    case FUNCTION_MODES:
        return function_modes(thread);
    case CLASS_VERSION:
        return part->read.cls->tp_version_tag;
    default:
        return 0;
    }
}

/* A class gets its version when an attribute of it is looked up. */
static int64_t version_of(const PyTypeObject *cls)
{
    PyObject *found = PyObject_GetAttrString((PyObject *)cls, "__init__");
    if (found == NULL) {
        PyErr_Clear();
    }
    Py_XDECREF(found);
    return cls->tp_version_tag;
}

/* What Python says of a part; of a class nobody changed since, what it said before. */
static PyObject *ask(Part *part)
{
    if (part->reader != CLASS_VERSION) {
        return PyObject_CallNoArgs(part->getter);
    }
    if (part->last == NULL || part->last_version == 0 || part->last_version != part->read.cls->tp_version_tag) {
        Py_XSETREF(part->last, PyObject_CallNoArgs(part->getter));
        part->last_version = version_of(part->read.cls);
    }
    return Py_XNewRef(part->last);
}

/* 1 same, 0 not, -1 error: the slow way, in Python. */
static int python_same(Part *part, PyObject *old)
{
    PyObject *now = ask(part);
    if (now == NULL) {
        return -1;
    }
    int same;
    if (part->same == NULL) {
        same = constants_equal(old, now);
    } else {
        PyObject *result = PyObject_CallFunctionObjArgs(part->same, old, now, NULL);
        same = result == NULL ? -1 : PyObject_IsTrue(result);
        Py_XDECREF(result);
    }
    Py_DECREF(now);
    return same;
}

/* Which modes are active is only asked if there are any; how many was compared before. A class that somebody changed
 * has no version, or another. */
static inline bool must_ask(const Part *part, int64_t then)
{
    if (part->reader == CLASS_VERSION) {
        return then == 0 || part->read.cls->tp_version_tag != then;
    }
    return part->reader == BY_PYTHON || then != 0;
}

int torch_state_matches(PyObject *snapshot)
{
    TorchState *state = (TorchState *)snapshot;
    if (state->registration != state_parts.registration) {
        return 0;
    }
    const ThreadState *thread = this_thread();
    uint8_t changed = 0;
    for (int i = 0; i < state_parts.nbytes; i++) {
        changed |= *state_parts.bytes[i] ^ state->bytes[i];
    }
    if (changed != 0) {
        return 0;
    }
    for (int i = 0; i < state_parts.ncalls; i++) {
        const Part *part = &state_parts.all[state_parts.calls[i]];
        if (part->reader == KEYS) {
            if (thread->keys[0] != state->keys[0] || thread->keys[1] != state->keys[1]) {
                return 0;
            }
        } else if (read_part(part, thread) != state->native[state_parts.calls[i]]) {
            return 0;
        }
    }
    for (int i = 0; i < state_parts.nasked; i++) {
        int index = state_parts.asked[i];
        if (must_ask(&state_parts.all[index], state->native[index])) {
            int same = python_same(&state_parts.all[index], PyTuple_GET_ITEM(state->values, index));
            if (same != 1) {
                return same;
            }
            if (state_parts.all[index].reader == CLASS_VERSION) {
                state->native[index] = read_part(&state_parts.all[index], thread);
            }
        }
    }
    return 1;
}

/* ---- the Python object ---- */

static PyObject *getter_values(void)
{
    PyObject *values = PyTuple_New(state_parts.count);
    for (int i = 0; values != NULL && i < state_parts.count; i++) {
        put_item(&values, i, ask(&state_parts.all[i]));
    }
    return values;
}

static PyObject *torch_state(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    if (state_parts.count == 0) {
        PyErr_SetString(PyExc_RuntimeError, "torch was not calibrated: call framelift.native.torch.calibrate.ensure()");
        return NULL;
    }
    TorchState *state = PyObject_New(TorchState, &TorchState_Type);
    if (state == NULL) {
        return NULL;
    }
    state->registration = state_parts.registration;
    state->values = getter_values();
    if (state->values == NULL) {
        Py_DECREF(state);
        return NULL;
    }
    const ThreadState *thread = this_thread();
    if (thread->keys != NULL) {
        memcpy(state->keys, thread->keys, sizeof(state->keys));
    }
    for (int i = 0; i < state_parts.nbytes; i++) {
        state->bytes[i] = *state_parts.bytes[i];
    }
    for (int i = 0; i < state_parts.count; i++) {
        state->native[i] = read_part(&state_parts.all[i], thread);
        if (state_parts.all[i].reader == DISPATCH_MODES) {
            Py_ssize_t count = PyObject_Size(PyTuple_GET_ITEM(state->values, i));
            state->native[i] = count;
        }
    }
    if (PyErr_Occurred()) {
        Py_CLEAR(state);
    }
    return (PyObject *)state;
}

static void state_dealloc(PyObject *self)
{
    Py_XDECREF(((TorchState *)self)->values);
    PyObject_Free(self);
}

static PyObject *state_matches(PyObject *self, PyObject *Py_UNUSED(unused))
{
    int matches = torch_state_matches(self);
    return matches < 0 ? NULL : PyBool_FromLong(matches);
}

static PyObject *in_words(PyObject *value)
{
    if (PyBool_Check(value)) {
        return PyUnicode_FromString(value == Py_True ? "on" : "off");
    }
    return PyObject_Str(value);
}

/* Adds "grad mode was on, now off" if the part differs. */
static int add_difference(PyObject *texts, Part *part, PyObject *old, PyObject *new)
{
    int same = part->same == NULL ? constants_equal(old, new) : python_same(part, old);
    if (same != 0) {
        return same < 0 ? -1 : 0;
    }
    PyObject *was = in_words(old), *is = in_words(new), *text = NULL;
    if (was != NULL && is != NULL) {
        text = PyUnicode_FromFormat("%U was %U, now %U", part->name, was, is);
    }
    int result = text == NULL ? -1 : PyList_Append(texts, text);
    Py_XDECREF(was);
    Py_XDECREF(is);
    Py_XDECREF(text);
    return result;
}

static PyObject *differences(TorchState *state, PyObject *now)
{
    PyObject *texts = PyList_New(0), *result = NULL;
    if (texts == NULL) {
        return NULL;
    }
    /* The key sets come last: mostly they say the same as other parts, in a way nobody wants to read. */
    for (int keys = 0; keys <= 1 && PyList_GET_SIZE(texts) == 0; keys++) {
        for (int i = 0; i < state_parts.count; i++) {
            bool is_keys = strcmp(PyUnicode_AsUTF8(state_parts.all[i].name), "dispatch keys") == 0;
            if (is_keys == keys && add_difference(texts, &state_parts.all[i], PyTuple_GET_ITEM(state->values, i),
                                                  PyTuple_GET_ITEM(now, i)) < 0) {
                Py_DECREF(texts);
                return NULL;
            }
        }
    }
    if (PyList_GET_SIZE(texts) == 0) {
        result = Py_NewRef(Py_None);
    } else {
        PyObject *separator = PyUnicode_FromString("; ");
        result = separator != NULL ? PyUnicode_Join(separator, texts) : NULL;
        Py_XDECREF(separator);
    }
    Py_DECREF(texts);
    return result;
}

PyObject *torch_state_describe(PyObject *snapshot)
{
    TorchState *state = (TorchState *)snapshot;
    if (state->registration != state_parts.registration) {
        return PyUnicode_FromString("torch was calibrated anew");
    }
    PyObject *now = getter_values();
    PyObject *result = now != NULL ? differences(state, now) : NULL;
    Py_XDECREF(now);
    return result;
}

static PyObject *state_describe(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return torch_state_describe(self);
}

static PyObject *state_values(PyObject *self, void *Py_UNUSED(closure))
{
    TorchState *state = (TorchState *)self;
    PyObject *result = PyDict_New();
    for (int i = 0; result != NULL && state->registration == state_parts.registration && i < state_parts.count; i++) {
        if (PyDict_SetItem(result, state_parts.all[i].name, PyTuple_GET_ITEM(state->values, i)) < 0) {
            Py_CLEAR(result);
        }
    }
    return result;
}

static PyMethodDef state_methods[] = {
    {"matches", state_matches, METH_NOARGS, "Whether torch's state is the one of this snapshot."},
    {"describe", state_describe, METH_NOARGS, "What differs from the present, in words; None if nothing does."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef state_getset[] = {
    {"values", state_values, NULL, "The parts by name.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject TorchState_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framelift.native._core.TorchState",
    .tp_basicsize = sizeof(TorchState),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = state_dealloc,
    .tp_methods = state_methods,
    .tp_getset = state_getset,
    .tp_doc = "A snapshot of torch's state; made by torch_state().",
};

static PyObject *native_state(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    PyObject *result = PyDict_New();
    for (int i = 0; result != NULL && i < state_parts.count; i++) {
        Reader reader = state_parts.all[i].reader;
        if (reader != BYTE && reader != CALL_FLAG && reader != CALL_CONTEXT && reader != CALL_DEVICE) {
            continue;
        }
        PyObject *value = PyLong_FromLongLong(read_part(&state_parts.all[i], this_thread()));
        if (value == NULL || PyDict_SetItem(result, state_parts.all[i].name, value) < 0) {
            Py_CLEAR(result);
        }
        Py_XDECREF(value);
    }
    return result;
}

static PyMethodDef methods[] = {
    {"torch_state", torch_state, METH_NOARGS, "A snapshot of torch's state in this thread."},
    {"native_state", native_state, METH_NOARGS, "The flags and data types read without Python, for the self test."},
    {NULL, NULL, 0, NULL},
};

int torch_state_init(PyObject *module)
{
    return PyModule_AddType(module, &TorchState_Type) < 0 ? -1 : PyModule_AddFunctions(module, methods);
}
