/* See protocol.h: the one place where names of Python's stand, and where its functions are handed over. */
#include "protocol.h"

Protocol protocol;

typedef struct {
    const char *name;
    PyObject **place;
} Asked;

static const Asked names[] = {
    {"key", &protocol.key},
    {"resume", &protocol.resume},
    {"join", &protocol.join},
    {"unlifted", &protocol.unlifted},
    {"python_succeeded", &protocol.python_succeeded},
};

static const Asked handed_over[] = {
    {"hide_callers", &protocol.hide_callers},         {"is_failure", &protocol.is_failure},
    {"hear_of_fallback", &protocol.hear_of_fallback}, {"describe", &protocol.describe},
    {"disagreement", &protocol.disagreement},
};

static PyObject **place_of_function(PyObject *name)
{
    for (size_t i = 0; i < Py_ARRAY_LENGTH(handed_over); i++) {
        if (PyUnicode_CompareWithASCIIString(name, handed_over[i].name) == 0) {
            return handed_over[i].place;
        }
    }
    PyErr_Format(PyExc_TypeError, "the core asks for no function called %R", name);
    return NULL;
}

static PyObject *connect(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    Py_ssize_t n = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (nargs) {
        PyErr_SetString(PyExc_TypeError, "connect() takes functions by name");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject **place = place_of_function(PyTuple_GET_ITEM(kwnames, i));
        if (!place) {
            return NULL;
        }
        if (args[i] != Py_None && !PyFunction_Check(args[i])) {
            PyErr_Format(PyExc_TypeError, "connect() takes functions, not %.100R", args[i]);
            return NULL;
        }
        Py_XSETREF(*place, args[i] == Py_None ? NULL : Py_NewRef(args[i]));
    }
    Py_RETURN_NONE;
}

static PyObject *connected(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObject *result = PyDict_New();
    for (size_t i = 0; result && i < Py_ARRAY_LENGTH(handed_over); i++) {
        PyObject *function = *handed_over[i].place;
        if (PyDict_SetItemString(result, handed_over[i].name, function ? function : Py_None) < 0) {
            Py_CLEAR(result);
        }
    }
    return result;
}

static PyMethodDef functions[] = {
    {"connect", (PyCFunction)(void (*)(void))connect, METH_FASTCALL | METH_KEYWORDS,
     "connect(**functions)\n\nHands over functions that C calls: see framelift.native.protocol.Functions. None takes "
     "one "
     "back."},
    {"connected", connected, METH_NOARGS, "connected() -> dict[str, FunctionType | None]\n\nWhat was handed over."},
    {NULL, NULL, 0, NULL},
};

int protocol_init(PyObject *module)
{
    PyObject *asked = PyTuple_New(Py_ARRAY_LENGTH(names));
    for (size_t i = 0; asked && i < Py_ARRAY_LENGTH(names); i++) {
        *names[i].place = PyUnicode_InternFromString(names[i].name);
        put_item(&asked, (Py_ssize_t)i, Py_XNewRef(*names[i].place));
    }
    int result = asked ? PyModule_AddObjectRef(module, "ASKED_BY_NAME", asked) : -1;
    Py_XDECREF(asked);
    return result < 0 ? -1 : PyModule_AddFunctions(module, functions);
}
