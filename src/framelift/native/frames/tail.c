/* See tail.h.
 *
 *     residual code ─► Tail(step, context) ─► step code: one instruction ─► Site: Tail(resume) ─► residual code ─► ...
 *
 * Each of them has returned before the next is called, so a loop with a break in it takes no stack. */
#include "tail.h"
#include "fallbacks.h"
#include "hook.h"
#include "protocol.h"

#include <structmember.h>

PyObject *step_function;

/* ---- tails ---------------------------------------------------------------------------------------------------- */

static Tail *tail_new(PyTypeObject *type, PyObject *function, Py_ssize_t nargs)
{
    Tail *tail = PyObject_NewVar(Tail, type, nargs);
    if (tail) {
        tail->function = Py_NewRef(function);
        tail->context = tail->kept = NULL;
        tail->inner = NULL;
        tail->joined = false;
        memset(tail->args, 0, (size_t)nargs * sizeof(PyObject *));
    }
    return tail;
}

static void tail_dealloc(Tail *self)
{
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
        Py_CLEAR(self->args[i]);
    }
    Py_CLEAR(self->function);
    Py_CLEAR(self->context);
    Py_CLEAR(self->kept);
    Py_CLEAR(self->inner);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *tail_get_args(Tail *self, void *Py_UNUSED(closure))
{
    return new_tuple(self->args, Py_SIZE(self));
}

static PyMemberDef tail_members[] = {
    {"function", T_OBJECT_EX, offsetof(Tail, function), READONLY, "what to call"},
    {"inner", T_OBJECT, offsetof(Tail, inner), READONLY, "the tail whose result this one waits for, or None"},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef tail_getset[] = {
    {"args", (getter)tail_get_args, NULL, "what to call it with", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject Tail_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framelift.native._core.Tail",
    .tp_basicsize = sizeof(Tail),
    .tp_itemsize = sizeof(PyObject *),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)tail_dealloc,
    .tp_members = tail_members,
    .tp_getset = tail_getset,
};

static PyObject *step(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs < 3 || !PyTuple_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "step() takes a context, a tuple, a function and its arguments");
        return NULL;
    }
    Tail *tail = tail_new(&Tail_Type, args[2], nargs - 3);
    if (tail) {
        tail->context = Py_NewRef(args[0]);
        tail->kept = Py_NewRef(args[1]);
        for (Py_ssize_t i = 3; i < nargs; i++) {
            tail->args[i - 3] = Py_NewRef(args[i]);
        }
    }
    return (PyObject *)tail;
}

/* ---- waiting calls -------------------------------------------------------------------------------------------- */

/* given(function, *args): what a frame that waits calls to have the one within it go on. It has the form of a tail, and
 * its function has the arguments to itself. */
static PyObject *given_call(Tail *self, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    Py_ssize_t nargs = Py_SIZE(self);
    if (nargs && !self->args[0]) {
        PyErr_SetString(PyExc_RuntimeError, "a frame goes on once");
        return NULL;
    }
    ThreadData *thread = &thread_data;
    thread->giving = self;
    PyObject *result = PyObject_Vectorcall(self->function, self->args, (size_t)nargs, NULL);
    if (thread->giving == self) {
        thread->giving = NULL;
    }
    return result;
}

static PyTypeObject Given_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framelift.native._core.Given",
    .tp_basicsize = sizeof(Tail),
    .tp_itemsize = sizeof(PyObject *),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)tail_dealloc,
    .tp_call = (ternaryfunc)given_call,
};

static PyObject *given(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs < 1 || !PyFunction_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "given() takes a function and its arguments");
        return NULL;
    }
    Tail *waiting = tail_new(&Given_Type, args[0], nargs - 1);
    for (Py_ssize_t i = 1; waiting && i < nargs; i++) {
        waiting->args[i - 1] = Py_NewRef(args[i]);
    }
    return (PyObject *)waiting;
}

/* Asks framelift's own code something between two pieces of a frame. The frame's handlers cannot hear of what is raised
 * there. What is not raised again interrupted it, and is put off until they can. */
