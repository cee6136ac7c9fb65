/* See fallbacks.h. */
#include "fallbacks.h"
#include "protocol.h"

bool tell_fallback(ThreadData *thread, const char *id, PyObject *function)
{
    if (!protocol.hear_of_fallback) {
        return true;
    }
    PyThreadState *tstate = PyThreadState_Get();
    PyObject *told = Py_NewRef(protocol.hear_of_fallback); /* it is replaced meanwhile */
    /* A debugger that steps into the function is not to step into us. */
    PyThreadState_EnterTracing(tstate);
    thread->suspended++;
    lend_frames(tstate);
    PyObject *answer = PyObject_CallFunction(told, "sO", id, function);
    take_back_frames(tstate);
    thread->suspended--;
    PyThreadState_LeaveTracing(tstate);
    Py_DECREF(told);
    Py_XDECREF(answer);
    return answer != NULL;
}

static const char *const requests[NREQUESTS] = {FALLBACK_DISABLED, FALLBACK_STANCE};
static unsigned long long untold[NREQUESTS]; /* calls that nobody was told of */
static unsigned telling = 1;                 /* grows when all is to be told again */

bool count_request(ThreadData *thread, Request request, PyObject *function, unsigned *told)
{
    if (LIKELY(*told == telling)) {
        untold[request]++;
        return true;
    }
    *told = telling;
    return tell_fallback(thread, requests[request], function);
}

/* What the graph has computed so far hangs on the frames of its exceptions: Python, which is to compute it again, may
 * need the memory. Frames that still run keep theirs. False: an exception is set, no RuntimeError. */
static bool clear_frames(PyObject *error)
{
    bool ok = true;
    PyObject *first = PyException_GetTraceback(error);
    PyTracebackObject *at = first && PyTraceBack_Check(first) ? (PyTracebackObject *)first : NULL;
    for (; at && ok; at = at->tb_next) {
        PyObject *cleared = PyObject_CallMethod((PyObject *)at->tb_frame, "clear", NULL);
        if (!cleared && PyErr_ExceptionMatches(PyExc_RuntimeError)) {
            PyErr_Clear();
        } else {
            ok = cleared != NULL;
        }
        Py_XDECREF(cleared);
    }
    Py_XDECREF(first);
    return ok;
}

/* A program may have made a circle of exceptions. */
enum { MOST_CONTEXTS = 100 };

static bool clear_all_frames(PyObject *error)
{
    bool ok = true;
    PyObject *next = Py_NewRef(error);
    for (int i = 0; i < MOST_CONTEXTS && next && ok; i++) {
        ok = clear_frames(next);
        Py_SETREF(next, PyException_GetContext(next));
    }
    Py_XDECREF(next);
    return ok;
}

/* Between the note and whoever takes it finalizers may run, and in them other graphs that raise: notes are a stack of
 * (judge, error, the note below or None). */
bool note_failure(ThreadData *thread, PyObject *judge, PyObject *error)
{
    if (error != Py_None && !clear_all_frames(error)) {
        return false;
    }
    PyObject *below = thread->failure ? thread->failure : Py_None;
    PyObject *note = PyTuple_Pack(3, judge, error, below);
    if (!note) {
        return false;
    }
    Py_XSETREF(thread->failure, note);
    return true;
}

PyObject *take_failure(ThreadData *thread)
{
    PyObject *note = thread->failure;
    if (note) {
        PyObject *below = PyTuple_GET_ITEM(note, 2);
        thread->failure = below == Py_None ? NULL : Py_NewRef(below);
    }
    return note;
}

PyObject *settle_failure(ThreadData *thread, PyObject *failure, PyObject *entry, PyObject *result)
{
    PyObject *judge = failure ? PyTuple_GET_ITEM(failure, 0) : Py_None;
    if (result && judge != Py_None) {
        PyThreadState *tstate = PyThreadState_Get();
        thread->suspended++;
        lend_frames(tstate);
        PyObject *error = PyTuple_GET_ITEM(failure, 1);
        PyObject *answer = PyObject_CallMethodObjArgs(judge, protocol.python_succeeded, entry, error, NULL);
        take_back_frames(tstate);
        thread->suspended--;
        answer = raise_if_exception(answer);
        if (!answer) {
            Py_CLEAR(result);
        }
        Py_XDECREF(answer);
    }
    Py_XDECREF(failure);
    return result;
}

/* ---- for Python ----------------------------------------------------------------------------------------------- */

static PyObject *untold_calls(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return Py_BuildValue("{s:K,s:K}", requests[DISABLED], untold[DISABLED], requests[STANCE], untold[STANCE]);
}

static PyObject *tell_again(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    memset(untold, 0, sizeof(untold));
    telling++;
    Py_RETURN_NONE;
}

static PyObject *give_up(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "give_up() takes a judge and an exception");
        return NULL;
    }
    return note_failure(&thread_data, args[0], args[1]) ? Py_NewRef(Py_None) : NULL;
}

static PyMethodDef functions[] = {
    {"untold_calls", untold_calls, METH_NOARGS,
     "untold_calls() -> dict[str, int]\n\nBy id, how many calls more Python ran because the program asked for it: the "
     "listener\nhears only of the first of each lifted callable."},
    {"tell_again", tell_again, METH_NOARGS, "tell_again()\n\nStart anew with counting and telling these."},
    {"give_up", (PyCFunction)(void (*)(void))give_up, METH_FASTCALL,
     "give_up(judge, error)\n\nFor residual code that is about to return RERUN, because a graph raised. Where Python "
     "does not raise,\njudge.python_succeeded(entry, error) is called; an exception that it returns is raised."},
    {NULL, NULL, 0, NULL},
};

int fallbacks_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
