/* Facts about numbers that several inputs hold: sizes and strides of tensors, lengths of containers, ints and floats.
 * The numbers are loaded once, then every fact is computed on a small stack. A number that does not fit (an int beyond
 * 64 bits, a sum that overflows, a division by zero) is a miss: framelift/shapes/guard_program.py says the same in
 * Python.
 */
#include "tree.h"
#include "torch/tensor_probe.h"

#include <math.h>

#define MAX_STACK    64
#define EXACT        (INT64_C(1) << 53) /* ints up to here are floats without loss */
#define MAX_EXPONENT 64

typedef struct {
    bool is_float;
    int64_t i;
    double f;
} Number;

typedef struct {
    int member, property, index;
    bool native; /* a tensor that is read without Python */
} NumberLoad;

typedef struct {
    int op;
    Number argument;
} Step;

struct Program {
    PyObject *given; /* the GuardProgram in Python: numbers and words only */
    NumberLoad *loads;
    Step *steps;
    int nloads, nsteps;
    int failed;       /* the fact that did not hold last; -1: a number could not be loaded */
    Number numbers[]; /* it did not hold on */
};

/* ---- numbers ---- */

static bool from_object(PyObject *object, Number *number)
{
    if (PyFloat_CheckExact(object)) {
        *number = (Number){.is_float = true, .f = PyFloat_AS_DOUBLE(object)};
        return true;
    }
    if (!PyLong_CheckExact(object)) {
        return false;
    }
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    *number = (Number){.i = value};
    return overflow == 0;
}

static PyObject *to_object(Number number)
{
    return number.is_float ? PyFloat_FromDouble(number.f) : PyLong_FromLongLong(number.i);
}

/* An entry of a size or stride, asked of Python: for tensors whose metadata is not where we could read it. */
static bool ask_python(PyObject *tensor, const NumberLoad *load, Number *number)
{
    PyObject *facts = tensor_access.facts != NULL ? PyObject_CallOneArg(tensor_access.facts, tensor) : NULL;
    PyObject *entries = facts != NULL && PyTuple_Check(facts) && PyTuple_GET_SIZE(facts) > 6
                            ? PyTuple_GET_ITEM(facts, load->property == LOAD_SIZE ? 5 : 6)
                            : NULL;
    bool found = entries != NULL && PyTuple_Check(entries) && load->index < PyTuple_GET_SIZE(entries) &&
                 from_object(PyTuple_GET_ITEM(entries, load->index), number);
    Py_XDECREF(facts);
    PyErr_Clear();
    return found;
}

/* The number in a tensor of the host that has one element; `index` says how many bytes that takes. A check on the
 * tensor has seen that it is one. */
static bool load_item(const NumberLoad *load, PyObject *tensor, Number *number)
{
    const char *memory = load->native ? tensor_memory(tensor) : NULL;
    *number = (Number){.is_float = true};
    if (memory == NULL) {
        PyObject *item = PyObject_CallMethod(tensor, "item", NULL);
        bool found = item != NULL && from_object(item, number);
        Py_XDECREF(item);
        PyErr_Clear();
        return found && number->is_float && isfinite(number->f);
    }
    if (load->index == sizeof(float)) {
        float single;
        memcpy(&single, memory, sizeof(single));
        number->f = single;
    } else {
        memcpy(&number->f, memory, sizeof(number->f));
    }
    return isfinite(number->f);
}

static bool load_number(const NumberLoad *load, PyObject *object, Number *number)
{
    if (load->property == LOAD_ITEM) {
        return load_item(load, object, number);
    }
    if (load->property == LOAD_VALUE) {
        return from_object(object, number);
    }
    if (load->property == LOAD_LENGTH) {
        *number = (Number){.i = stored_length(object)};
        return number->i >= 0;
    }
    if (!load->native) {
        return ask_python(object, load, number);
    }
    Metadata metadata;
    if (!tensor_metadata_read(object, &metadata) || load->index >= metadata.ndim) {
        return false;
    }
    *number = (Number){.i = (load->property == LOAD_SIZE ? metadata.sizes : metadata.strides)[load->index]};
    return true;
}

/* ---- facts ---- */

static inline bool is_exact(int64_t value)
{
    return value >= -EXACT && value <= EXACT;
}

static bool as_float(Number *number)
{
    if (!number->is_float) {
        int64_t value = number->i;
        *number = (Number){.is_float = true, .f = (double)value};
        return is_exact(value);
    }
    return true;
}

static bool whole(double value, Number *result)
{
    bool fits = fabs(value) <= (double)EXACT; /* not so for nan */
    *result = (Number){.i = fits ? (int64_t)value : 0};
    return fits;
}

static bool power(int64_t base, int64_t exponent, int64_t *result)
{
    bool fits = exponent >= 0 && exponent <= MAX_EXPONENT;
    *result = 1;
    for (int64_t i = 0; fits && i < exponent; i++) {
        fits = !__builtin_mul_overflow(*result, base, result);
    }
    return fits;
}

