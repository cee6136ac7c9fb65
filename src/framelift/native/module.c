/* framelift.native._core: what a thread has switched off, how deep its C stack is, and the start of it all. */
#include "frames/bind.h"

#include <pthread.h>
#include <structmember.h>

_Thread_local ThreadData thread_data = {.shallow = UINTPTR_MAX, .deep = UINTPTR_MAX, .used_up = UINTPTR_MAX};

/* ---- the C stack ---------------------------------------------------------------------------------------------- */

/* Where the bounds cannot be had we assume this much below the place we are at. */
#define ASSUMED_STACK ((uintptr_t)512 * 1024)

static void read_stack_bounds(ThreadData *thread, uintptr_t here)
{
    uintptr_t low = here - ASSUMED_STACK, size = ASSUMED_STACK;
#ifdef __linux__
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        void *address;
        size_t length;
        if (pthread_attr_getstack(&attributes, &address, &length) == 0 && (uintptr_t)address < here) {
            low = (uintptr_t)address;
            size = length;
        }
        pthread_attr_destroy(&attributes);
    }
#endif
    /* More than a thread ever needs is not more permission: an unlimited stack reads as all of memory. */
    uintptr_t sane = (uintptr_t)1 << 30, high = low + size;
    size = Py_MIN(size, sane);
    thread->shallow = high - Py_MIN(size / 16, (uintptr_t)192 * 1024);
    thread->deep = high - size / 4;
    thread->used_up = high - size + Py_MIN(size / 8, (uintptr_t)512 * 1024);
}

bool stack_is_deep_slow(ThreadData *thread, uintptr_t here)
{
    if (thread->deep == UINTPTR_MAX) {
        read_stack_bounds(thread, here);
    }
    return here < thread->deep;
}

PyObject *raise_used_up(void)
{
    PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded: the C stack is used up");
    return NULL;
}

PyObject *call_nested_slow(ThreadData *thread, PyObject *callable, PyObject *const *args, size_t nargsf,
                           PyObject *kwnames)
{
    if (stack_is_deep(thread)) {
        return PyObject_Vectorcall(callable, args, nargsf, kwnames);
    }
    PyThreadState *tstate = PyThreadState_Get();
    c_recursion_give_back(tstate);
    PyObject *result = PyObject_Vectorcall(callable, args, nargsf, kwnames);
    c_recursion_take_again(tstate);
    return result;
}

/* ---- suspended: lifted callables act as their functions ------------------------------------------------------- */

static PyObject *begin_suspend(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    thread_data.suspended++;
    Py_RETURN_NONE;
}

static PyObject *end_suspend(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    if (thread_data.suspended <= 0) {
        PyErr_SetString(PyExc_RuntimeError, "end_suspend() without begin_suspend() on this thread");
        return NULL;
    }
    thread_data.suspended--;
    Py_RETURN_NONE;
}

static PyObject *is_suspended(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(thread_data.suspended > 0);
}

BLOCK_TYPE(Suspended_Type, "suspended",
           "Inside `with suspended():` lifted callables act as their functions on this thread.", begin_suspend,
           end_suspend)

/* ---- untold: debuggers and profilers hear nothing ---------------------------------------------------------------- */

static PyObject *untold(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (nargs < 1) {
        PyErr_SetString(PyExc_TypeError, "untold() takes a callable and its arguments");
        return NULL;
    }
    PyThreadState *tstate = PyThreadState_Get();
    PyThreadState_EnterTracing(tstate);
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)(nargs - 1), kwnames);
    PyThreadState_LeaveTracing(tstate);
    return result;
}

/* ---- the stance ----------------------------------------------------------------------------------------------- */

static const uint64_t unchanging = 0;
Stance stance = {.version = &unchanging};

bool stance_says_python(ThreadData *thread)
{
    if (!stance.ask) {
        return false;
    }
    PyObject *type, *value, *traceback; /* a frame may be entered with an exception set */
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *ask = Py_NewRef(stance.ask); /* it is replaced meanwhile */
    thread->suspended++;
    PyObject *answer = PyObject_CallNoArgs(ask);
    thread->suspended--;
    if (!answer) {
        PyErr_WriteUnraisable(ask);
    }
    Py_DECREF(ask);
    PyErr_Restore(type, value, traceback);
    bool says = answer == Py_True;
    Py_XDECREF(answer);
    return says;
}

