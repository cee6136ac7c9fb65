/* Lifted: a callable that stands for a Python function and enters its specialisations.
 *
 * A call binds the arguments as the function would, asks the table of the function's code for an entry whose guards
 * hold, and calls that entry's residual function: no Python code runs before it. Without such an entry miss() is asked
 * for one, and the function itself runs if there is none. */
#include "entry.h"
#include "fallbacks.h"
#include "protocol.h"
#include "tail.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyFunctionObject *function;
    PyObject *code; /* the function's code when the table was looked up; held, so that its address stays its own */
    Table *table;
    PyObject *miss;
    unsigned told;  /* count_request() */
    bool fullgraph; /* one graph or an error: debuggers see nothing of it */
    PyObject *dict;
    PyObject *weakrefs;
} Lifted;

PyObject *rerun_marker;

/* How many calls of lifted callables have begun on all threads, those made within others not counted. */
static unsigned long long outermost_calls;

/* ---- calls ---------------------------------------------------------------------------------------------------- */

/* The function may have been given another code: then its calls belong to that code's table. */
static int lifted_follow_code(Lifted *self)
{
    PyObject *code = self->function->func_code;
    if (LIKELY(code == self->code)) {
        return 0;
    }
    /* Comparing keys may run code that calls us: hold what is used meanwhile. */
    Py_INCREF(code);
    PyObject *key = Py_NewRef(self->table->key);
    Table *table = table_find_or_make((PyCodeObject *)code, key);
    Py_DECREF(key);
    if (!table) {
        Py_DECREF(code);
        return -1;
    }
    Py_SETREF(self->code, code);
    Py_SETREF(self->table, table);
    return 0;
}

Entry *ask_for_entry(PyObject *miss, PyObject *about, PyFunctionObject *function, Table *table, Call *call, bool *alone)
{
    *alone = false;
    table->misses++;
    if (UNLIKELY(miss == Py_None)) {
        tell_fallback(&thread_data, FALLBACK_COLLECTED, (PyObject *)function);
        return NULL;
    }
    PyObject *slots = new_tuple(call->slots, call->nslots);
    if (!slots) {
        return NULL;
    }
    PyObject *args[] = {about, slots};
    PyObject *answer = raise_if_exception(PyObject_Vectorcall(miss, args, 2, NULL));
    Py_DECREF(slots);
    if (!answer || answer == Py_None || answer == Py_NotImplemented) {
        *alone = answer == Py_NotImplemented;
        Py_XDECREF(answer);
        return NULL;
    }
    if (!Py_IS_TYPE(answer, &Entry_Type)) {
        PyErr_Format(PyExc_TypeError, "miss() must return an Entry, None, NotImplemented or an exception, not %.100s",
                     Py_TYPE(answer)->tp_name);
        Py_DECREF(answer);
        return NULL;
    }
    /* It was made for these arguments, but other code may have run since: only its guards can tell. */
    Entry *entry = (Entry *)answer;
    int fits = entry_check(entry, call, (PyObject *)function);
    if (fits != 1) {
        Py_DECREF(entry);
        if (fits == 0) {
            tell_fallback(&thread_data, FALLBACK_CHANGED_MEANWHILE, (PyObject *)function);
        }
        return NULL;
    }
    entry_count_hit(entry);
    return entry;
}

/* Frames are not lifted meanwhile: the hook would enter an entry that has just given up. */
static PyObject *run_alone(ThreadData *thread, PyFunctionObject *function, PyObject *const *args, size_t nargsf,
                           PyObject *kwnames)
{
    Lifting lifting = thread->lifting;
    thread->lifting = (Lifting){0};
    PyObject *result = call_nested(thread, (PyObject *)function, args, nargsf, kwnames);
    thread->lifting = lifting;
    return result;
}

/* The lifted callable that the stance puts in the place of this one; NULL without an error: none. */
static PyObject *called_instead(ThreadData *thread, Lifted *self)
{
    PyObject *instead = Py_NewRef(stance.instead); /* it is replaced meanwhile */
    thread->suspended++;
    PyObject *other = PyObject_CallOneArg(instead, (PyObject *)self);
    thread->suspended--;
    Py_DECREF(instead);
    if (other && !Py_IS_TYPE(other, Py_TYPE(self))) {
        Py_CLEAR(other);
    }
    return other;
}

