/* What the classes of lifted modules have as `__call__`. */
#ifndef FRAMELIFT_MODULE_CALL_H
#define FRAMELIFT_MODULE_CALL_H

#include "common.h"

int module_call_init(PyObject *module);

#endif
