/* Snapshots of torch's state and their comparison with the present.
 *
 * native/calibrate.py registers the parts of the state: a name in words and a Python getter each. A snapshot keeps what
 * the getters said, for its words; to compare it with the present, a part is read without Python where this torch
 * allows it: from memory (the thread's own state, flags of at::Context) or by calling a C++ getter that neither throws
 * nor locks nor allocates. The rest is asked of the Python getters. */
#include "torch_state.h"
#include "tensor_probe.h"

typedef enum {
    BY_PYTHON,      /* call the getter */
    COVERED,        /* implied by another part that is native; here for its words only */
    KEYS,           /* the thread's included and excluded dispatch keys */
    AUTOGRAD,       /* the thread's grad mode, inference mode, ...: one byte */
    OVERRIDE,       /* whether the thread has torch functions disabled */
    FUNCTION_MODES, /* number of the thread's torch function modes; Python says which if there are any */
    DISPATCH_MODES, /* none while the dispatch keys say so; otherwise Python says which */
    CLASS_VERSION,  /* nobody set an attribute of a class; otherwise Python says whether it matters */
    BYTE,           /* a global byte */
    CALL_FLAG,      /* uint8_t f(void) */
    CALL_DEVICE,    /* int8_t f(int8_t device type) */
    CALL_CONTEXT,   /* uint8_t f(const Context *) */
    CALL_PRECISION, /* int f(const Context *, int backend, int operation) */
} Reader;

typedef struct {
    const char *name;
    const char *symbol;
    Reader reader;
    int first, second;
} NativePart;

#define CONTEXT(name)    "_ZNK2at7Context" name "Ev"
#define AUTOCAST_DTYPE   "_ZN2at8autocast18get_autocast_dtypeEN3c1010DeviceTypeE"
#define FP32_PRECISION   "_ZNK2at7Context16float32PrecisionENS_14Float32BackendENS_9Float32OpE"
#define THREAD_KEYS      "_ZN3c104impl26raw_local_dispatch_key_setE"
#define THREAD_AUTOGRAD  "_ZN3c1013AutogradState13get_tls_stateEv"
#define THREAD_FUNCTIONS "_ZN2at4impl22PythonTorchFunctionTLS9get_stateEv"

static const NativePart native_parts[] = {
    {"grad mode", THREAD_AUTOGRAD, AUTOGRAD, 0, 0},
    {"dispatch keys", THREAD_KEYS, KEYS, 0, 0},
    {"torch function override", THREAD_FUNCTIONS, OVERRIDE, 0, 0},
    {"torch function modes", THREAD_FUNCTIONS, FUNCTION_MODES, 0, 0},
    {"dispatch modes", THREAD_KEYS, DISPATCH_MODES, 0, 0},
    {"operators of tensors", NULL, CLASS_VERSION, 0, 0},
    {"default dtype", "_ZN3c1031get_default_dtype_as_scalartypeEv", CALL_FLAG, 0, 0},
    {"autocast cache", "_ZN2at8autocast25is_autocast_cache_enabledEv", CALL_FLAG, 0, 0},
    {"autocast dtype of cpu", AUTOCAST_DTYPE, CALL_DEVICE, 0, 0},
    {"autocast dtype of cuda", AUTOCAST_DTYPE, CALL_DEVICE, 1, 0},
    {"autocast dtype of xpu", AUTOCAST_DTYPE, CALL_DEVICE, 12, 0},
    {"autocast dtype of mps", AUTOCAST_DTYPE, CALL_DEVICE, 13, 0},
    {"deterministic algorithms", CONTEXT("23deterministicAlgorithms"), CALL_CONTEXT, 0, 0},
    {"deterministic warn-only", CONTEXT("31deterministicAlgorithmsWarnOnly"), CALL_CONTEXT, 0, 0},
    {"filling of uninitialized memory", CONTEXT("36deterministicFillUninitializedMemory"), CALL_CONTEXT, 0, 0},
    {"fp16 reduction in cublas", CONTEXT("24allowFP16ReductionCuBLAS"), CALL_CONTEXT, 0, 0},
    {"bf16 reduction in cublas", CONTEXT("24allowBF16ReductionCuBLAS"), CALL_CONTEXT, 0, 0},
    {"fp16 accumulation in cublas", CONTEXT("27allowFP16AccumulationCuBLAS"), CALL_CONTEXT, 0, 0},
    {"fp16 reduction on cpu", CONTEXT("21allowFP16ReductionCPU"), CALL_CONTEXT, 0, 0},
    {"reduced precision in math attention", CONTEXT("29allowFP16BF16ReductionMathSDP"), CALL_CONTEXT, 0, 0},
    {"flash attention", CONTEXT("19userEnabledFlashSDP"), CALL_CONTEXT, 0, 0},
    {"memory-efficient attention", CONTEXT("26userEnabledMemEfficientSDP"), CALL_CONTEXT, 0, 0},
    {"math attention", CONTEXT("18userEnabledMathSDP"), CALL_CONTEXT, 0, 0},
    {"cudnn attention", CONTEXT("19userEnabledCuDNNSDP"), CALL_CONTEXT, 0, 0},
    {"overrideable attention", CONTEXT("26userEnabledOverrideableSDP"), CALL_CONTEXT, 0, 0},
    {"cudnn", CONTEXT("16userEnabledCuDNN"), CALL_CONTEXT, 0, 0},
    {"mkldnn", CONTEXT("17userEnabledMkldnn"), CALL_CONTEXT, 0, 0},
    {"fp32 precision of cuda matmul", FP32_PRECISION, CALL_PRECISION, 1, 3},
    {"fp32 precision of cuda conv", FP32_PRECISION, CALL_PRECISION, 1, 1},
    {"fp32 precision of mkldnn matmul", FP32_PRECISION, CALL_PRECISION, 2, 3},
};