static PyObject *ask(PyObject *whom, PyObject *about)
{
    PyThreadState *tstate = PyThreadState_Get();
    lend_frames(tstate);
    PyObject *answer = PyObject_CallOneArg(whom, about);
    if (!answer) {
        PyObject *interrupt = take_exception();
        answer = PyObject_CallOneArg(whom, about);
        if (answer) {
            Py_XSETREF(thread_data.interrupt, interrupt);
        } else {
            Py_DECREF(interrupt);
        }
    }
    take_back_frames(tstate);
    return answer;
}

/* ---- sites ---------------------------------------------------------------------------------------------------- */

/* A place where step code is left. Called by the frame itself, which it empties: variables and stack become the
 * arguments of a resume function. Which one depends on what is bound and where the stack has NULL: find() is asked when
 * that changes. */
typedef struct {
    PyObject_VAR_HEAD vectorcallfunc vectorcall;
    PyObject *find;    /* find(bytes) -> (code, order); a byte says whether a variable or stack item is there */
    PyObject *pattern; /* the bytes asked for last */
    PyObject *code;    /* weak reference to the answer: its entries may lead back to this site */
    PyObject *order;   /* a tuple: where its arguments come from, a slot, or ~depth on the stack */
    PyObject *handled; /* a tuple: where on the stack a handler put the exception handled before it; innermost first */
    Py_ssize_t depth;
    Py_ssize_t slots[];
} Site;

/* What was found for one frame. Held meanwhile: other threads leave by the same site, and may find something else. */
typedef struct {
    PyObject *code, *order;
} Way;

static bool pattern_holds(Site *self, PyObject *const *locals, PyObject *const *stack)
{
    const char *expected = PyBytes_AS_STRING(self->pattern);
    for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
        if ((locals[self->slots[i]] != NULL) != *expected++) {
            return false;
        }
    }
    for (Py_ssize_t i = 0; i < self->depth; i++) {
        if ((stack[i] != NULL) != *expected++) {
            return false;
        }
    }
    return true;
}

static PyObject *pattern_of(Site *self, PyObject *const *locals, PyObject *const *stack)
{
    PyObject *pattern = PyBytes_FromStringAndSize(NULL, Py_SIZE(self) + self->depth);
    if (pattern) {
        char *byte = PyBytes_AS_STRING(pattern);
        for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
            *byte++ = locals[self->slots[i]] != NULL;
        }
        for (Py_ssize_t i = 0; i < self->depth; i++) {
            *byte++ = stack[i] != NULL;
        }
    }
    return pattern;
}

static bool is_order(PyObject *order, Py_ssize_t nslots, Py_ssize_t depth)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(order); i++) {
        Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(order, i));
        if (PyErr_Occurred() || place >= nslots || ~place >= depth) {
            return false;
        }
    }
    return true;
}

/* Asks for a frame with this pattern, and remembers the answer. */
static bool site_learn(Site *self, PyObject *pattern, Py_ssize_t nslots, Way *way)
{
    PyObject *answer = ask(self->find, pattern);
    if (!answer || !PyArg_ParseTuple(answer, "O!O!", &PyCode_Type, &way->code, &PyTuple_Type, &way->order)) {
        Py_XDECREF(answer);
        return false;
    }
    Py_INCREF(way->code);
    Py_INCREF(way->order);
    Py_DECREF(answer);
    PyObject *reference = NULL;
    if (is_order(way->order, nslots, self->depth)) {
        reference = PyWeakref_NewRef(way->code, NULL);
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, "a site's order names a place that the frame has not");
    }
    if (!reference) {
        Py_DECREF(way->code);
        Py_DECREF(way->order);
        return false;
    }
    Py_XSETREF(self->code, reference);
    Py_XSETREF(self->order, Py_NewRef(way->order));
    Py_XSETREF(self->pattern, Py_NewRef(pattern));
    return true;
}

