/* The frame hook (PEP 523): lifts frames that nobody called through a Lifted.
 *
 * A frame that reaches the hook has its arguments in place and has executed nothing. So it can be turned into a frame
 * of an entry's residual function where it stands (function, code, instruction pointer, locals) and be evaluated as
 * usual; CPython then clears and pops it itself. Only where the residual code needs more room than the data stack has
 * left is the residual function called instead, and the frame made to return what it returned.
 *
 * An installed hook turns every Python call into a recursion in C and makes calls slower, on all threads. So it is
 * installed only while some run_hooked() is active, and taken out while any thread is deep in recursion. */
#include "fallbacks.h"
#include "hook.h"
#include "protocol.h"
#include "tail.h"

static PyObject *hook_frame(PyThreadState *tstate, Frame *frame, int throwflag);

/* Unlike a run_hooked(), a block may end out of turn (in a generator, or left by hand). Whoever then goes back to it
 * comes to what was around it instead; so it is never freed. */
typedef struct Block {
    Lifting outer;
    bool left;
} Block;

/* One per process, like the slot it is about; guarded by the GIL. */
static struct {
    Py_ssize_t users;              /* run_hooked() calls in progress */
    Py_ssize_t paused;             /* frames running too deep for a hook */
    bool linked;                   /* ours is the current hook, or was when another was put on top */
    _PyFrameEvalFunction previous; /* what was there before */
    PyCodeObject *returning;       /* code whose frames only return what is on their stack, entered at... */
    _Py_CODEUNIT *return_instruction;
    bool always_call; /* for tests: never swap */
    unsigned long long swapped, called, asked, pauses;
} hook = {.previous = _PyEval_EvalFrameDefault};

/* ---- being the hook ------------------------------------------------------------------------------------------- */

static _PyFrameEvalFunction current_hook(void)
{
    return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Main());
}

static void set_current_hook(_PyFrameEvalFunction function)
{
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Main(), function);
}

static void link_hook(void)
{
    _PyFrameEvalFunction current = current_hook();
    if (current == hook_frame) {
        return;
    }
    if (hook.linked && current != _PyEval_EvalFrameDefault && current != hook.previous) {
        return; /* somebody came after us and calls us */
    }
    hook.previous = current;
    hook.linked = true;
    set_current_hook(hook_frame);
}

static void unlink_hook(void)
{
    _PyFrameEvalFunction current = current_hook();
    if (current == hook_frame) {
        set_current_hook(hook.previous);
        hook.linked = false;
    } else if (current == _PyEval_EvalFrameDefault || current == hook.previous) {
        hook.linked = false; /* somebody took us out */
    }
    /* Else somebody came after us and calls us: frames pass through until it leaves. */
}

static void update_hook(void)
{
    if (hook.paused) {
        return;
    }
    if (hook.users) {
        link_hook();
    } else {
        unlink_hook();
    }
}

/* ---- evaluating frames ---------------------------------------------------------------------------------------- */

/* Hands the frame to whoever was the hook before us. Should that be somebody who calls us, the frame stops here. */
static inline PyObject *hand_on(PyThreadState *tstate, Frame *frame, int throwflag)
{
    ThreadData *thread = &thread_data;
    Frame *passing = thread->passing;
    _PyFrameEvalFunction next = passing == frame ? _PyEval_EvalFrameDefault : hook.previous;
    thread->passing = frame;
    PyObject *result = next(tstate, frame, throwflag);
    thread->passing = passing;
    return result;
}

static PyObject *pass_on(PyThreadState *tstate, Frame *frame, int throwflag)
{
    c_recursion_give_back(tstate);
    PyObject *result = hand_on(tstate, frame, throwflag);
    c_recursion_take_again(tstate);
    return result;
}

/* Deep in recursion the hook is taken out, so that the calls this frame makes are no recursion in C: it can then go as
 * deep as without us. Other threads' frames are not lifted meanwhile. */
static PyObject *run_deep(PyThreadState *tstate, Frame *frame, int throwflag)
{
    hook.paused++;
    hook.pauses++;
    if (current_hook() == hook_frame) {
        set_current_hook(hook.previous);
    }
    PyObject *result = hand_on(tstate, frame, throwflag);
    hook.paused--;
    update_hook();
    return result;
}

