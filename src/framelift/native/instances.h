/* Objects that residual code makes. */
#ifndef FRAMELIFT_INSTANCES_H
#define FRAMELIFT_INSTANCES_H

#include "common.h"

int instances_init(PyObject *module);

#endif