/* Where the frame as it is goes on; new references. */
static bool site_find(Site *self, Frame *frame, Way *way)
{
    Py_ssize_t nslots = frame_code(frame)->co_nlocalsplus;
    PyObject **locals = frame->localsplus, **stack = locals + nslots;
    if (self->pattern && pattern_holds(self, locals, stack)) {
        PyObject *code = weakref_get(self->code);
        if (LIKELY(code != Py_None)) {
            *way = (Way){code, Py_NewRef(self->order)};
            return true;
        }
        Py_DECREF(code);
    }
    PyObject *pattern = pattern_of(self, locals, stack);
    bool found = pattern && site_learn(self, pattern, nslots, way);
    Py_XDECREF(pattern);
    return found;
}

static PyObject *function_like(PyFunctionObject *original, PyObject *code)
{
    PyObject *function = PyFunction_New(code, original->func_globals);
    if (function && original->func_closure && PyFunction_SetClosure(function, original->func_closure) < 0) {
        Py_CLEAR(function);
    }
    return function;
}

/* Ends the handlers that the frame is in. On the stack lie the exceptions they handled, instead of those before. */
static void leave_handlers(Site *self, _PyErr_StackItem *now, PyObject **stack)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->handled); i++) {
        PyObject **place = stack + PyLong_AsSsize_t(PyTuple_GET_ITEM(self->handled, i));
        PyObject *before = *place;
        *place = now->exc_value ? now->exc_value : Py_NewRef(Py_None);
        if (Py_IsNone(before)) {
            Py_CLEAR(before);
        }
        now->exc_value = before;
    }
}

static PyObject *site_vectorcall(PyObject *object, PyObject *const *Py_UNUSED(args), size_t Py_UNUSED(nargsf),
                                 PyObject *Py_UNUSED(kwnames))
{
    Site *self = (Site *)object;
    PyThreadState *tstate = PyThreadState_Get();
    Frame *frame = thread_frame(tstate);
    PyObject **locals = frame->localsplus, **stack = locals + frame_code(frame)->co_nlocalsplus;
    Way way;
    if (!site_find(self, frame, &way)) {
        return NULL;
    }
    PyObject *function = function_like(frame_function(frame), way.code);
    Tail *tail = function ? tail_new(&Tail_Type, function, PyTuple_GET_SIZE(way.order)) : NULL;
    Py_XDECREF(function);
    Py_DECREF(way.code);
    if (!tail) {
        Py_DECREF(way.order);
        return NULL;
    }
    leave_handlers(self, tstate->exc_info, stack);
    /* Whoever looks at the frame later (a traceback's) finds its variables as they were; nothing else stays behind. */
    bool watched = frame->frame_obj && Py_REFCNT(frame->frame_obj) > 1;
    PyObject **top = stack + self->depth - 1;
    if (self->depth && is_tail(*top)) {
        tail->inner = (Tail *)*top;
        *top = Py_NewRef(Py_None);
    }
    for (Py_ssize_t i = 0; i < Py_SIZE(tail); i++) {
        Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(way.order, i));
        PyObject **where = place >= 0 ? locals + place : stack + ~place;
        tail->args[i] = *where;
        if (watched && place >= 0) {
            Py_INCREF(*where);
        } else {
            *where = NULL;
        }
    }
    Py_DECREF(way.order);
    return (PyObject *)tail;
}

static bool are_places(PyObject *handled, Py_ssize_t depth)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(handled); i++) {
        Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(handled, i));
        if (place < 0 || place >= depth) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_ValueError, "a handler of a site lies beside the stack");
            }
            return false;
        }
    }
    return true;
}

static PyObject *site_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    PyObject *find, *slots, *handled;
    Py_ssize_t depth;
    if (!PyArg_ParseTuple(args, "OO!nO!:Site", &find, &PyTuple_Type, &slots, &depth, &PyTuple_Type, &handled) ||
        !are_places(handled, depth)) {
        return NULL;
    }
    Site *self = (Site *)type->tp_alloc(type, PyTuple_GET_SIZE(slots));
    if (self) {
        self->vectorcall = site_vectorcall;
        self->find = Py_NewRef(find);
        self->handled = Py_NewRef(handled);
        self->depth = depth;
        for (Py_ssize_t i = 0; i < Py_SIZE(self); i++) {
            self->slots[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(slots, i));
        }
    }
    return (PyObject *)self;
}

