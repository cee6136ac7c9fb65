/* One call in progress: its bound arguments and what the guards fetched for it. */
#ifndef FRAMELIFT_BIND_H
#define FRAMELIFT_BIND_H

#include "common.h"

#define CALL_SMALL 40

/* room[0..nslots) holds the arguments if this call owns them, room[nslots..) what was fetched; together they are the
 * argument vector of the residual function. A Call lives on the C stack, so calls may nest as they like. */
typedef struct {
    PyObject *const *slots; /* the arguments in the order of the frame's first locals */
    Py_ssize_t nslots;
    bool owned; /* the slots are ours to release, and stand in room */
    PyObject **room;
    Py_ssize_t capacity;
    PyObject *small[CALL_SMALL];
} Call;

static inline void call_init(Call *call, PyObject *const *slots, Py_ssize_t nslots)
{
    call->slots = slots;
    call->nslots = nslots;
    call->owned = false;
    call->room = call->small;
    call->capacity = CALL_SMALL;
}

/* Argument slots of a frame of this code: positional, keyword-only, *args, **kwargs. */
static inline Py_ssize_t code_nslots(PyCodeObject *code)
{
    return (Py_ssize_t)code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) +
           !!(code->co_flags & CO_VARKEYWORDS);
}

int call_reserve_slow(Call *call, Py_ssize_t needed);

/* Room for the slots and nfetched more. 0, or -1 with an exception set. */
static inline int call_reserve(Call *call, Py_ssize_t nfetched)
{
    Py_ssize_t needed = call->nslots + nfetched;
    return LIKELY(needed <= call->capacity) ? 0 : call_reserve_slow(call, needed);
}

int call_bind_slow(Call *call, PyFunctionObject *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* Binds a vectorcall's arguments as CPython would for this function. 1: bound; 0: they do not fit (calling the function
 * raises the TypeError); -1: exception set. Release the call after 1. */
static inline int call_bind(Call *call, PyFunctionObject *function, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    PyCodeObject *code = (PyCodeObject *)function->func_code;
    if (LIKELY(!kwnames && nargs == code->co_argcount && !code->co_kwonlyargcount &&
               !(code->co_flags & (CO_VARARGS | CO_VARKEYWORDS)))) {
        call_init(call, args, nargs);
        return 1;
    }
    return call_bind_slow(call, function, args, nargs, kwnames);
}

void call_release_slow(Call *call);

/* Drops the arguments if they are ours; what was fetched must be gone by now. */
static inline void call_release(Call *call)
{
    if (UNLIKELY(call->owned || call->room != call->small)) {
        call_release_slow(call);
    }
}

#endif