/* Disposes of a frame that has not started, with an exception set. */
static PyObject *fail_frame(PyThreadState *tstate, Frame *frame)
{
#if SINCE_312
    /* A frame is popped by whoever evaluates it. Before its first instruction it leaves no entry in tracebacks. */
    frame_set_next(frame, _PyCode_CODE(frame_code(frame)) - SINCE_313);
    return _PyEval_EvalFrameDefault(tstate, frame, 1);
#else
    (void)tstate, (void)frame; /* the caller clears and pops it */
    return NULL;
#endif
}

/* Makes a frame that has not started return `result`; takes over the reference. */
static PyObject *finish_frame(PyThreadState *tstate, Frame *frame, Py_ssize_t nslots, PyObject *result)
{
#if SINCE_312
    PyCodeObject *old = frame_code(frame);
    for (Py_ssize_t i = 0; i < nslots; i++) {
        Py_CLEAR(frame->localsplus[i]);
    }
    frame->localsplus[0] = result;
    frame->stacktop = 1;
    frame_set_code(frame, (PyCodeObject *)Py_NewRef(hook.returning));
    frame_set_next(frame, hook.return_instruction);
    Py_DECREF(old);
    return _PyEval_EvalFrameDefault(tstate, frame, 0);
#else
    (void)tstate, (void)frame, (void)nslots;
    return result;
#endif
}

/* Turns the frame into one of the entry's residual function, taking over what was fetched. False: there is no room. */
static bool swap_frame(PyThreadState *tstate, Frame *frame, Entry *entry, Call *call)
{
    PyFunctionObject *old_function = frame_function(frame), *function = (PyFunctionObject *)entry->residual;
    PyCodeObject *old_code = frame_code(frame), *code = (PyCodeObject *)function->func_code;
    PyObject **base = (PyObject **)frame, **top = base + code_framesize(code);
    if (hook.always_call || top >= tstate->datastack_limit || base + code_framesize(old_code) < tstate->datastack_top) {
        return false;
    }
#if SINCE_312
    /* From now on CPython reserves enough. (In 3.11 the size is what the user sees as co_stacksize.) */
    old_code->co_framesize = Py_MAX(old_code->co_framesize, code->co_framesize);
#endif
    tstate->datastack_top = top;
    Py_ssize_t nargs = call->nslots + entry->nfetched;
    memcpy(frame->localsplus + call->nslots, call->room + call->nslots, (size_t)entry->nfetched * sizeof(PyObject *));
    for (Py_ssize_t i = nargs; i < code->co_nlocalsplus; i++) {
        frame->localsplus[i] = NULL;
    }
    frame->stacktop = code->co_nlocalsplus;
    frame_set_code(frame, (PyCodeObject *)Py_NewRef(code));
    frame_set_function(frame, (PyFunctionObject *)Py_NewRef(function));
    frame_set_next(frame, _PyCode_CODE(code));
    Py_DECREF(old_code);
    Py_DECREF(old_function);
    return true;
}

/* ---- lifting frames ------------------------------------------------------------------------------------------- */

typedef enum { LEFT_ALONE, CUT_OFF, SWAPPED, DONE } Outcome;

/* A graph that raised, and whose; NULL: none. */
typedef struct {
    PyObject *failure, *entry;
} Failed;

/* Asks the context for an entry: a new reference, with what its guards fetched in the call; NULL: none, or failed. */
static Entry *ask_context(const Lifting *lifting, Frame *frame, Table *table, Call *call, bool *failed, bool *alone)
{
    *failed = true;
    PyObject *slots = new_tuple(call->slots, call->nslots);
    if (!slots) {
        return NULL;
    }
    PyObject *args[] = {(PyObject *)frame_code(frame), (PyObject *)frame_function(frame), slots};
    hook.asked++;
    if (table) {
        table->misses++;
    }
    PyObject *answer = raise_if_exception(PyObject_Vectorcall(lifting->context, args, 3, NULL));
    Py_DECREF(slots);
    if (!answer) {
        /* The program may use the stack to its very end; the context needs more of it. */
        if (PyErr_ExceptionMatches(PyExc_RecursionError)) {
            PyErr_Clear();
            *failed = false;
        }
        return NULL;
    }
    if (Py_IS_TYPE(answer, &Entry_Type)) {
        int fits = entry_check((Entry *)answer, call, (PyObject *)frame_function(frame));
        *failed = fits < 0;
        if (fits == 1) {
            entry_count_hit((Entry *)answer);
            return (Entry *)answer;
        }
    } else if (answer == Py_None || answer == Py_NotImplemented) {
        *failed = false;
        *alone = answer == Py_NotImplemented;
    } else if (answer == Py_False || answer == Py_Ellipsis) {
        Table *never = table_find_or_make(frame_code(frame), lifting->key);
        if (never) {
            *failed = false;
            never->skip = true;
            never->cut = answer == Py_Ellipsis;
            Py_DECREF(never);
        }
    } else {
        PyErr_Format(PyExc_TypeError,
                     "the context of run_hooked() must answer an Entry, None, NotImplemented, False or ..., not %.100s",
                     Py_TYPE(answer)->tp_name);
    }
    Py_DECREF(answer);
    return NULL;
}