typedef struct {
    Reader reader;
    union {
        void *symbol;
        const uint8_t *byte;
        const PyTypeObject *cls;
        uint8_t (*flag)(void);
        int8_t (*device)(int8_t);
        uint8_t (*context)(const void *);
        int (*precision)(const void *, int, int);
    } read;
    int first, second;
    PyObject *name;
    PyObject *getter; /* () -> value */
    PyObject *same;   /* (old, new) -> bool, or NULL: constants_equal */
    PyObject *last;   /* what the getter of a CLASS_VERSION said at version `last_version`, or NULL */
    int64_t last_version;
} Part;

#define MAX_PARTS_OF_STATE 64
static Part parts[MAX_PARTS_OF_STATE];
static int nparts;
/* The same parts sorted by how they are read. */
static const uint8_t *bytes[MAX_PARTS_OF_STATE];
static int call_parts[MAX_PARTS_OF_STATE], asked_parts[MAX_PARTS_OF_STATE];
static int nbytes, ncalls, nasked;
static const void *context;       /* torch's at::Context */
static Py_ssize_t autograd_flags; /* offset of the byte in the thread's AutogradState */
static int64_t registration;      /* counts register_state(): older snapshots match nothing */

/* Where this thread's copies of torch's thread-local state are; found once per thread. */
typedef struct {
    int64_t registration;
    const uint64_t *keys;
    const uint8_t *autograd;
    const char *functions;
} ThreadState;

static _Thread_local ThreadState thread_state;

typedef struct {
    PyObject_HEAD int64_t registration;
    uint64_t keys[2];
    uint8_t bytes[MAX_PARTS_OF_STATE]; /* in the order of the global `bytes` */
    int64_t native[MAX_PARTS_OF_STATE];
    PyObject *values; /* tuple of what the getters said */
} TorchState;

static const void *call_for_address(const char *name)
{
    void *symbol = torch_symbol(name);
    const void *(*function)(void);
    memcpy(&function, &symbol, sizeof(symbol));
    return symbol != NULL ? function() : NULL;
}

static const ThreadState *this_thread(void)
{
    ThreadState *thread = &thread_state;
    if (UNLIKELY(thread->registration != registration)) {
        thread->keys = torch_symbol(THREAD_KEYS);
        thread->autograd = call_for_address(THREAD_AUTOGRAD);
        thread->functions = call_for_address(THREAD_FUNCTIONS);
        thread->registration = registration;
    }
    return thread;
}

/* Of a thread's PythonTorchFunctionTLS: an enumerator, then a vector of 16-byte elements. calibrate.py tests this. */
static inline int64_t function_override(const ThreadState *thread)
{
    return *(const int32_t *)thread->functions;
}

static inline int64_t function_modes(const ThreadState *thread)
{
    const char *const *vector = (const char *const *)(thread->functions + 8);
    return (vector[1] - vector[0]) / 16;
}

