/* See ordered.h. The struct is CPython's own, in none of its headers; ordered_init() tries it. */
#include "ordered.h"

typedef struct {
    PyDictObject dict;
    const OrderedNode *first, *last;
    void **nodes_by_place;
    Py_ssize_t places;
} OrderedDict;

const OrderedNode *ordered_first(PyObject *dict)
{
    return ((const OrderedDict *)dict)->first;
}

static PyObject *ordered_keys(PyObject *Py_UNUSED(module), PyObject *dict)
{
    if (!PyODict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "ordered_keys() takes an OrderedDict");
        return NULL;
    }
    PyObject *keys = PyList_New(0);
    for (const OrderedNode *node = ordered_first(dict); keys && node; node = node->next) {
        if (PyList_Append(keys, node->key) < 0) {
            Py_CLEAR(keys);
        }
    }
    return keys;
}

static PyMethodDef functions[] = {
    {"ordered_keys", ordered_keys, METH_O, "The keys of an OrderedDict in its order, none asked for its hash."},
    {NULL, NULL, 0, NULL},
};

/* Whether the list of an OrderedDict is where it is thought to be. */
static bool is_laid_out_so(PyObject *first, PyObject *second)
{
    PyObject *dict = PyODict_New();
    bool fits = dict && PyODict_SetItem(dict, first, Py_None) == 0 && PyODict_SetItem(dict, second, Py_None) == 0;
    if (fits) {
        const OrderedDict *seen = (const OrderedDict *)dict;
        fits = seen->places >= 2 && seen->first && seen->last && seen->first->key == first &&
               seen->last->key == second && seen->first->next == seen->last && seen->last->previous == seen->first &&
               !seen->last->next && !seen->first->previous;
    }
    Py_XDECREF(dict);
    return fits;
}

int ordered_init(PyObject *module)
{
    if (!is_laid_out_so(Py_None, Py_Ellipsis)) {
        PyErr_SetString(PyExc_ImportError, "framelift does not know how this Python lays out an OrderedDict");
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
