/* Lifted: the callable that compile() returns. */
#ifndef FRAMELIFT_ENTRY_H
#define FRAMELIFT_ENTRY_H

#include "table.h"

int entry_init(PyObject *module);

/* Runs the residual function of an entry whose guards have accepted the call, and drops what they fetched. */
PyObject *entry_run(Entry *entry, Call *call);

#endif
