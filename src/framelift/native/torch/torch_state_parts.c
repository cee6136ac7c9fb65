/* See torch_state_parts.h. A part is read without Python where this torch has what the table names. */
#include "torch_state_parts.h"

typedef struct {
    const char *name;
    const char *symbol;
    Reader reader;
    int first, second;
} NativePart;

#define CONTEXT(name)  "_ZNK2at7Context" name "Ev"
#define AUTOCAST_DTYPE "_ZN2at8autocast18get_autocast_dtypeEN3c1010DeviceTypeE"
#define FP32_PRECISION "_ZNK2at7Context16float32PrecisionENS_14Float32BackendENS_9Float32OpE"

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
};

StateParts state_parts;

const void *call_for_address(const char *name)
{
    void *symbol = torch_symbol(name);
    const void *(*function)(void);
    memcpy(&function, &symbol, sizeof(symbol));
    return symbol != NULL ? function() : NULL;
}

/* Whether getters are looked into at all (native/switches.py). */
static bool reads_getters = true;

/* The byte a getter returns, if the getter is nothing but one load and a return: reading it is then the same as
 * calling, at a third of the price. NULL for any other code. */
static const uint8_t *byte_returned(const void *getter)
{
    if (!reads_getters) {
        return NULL;
    }
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
    const uint8_t *argument = state_parts.context;
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

enum { MOST_OF_A_CONTEXT = 4096 };

/* Whether a getter says what the byte says, also of a copy of the context in which the byte is another. What is told of
 * no context cannot be tried so: others may be reading it. */
static bool is_what_is_returned(const Part *part, const uint8_t *byte)
{
    if (part->reader == CALL_FLAG) {
        return part->read.flag() == *byte;
    }
    uint8_t copy[MOST_OF_A_CONTEXT];
    ptrdiff_t offset = byte - (const uint8_t *)state_parts.context;
    if (part->read.context(state_parts.context) != *byte || offset < 0 || offset >= MOST_OF_A_CONTEXT) {
        return false;
    }
    memset(copy, 0, sizeof(copy));
    for (uint8_t value = 0; value <= 1; value++) {
        copy[offset] = value;
        if (part->read.context(copy) != value) {
            return false;
        }
    }
    return true;
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
        /* The version of the class of parameters changes with that of every class it derives from. */
        void *symbol = reader == CLASS_VERSION ? tensor_access.common[1] : torch_symbol(native->symbol);
        if (symbol == NULL || (state_parts.context == NULL && (reader == CALL_CONTEXT || reader == CALL_PRECISION)) ||
            (reader == AUTOGRAD && state_parts.autograd_flags < 0)) {
            continue;
        }
        part->reader = reader;
        part->read.symbol = symbol;
        part->first = native->first;
        part->second = native->second;
        const uint8_t *byte = reader == CALL_CONTEXT || reader == CALL_FLAG ? byte_returned(symbol) : NULL;
        if (byte != NULL && is_what_is_returned(part, byte)) {
            part->reader = BYTE;
            part->read.byte = byte;
        }
    }
}

static void forget_parts(void)
{
    for (int i = 0; i < state_parts.count; i++) {
        Py_CLEAR(state_parts.all[i].name);
        Py_CLEAR(state_parts.all[i].getter);
        Py_CLEAR(state_parts.all[i].same);
        Py_CLEAR(state_parts.all[i].last);
    }
    state_parts.count = state_parts.nbytes = state_parts.ncalls = state_parts.nasked = 0;
}

static void sort_parts(void)
{
    for (int i = 0; i < state_parts.count; i++) {
        Reader reader = state_parts.all[i].reader;
        if (reader == BYTE) {
            state_parts.bytes[state_parts.nbytes++] = state_parts.all[i].read.byte;
        } else if (reader != BY_PYTHON && reader != COVERED && reader != DISPATCH_MODES && reader != CLASS_VERSION) {
            state_parts.calls[state_parts.ncalls++] = i;
        }
        if (reader == BY_PYTHON || reader == FUNCTION_MODES || reader == DISPATCH_MODES || reader == CLASS_VERSION) {
            state_parts.asked[state_parts.nasked++] = i;
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
    Part *part = &state_parts.all[state_parts.count++];
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

static PyObject *register_state(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *paths, *items;
    if (!PyArg_ParseTuple(args, "OO!", &paths, &PyList_Type, &items) || torch_libraries_open(paths) < 0) {
        return NULL;
    }
    if (PyList_GET_SIZE(items) > MAX_PARTS_OF_STATE) {
        PyErr_SetString(PyExc_ValueError, "too many parts");
        return NULL;
    }
    forget_parts();
    state_parts.registration++;
    state_parts.context = call_for_address("_ZN2at13globalContextEv");
    state_parts.autograd_flags = find_autograd_flags();
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

static PyObject *read_getters(PyObject *Py_UNUSED(module), PyObject *flag)
{
    return set_switch(&reads_getters, flag);
}

static PyObject *getters_read(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    PyObject *names = PyList_New(0);
    for (int i = 0; names != NULL && i < state_parts.count; i++) {
        if (state_parts.all[i].reader == BYTE && PyList_Append(names, state_parts.all[i].name) < 0) {
            Py_CLEAR(names);
        }
    }
    return names;
}

static PyMethodDef methods[] = {
    {"read_getters", read_getters, METH_O,
     "read_getters(flag)\n\nWhether register_state() looks into torch's getters for the byte that they return."},
    {"getters_read", getters_read, METH_NOARGS,
     "getters_read() -> list[str]\n\nThe parts that are read as such bytes."},
    {"register_state", register_state, METH_VARARGS, register_doc},
    {NULL, NULL, 0, NULL},
};

int torch_state_parts_init(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