static void site_dealloc(Site *self)
{
    Py_CLEAR(self->find);
    Py_CLEAR(self->pattern);
    Py_CLEAR(self->code);
    Py_CLEAR(self->order);
    Py_CLEAR(self->handled);
    Py_TYPE(self)->tp_free(self);
}

static PyTypeObject Site_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framelift.native._core.Site",
    .tp_doc =
        "Site(find, slots, depth, handled)\n\nCalled by step code to leave its frame, with these variables and so "
        "many stack items,\nand to end the handlers whose places on the stack are given, innermost first.",
    .tp_basicsize = sizeof(Site),
    .tp_itemsize = sizeof(Py_ssize_t),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = site_new,
    .tp_dealloc = (destructor)site_dealloc,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Site, vectorcall),
};

/* ---- the trampoline ------------------------------------------------------------------------------------------- */

/* From the context's answer, a function and a sequence of arguments; takes over the answer. */
static Tail *tail_from(PyObject *answer)
{
    PyObject *function, *given;
    Tail *tail = NULL;
    if (answer && PyArg_ParseTuple(answer, "O!O", &PyFunction_Type, &function, &given)) {
        PyObject *args = PySequence_Fast(given, "arguments are a sequence");
        tail = args ? tail_new(&Tail_Type, function, PySequence_Fast_GET_SIZE(args)) : NULL;
        for (Py_ssize_t i = 0; tail && i < Py_SIZE(tail); i++) {
            tail->args[i] = Py_NewRef(PySequence_Fast_GET_ITEM(args, i));
        }
        Py_XDECREF(args);
    }
    Py_XDECREF(answer);
    return tail;
}

/* Several frames as one; takes over the tail. */
static Tail *join(PyObject *context, Tail *tail)
{
    PyObject *method = PyObject_GetAttr(context, protocol.join);
    Tail *joined = tail_from(method ? ask(method, (PyObject *)tail) : NULL);
    Py_XDECREF(method);
    if (joined) {
        joined->joined = true;
    }
    Py_DECREF(tail);
    return joined;
}

/* Calls a tail's function, which has the arguments to itself; the tail cannot be called again. */
static PyObject *call_giving(ThreadData *thread, PyObject *context, Tail *tail)
{
    thread->giving = tail;
    PyObject *result = call_hooked(thread, context, tail->function, tail->args, (size_t)Py_SIZE(tail), NULL);
    if (thread->giving == tail) {
        thread->giving = NULL;
    }
    return result;
}

/* Runs a resume function by Python: itself, or what the context says for several frames at once. With an exception
 * set that is raised where the function begins: frames that were entered long ago have handlers for it. */
static PyObject *run_by_python(ThreadData *thread, PyObject *context, Tail *tail, bool alone)
{
    Tail *plain = (Tail *)Py_NewRef(tail);
    PyObject *error = PyErr_Occurred() ? take_exception() : NULL;
    if (tail->joined || error) {
        PyThreadState *tstate = PyThreadState_Get();
        PyObject *args = tail_get_args(tail, NULL), *given = error ? error : Py_None;
        lend_frames(tstate);
        PyObject *answer =
            args ? PyObject_CallMethodObjArgs(context, protocol.unlifted, tail->function, args, given, NULL) : NULL;
        take_back_frames(tstate);
        Py_XDECREF(args);
        Py_XDECREF(error);
        Py_SETREF(plain, tail_from(answer));
        for (Py_ssize_t i = 0; i < Py_SIZE(tail); i++) {
            Py_CLEAR(tail->args[i]);
        }
    }
    PyObject *result = plain ? call_giving(thread, alone ? Py_None : context, plain) : NULL;
    Py_XDECREF(plain);
    return result;
}

