/* Signals wait: while a block lasts no handler runs on the main thread. */
#ifndef FRAMELIFT_SIGNALS_H
#define FRAMELIFT_SIGNALS_H

#include "common.h"

int signals_init(PyObject *module);

#endif