static inline int64_t read_part(const Part *part, const ThreadState *thread)
{
    switch (part->reader) {
    case BYTE:
        return *part->read.byte;
    case CALL_FLAG:
        return part->read.flag();
    case CALL_DEVICE:
        return part->read.device((int8_t)part->first);
    case CALL_CONTEXT:
        return part->read.context(context);
    case CALL_PRECISION: {
        int precision = part->read.precision(context, part->first, part->second);
        return precision <= 1 ? 0 : precision; /* "none" and "ieee" compute the same */
    }
    case AUTOGRAD:
        return thread->autograd[autograd_flags];
    case OVERRIDE:
        return function_override(thread);
    case FUNCTION_MODES:
        return function_modes(thread);
    case CLASS_VERSION:
        return part->read.cls->tp_version_tag;
    default:
        return 0;
    }
}

/* A class gets its version when an attribute of it is looked up. */
static int64_t version_of(const PyTypeObject *cls)
{
    PyObject *found = PyObject_GetAttrString((PyObject *)cls, "__init__");
    if (found == NULL) {
        PyErr_Clear();
    }
    Py_XDECREF(found);
    return cls->tp_version_tag;
}

/* What Python says of a part; of a class nobody changed since, what it said before. */
static PyObject *ask(Part *part)
{
    if (part->reader != CLASS_VERSION) {
        return PyObject_CallNoArgs(part->getter);
    }
    if (part->last == NULL || part->last_version == 0 || part->last_version != part->read.cls->tp_version_tag) {
        Py_XSETREF(part->last, PyObject_CallNoArgs(part->getter));
        part->last_version = version_of(part->read.cls);
    }
    return Py_XNewRef(part->last);
}

/* 1 same, 0 not, -1 error: the slow way, in Python. */
static int python_same(Part *part, PyObject *old)
{
    PyObject *now = ask(part);
    if (now == NULL) {
        return -1;
    }
    int same;
    if (part->same == NULL) {
        same = constants_equal(old, now);
    } else {
        PyObject *result = PyObject_CallFunctionObjArgs(part->same, old, now, NULL);
        same = result == NULL ? -1 : PyObject_IsTrue(result);
        Py_XDECREF(result);
    }
    Py_DECREF(now);
    return same;
}

/* Which modes are active is only asked if there are any; how many was compared before. A class that somebody changed
 * has no version, or another. */
static inline bool must_ask(const Part *part, int64_t then)
{
    if (part->reader == CLASS_VERSION) {
        return then == 0 || part->read.cls->tp_version_tag != then;
    }
    return part->reader == BY_PYTHON || then != 0;
}

int torch_state_matches(PyObject *snapshot)
{
    TorchState *state = (TorchState *)snapshot;
    if (state->registration != registration) {
        return 0;
    }
    const ThreadState *thread = this_thread();
    uint8_t changed = 0;
    for (int i = 0; i < nbytes; i++) {
        changed |= *bytes[i] ^ state->bytes[i];
    }
    if (changed != 0) {
        return 0;
    }
    for (int i = 0; i < ncalls; i++) {
        const Part *part = &parts[call_parts[i]];
        if (part->reader == KEYS) {
            if (thread->keys[0] != state->keys[0] || thread->keys[1] != state->keys[1]) {
                return 0;
            }
        } else if (read_part(part, thread) != state->native[call_parts[i]]) {
            return 0;
        }
    }
    for (int i = 0; i < nasked; i++) {
        int index = asked_parts[i];
        if (must_ask(&parts[index], state->native[index])) {
            int same = python_same(&parts[index], PyTuple_GET_ITEM(state->values, index));
            if (same != 1) {
                return same;
            }
            if (parts[index].reader == CLASS_VERSION) {
                state->native[index] = read_part(&parts[index], thread);
            }
        }
    }
    return 1;
}

/* ---- the Python object ---- */

static PyObject *getter_values(void)
{
    PyObject *values = PyTuple_New(nparts);
    for (int i = 0; values != NULL && i < nparts; i++) {
        PyObject *value = ask(&parts[i]);
        if (value == NULL) {
            Py_CLEAR(values);
            break;
        }
        PyTuple_SET_ITEM(values, i, value);
    }
    return values;
}

