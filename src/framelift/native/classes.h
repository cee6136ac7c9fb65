/* About classes and functions, what Python does not tell. */
#ifndef FRAMELIFT_CLASSES_H
#define FRAMELIFT_CLASSES_H

#include "common.h"

int classes_init(PyObject *module);

#endif