/* Not inlined: the call's room must not stay on the C stack while the frame runs. */
static __attribute__((noinline)) Outcome lift_frame(PyThreadState *tstate, Frame *frame, ThreadData *thread,
                                                    const Lifting *lifting, PyObject **result, Failed *graph)
{
    PyCodeObject *code = frame_code(frame);
    Outcome outcome = LEFT_ALONE;
    Entry *entry = NULL;
    bool failed, alone = false;
    Call call;
    Table *table = table_find(code, lifting->key, &failed);
    if (!failed && !(table && table->skip)) {
        call_init(&call, frame->localsplus, code_nslots(code));
        if (table) {
            entry = table_lookup(table, &call, (PyObject *)frame_function(frame), &failed);
        }
        if (!entry && !failed) {
            entry = ask_context(lifting, frame, table, &call, &failed, &alone);
        }
        /* A frame that may have to run after all, or in pieces, must not be turned into another. */
        if (entry && !entry->reruns && !entry->leaves && swap_frame(tstate, frame, entry, &call)) {
            hook.swapped++;
            outcome = SWAPPED;
        } else if (entry) {
            hook.called++;
            *result = entry_run(thread, entry, &call);
            if (is_tail(*result)) {
                *result = trampoline(thread, *result);
            }
            if (*result == rerun_marker) {
                Py_CLEAR(*result);
                *graph = (Failed){take_failure(thread), Py_NewRef(entry)};
            } else {
                outcome = DONE;
                *result = *result ? finish_frame(tstate, frame, call.nslots, *result) : fail_frame(tstate, frame);
            }
        }
        call_release(&call);
        Py_XDECREF(entry);
    }
    if (!table && !failed && outcome == LEFT_ALONE) {
        table = table_find(code, lifting->key, &failed); /* the context may have made it */
    }
    if (outcome == LEFT_ALONE && (alone || (table && table->cut))) {
        outcome = CUT_OFF;
    }
    if (failed) {
        outcome = DONE;
        *result = fail_frame(tstate, frame);
    }
    Py_XDECREF(table);
    return outcome;
}

static Lifting current_lifting(ThreadData *thread)
{
    while (UNLIKELY(thread->lifting.block) && thread->lifting.block->left) {
        thread->lifting = thread->lifting.block->outer;
    }
    return thread->lifting;
}

static bool can_be_lifted(PyThreadState *tstate, Frame *frame, int throwflag)
{
    const int asked = CO_OPTIMIZED | CO_NEWLOCALS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    PyCodeObject *code = frame_code(frame);
    return !throwflag && frame->owner == FRAME_OWNED_BY_THREAD &&
           (code->co_flags & asked) == (CO_OPTIMIZED | CO_NEWLOCALS) && !is_watched(tstate, code) &&
           !is_profiled(tstate) && !code_is_never_lifted(code);
}

/* Python has run a frame whose graph had raised. */
static PyObject *settle(ThreadData *thread, Failed *graph, PyObject *result)
{
    result = settle_failure(thread, graph->failure, graph->entry, result);
    Py_DECREF(graph->entry);
    return result;
}