static inline PyObject *enter(Lifted *self, ThreadData *thread, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Call call;
    if (UNLIKELY(stack_is_used_up(thread))) {
        return raise_used_up();
    }
    PyFunctionObject *function = self->function;
    if (python_runs_all(thread)) {
        bool counted = count_request(thread, thread->suspended ? DISABLED : STANCE, (PyObject *)function, &self->told);
        return counted ? call_nested(thread, (PyObject *)function, args, nargsf, kwnames) : NULL;
    }
    if (UNLIKELY(stance.instead != NULL)) {
        PyObject *other = called_instead(thread, self);
        if (other || PyErr_Occurred()) {
            PyObject *result = other ? PyObject_Vectorcall(other, args, nargsf, kwnames) : NULL;
            Py_XDECREF(other);
            return result;
        }
    }
    if (UNLIKELY(is_watched(PyThreadState_Get(), (PyCodeObject *)function->func_code)) && !self->fullgraph) {
        bool told = tell_fallback(thread, FALLBACK_WATCHED, (PyObject *)function);
        return told ? run_alone(thread, function, args, nargsf, kwnames) : NULL;
    }
    if (lifted_follow_code(self) < 0) {
        return NULL;
    }
    int bound = call_bind(&call, function, args, PyVectorcall_NARGS(nargsf), kwnames);
    if (UNLIKELY(bound != 1)) {
        return bound < 0 ? NULL : call_nested(thread, (PyObject *)function, args, nargsf, kwnames);
    }
    bool failed, alone = false;
    PyObject *result;
    Table *table = (Table *)Py_NewRef(self->table);
    Entry *entry = table_lookup(table, &call, (PyObject *)function, &failed);
    if (UNLIKELY(!entry && !failed)) {
        entry = ask_for_entry(self->miss, (PyObject *)self, function, table, &call, &alone);
    }
    if (LIKELY(entry != NULL)) {
        result = entry_run(thread, entry, &call);
        if (UNLIKELY(entry->leaves) && is_tail(result)) {
            result = trampoline(thread, result);
        }
        if (UNLIKELY(result == rerun_marker)) {
            Py_DECREF(result);
            PyObject *failure = take_failure(thread);
            result = run_alone(thread, function, args, nargsf, kwnames);
            result = settle_failure(thread, failure, (PyObject *)entry, result);
        }
        Py_DECREF(entry);
    } else if (PyErr_Occurred()) {
        result = NULL;
    } else if (alone) {
        result = run_alone(thread, function, args, nargsf, kwnames);
    } else {
        result = call_nested(thread, (PyObject *)function, args, nargsf, kwnames);
    }
    Py_DECREF(table);
    call_release(&call);
    return result;
}

/* Whether an exception came through a function by which framelift calls a module, or begins in one: they have their
 * globals in common with who hides them. */
static bool came_through_caller(PyObject *error, bool anywhere)
{
    if (!protocol.hide_callers) {
        return false;
    }
    PyObject *callers = PyFunction_GET_GLOBALS(protocol.hide_callers);
    PyObject *first = PyException_GetTraceback(error); /* None, where one was taken off */
    bool found = false;
    PyTracebackObject *at = first && PyTraceBack_Check(first) ? (PyTracebackObject *)first : NULL;
    for (; at && !found; at = at->tb_next) {
        PyObject *globals = PyFrame_GetGlobals(at->tb_frame);
        found = globals == callers;
        Py_DECREF(globals);
        if (!anywhere) {
            break;
        }
    }
    Py_XDECREF(first);
    return found;
}

/* Takes the frames of such functions out of the traceback: they are not the program's. Only the outermost call looks
 * at all of it: a recursion may be deep. */
