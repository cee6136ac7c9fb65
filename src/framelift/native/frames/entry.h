/* Lifted: the callable that compile() returns. */
#ifndef FRAMELIFT_ENTRY_H
#define FRAMELIFT_ENTRY_H

#include "table.h"

/* What residual code returns when its graph raised and nothing was changed: run the function itself. */
extern PyObject *rerun_marker;

/* Asks miss(about, slots) for an entry that fits the call: a new reference with the fetched objects in the call's room,
 * or NULL. With `alone` set the frames that the function calls are to be left alone too. */
Entry *ask_for_entry(PyObject *miss, PyObject *about, PyFunctionObject *function, Table *table, Call *call,
                     bool *alone);

/* Runs the residual function of an entry whose guards have accepted the call, and drops what they fetched. */
static inline PyObject *entry_run(ThreadData *thread, Entry *entry, Call *call)
{
    PyObject *const *vector = call->slots;
    if (entry->nfetched) {
        if (!call->owned) {
            memcpy(call->room, call->slots, (size_t)call->nslots * sizeof(PyObject *));
        }
        vector = call->room;
    }
    /* Residual code says itself around which calls it wants frames to be lifted (run_hooked). */
    Lifting lifting = thread->lifting;
    PyObject *result;
    size_t nargs = (size_t)(call->nslots + entry->nfetched);
    thread->lifting = (Lifting){0};
    if (entry->direct) {
        result = direct_run(thread, entry->direct, vector);
    } else if (LIKELY((uintptr_t)__builtin_frame_address(0) >= thread->shallow)) {
        result = ((PyFunctionObject *)entry->residual)->vectorcall(entry->residual, vector, nargs, NULL);
    } else {
        result = call_nested_slow(thread, entry->residual, vector, nargs, NULL);
    }
    thread->lifting = lifting;
    entry_drop_fetched(entry, call);
    return result;
}

#endif
