/* Iterators as they stand: what they will give next, read without advancing them. Only the built-in ones that walk a
 * sequence (their layouts below are the same from 3.11 to 3.13, but for ranges) or that are made of other iterators. */
#include "guard_tree.h"

typedef struct {
    PyObject_HEAD Py_ssize_t index;
    PyObject *sequence; /* NULL once the end was met */
} SequenceIterator;

typedef struct {
    PyObject_HEAD
#if !SINCE_312
        long index;
#endif
    long start, step, length;
} RangeIterator;

static PyObject *range_ahead(const RangeIterator *iterator, Py_ssize_t steps)
{
#if !SINCE_312
    Py_ssize_t position = iterator->index + steps;
#else
    Py_ssize_t position = steps;
#endif
    /* As the iterator computes it: its last number fits, so none before it overflows. */
    return position < iterator->length
               ? PyLong_FromLong((long)(iterator->start + (unsigned long)position * iterator->step))
               : NULL;
}

PyObject *iterator_ahead(PyObject *object, Py_ssize_t steps)
{
    if (Py_IS_TYPE(object, &PyRangeIter_Type)) {
        return range_ahead((const RangeIterator *)object, steps);
    }
    PyObject *sequence = iterator_sequence(object);
    Py_ssize_t index = ((const SequenceIterator *)object)->index;
    if (sequence == NULL) {
        return NULL;
    }
    if (Py_IS_TYPE(object, &PyTupleIter_Type)) {
        index += steps;
        return index < PyTuple_GET_SIZE(sequence) ? Py_NewRef(PyTuple_GET_ITEM(sequence, index)) : NULL;
    }
    bool backwards = Py_IS_TYPE(object, &PyListRevIter_Type);
    /* Backwards, an index beyond the end of a list that was cut ends the iteration at once. */
    if (backwards && index >= PyList_GET_SIZE(sequence)) {
        return NULL;
    }
    index += backwards ? -steps : steps;
    return index >= 0 && index < PyList_GET_SIZE(sequence) ? Py_NewRef(PyList_GET_ITEM(sequence, index)) : NULL;
}

PyObject *iterator_sequence(PyObject *object)
{
    bool walks = Py_IS_TYPE(object, &PyListIter_Type) || Py_IS_TYPE(object, &PyTupleIter_Type) ||
                 Py_IS_TYPE(object, &PyListRevIter_Type);
    return walks ? ((SequenceIterator *)object)->sequence : NULL;
}

bool is_walking_iterator(PyObject *object)
{
    return Py_IS_TYPE(object, &PyListIter_Type) || Py_IS_TYPE(object, &PyTupleIter_Type) ||
           Py_IS_TYPE(object, &PyListRevIter_Type) || Py_IS_TYPE(object, &PyRangeIter_Type);
}

/* (type, parts): the copy protocol of iterators that are made of others, which is C code of the interpreter. */
PyObject *iterator_parts(PyObject *object)
{
    if (!Py_IS_TYPE(object, &PyEnum_Type) && !Py_IS_TYPE(object, &PyZip_Type) && !Py_IS_TYPE(object, &PyMap_Type) &&
        !Py_IS_TYPE(object, &PyFilter_Type)) {
        return NULL;
    }
    PyObject *parts = PyObject_CallMethod(object, "__reduce__", NULL);
    if (parts == NULL) {
        PyErr_Clear();
    }
    return parts;
}