static bool on_ints(int op, int64_t a, int64_t b, Number *result)
{
    *result = (Number){0};
    switch (op) {
    case PROGRAM_ADD:
        return !__builtin_add_overflow(a, b, &result->i);
    case PROGRAM_SUB:
        return !__builtin_sub_overflow(a, b, &result->i);
    case PROGRAM_MUL:
        return !__builtin_mul_overflow(a, b, &result->i);
    case PROGRAM_FLOORDIV:
    case PROGRAM_MOD:
        if (b == 0 || (a == INT64_MIN && b == -1)) {
            return false;
        }
        int64_t quotient = a / b, rest = a % b;
        bool lower = rest != 0 && (rest < 0) != (b < 0); /* C rounds towards zero, Python down */
        result->i = op == PROGRAM_FLOORDIV ? quotient - lower : rest + (lower ? b : 0);
        return true;
    case PROGRAM_POW:
        return power(a, b, &result->i);
    case PROGRAM_MIN:
        result->i = a < b ? a : b;
        return true;
    case PROGRAM_MAX:
        result->i = a > b ? a : b;
        return true;
    case PROGRAM_EQ:
        result->i = a == b;
        return true;
    case PROGRAM_NE:
        result->i = a != b;
        return true;
    case PROGRAM_LT:
        result->i = a < b;
        return true;
    case PROGRAM_LE:
        result->i = a <= b;
        return true;
    case PROGRAM_AND:
        result->i = a && b;
        return true;
    case PROGRAM_OR:
        result->i = a || b;
        return true;
    default:
        return false;
    }
}

static bool on_floats(int op, double a, double b, Number *result)
{
    double value = 0;
    switch (op) {
    case PROGRAM_SAME:
        *result = (Number){.i = memcmp(&a, &b, sizeof(a)) == 0};
        return true;
    case PROGRAM_FLOATPOW:
        if (!(a > 0)) {
            return false;
        }
        value = pow(a, b);
        if (!isfinite(value)) {
            return false;
        }
        break;
    case PROGRAM_ADD:
        value = a + b;
        break;
    case PROGRAM_SUB:
        value = a - b;
        break;
    case PROGRAM_MUL:
        value = a * b;
        break;
    case PROGRAM_TRUEDIV:
        if (b == 0) {
            return false;
        }
        value = a / b;
        break;
    case PROGRAM_EQ:
        *result = (Number){.i = a == b};
        return true;
    case PROGRAM_NE:
        *result = (Number){.i = a != b};
        return true;
    case PROGRAM_LT:
        *result = (Number){.i = a < b};
        return true;
    case PROGRAM_LE:
        *result = (Number){.i = a <= b};
        return true;
    default:
        return false;
    }
    *result = (Number){.is_float = true, .f = value};
    return true;
}

static bool binary(int op, Number a, Number b, Number *result)
{
    if (!a.is_float && !b.is_float && op != PROGRAM_TRUEDIV && op != PROGRAM_FLOATPOW) {
        return on_ints(op, a.i, b.i, result);
    }
    return as_float(&a) && as_float(&b) && on_floats(op, a.f, b.f, result);
}

static bool unary(int op, Number *number)
{
    switch (op) {
    case PROGRAM_NOT:
        number->i = !number->i;
        return !number->is_float;
    case PROGRAM_TO_FLOAT:
        return as_float(number);
    case PROGRAM_FLOOR:
        return !number->is_float || whole(floor(number->f), number);
    case PROGRAM_CEIL:
        return !number->is_float || whole(ceil(number->f), number);
    case PROGRAM_SINGLE:
        if (!as_float(number)) {
            return false;
        }
        number->f = (float)number->f;
        return isfinite(number->f);
    default:
        return !number->is_float || whole(trunc(number->f), number);
    }
}

/* The index of the first fact that does not hold; -1 if all do. */
static int first_failure(const Program *program, const Number *numbers)
{
    Number stack[MAX_STACK];
    int top = 0, fact = 0;
    for (int i = 0; i < program->nsteps; i++) {
        const Step *step = &program->steps[i];
        switch (step->op) {
        case PROGRAM_CONST:
            stack[top++] = step->argument;
            break;
        case PROGRAM_LOAD:
            stack[top++] = numbers[step->argument.i];
            break;
        case PROGRAM_CHECK:
            if (stack[--top].i == 0) {
                return fact;
            }
            fact++;
            break;
        default:
            if (step->op >= PROGRAM_NOT) {
                if (!unary(step->op, &stack[top - 1])) {
                    return fact;
                }
            } else {
                top--;
                if (!binary(step->op, stack[top - 1], stack[top], &stack[top - 1])) {
                    return fact;
                }
            }
        }
    }
    return -1;
}

int program_holds(Program *program, const Value *values, const Found *found)
{
    /* Not in the program itself: a tensor that is asked in Python may lead to another check of the same tree. */
    Number numbers[program->nloads + 1];
    bool loaded = true;
    for (int i = 0; loaded && i < program->nloads; i++) {
        const NumberLoad *load = &program->loads[i];
        loaded = load_number(load, value_of(found, values[load->member]), &numbers[i]);
    }
    int failed = loaded ? first_failure(program, numbers) : -1;
    if (loaded && failed < 0) {
        return 1;
    }
    program->failed = failed;
    memcpy(program->numbers, numbers, loaded ? (size_t)program->nloads * sizeof(Number) : 0);
    return 0;
}