static PyObject *torch_state(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    if (nparts == 0) {
        PyErr_SetString(PyExc_RuntimeError, "torch was not calibrated: call framelift.native.calibrate.ensure()");
        return NULL;
    }
    TorchState *state = PyObject_New(TorchState, &TorchState_Type);
    if (state == NULL) {
        return NULL;
    }
    state->registration = registration;
    state->values = getter_values();
    if (state->values == NULL) {
        Py_DECREF(state);
        return NULL;
    }
    const ThreadState *thread = this_thread();
    if (thread->keys != NULL) {
        memcpy(state->keys, thread->keys, sizeof(state->keys));
    }
    for (int i = 0; i < nbytes; i++) {
        state->bytes[i] = *bytes[i];
    }
    for (int i = 0; i < nparts; i++) {
        state->native[i] = read_part(&parts[i], thread);
        if (parts[i].reader == DISPATCH_MODES) {
            Py_ssize_t count = PyObject_Size(PyTuple_GET_ITEM(state->values, i));
            state->native[i] = count;
        }
    }
    if (PyErr_Occurred()) {
        Py_CLEAR(state);
    }
    return (PyObject *)state;
}

static void state_dealloc(PyObject *self)
{
    Py_XDECREF(((TorchState *)self)->values);
    PyObject_Free(self);
}

static PyObject *state_matches(PyObject *self, PyObject *unused)
{
    (void)unused;
    int matches = torch_state_matches(self);
    return matches < 0 ? NULL : PyBool_FromLong(matches);
}

static PyObject *in_words(PyObject *value)
{
    if (PyBool_Check(value)) {
        return PyUnicode_FromString(value == Py_True ? "on" : "off");
    }
    return PyObject_Str(value);
}

/* Adds "grad mode was on, now off" if the part differs. */
static int add_difference(PyObject *texts, Part *part, PyObject *old, PyObject *new)
{
    int same = part->same == NULL ? constants_equal(old, new) : python_same(part, old);
    if (same != 0) {
        return same < 0 ? -1 : 0;
    }
    PyObject *was = in_words(old), *is = in_words(new), *text = NULL;
    if (was != NULL && is != NULL) {
        text = PyUnicode_FromFormat("%U was %U, now %U", part->name, was, is);
    }
    int result = text == NULL ? -1 : PyList_Append(texts, text);
    Py_XDECREF(was);
    Py_XDECREF(is);
    Py_XDECREF(text);
    return result;
}

static PyObject *differences(TorchState *state, PyObject *now)
{
    PyObject *texts = PyList_New(0), *result = NULL;
    if (texts == NULL) {
        return NULL;
    }
    /* The key sets come last: mostly they say the same as other parts, in a way nobody wants to read. */
    for (int keys = 0; keys <= 1 && PyList_GET_SIZE(texts) == 0; keys++) {
        for (int i = 0; i < nparts; i++) {
            bool is_keys = strcmp(PyUnicode_AsUTF8(parts[i].name), "dispatch keys") == 0;
            if (is_keys == keys &&
                add_difference(texts, &parts[i], PyTuple_GET_ITEM(state->values, i), PyTuple_GET_ITEM(now, i)) < 0) {
                Py_DECREF(texts);
                return NULL;
            }
        }
    }
    if (PyList_GET_SIZE(texts) == 0) {
        result = Py_NewRef(Py_None);
    } else {
        PyObject *separator = PyUnicode_FromString("; ");
        result = separator != NULL ? PyUnicode_Join(separator, texts) : NULL;
        Py_XDECREF(separator);
    }
    Py_DECREF(texts);
    return result;
}

static PyObject *state_describe(PyObject *self, PyObject *unused)
{
    (void)unused;
    TorchState *state = (TorchState *)self;
    if (state->registration != registration) {
        return PyUnicode_FromString("torch was calibrated anew");
    }
    PyObject *now = getter_values();
    PyObject *result = now != NULL ? differences(state, now) : NULL;
    Py_XDECREF(now);
    return result;
}

static PyObject *state_values(PyObject *self, void *closure)
{
    (void)closure;
    TorchState *state = (TorchState *)self;
    PyObject *result = PyDict_New();
    for (int i = 0; result != NULL && state->registration == registration && i < nparts; i++) {
        if (PyDict_SetItem(result, parts[i].name, PyTuple_GET_ITEM(state->values, i)) < 0) {
            Py_CLEAR(result);
        }
    }
    return result;
}

