/* See direct.h. */
#include "direct.h"
#include "entry.h"
#include "fallbacks.h"
#include "protocol.h"

enum { SMALL = 64 };

Direct *direct_new(PyObject *specification, Py_ssize_t available)
{
    PyObject *function, *inputs, *judge = Py_None;
    Py_ssize_t output, noutputs;
    if (!PyTuple_Check(specification)) {
        PyErr_SetString(PyExc_TypeError, "direct is None or (function, inputs, output, outputs[, judge])");
        return NULL;
    }
    if (!PyArg_ParseTuple(specification, "OO!nn|O;direct is (function, inputs, output, outputs[, judge])", &function,
                          &PyTuple_Type, &inputs, &output, &noutputs, &judge)) {
        return NULL;
    }
    Py_ssize_t ninputs = PyTuple_GET_SIZE(inputs);
    Direct *direct = PyMem_Calloc(1, sizeof(Direct) + (size_t)ninputs * sizeof(Py_ssize_t));
    if (!direct) {
        PyErr_NoMemory();
        return NULL;
    }
    direct->in_place = true;
    for (Py_ssize_t i = 0; i < ninputs; i++) {
        Py_ssize_t index = PyLong_AsSsize_t(PyTuple_GET_ITEM(inputs, i));
        if (index < 0 || index >= available) {
            PyErr_Clear();
            PyErr_Format(PyExc_ValueError, "input %zd of a direct call is not one of %zd objects", i, available);
            PyMem_Free(direct);
            return NULL;
        }
        direct->inputs[i] = index;
        direct->in_place = direct->in_place && index == direct->inputs[0] + i;
    }
    if (output < 0 || output >= noutputs) {
        PyErr_Format(PyExc_ValueError, "there is no output %zd of %zd", output, noutputs);
        PyMem_Free(direct);
        return NULL;
    }
    direct->function = Py_NewRef(function);
    direct->judge = Py_NewRef(judge);
    direct->ninputs = ninputs;
    direct->output = output;
    direct->noutputs = noutputs;
    return direct;
}

void direct_free(Direct *direct)
{
    if (direct) {
        Py_XDECREF(direct->function);
        Py_XDECREF(direct->judge);
        PyMem_Free(direct);
    }
}

/* Takes the reference to what the function returned. */
static PyObject *pick(PyObject *outputs, const Direct *direct)
{
    PyObject *result;
    if (LIKELY(PyTuple_CheckExact(outputs) && PyTuple_GET_SIZE(outputs) == direct->noutputs)) {
        result = Py_NewRef(PyTuple_GET_ITEM(outputs, direct->output));
    } else {
        Py_ssize_t found = PySequence_Size(outputs);
        if (found == direct->noutputs) {
            result = PySequence_GetItem(outputs, direct->output);
        } else {
            if (found >= 0) {
                PyErr_Format(PyExc_ValueError, "the graph returned %zd values instead of %zd", found, direct->noutputs);
            }
            result = NULL;
        }
    }
    Py_DECREF(outputs);
    return result;
}

/* An exception is set: rerun_marker if it is the graph's own. */
static PyObject *after_failure(ThreadData *thread, const Direct *direct)
{
    PyObject *error = take_exception(), *answer;
    if (protocol.is_failure) {
        answer = PyObject_CallOneArg(protocol.is_failure, error);
    } else {
        answer = PyBool_FromLong(PyErr_GivenExceptionMatches(error, PyExc_Exception));
    }
    Py_XDECREF(answer);
    if (answer == Py_False) {
        return raise_if_exception(error);
    }
    bool noted = answer && note_failure(thread, direct->judge, error);
    Py_DECREF(error);
    return noted ? Py_NewRef(rerun_marker) : NULL;
}

PyObject *direct_run(ThreadData *thread, const Direct *direct, PyObject *const *vector)
{
    PyObject *small[SMALL], **copied = small;
    Py_ssize_t n = direct->ninputs;
    PyObject *const *args = vector;
    if (direct->in_place) {
        args = n ? vector + direct->inputs[0] : vector;
    } else {
        if (n > SMALL && !(copied = PyMem_New(PyObject *, n))) {
            return PyErr_NoMemory();
        }
        for (Py_ssize_t i = 0; i < n; i++) {
            copied[i] = vector[direct->inputs[i]];
        }
        args = copied;
    }
    PyObject *outputs = call_nested(thread, direct->function, args, (size_t)n, NULL);
    if (copied != small) {
        PyMem_Free(copied);
    }
    if (LIKELY(outputs != NULL)) {
        return pick(outputs, direct);
    }
    return after_failure(thread, direct);
}