/* ---- making ---- */

static int read_loads(Program *program, PyObject *loads, int members)
{
    for (int i = 0; i < program->nloads; i++) {
        NumberLoad *load = &program->loads[i];
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(loads, i), "iii;a load is (member, property, index)", &load->member,
                              &load->property, &load->index)) {
            return -1;
        }
        if (load->member < 0 || load->member >= members || load->property < LOAD_VALUE || load->property > LOAD_ITEM ||
            load->index < 0) {
            PyErr_Format(PyExc_ValueError, "load %d of a program does not exist", i);
            return -1;
        }
    }
    return 0;
}

/* How deep the stack is after a step; -1: the step is not possible. */
static int depth_after(const Step *step, int depth, int nloads)
{
    switch (step->op) {
    case PROGRAM_CONST:
        return depth + 1;
    case PROGRAM_LOAD:
        return step->argument.is_float || step->argument.i < 0 || step->argument.i >= nloads ? -1 : depth + 1;
    case PROGRAM_CHECK:
        return depth == 1 ? 0 : -1;
    default:
        if (step->op >= PROGRAM_NOT) {
            return step->op <= PROGRAM_SINGLE && depth >= 1 ? depth : -1;
        }
        return step->op >= PROGRAM_ADD && depth >= 2 ? depth - 1 : -1;
    }
}

static int read_steps(Program *program, PyObject *code)
{
    int depth = 0;
    for (int i = 0; i < program->nsteps; i++) {
        Step *step = &program->steps[i];
        PyObject *argument;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(code, i), "iO;a step is (op, argument)", &step->op, &argument)) {
            return -1;
        }
        depth = from_object(argument, &step->argument) ? depth_after(step, depth, program->nloads) : -1;
        if (depth < 0 || depth >= MAX_STACK) {
            PyErr_Format(PyExc_ValueError, "step %d of a program is not possible", i);
            return -1;
        }
    }
    if (depth != 0) {
        PyErr_SetString(PyExc_ValueError, "a program ends with a check");
        return -1;
    }
    return 0;
}

Program *program_new(PyObject *given, int members)
{
    PyObject *loads, *code, *words, *names;
    if (!PyTuple_Check(given) ||
        !PyArg_ParseTuple(given, "O!O!O!O!;a program is (loads, code, words, names)", &PyTuple_Type, &loads,
                          &PyTuple_Type, &code, &PyTuple_Type, &words, &PyTuple_Type, &names)) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_TypeError, "a program is a tuple, not %.100R", given);
        }
        return NULL;
    }
    size_t nloads = (size_t)PyTuple_GET_SIZE(loads), nsteps = (size_t)PyTuple_GET_SIZE(code);
    Program *program = PyMem_Calloc(1, sizeof(Program) + (nloads + 1) * sizeof(Number));
    if (program == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    program->given = Py_NewRef(given);
    program->nloads = (int)nloads;
    program->nsteps = (int)nsteps;
    program->loads = NEW_ARRAY(NumberLoad, nloads);
    program->steps = program->loads != NULL ? NEW_ARRAY(Step, nsteps) : NULL;
    if (program->steps == NULL || read_loads(program, loads, members) < 0 || read_steps(program, code) < 0) {
        program_free(program);
        return NULL;
    }
    return program;
}

bool program_prepare(Program *program, const bool *natively)
{
    bool all = true;
    for (int i = 0; i < program->nloads; i++) {
        NumberLoad *load = &program->loads[i];
        load->native = natively[load->member];
        all &= load->native || load->property == LOAD_VALUE || load->property == LOAD_LENGTH;
    }
    return all;
}

void program_free(Program *program)
{
    if (program != NULL) {
        Py_XDECREF(program->given);
        PyMem_Free(program->loads);
        PyMem_Free(program->steps);
        PyMem_Free(program);
    }
}

PyObject *program_given(const Program *program)
{
    return Py_NewRef(program->given);
}

PyObject *program_failure(const Program *program)
{
    PyObject *numbers = PyTuple_New(program->nloads);
    for (int i = 0; numbers != NULL && i < program->nloads; i++) {
        put_item(&numbers, i, program->failed < 0 ? Py_NewRef(Py_None) : to_object(program->numbers[i]));
    }
    return numbers == NULL ? NULL : Py_BuildValue("(OiN)", program->given, program->failed, numbers);
}

#define ADD_LOAD(name, number) || PyModule_AddIntConstant(module, "LOAD_" #name, number) < 0
#define ADD_STEP(name, number) || PyModule_AddIntConstant(module, "PROGRAM_" #name, number) < 0

int guard_program_init(PyObject *module)
{
    return false LOAD_KINDS(ADD_LOAD) PROGRAM_STEPS(ADD_STEP) ? -1 : 0;
}
