/* About classes and functions, what Python does not tell. Some classes exist for us only: nobody must find them among
 * the subclasses of others. */
#include "common.h"

static PyObject *forget_subclass(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyTypeObject *base, *cls;
    if (!PyArg_ParseTuple(args, "O!O!:forget_subclass", &PyType_Type, &base, &PyType_Type, &cls)) {
        return NULL;
    }
    /* Since 3.12 those of static types are kept elsewhere, where nothing but CPython reaches them. */
    if (SINCE_312 && !(base->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        Py_RETURN_NONE;
    }
    PyObject *subclasses = (PyObject *)base->tp_subclasses, *key = PyLong_FromVoidPtr(cls);
    if (!key) {
        return NULL;
    }
    if (subclasses && PyDict_CheckExact(subclasses) && PyDict_DelItem(subclasses, key) < 0) {
        PyErr_Clear(); /* it is not among them */
    }
    Py_DECREF(key);
    Py_RETURN_NONE;
}

static PyObject *is_same_function(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *a, *b;
    if (!PyArg_ParseTuple(args, "OO:is_same_function", &a, &b)) {
        return NULL;
    }
    if (Py_IS_TYPE(a, &PyMethodDescr_Type) && Py_IS_TYPE(b, &PyMethodDescr_Type)) {
        return PyBool_FromLong(((PyMethodDescrObject *)a)->d_method == ((PyMethodDescrObject *)b)->d_method);
    }
    return PyBool_FromLong(PyCFunction_CheckExact(a) && PyCFunction_CheckExact(b) &&
                           ((PyCFunctionObject *)a)->m_ml == ((PyCFunctionObject *)b)->m_ml);
}

static PyMethodDef functions[] = {
    {"is_same_function", is_same_function, METH_VARARGS,
     "is_same_function(a, b) -> bool\n\nWhether two builtin functions or methods run the same C function, as those of "
     "two copies of a module do."},
    {"forget_subclass", forget_subclass, METH_VARARGS,
     "forget_subclass(base, cls)\n\n`base.__subclasses__()` does not list the class any more, though it is one."},
    {NULL, NULL, 0, NULL},
};

int classes_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