static PyObject *hook_frame(PyThreadState *tstate, Frame *frame, int throwflag)
{
    ThreadData *thread = &thread_data;
    give_arguments(thread, frame);
    if (stack_is_deep(thread)) {
        return run_deep(tstate, frame, throwflag);
    }
    Lifting lifting = current_lifting(thread);
    PyObject *result = NULL;
    if (!lifting.context || python_runs_all(thread) || !can_be_lifted(tstate, frame, throwflag)) {
        if (UNLIKELY(!hook.users)) {
            update_hook();
        }
        return pass_on(tstate, frame, throwflag);
    }
    /* Nothing that runs on the way to an entry is lifted, and residual code says itself around which calls it wants
     * frames to be lifted. */
    thread->lifting = (Lifting){0};
    Failed graph = {0};
    Outcome outcome = lift_frame(tstate, frame, thread, &lifting, &result, &graph);
    if (outcome == LEFT_ALONE) {
        thread->lifting = lifting;
        result = pass_on(tstate, frame, 0);
        return graph.entry ? settle(thread, &graph, result) : result;
    }
    if (outcome == SWAPPED || outcome == CUT_OFF) {
        result = pass_on(tstate, frame, 0);
    }
    thread->lifting = lifting;
    return graph.entry ? settle(thread, &graph, result) : result;
}

/* ---- for Python ----------------------------------------------------------------------------------------------- */

/* Its attribute `key`, or else the context itself, weakly. */
PyObject *context_key(PyObject *context)
{
    PyObject *key = NULL;
    int found = optional_attribute(context, protocol.key, &key);
    return found ? key : PyWeakref_NewRef(context, NULL);
}

/* From here on frames of this thread are lifted by the context, or with None by nobody. Takes references, which
 * end_lifting() drops; -1 with an exception set. */
static int begin_lifting(ThreadData *thread, PyObject *context, Lifting *ours, Lifting *outer)
{
    *ours = (Lifting){.context = context == Py_None ? NULL : context};
    if (ours->context) {
        if (!(ours->key = context_key(context))) {
            return -1;
        }
        Py_INCREF(context);
        hook.users++;
        update_hook();
    }
    *outer = thread->lifting;
    thread->lifting = *ours;
    return 0;
}

static void end_lifting(Lifting *ours)
{
    if (ours->context) {
        hook.users--;
        update_hook();
        Py_CLEAR(ours->context);
        Py_CLEAR(ours->key);
    }
}

PyObject *call_hooked(ThreadData *thread, PyObject *context, PyObject *callable, PyObject *const *args, size_t nargs,
                      PyObject *kwnames)
{
    if (UNLIKELY(stack_is_used_up(thread))) {
        return raise_used_up();
    }
    Lifting ours, outer;
    if (begin_lifting(thread, context, &ours, &outer) < 0) {
        return NULL;
    }
    PyObject *result = call_nested(thread, callable, args, nargs, kwnames);
    thread->lifting = outer;
    end_lifting(&ours);
    return result;
}

static PyObject *run_hooked(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (nargs < 2) {
        PyErr_SetString(PyExc_TypeError, "run_hooked() takes a context, a callable and its arguments");
        return NULL;
    }
    return call_hooked(&thread_data, args[0], args[1], args + 2, (size_t)(nargs - 2), kwnames);
}

/* hooked: the same as a block. */
typedef struct {
    PyObject_HEAD PyObject *context, *kept;
    Lifting ours; /* its block: NULL while not entered */
} Hooked;

static PyObject *hooked_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"context", "kept", NULL};
    PyObject *context, *kept = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:hooked", names, &context, &kept)) {
        return NULL;
    }
    Hooked *self = (Hooked *)type->tp_alloc(type, 0);
    if (self) {
        self->context = Py_NewRef(context);
        self->kept = Py_NewRef(kept);
    }
    return (PyObject *)self;
}

static PyObject *hooked_enter(Hooked *self, PyObject *Py_UNUSED(ignored))
{
    if (self->ours.block) {
        PyErr_SetString(PyExc_RuntimeError, "a hooked() block can be entered once at a time");
        return NULL;
    }
    Block *block = NEW_ARRAY(Block, 1);
    if (!block) {
        return NULL;
    }
    if (begin_lifting(&thread_data, self->context, &self->ours, &block->outer) < 0) {
        PyMem_Free(block);
        return NULL;
    }
    thread_data.lifting.block = self->ours.block = block;
    return Py_NewRef(self);
}

