/* The frame hook (PEP 523). */
#ifndef FRAMELIFT_HOOK_H
#define FRAMELIFT_HOOK_H

#include "entry.h"

/* The key of the tables a context's frames are looked up in: a new reference. */
PyObject *context_key(PyObject *context);

/* Calls a callable; frames on the way are lifted by the context. */
PyObject *call_hooked(ThreadData *thread, PyObject *context, PyObject *callable, PyObject *const *args, size_t nargs,
                      PyObject *kwnames);

#endif
