/* Direct calls: an entry whose residual function does nothing but `return graph(inputs)[i]` is run without a frame. */
#ifndef FRAMELIFT_DIRECT_H
#define FRAMELIFT_DIRECT_H

#include "common.h"

typedef struct {
    PyObject *function;
    PyObject *judge;             /* of what it raises (fallbacks.h), or None */
    Py_ssize_t output, noutputs; /* which of how many results is returned */
    bool in_place;               /* the inputs stand side by side among the slots and fetched objects */
    Py_ssize_t ninputs;
    Py_ssize_t inputs[]; /* where each of them stands */
} Direct;

/* From (function, indices of the inputs, output, number of outputs[, judge]); NULL with an exception if it does not
 * fit. */
Direct *direct_new(PyObject *specification, Py_ssize_t available);
void direct_free(Direct *direct);

/* The result; rerun_marker where the function raised an Exception: the function that was lifted is to run. */
PyObject *direct_run(ThreadData *thread, const Direct *direct, PyObject *const *vector);

#endif
