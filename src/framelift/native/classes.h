/* Classes that exist for us only. */
#ifndef FRAMELIFT_CLASSES_H
#define FRAMELIFT_CLASSES_H

#include "common.h"

int classes_init(PyObject *module);

#endif
