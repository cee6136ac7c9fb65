/* torch's global and thread-local state, as far as it changes what a captured graph means. */
#ifndef FRAMELIFT_TORCH_STATE_H
#define FRAMELIFT_TORCH_STATE_H

#include "common.h"

extern PyTypeObject TorchState_Type;

/* 1 the state is the one of the snapshot, 0 it is not, -1 error */
int torch_state_matches(PyObject *snapshot);
/* What differs from the present, in words; None if nothing does. */
PyObject *torch_state_describe(PyObject *snapshot);

#endif
