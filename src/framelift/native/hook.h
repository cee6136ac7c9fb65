/* The frame hook (PEP 523). */
#ifndef FRAMELIFT_HOOK_H
#define FRAMELIFT_HOOK_H

#include "entry.h"

int hook_init(PyObject *module);

#endif