static void hide_callers(bool outermost)
{
    PyObject *error = take_exception();
    if (came_through_caller(error, outermost)) {
        PyObject *args[] = {error, outermost ? Py_True : Py_False};
        PyObject *answer = PyObject_Vectorcall(protocol.hide_callers, args, 2, NULL);
        Py_XDECREF(answer);
        if (!answer) { /* an interrupt: it goes first */
            Py_DECREF(error);
            return;
        }
    }
    raise_if_exception(error);
}

static PyObject *lifted_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    ThreadData *thread = &thread_data;
    outermost_calls += thread->within_lifted++ == 0;
    PyObject *result = enter((Lifted *)self, thread, args, nargsf, kwnames);
    thread->within_lifted--;
    if (UNLIKELY(result == NULL)) {
        hide_callers(thread->within_lifted == 0);
    }
    return result;
}

/* ---- the object ----------------------------------------------------------------------------------------------- */

static PyObject *lifted_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "table", "miss", "fullgraph", NULL};
    PyObject *function, *table, *miss;
    int fullgraph = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O|p:Lifted", names, &PyFunction_Type, &function, &Table_Type,
                                     &table, &miss, &fullgraph)) {
        return NULL;
    }
    if (!PyCallable_Check(miss)) {
        PyErr_SetString(PyExc_TypeError, "miss must be callable");
        return NULL;
    }
    Lifted *self = (Lifted *)type->tp_alloc(type, 0);
    if (!self) {
        return NULL;
    }
    self->vectorcall = lifted_vectorcall;
    self->function = (PyFunctionObject *)Py_NewRef(function);
    self->code = Py_NewRef(PyFunction_GET_CODE(function));
    self->table = (Table *)Py_NewRef(table);
    self->miss = Py_NewRef(miss);
    self->fullgraph = fullgraph;
    return (PyObject *)self;
}

static int lifted_traverse(Lifted *self, visitproc visit, void *arg)
{
    Py_VISIT(self->function);
    Py_VISIT(self->code);
    Py_VISIT(self->table);
    Py_VISIT(self->miss);
    Py_VISIT(self->dict);
    return 0;
}

/* The function, its code and its table stay: a finalizer elsewhere in the cycle may still call us. A cycle through the
 * function can be broken up in the function. */
static int lifted_clear(Lifted *self)
{
    Py_CLEAR(self->dict);
    Py_SETREF(self->miss, Py_NewRef(Py_None));
    return 0;
}