static void hooked_leave(Hooked *self)
{
    Block *block = self->ours.block;
    self->ours.block = NULL;
    if (thread_data.lifting.block == block) {
        thread_data.lifting = block->outer;
        PyMem_Free(block);
    } else {
        block->left = true;
    }
    end_lifting(&self->ours);
}

static PyObject *hooked_exit(Hooked *self, PyObject *Py_UNUSED(error))
{
    if (!self->ours.block) {
        PyErr_SetString(PyExc_RuntimeError, "a hooked() block was left that was not entered");
        return NULL;
    }
    hooked_leave(self);
    Py_RETURN_NONE;
}

static int hooked_traverse(Hooked *self, visitproc visit, void *arg)
{
    Py_VISIT(self->context);
    Py_VISIT(self->kept);
    return 0;
}

static int hooked_clear(Hooked *self)
{
    Py_CLEAR(self->context);
    Py_CLEAR(self->kept);
    return 0;
}

static void hooked_dealloc(Hooked *self)
{
    PyObject_GC_UnTrack(self);
    if (self->ours.block) {
        hooked_leave(self);
    }
    hooked_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef hooked_methods[] = {
    {"__enter__", (PyCFunction)hooked_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)hooked_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject Hooked_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framelift.native._core.hooked",
    .tp_doc = "hooked(context, kept=None)\n\nInside `with hooked(context):` frames are lifted as by run_hooked(); "
              "`kept` is only kept alive.",
    .tp_basicsize = sizeof(Hooked),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = hooked_new,
    .tp_dealloc = (destructor)hooked_dealloc,
    .tp_traverse = (traverseproc)hooked_traverse,
    .tp_clear = (inquiry)hooked_clear,
    .tp_methods = hooked_methods,
};

static PyObject *hook_state(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return Py_BuildValue("{s:n,s:O,s:O,s:K,s:K,s:K,s:K}", "users", hook.users, "installed",
                         current_hook() == hook_frame ? Py_True : Py_False, "linked", hook.linked ? Py_True : Py_False,
                         "swapped", hook.swapped, "called", hook.called, "asked", hook.asked, "pauses", hook.pauses);
}

static PyObject *always_call(PyObject *Py_UNUSED(module), PyObject *flag)
{
    return set_switch(&hook.always_call, flag);
}

static PyMethodDef functions[] = {
    {"run_hooked", (PyCFunction)(void (*)(void))run_hooked, METH_FASTCALL | METH_KEYWORDS,
     "run_hooked(context, callable, /, *args, **kwargs)\n\n"
     "Calls the callable; on the way, context(code, function, slots) is asked about frames no entry of the tables\n"
     "with the key `context.key` takes. It answers an Entry, None: not this time, NotImplemented: nor what it calls,\n"
     "False: never ask again for this code, or ...: nor for anything it calls.\n"
     "With None as context frames are left alone."},
    {"hook_state", hook_state, METH_NOARGS, "hook_state() -> dict\n\nWhat the frame hook is and has done, for tests."},
    {"hook_always_call", always_call, METH_O,
     "hook_always_call(flag)\n\nFor tests: call residual functions as if frames had no room to be swapped in place."},
    {NULL, NULL, 0, NULL},
};

static int make_returning_code(void)
{
    PyObject *globals = PyDict_New();
    PyObject *done = globals ? PyRun_String("def returning(): return result", Py_file_input, globals, globals) : NULL;
    PyObject *function = done ? PyDict_GetItemString(globals, "returning") : NULL;
    if (function) {
        hook.returning = (PyCodeObject *)Py_NewRef(PyFunction_GET_CODE(function));
        _Py_CODEUNIT *instructions = _PyCode_CODE(hook.returning);
        for (Py_ssize_t i = 0; i < Py_SIZE(hook.returning); i++) {
            if (_Py_OPCODE(instructions[i]) == RETURN_VALUE) {
                hook.return_instruction = instructions + i;
            }
        }
        if (!hook.return_instruction) {
            PyErr_SetString(PyExc_ImportError, "this CPython compiles `return` to something else than RETURN_VALUE");
        }
    }
    Py_XDECREF(done);
    Py_XDECREF(globals);
    return hook.return_instruction ? 0 : -1;
}

int hook_init(PyObject *module)
{
    if (make_returning_code() < 0 || PyModule_AddType(module, &Hooked_Type) < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