static PyObject *run_resumed(ThreadData *thread, PyObject *context, PyObject *key, Tail *tail)
{
    PyFunctionObject *function = (PyFunctionObject *)tail->function;
    PyObject *result = NULL;
    bool failed = false, alone = false;
    Entry *entry = NULL;
    PyObject *failure = NULL;
    Call call;
    if (UNLIKELY(thread->interrupt != NULL)) {
        raise_if_exception(thread->interrupt);
        thread->interrupt = NULL;
        return run_by_python(thread, context, tail, false);
    }
    Table *table = table_find_or_make((PyCodeObject *)function->func_code, key);
    if (!table) {
        return NULL;
    }
    call_init(&call, tail->args, Py_SIZE(tail));
    if (!python_runs_all(thread)) {
        entry = table_lookup(table, &call, (PyObject *)function, &failed);
        if (!entry && !failed) {
            PyThreadState *tstate = PyThreadState_Get();
            lend_frames(tstate);
            PyObject *miss = PyObject_GetAttr(context, protocol.resume);
            entry = miss ? ask_for_entry(miss, (PyObject *)function, function, table, &call, &alone) : NULL;
            take_back_frames(tstate);
            Py_XDECREF(miss);
        }
    }
    if (entry) {
        result = entry_run(thread, entry, &call);
    }
    call_release(&call);
    Py_DECREF(table);
    if (result == rerun_marker) {
        Py_CLEAR(result);
        failure = take_failure(thread);
    }
    if (!result) {
        result = run_by_python(thread, context, tail, alone);
        result = settle_failure(thread, failure, (PyObject *)entry, result);
    }
    Py_XDECREF(entry);
    return result;
}

/* A loop comes by with the same objects again and again. */
static int keep(PyObject *kept, PyObject *objects)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(objects); i++) {
        PyObject *object = PyTuple_GET_ITEM(objects, i);
        int known = PySequence_Contains(kept, object);
        if (known < 0 || (!known && PyList_Append(kept, object) < 0)) {
            return -1;
        }
    }
    return 0;
}

PyObject *trampoline(ThreadData *thread, PyObject *result)
{
    PyObject *context = Py_NewRef(((Tail *)result)->context), *kept = PyList_New(0);
    PyObject *key = Py_IsNone(context) ? Py_NewRef(Py_None) : context_key(context); /* None: nothing is lifted again */
    Lifting outer = thread->lifting;
    while (is_tail(result)) {
        Tail *tail = (Tail *)result;
        if (tail->inner && !(tail = join(context, tail))) {
            result = NULL;
            break;
        }
        if (!key || !kept || (tail->kept && keep(kept, tail->kept) < 0)) {
            result = NULL;
        } else if (tail->context) {
            result = call_giving(thread, tail->context, tail);
        } else {
            result = run_resumed(thread, context, key, tail);
        }
        Py_DECREF(tail);
    }
    thread->lifting = outer;
    Py_CLEAR(thread->interrupt);
    Py_XDECREF(key);
    Py_DECREF(context);
    Py_XDECREF(kept);
    return result;
}

static PyMethodDef functions[] = {
    {"step", (PyCFunction)(void (*)(void))step, METH_FASTCALL,
     "step(context, kept, function, *args) -> Tail\n\nFor residual code to return: call the function, with frames "
     "lifted by the context, and go on\nfrom there. What is in the tuple `kept` is kept alive."},
    {"given", (PyCFunction)(void (*)(void))given, METH_FASTCALL,
     "given(function, *args)\n\nCalls the function once, whose frame has the arguments to itself."},
    {NULL, NULL, 0, NULL},
};

int tail_init(PyObject *module)
{
    if (PyType_Ready(&Given_Type) < 0 || PyModule_AddFunctions(module, functions) < 0 ||
        PyModule_AddType(module, &Tail_Type) < 0 || PyModule_AddType(module, &Site_Type) < 0) {
        return -1;
    }
    step_function = PyObject_GetAttrString(module, "step");
    return step_function ? 0 : -1;
}
