/* Iterators as they stand: what they will give next, read without advancing them. Only the built-in ones that walk a
 * sequence or a dictionary: their layouts below are the same from 3.11 to 3.13, but for ranges. */
#include "tree.h"

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

typedef struct {
    PyObject_HEAD PyObject *dict; /* NULL once the end was met */
    Py_ssize_t used, position;
} DictIterator;

static bool is_dict_iterator(PyObject *object)
{
    return Py_IS_TYPE(object, &PyDictIterKey_Type) || Py_IS_TYPE(object, &PyDictIterValue_Type) ||
           Py_IS_TYPE(object, &PyDictIterItem_Type);
}

/* Whether it would complain: its dictionary has another size than when it was made. */
static bool has_lost_track(const DictIterator *iterator)
{
    return iterator->dict != NULL && iterator->used != PyDict_GET_SIZE(iterator->dict);
}

static PyObject *entry_ahead(PyObject *object, Py_ssize_t steps)
{
    const DictIterator *iterator = (const DictIterator *)object;
    if (iterator->dict == NULL || has_lost_track(iterator)) {
        return NULL;
    }
    Py_ssize_t position = iterator->position;
    PyObject *key = NULL, *value = NULL;
    for (Py_ssize_t i = 0; i <= steps; i++) {
        if (!PyDict_Next(iterator->dict, &position, &key, &value)) {
            return NULL;
        }
    }
    if (Py_IS_TYPE(object, &PyDictIterItem_Type)) {
        return PyTuple_Pack(2, key, value);
    }
    return Py_NewRef(Py_IS_TYPE(object, &PyDictIterKey_Type) ? key : value);
}

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
    if (is_dict_iterator(object)) {
        return entry_ahead(object, steps);
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
    if (is_dict_iterator(object)) {
        return ((DictIterator *)object)->dict;
    }
    bool walks = Py_IS_TYPE(object, &PyListIter_Type) || Py_IS_TYPE(object, &PyTupleIter_Type) ||
                 Py_IS_TYPE(object, &PyListRevIter_Type);
    return walks ? ((SequenceIterator *)object)->sequence : NULL;
}

bool is_walking_iterator(PyObject *object)
{
    if (is_dict_iterator(object)) {
        return !has_lost_track((const DictIterator *)object);
    }
    return Py_IS_TYPE(object, &PyListIter_Type) || Py_IS_TYPE(object, &PyTupleIter_Type) ||
           Py_IS_TYPE(object, &PyListRevIter_Type) || Py_IS_TYPE(object, &PyRangeIter_Type);
}
