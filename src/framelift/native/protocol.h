/* What C asks of Python: native/protocol.py says what each of these is. */
#ifndef FRAMELIFT_PROTOCOL_H
#define FRAMELIFT_PROTOCOL_H

#include "common.h"

typedef struct {
    /* Names that contexts and judges answer to; interned. */
    PyObject *key, *resume, *join, *unlifted, *python_succeeded;
    /* Functions that connect() was given; NULL: none. */
    PyObject *hide_callers, *is_failure, *hear_of_fallback, *describe, *disagreement;
} Protocol;

extern Protocol protocol;

#endif
