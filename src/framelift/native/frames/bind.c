/* Argument binding: the same rules as CPython's own for Python functions, over the function's live defaults.
 *
 * Where arguments do not fit nothing is raised here. The caller calls the function itself, whose TypeError is then the
 * real one. */
#include "bind.h"

int call_reserve_slow(Call *call, Py_ssize_t needed)
{
    Py_ssize_t capacity = needed + needed / 2;
    PyObject **room = PyMem_New(PyObject *, capacity);
    if (!room) {
        PyErr_NoMemory();
        return -1;
    }
    if (call->owned) {
        memcpy(room, call->room, (size_t)call->nslots * sizeof(PyObject *));
        call->slots = room;
    }
    if (call->room != call->small) {
        PyMem_Free(call->room);
    }
    call->room = room;
    call->capacity = capacity;
    return 0;
}

void call_release_slow(Call *call)
{
    if (call->owned) {
        for (Py_ssize_t i = 0; i < call->nslots; i++) {
            Py_XDECREF(call->room[i]);
        }
    }
    if (call->room != call->small) {
        PyMem_Free(call->room);
    }
}

/* The index of the parameter a keyword names, count if there is none, -1 with an exception set. */
static Py_ssize_t find_parameter(PyCodeObject *code, PyObject *keyword, Py_ssize_t count)
{
    PyObject **names = ((PyTupleObject *)code->co_localsplusnames)->ob_item;
    for (Py_ssize_t i = code->co_posonlyargcount; i < count; i++) {
        if (names[i] == keyword) {
            return i;
        }
    }
    /* Not interned, or an instance of a subclass of str that brings its own ==. */
    for (Py_ssize_t i = code->co_posonlyargcount; i < count; i++) {
        int equal = PyObject_RichCompareBool(keyword, names[i], Py_EQ);
        if (equal) {
            return equal < 0 ? -1 : i;
        }
    }
    return count;
}

static int bind_keywords(Call *call, PyCodeObject *code, Py_ssize_t nparameters, PyObject *const *values,
                         PyObject *kwnames, PyObject *rest)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); k++) {
        PyObject *keyword = PyTuple_GET_ITEM(kwnames, k);
        if (!PyUnicode_Check(keyword)) {
            return 0;
        }
        Py_ssize_t i = find_parameter(code, keyword, nparameters);
        if (i < 0) {
            return -1;
        }
        if (i == nparameters) {
            if (!rest) {
                return 0;
            }
            if (PyDict_SetItem(rest, keyword, values[k]) < 0) {
                return -1;
            }
        } else if (call->room[i]) {
            return 0;
        } else {
            call->room[i] = Py_NewRef(values[k]);
        }
    }
    return 1;
}

static int bind_defaults(Call *call, PyFunctionObject *function, PyCodeObject *code)
{
    PyObject *defaults = function->func_defaults;
    Py_ssize_t ndefaults = defaults ? PyTuple_GET_SIZE(defaults) : 0;
    Py_ssize_t first = code->co_argcount - ndefaults;
    for (Py_ssize_t i = 0; i < code->co_argcount; i++) {
        if (!call->room[i]) {
            if (i < first) {
                return 0;
            }
            call->room[i] = Py_NewRef(PyTuple_GET_ITEM(defaults, i - first));
        }
    }
    for (Py_ssize_t i = code->co_argcount; i < code->co_argcount + code->co_kwonlyargcount; i++) {
        if (!call->room[i]) {
            if (!function->func_kwdefaults) {
                return 0;
            }
            PyObject *value =
                PyDict_GetItemWithError(function->func_kwdefaults, PyTuple_GET_ITEM(code->co_localsplusnames, i));
            if (!value) {
                return PyErr_Occurred() ? -1 : 0;
            }
            call->room[i] = Py_NewRef(value);
        }
    }
    return 1;
}

static int bind_all(Call *call, PyFunctionObject *function, PyCodeObject *code, PyObject *const *args, Py_ssize_t nargs,
                    PyObject *kwnames)
{
    Py_ssize_t next = code->co_argcount + code->co_kwonlyargcount, nparameters = next;
    Py_ssize_t npositional = Py_MIN(nargs, code->co_argcount);
    PyObject *rest = NULL;
    for (Py_ssize_t i = 0; i < npositional; i++) {
        call->room[i] = Py_NewRef(args[i]);
    }
    if (code->co_flags & CO_VARARGS) {
        if (!(call->room[next++] = new_tuple(args + npositional, nargs - npositional))) {
            return -1;
        }
    } else if (nargs > code->co_argcount) {
        return 0;
    }
    if (code->co_flags & CO_VARKEYWORDS) {
        if (!(rest = call->room[next] = PyDict_New())) {
            return -1;
        }
    }
    if (kwnames) {
        int bound = bind_keywords(call, code, nparameters, args + nargs, kwnames, rest);
        if (bound != 1) {
            return bound;
        }
    }
    return bind_defaults(call, function, code);
}

int call_bind_slow(Call *call, PyFunctionObject *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    /* Comparing keywords may run code, which may give the function another code: keep the one we started with. */
    PyCodeObject *code = (PyCodeObject *)Py_NewRef(function->func_code);
    call_init(call, call->small, code_nslots(code));
    int bound = -1;
    if (call_reserve(call, 0) == 0) {
        memset(call->room, 0, (size_t)call->nslots * sizeof(PyObject *));
        call->slots = call->room;
        call->owned = true;
        bound = bind_all(call, function, code, args, nargs, kwnames);
        if (bound != 1) {
            call_release(call);
        }
    }
    Py_DECREF(code);
    return bound;
}
