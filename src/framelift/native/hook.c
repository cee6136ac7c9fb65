#include "hook.h"
int hook_init(PyObject *module) { (void)module; return 0; }