static PyMethodDef state_methods[] = {
    {"matches", state_matches, METH_NOARGS, "Whether torch's state is the one of this snapshot."},
    {"describe", state_describe, METH_NOARGS, "What differs from the present, in words; None if nothing does."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef state_getset[] = {
    {"values", state_values, NULL, "The parts by name.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject TorchState_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framelift.native._core.TorchState",
    .tp_basicsize = sizeof(TorchState),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = state_dealloc,
    .tp_methods = state_methods,
    .tp_getset = state_getset,
    .tp_doc = "A snapshot of torch's state; made by torch_state().",
};

/* ---- registration ---- */

/* The byte a getter returns, if the getter is nothing but one load and a return: reading it is then the same as
 * calling, at a third of the price. NULL for any other code. */
static const uint8_t *byte_returned(const void *getter)
{
#if defined(__x86_64__)
    static const uint8_t landing_pad[] = {0xf3, 0x0f, 0x1e, 0xfa};
    const uint8_t *code = getter;
    if (memcmp(code, landing_pad, sizeof(landing_pad)) == 0) {
        code += sizeof(landing_pad);
    }
    if (code[0] != 0x0f || code[1] != 0xb6) { /* movzx eax, byte [...] */
        return NULL;
    }
    int32_t wide;
    memcpy(&wide, code + 3, sizeof(wide));
    const uint8_t *argument = context;
    if (code[2] == 0x47 && code[4] == 0xc3 && argument != NULL) { /* [rdi + byte]; ret */
        return argument + (int8_t)code[3];
    }
    if (code[2] == 0x87 && code[7] == 0xc3 && argument != NULL) { /* [rdi + wide]; ret */
        return argument + wide;
    }
    if (code[2] == 0x05 && code[7] == 0xc3) { /* [rip + wide]; ret */
        return code + 7 + wide;
    }
#else
    (void)getter;
#endif
    return NULL;
}

/* The byte of the thread's AutogradState that grad mode is a bit of, told by switching it for a moment. */
static Py_ssize_t find_autograd_flags(void)
{
    const uint8_t *state = call_for_address(THREAD_AUTOGRAD);
    void *is = torch_symbol("_ZN3c108GradMode10is_enabledEv"), *set = torch_symbol("_ZN3c108GradMode11set_enabledEb");
    bool (*is_enabled)(void);
    void (*set_enabled)(bool);
    memcpy(&is_enabled, &is, sizeof(is));
    memcpy(&set_enabled, &set, sizeof(set));
    if (state == NULL || is == NULL || set == NULL) {
        return -1;
    }
    uint8_t before[32];
    memcpy(before, state, sizeof(before));
    bool enabled = is_enabled();
    set_enabled(!enabled);
    Py_ssize_t found = -1, changed = 0;
    for (Py_ssize_t i = 0; i < (Py_ssize_t)sizeof(before); i++) {
        if (state[i] != before[i]) {
            found = i;
            changed++;
        }
    }
    set_enabled(enabled);
    return changed == 1 ? found : -1;
}

/* The class of parameters, whose version changes with that of every class it derives from. It is there for good. */
static PyObject *parameter_class(void)
{
    PyObject *module = PyImport_ImportModule("torch.nn");
    PyObject *cls = module != NULL ? PyObject_GetAttrString(module, "Parameter") : NULL;
    Py_XDECREF(module);
    if (cls == NULL || !PyType_Check(cls)) {
        PyErr_Clear();
        Py_CLEAR(cls);
    }
    return cls;
}

/* Finds the native reader of a part; leaves it to Python where this torch has none. */
static void resolve(Part *part)
{
    const char *name = PyUnicode_AsUTF8(part->name);
    for (size_t i = 0; i < Py_ARRAY_LENGTH(native_parts); i++) {
        const NativePart *native = &native_parts[i];
        if (strcmp(native->name, name) != 0) {
            continue;
        }
        Reader reader = native->reader;
        void *symbol = reader == CLASS_VERSION ? parameter_class() : torch_symbol(native->symbol);
        if (symbol == NULL || (context == NULL && (reader == CALL_CONTEXT || reader == CALL_PRECISION)) ||
            (reader == AUTOGRAD && autograd_flags < 0)) {
            continue;
        }
        part->reader = reader;
        part->read.symbol = symbol;
        part->first = native->first;
        part->second = native->second;
        const uint8_t *byte = reader == CALL_CONTEXT || reader == CALL_FLAG ? byte_returned(symbol) : NULL;
        if (byte != NULL && *byte == (reader == CALL_FLAG ? part->read.flag() : part->read.context(context))) {
            part->reader = BYTE;
            part->read.byte = byte;
        }
    }
}

static void forget_parts(void)
{
    for (int i = 0; i < nparts; i++) {
        Py_CLEAR(parts[i].name);
        Py_CLEAR(parts[i].getter);
        Py_CLEAR(parts[i].same);
        Py_CLEAR(parts[i].last);
    }
    nparts = nbytes = ncalls = nasked = 0;
}

static void sort_parts(void)
{
    for (int i = 0; i < nparts; i++) {
        Reader reader = parts[i].reader;
        if (reader == BYTE) {
            bytes[nbytes++] = parts[i].read.byte;
        } else if (reader != BY_PYTHON && reader != COVERED && reader != DISPATCH_MODES && reader != CLASS_VERSION) {
            call_parts[ncalls++] = i;
        }
        if (reader == BY_PYTHON || reader == FUNCTION_MODES || reader == DISPATCH_MODES || reader == CLASS_VERSION) {
            asked_parts[nasked++] = i;
        }
    }
}

/* One part of the specification; `native` names the parts so far that are read without Python. */
static int add_part(PyObject *item, PyObject *native)
{
    PyObject *name, *getter, *same, *covered_by;
    int try_native;
    if (!PyArg_ParseTuple(item, "UOOOp", &name, &getter, &same, &covered_by, &try_native)) {
        return -1;
    }
    Part *part = &parts[nparts++];
    memset(part, 0, sizeof(*part));
    part->name = Py_NewRef(name);
    part->getter = Py_NewRef(getter);
    part->same = same != Py_None ? Py_NewRef(same) : NULL;
    int covered = covered_by == Py_None ? 0 : PySequence_Contains(native, covered_by);
    if (covered == 1) {
        part->reader = COVERED;
    } else if (try_native && (covered_by == Py_None || covered == 1)) {
        resolve(part);
    }
    return covered < 0 || (part->reader != BY_PYTHON && PyList_Append(native, name) < 0) ? -1 : 0;
}

PyDoc_STRVAR(register_doc,
             "register_state(libraries, parts)\n--\n\n"
             "Each part is (name, getter, same or None, name of an earlier part that covers it or None, native).\n"
             "Answers the names of the parts that are read without Python.");

static PyObject *register_state(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *paths, *items;
    if (!PyArg_ParseTuple(args, "OO!", &paths, &PyList_Type, &items) || torch_libraries_open(paths) < 0) {
        return NULL;
    }
    if (PyList_GET_SIZE(items) > MAX_PARTS_OF_STATE) {
        PyErr_SetString(PyExc_ValueError, "too many parts");
        return NULL;
    }
    forget_parts();
    registration++;
    context = call_for_address("_ZN2at13globalContextEv");
    autograd_flags = find_autograd_flags();
    PyObject *native = PyList_New(0);
    for (Py_ssize_t i = 0; native != NULL && i < PyList_GET_SIZE(items); i++) {
        if (add_part(PyList_GET_ITEM(items, i), native) < 0) {
            forget_parts();
            Py_CLEAR(native);
        }
    }
    sort_parts();
    return native;
}

static PyObject *native_state(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *result = PyDict_New();
    for (int i = 0; result != NULL && i < nparts; i++) {
        Reader reader = parts[i].reader;
        if (reader != BYTE && reader != CALL_FLAG && reader != CALL_CONTEXT && reader != CALL_DEVICE) {
            continue;
        }
        PyObject *value = PyLong_FromLongLong(read_part(&parts[i], this_thread()));
        if (value == NULL || PyDict_SetItem(result, parts[i].name, value) < 0) {
            Py_CLEAR(result);
        }
        Py_XDECREF(value);
    }
    return result;
}

static PyMethodDef methods[] = {
    {"torch_state", torch_state, METH_NOARGS, "A snapshot of torch's state in this thread."},
    {"register_state", register_state, METH_VARARGS, register_doc},
    {"native_state", native_state, METH_NOARGS, "The flags and data types read without Python, for the self test."},
    {NULL, NULL, 0, NULL},
};

int torch_state_init(PyObject *module)
{
    if (PyType_Ready(&TorchState_Type) < 0 || PyModule_AddFunctions(module, methods) < 0) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "TorchState", (PyObject *)&TorchState_Type);
}
