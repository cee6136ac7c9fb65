/* Going on after a graph break, without the stack growing. */
#ifndef FRAMELIFT_TAIL_H
#define FRAMELIFT_TAIL_H

#include "common.h"

/* What to call instead of returning. Residual code returns one to have an instruction run by Python (a step, with a
 * context), step code to go on behind that instruction (a resume function, to be lifted). Only the trampoline sees
 * them. */
typedef struct Tail {
    PyObject_VAR_HEAD PyObject *function;
    PyObject *context;  /* by whom frames are lifted while a step runs; NULL: this is no step */
    PyObject *kept;     /* a tuple: what is alive until the trampoline ends */
    struct Tail *inner; /* the frame whose result this one waits for; it was left, too */
    bool joined;        /* stands for several frames: the function itself cannot be run */
    PyObject *args[];
} Tail;

extern PyTypeObject Tail_Type;
extern PyObject *step_function; /* the builtin that makes steps: residual code that has it as a constant may leave */

static inline bool is_tail(PyObject *result)
{
    return result && Py_IS_TYPE(result, &Tail_Type);
}

/* A call keeps its arguments until it returns. The program would notice: it has only the frame's references. */
static inline void give_arguments(ThreadData *thread, Frame *frame)
{
    Tail *tail = thread->giving;
    if (UNLIKELY(tail != NULL) && (PyObject *)frame_function(frame) == tail->function) {
        thread->giving = NULL;
        for (Py_ssize_t i = 0; i < Py_SIZE(tail); i++) {
            Py_CLEAR(tail->args[i]);
        }
    }
}

/* Runs a tail, which it takes over, and all that follow from it: what the frame returns, or NULL with an exception. */
PyObject *trampoline(ThreadData *thread, PyObject *tail);

#endif