static PyObject *follow_stance(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *ask, *dict, *instead;
    int asks;
    if (!PyArg_ParseTuple(args, "OpO!O:follow_stance", &ask, &asks, &PyDict_Type, &dict, &instead)) {
        return NULL;
    }
    stance.asks = asks;
    stance.version = &((PyDictObject *)dict)->ma_version_tag;
    stance.known = *stance.version;
    Py_INCREF(dict);
    Py_XSETREF(stance.dict, dict);
    Py_INCREF(ask);
    Py_XSETREF(stance.ask, ask);
    Py_XSETREF(stance.instead, instead == Py_None ? NULL : Py_NewRef(instead));
    Py_RETURN_NONE;
}

/* ---- what we believe about CPython's structs ------------------------------------------------------------------ */

static PyObject *layout_error(const char *what)
{
    PyErr_Format(PyExc_ImportError, "this CPython lays out %s differently from the one framelift was built for", what);
    return NULL;
}

/* check_layout(function, a, b), called from a Python function that is `function` with a, b as its arguments. */
static PyObject *check_layout(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *function, *first, *second;
    if (!PyArg_ParseTuple(args, "O!OO:check_layout", &PyFunction_Type, &function, &first, &second)) {
        return NULL;
    }
    PyThreadState *tstate = PyThreadState_GET();
    PyFrameObject *object = PyEval_GetFrame();
    if (!object) {
        return layout_error("the current frame");
    }
    Frame *frame = object->f_frame;
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(function);
    if ((PyObject **)frame < tstate->datastack_chunk->data || (PyObject **)frame >= tstate->datastack_limit) {
        return layout_error("the data stack");
    }
    if ((PyObject **)frame + code_framesize(code) > tstate->datastack_top ||
        tstate->datastack_top > tstate->datastack_limit) {
        return layout_error("the data stack's top");
    }
    if (code_framesize(code) !=
        (Py_ssize_t)code->co_nlocalsplus + code->co_stacksize + (Py_ssize_t)FRAME_SPECIALS_SIZE) {
        return layout_error("the size of a frame");
    }
    if (frame_code(frame) != code || (PyObject *)frame_function(frame) != function ||
        frame->f_globals != PyFunction_GET_GLOBALS(function) || frame->frame_obj != object ||
        frame->owner != FRAME_OWNED_BY_THREAD) {
        return layout_error("a frame");
    }
    if (frame->localsplus[0] != first || frame->localsplus[1] != second) {
        return layout_error("a frame's locals");
    }
    if (code_nslots(code) != 2 || PyTuple_GET_SIZE(code->co_localsplusnames) != code->co_nlocalsplus) {
        return layout_error("a code object");
    }
    Py_RETURN_NONE;
}

/* ---- the module ----------------------------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    {"begin_suspend", begin_suspend, METH_NOARGS,
     "begin_suspend()\n\nFrom now on lifted callables act as their functions on this thread; nests."},
    {"end_suspend", end_suspend, METH_NOARGS, "end_suspend()\n\nEnds what begin_suspend() began."},
    {"is_suspended", is_suspended, METH_NOARGS, "is_suspended() -> bool"},
    {"untold", (PyCFunction)(void (*)(void))untold, METH_FASTCALL | METH_KEYWORDS,
     "untold(callable, /, *args, **kwargs)\n\nCalls the callable; trace and profile functions are not told of what it "
     "does."},
    {"follow_stance", follow_stance, METH_VARARGS,
     "follow_stance(ask, asks, dict, instead)\n\nask() says whether Python runs everything. It is asked by every call "
     "while `asks`\nis true, and else once the dict has changed. instead(lifted), unless None, gives the Lifted to "
     "call "
     "in its place."},
    {"check_layout", check_layout, METH_VARARGS, "check_layout(function, a, b)\n\nFor the self-test at import."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,  .m_name = "framelift.native._core", .m_doc = "Entries, tables, guards and the frame hook.",
    .m_size = -1, /* one per process: the frame hook and code objects' extra data are */
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__core(void)
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "framelift does not support subinterpreters");
        return NULL;
    }
    PyObject *module = PyModule_Create(&definition);
    if (!module) {
        return NULL;
    }
#define PART(name) name##_init
    static int (*const parts[])(PyObject *) = {PARTS(PART)};
    PyObject *built_for = Py_BuildValue("(ii)", PY_MAJOR_VERSION, PY_MINOR_VERSION);
    int result = built_for ? PyModule_AddObjectRef(module, "BUILT_FOR", built_for) : -1;
    result = result < 0 ? -1 : PyModule_AddType(module, &Suspended_Type);
    for (size_t i = 0; result == 0 && i < Py_ARRAY_LENGTH(parts); i++) {
        result = parts[i](module);
    }
    Py_XDECREF(built_for);
    if (result < 0) {
        Py_CLEAR(module);
    }
    return module;
}
