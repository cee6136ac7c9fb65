/* Objects that residual code makes: one call stores all attributes. */
#include "common.h"

/* Store an attribute in the instance itself, whatever its class has under that name. Storing it the ordinary way, where
 * that is the same, spares the instance a dict of its own. */
static int store_own(PyObject *instance, PyObject *name, PyObject *value)
{
    PyObject *on_class = _PyType_Lookup(Py_TYPE(instance), name); /* borrowed */
    if (on_class == NULL || Py_TYPE(on_class)->tp_descr_set == NULL) {
        return PyObject_GenericSetAttr(instance, name, value);
    }
    PyObject *dict = PyObject_GenericGetDict(instance, NULL);
    if (dict == NULL) {
        return -1;
    }
    int failed = PyDict_SetItem(dict, name, value);
    Py_DECREF(dict);
    return failed;
}

static PyObject *store_attributes(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs < 2 || !PyTuple_CheckExact(args[1]) || PyTuple_GET_SIZE(args[1]) != nargs - 2) {
        PyErr_SetString(PyExc_TypeError, "store_attributes() takes an object, a tuple of names and a value for each");
        return NULL;
    }
    for (Py_ssize_t i = 2; i < nargs; i++) {
        if (store_own(args[0], PyTuple_GET_ITEM(args[1], i - 2), args[i]) < 0) {
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"store_attributes", (PyCFunction)(void (*)(void))store_attributes, METH_FASTCALL,
     "store_attributes(instance, names, *values)\n\nPut them into the `__dict__` of the instance, in this order."},
    {NULL, NULL, 0, NULL},
};

int instances_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
