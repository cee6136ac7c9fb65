/* Signals wait: while a block lasts no handler runs on the main thread.
 *
 * The interpreter runs handlers between any two instructions of the thread it knows as the main one. For the time being
 * it knows none; what comes is marked as having come. Where CPython does not take notice of that, or the user does not
 * want it (native/switches.py), nothing is held. */
#include "common.h"

#include <signal.h>

static bool holding = true;

static void hold(ThreadData *thread)
{
    if (holding && _PyRuntime.main_thread == PyThread_get_thread_ident()) {
        _PyRuntime.main_thread = 0;
        thread->holds_signals = true;
    }
}

static void release(ThreadData *thread)
{
    if (thread->holds_signals) {
        _PyRuntime.main_thread = PyThread_get_thread_ident();
        thread->holds_signals = false;
    }
}

static PyObject *begin_hold(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(ignored))
{
    if (thread_data.undisturbed++ == 0) {
        hold(&thread_data);
    }
    Py_RETURN_NONE;
}

static PyObject *end_hold(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(ignored))
{
    if (thread_data.undisturbed == 0) {
        PyErr_SetString(PyExc_RuntimeError, "undisturbed() is left and was not entered on this thread");
        return NULL;
    }
    if (--thread_data.undisturbed == 0) {
        release(&thread_data);
        if (PyErr_CheckSignals() < 0) {
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

static PyObject *begin_release(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(ignored))
{
    release(&thread_data);
    Py_RETURN_NONE;
}

static PyObject *end_release(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(ignored))
{
    if (thread_data.undisturbed) {
        hold(&thread_data);
    }
    Py_RETURN_NONE;
}

static PyObject *let_signals_in(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    if (thread_data.holds_signals) {
        release(&thread_data);
        int error = PyErr_CheckSignals();
        hold(&thread_data);
        if (error < 0) {
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

BLOCK_TYPE(Undisturbed_Type, "undisturbed",
           "Inside `with undisturbed():` signals wait; nests. At its end their handlers run.", begin_hold, end_hold)
BLOCK_TYPE(Disturbed_Type, "disturbed",
           "Inside `with disturbed():` signals come as ever, also within `with undisturbed():`.", begin_release,
           end_release)

static PyObject *hold_signals(PyObject *Py_UNUSED(module), PyObject *flag)
{
    return set_switch(&holding, flag);
}

static PyObject *holds_signals(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(holding);
}

/* Whether CPython takes this thread for the one that handles signals: only there it looks at the second argument of
 * set_handler(), which is no handler. */
static bool handles_signals(PyObject *set_handler)
{
    PyObject *answer = PyObject_CallFunction(set_handler, "iO", SIGINT, Py_None);
    bool looked = !answer && PyErr_ExceptionMatches(PyExc_TypeError);
    Py_XDECREF(answer);
    PyErr_Clear();
    return looked;
}

/* Nothing of Python's runs meanwhile, so no other thread sees who takes turns as the main one. */
static PyObject *main_thread_can_be_exchanged(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *set_handler;
    unsigned long main_thread;
    if (!PyArg_ParseTuple(args, "Ok:main_thread_can_be_exchanged", &set_handler, &main_thread)) {
        return NULL;
    }
    if (_PyRuntime.main_thread != main_thread) { /* it is kept elsewhere: leave this alone */
        Py_RETURN_FALSE;
    }
    _PyRuntime.main_thread = PyThread_get_thread_ident();
    bool follows = handles_signals(set_handler);
    _PyRuntime.main_thread = 0;
    follows = follows && !handles_signals(set_handler);
    _PyRuntime.main_thread = main_thread;
    return PyBool_FromLong(follows);
}

static PyMethodDef functions[] = {
    {"hold_signals", hold_signals, METH_O, "hold_signals(flag)\n\nWhether signals wait inside `with undisturbed():`."},
    {"holds_signals", holds_signals, METH_NOARGS, "holds_signals() -> bool\n\nWhat hold_signals() was told last."},
    {"main_thread_can_be_exchanged", main_thread_can_be_exchanged, METH_VARARGS,
     "main_thread_can_be_exchanged(set_handler, main_thread) -> bool\n\nFor the self-test: whether CPython, asked by "
     "`_signal.signal`, takes the thread\nfor the main one that is written where this was built to find it."},
    {"let_signals_in", let_signals_in, METH_NOARGS,
     "let_signals_in()\n\nRuns the handlers of signals that wait, if any, and raises what they raise."},
    {NULL, NULL, 0, NULL},
};

int signals_init(PyObject *module)
{
    return PyModule_AddType(module, &Undisturbed_Type) < 0 || PyModule_AddType(module, &Disturbed_Type) < 0 ||
                   PyModule_AddFunctions(module, functions) < 0
               ? -1
               : 0;
}