static void lifted_dealloc(Lifted *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    Py_CLEAR(self->dict);
    Py_CLEAR(self->miss);
    Py_CLEAR(self->table);
    Py_CLEAR(self->code);
    Py_CLEAR(self->function);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *lifted_repr(Lifted *self)
{
    return PyUnicode_FromFormat("<lifted %U at %p>", self->function->func_qualname, self);
}

static PyObject *lifted_descr_get(PyObject *self, PyObject *instance, PyObject *Py_UNUSED(owner))
{
    if (!instance || instance == Py_None) {
        return Py_NewRef(self);
    }
    return PyMethod_New(self, instance);
}

/* What is not set on the lifted callable itself is read from its function, now: names, defaults, annotations, and
 * whatever users hang on functions. */
static PyObject *lifted_getattro(Lifted *self, PyObject *name)
{
    PyObject *value = _PyObject_GenericGetAttrWithDict((PyObject *)self, name, NULL, 1);
    if (value || PyErr_Occurred()) {
        return value;
    }
    return PyObject_GetAttr((PyObject *)self->function, name);
}

static PyObject *get_shadowed(Lifted *self, const char *name)
{
    PyObject *value = self->dict ? PyDict_GetItemString(self->dict, name) : NULL;
    return value ? Py_NewRef(value) : PyObject_GetAttrString((PyObject *)self->function, name);
}

/* These two exist on the type already, for itself; an instance must answer for its function. */
static PyObject *lifted_get_named(Lifted *self, void *name)
{
    return get_shadowed(self, name);
}

static int lifted_set_named(Lifted *self, PyObject *value, void *name)
{
    if (!self->dict && !(self->dict = PyDict_New())) {
        return -1;
    }
    return PyDict_SetItemString(self->dict, name, value ? value : Py_None);
}

static PyObject *lifted_get_table(Lifted *self, void *Py_UNUSED(closure))
{
    return lifted_follow_code(self) < 0 ? NULL : Py_NewRef(self->table);
}

/* Whoever asks what kind of object it is takes it for a function, which it stands for in every way. */
static PyObject *lifted_get_class(PyObject *Py_UNUSED(self), void *Py_UNUSED(closure))
{
    return Py_NewRef((PyObject *)&PyFunction_Type);
}

static PyObject *lifted_get_id(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromVoidPtr(self);
}

static PyObject *lifted_get_original(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    return Py_NewRef((PyObject *)((Lifted *)self)->function);
}

static PyObject *lifted_copy(PyObject *self, PyObject *Py_UNUSED(memo))
{
    return Py_NewRef(self);
}

static PyMethodDef lifted_methods[] = {
    {"__copy__", lifted_copy, METH_NOARGS, "Like a function, a lifted callable is its own copy."},
    {"__deepcopy__", lifted_copy, METH_O, "Like a function, a lifted callable is its own copy."},
    {"__prepare_scriptable__", lifted_get_original, METH_NOARGS, "What torch.jit.script compiles: the function."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef lifted_members[] = {
    {"__wrapped__", T_OBJECT_EX, offsetof(Lifted, function), READONLY, "the function"},
    /* Where torch's own compilers look for what a wrapper wraps: they trace, or script, the function. */
    {"__original_fn", T_OBJECT_EX, offsetof(Lifted, function), READONLY, NULL},
    {"__script_if_tracing_wrapper", T_OBJECT_EX, offsetof(Lifted, function), READONLY, NULL},
    {"_torchdynamo_orig_callable", T_OBJECT_EX, offsetof(Lifted, function), READONLY, NULL},
    {"miss", T_OBJECT_EX, offsetof(Lifted, miss), READONLY, "asked for an entry when none fits a call"},
    {"__dictoffset__", T_PYSSIZET, offsetof(Lifted, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Lifted, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef lifted_getset[] = {
    {"table", (getter)lifted_get_table, NULL, "the table of the function's present code", NULL},
    {"_torchdynamo_wrapper_id", lifted_get_id, NULL, NULL, NULL},
    {"__class__", lifted_get_class, NULL, NULL, NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {"__doc__", (getter)lifted_get_named, (setter)lifted_set_named, NULL, "__doc__"},
    {"__module__", (getter)lifted_get_named, (setter)lifted_set_named, NULL, "__module__"},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject Lifted_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framelift.native._core.Lifted",
    .tp_basicsize = sizeof(Lifted),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = lifted_new,
    .tp_dealloc = (destructor)lifted_dealloc,
    .tp_traverse = (traverseproc)lifted_traverse,
    .tp_clear = (inquiry)lifted_clear,
    .tp_repr = (reprfunc)lifted_repr,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Lifted, vectorcall),
    .tp_descr_get = lifted_descr_get,
    .tp_getattro = (getattrofunc)lifted_getattro,
    .tp_methods = lifted_methods,
    .tp_members = lifted_members,
    .tp_getset = lifted_getset,
    .tp_dictoffset = offsetof(Lifted, dict),
    .tp_weaklistoffset = offsetof(Lifted, weakrefs),
};

static PyObject *get_outermost_calls(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    return PyLong_FromUnsignedLongLong(outermost_calls);
}

static PyMethodDef functions[] = {
    {"outermost_calls", get_outermost_calls, METH_NOARGS,
     "How many calls of lifted callables have begun, those made within others not counted."},
    {NULL, NULL, 0, NULL},
};

int entry_init(PyObject *module)
{
    if (!rerun_marker && !(rerun_marker = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type))) {
        return -1;
    }
    if (PyModule_AddObjectRef(module, "RERUN", rerun_marker) < 0) {
        return -1;
    }
    if (PyModule_AddFunctions(module, functions) < 0) {
        return -1;
    }
    return PyModule_AddType(module, &Lifted_Type);
}
