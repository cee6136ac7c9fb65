/* Keys of an OrderedDict in its order, read from the list it keeps: its iterators ask each key for its hash. */
#ifndef FRAMELIFT_ORDERED_H
#define FRAMELIFT_ORDERED_H

#include "common.h"

typedef struct OrderedNode {
    PyObject *key;
    Py_hash_t hash;
    struct OrderedNode *next, *previous;
} OrderedNode;

/* NULL: it is empty. */
const OrderedNode *ordered_first(PyObject *dict);

#endif
