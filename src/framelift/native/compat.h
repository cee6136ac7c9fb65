/* The differences between CPython 3.11, 3.12 and 3.13 that this extension knows of, all in one place.
 *
 * Only public names and the internal headers CPython installs are used; every fact below is asserted again at
 * import time by check_layout() (module.c), because struct layouts are not promised between patch releases. */
#ifndef FRAMELIFT_COMPAT_H
#define FRAMELIFT_COMPAT_H

#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE 1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include <Python.h>
/* pycore_gc.h defines it anew. */
#undef _PyGC_FINALIZED
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_pystate.h>
#include <opcode.h>
#pragma GCC diagnostic pop

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030e0000
#error "framelift supports CPython 3.11, 3.12 and 3.13"
#endif
#ifdef Py_GIL_DISABLED
#error "framelift does not support free-threaded CPython"
#endif

#define SINCE_312 (PY_VERSION_HEX >= 0x030c0000)
#define SINCE_313 (PY_VERSION_HEX >= 0x030d0000)

typedef _PyInterpreterFrame Frame;

/* What a code object carries for others: one pointer per index. */
#if SINCE_312
#define code_extra_request PyUnstable_Eval_RequestCodeExtraIndex
#define code_extra_get     PyUnstable_Code_GetExtra
#define code_extra_set     PyUnstable_Code_SetExtra
#else
#define code_extra_request _PyEval_RequestCodeExtraIndex
#define code_extra_get     _PyCode_GetExtra
#define code_extra_set     _PyCode_SetExtra
#endif

static inline PyCodeObject *frame_code(Frame *frame)
{
#if SINCE_313
    return (PyCodeObject *)frame->f_executable;
#else
    return frame->f_code;
#endif
}

static inline PyFunctionObject *frame_function(Frame *frame)
{
#if SINCE_312
    return (PyFunctionObject *)frame->f_funcobj;
#else
    return frame->f_func;
#endif
}

/* Takes over the reference; the caller drops the old one. */
static inline void frame_set_code(Frame *frame, PyCodeObject *code)
{
#if SINCE_313
    frame->f_executable = (PyObject *)code;
#else
    frame->f_code = code;
#endif
}

/* Takes over the reference; the caller drops the old one. Globals and builtins are borrowed from the function. */
static inline void frame_set_function(Frame *frame, PyFunctionObject *function)
{
#if SINCE_312
    frame->f_funcobj = (PyObject *)function;
#else
    frame->f_func = function;
#endif
    frame->f_globals = function->func_globals;
    frame->f_builtins = function->func_builtins;
}

/* The innermost frame that runs. */
static inline Frame *thread_frame(PyThreadState *tstate)
{
#if SINCE_313
    return tstate->current_frame;
#else
    return tstate->cframe->current_frame;
#endif
}

/* Makes `next` the instruction that runs first. */
static inline void frame_set_next(Frame *frame, _Py_CODEUNIT *next)
{
#if SINCE_313
    frame->instr_ptr = next;
#else
    frame->prev_instr = next - 1;
#endif
}

/* Other tools were asked to watch this code object in particular (sys.monitoring). */
static inline bool code_is_monitored(PyCodeObject *code)
{
#if SINCE_312
    if (code->_co_monitoring) {
        for (size_t i = 0; i < sizeof(code->_co_monitoring->local_monitors.tools); i++) {
            if (code->_co_monitoring->local_monitors.tools[i]) {
                return true;
            }
        }
    }
#else
    (void)code;
#endif
    return false;
}

/* Whether a debugger or a coverage tool follows what this thread runs, or this code: then it wants to see the program.
 * (In 3.12 and later `sys.settrace` is such a tool, too, and watches all code.) While `tracing` is set they are told
 * nothing: one of them runs itself, or we asked for it. */
static inline bool is_watched(PyThreadState *tstate, PyCodeObject *code)
{
    return (tstate->c_tracefunc && !tstate->tracing) || code_is_monitored(code);
}

static inline bool is_profiled(PyThreadState *tstate)
{
    return tstate->c_profilefunc && !tstate->tracing;
}

/* 1 and a new reference, 0 if there is no such attribute, -1 with an exception set. */
static inline int optional_attribute(PyObject *object, PyObject *name, PyObject **value)
{
#if SINCE_313
    return PyObject_GetOptionalAttr(object, name, value);
#else
    return _PyObject_LookupAttr(object, name, value);
#endif
}

/* Takes the exception that is set, with its traceback. */
static inline PyObject *take_exception(void)
{
#if SINCE_312
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback) {
        PyException_SetTraceback(value, traceback);
    }
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}

/* An answer that is an exception is raised; it is taken over. So it begins with no frame of the one who answered. */
static inline PyObject *raise_if_exception(PyObject *answer)
{
    if (!answer || !PyExceptionInstance_Check(answer)) {
        return answer;
    }
#if SINCE_312
    PyErr_SetRaisedException(answer);
#else
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(answer)), answer, PyException_GetTraceback(answer));
#endif
    return NULL;
}

/* What a weak reference refers to: a new reference, None if it is gone. */
static inline PyObject *weakref_get(PyObject *reference)
{
#if SINCE_313
    PyObject *alive;
    return PyWeakref_GetRef(reference, &alive) == 1 ? alive : Py_NewRef(Py_None);
#else
    return Py_NewRef(PyWeakref_GET_OBJECT(reference));
#endif
}

/* Words a frame of this code takes on the data stack. */
static inline Py_ssize_t code_framesize(PyCodeObject *code)
{
#if SINCE_312
    return code->co_framesize;
#else
    return (Py_ssize_t)code->co_nlocalsplus + code->co_stacksize + (Py_ssize_t)FRAME_SPECIALS_SIZE;
#endif
}

/* Our own Python code is called where the user's program stands: with so many frames more than that may take, it fits
 * even if the program has set its limit as tight as can be. */
#define OWN_FRAMES 200
#if SINCE_312
#define lend_frames(tstate)      ((tstate)->py_recursion_remaining += OWN_FRAMES)
#define take_back_frames(tstate) ((tstate)->py_recursion_remaining -= OWN_FRAMES)
#else
#define lend_frames(tstate)      ((tstate)->recursion_remaining += OWN_FRAMES)
#define take_back_frames(tstate) ((tstate)->recursion_remaining -= OWN_FRAMES)
#endif

/* 3.12 and 3.13 count C recursion in units that stand for stack space; one evaluation of a frame takes two. A caller
 * that has looked at the real stack (stack_is_deep) gives them back, so that calls through this extension can nest
 * as deep as plain Python calls, which take none. */
#if SINCE_312
#define EVALUATION_UNITS               2
#define c_recursion_give_back(tstate)  ((tstate)->c_recursion_remaining += EVALUATION_UNITS)
#define c_recursion_take_again(tstate) ((tstate)->c_recursion_remaining -= EVALUATION_UNITS)
#else
#define c_recursion_give_back(tstate)  ((void)(tstate))
#define c_recursion_take_again(tstate) ((void)(tstate))
#endif

#endif
