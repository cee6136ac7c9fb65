/* Finding out, at run time, where this process's torch keeps what tensor_probe.c reads.
 *
 * calibrate.py hands over tensors of many kinds together with what Python says about them. An offset counts as
 * found only if it explains every one of them; the first one does, because where an object ends is not known.
 * Afterwards calibrate.py compares tensor_read() with Python again on other tensors. Whatever is not found is read by
 * calling Python. */
#include "guards/guards.h"
#include "tensor_probe.h"

#include <dlfcn.h>

#define MAX_LIBRARIES 8
static void *libraries[MAX_LIBRARIES];
static int nlibraries;

int torch_libraries_open(PyObject *paths)
{
    PyObject *sequence = PySequence_Fast(paths, "libraries must be a sequence of paths");
    if (sequence == NULL) {
        return -1;
    }
    nlibraries = 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence) && nlibraries < MAX_LIBRARIES; i++) {
        const char *path = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(sequence, i));
        if (path == NULL) {
            Py_DECREF(sequence);
            return -1;
        }
        /* Only what torch has loaded: its symbols are not global after `import torch`. */
        void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
        if (library != NULL) {
            libraries[nlibraries++] = library;
        }
    }
    Py_DECREF(sequence);
    return 0;
}

void *torch_symbol(const char *name)
{
    for (int i = 0; i < nlibraries; i++) {
        void *symbol = dlsym(libraries[i], name);
        if (symbol != NULL) {
            return symbol;
        }
    }
    return NULL;
}

static bool find_symbols(TensorAccess *torch)
{
    const struct {
        void *target;
        const char *name;
        bool needed;
    } symbols[] = {
        {&torch->get_dim, "aoti_torch_get_dim", true},
        {&torch->get_sizes, "aoti_torch_get_sizes", true},
        {&torch->get_strides, "aoti_torch_get_strides", true},
        {&torch->get_dtype, "aoti_torch_get_dtype", true},
        {&torch->get_device_type, "aoti_torch_get_device_type", true},
        {&torch->get_device_index, "aoti_torch_get_device_index", true},
        {&torch->get_storage_offset, "aoti_torch_get_storage_offset", true},
        {&torch->requires_grad, "_ZNK3c1010TensorImpl13requires_gradEv", false},
        {&torch->is_leaf, "_ZNK2at10TensorBase7is_leafEv", false},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(symbols); i++) {
        void *symbol = torch_symbol(symbols[i].name);
        memcpy(symbols[i].target, &symbol, sizeof(symbol));
        if (symbol == NULL && symbols[i].needed) {
            return false;
        }
    }
    return true;
}

/* ---- offsets ---- */

/* A tensor and what Python says about it. */
typedef struct {
    PyObject *tensor;
    uint64_t impl, keys, storage, data;
    int64_t ndim, sizes[8], strides[8];
    int32_t dtype, device_type, device_index;
    bool plain;
} Probe;

enum { IMPL_END = 64, KEYS_END = 208, STORAGE_END = 64, DATA_END = 64 };

static uint64_t word_at(const char *base, Py_ssize_t offset)
{
    uint64_t word;
    memcpy(&word, base + offset, sizeof(word));
    return word;
}

static bool impl_at(const Probe *probe, Py_ssize_t offset)
{
    return offset + 8 <= Py_TYPE(probe->tensor)->tp_basicsize &&
           word_at((const char *)probe->tensor, offset) == probe->impl;
}

static bool keys_at(const Probe *probe, Py_ssize_t offset)
{
    return word_at((const char *)probe->impl, offset) == probe->keys;
}

static bool storage_at(const Probe *probe, Py_ssize_t offset)
{
    return !probe->plain || word_at((const char *)probe->impl, offset) == probe->storage;
}

static bool data_at(const Probe *probe, Py_ssize_t offset)
{
    return !probe->plain || word_at((const char *)probe->storage, offset) == probe->data;
}

/* The number of dimensions, then sizes and strides: in place (room for five) or behind a pointer. */
static bool metadata_at(const Probe *probe, Py_ssize_t offset)
{
    const char *impl = (const char *)probe->impl;
    if (!probe->plain) {
        return true;
    }
    if ((int64_t)word_at(impl, offset) != probe->ndim) {
        return false;
    }
    const char *sizes = impl + offset + 8, *strides = sizes + IN_PLACE * 8;
    if (probe->ndim > IN_PLACE) {
        return true; /* behind a pointer, which is not followed before the layout is known */
    }
    return memcmp(sizes, probe->sizes, 8 * (size_t)probe->ndim) == 0 &&
           memcmp(strides, probe->strides, 8 * (size_t)probe->ndim) == 0;
}

typedef bool (*Matches)(const Probe *, Py_ssize_t);

/* The first offset in [start, end) that explains every probe, or -1. */
static Py_ssize_t find_offset(const Probe *probes, Py_ssize_t n, Matches matches, Py_ssize_t start, Py_ssize_t end)
{
    for (Py_ssize_t offset = start; offset + 8 <= end; offset += 8) {
        bool all = true;
        for (Py_ssize_t i = 0; all && i < n; i++) {
            all = matches(&probes[i], offset);
        }
        if (all) {
            return offset;
        }
    }
    return -1;
}

/* Finds data type and device between two offsets of the TensorImpl: then the bytes from the sizes to the key set hold
 * everything a guard asks about. */
static bool find_codes(TensorAccess *torch, const Probe *probes, Py_ssize_t n, Py_ssize_t start, Py_ssize_t end)
{
    torch->dtype = torch->device = -1;
    for (Py_ssize_t offset = end - 2; offset >= start; offset--) {
        bool dtype = true, device = true;
        for (Py_ssize_t i = 0; i < n; i++) {
            const uint8_t *byte = (const uint8_t *)probes[i].impl + offset;
            dtype &= *byte == probes[i].dtype;
            device &= (int8_t)byte[0] == probes[i].device_type && (int8_t)byte[1] == probes[i].device_index;
        }
        torch->dtype = dtype ? offset : torch->dtype;
        torch->device = device ? offset : torch->device;
    }
    return torch->dtype >= 0 && torch->device >= 0;
}

static int read_probe(PyObject *item, Probe *probe)
{
    unsigned long long impl, keys, storage, data;
    PyObject *sizes, *strides;
    int plain;
    if (!PyArg_ParseTuple(item, "OKKKKO!O!p", &probe->tensor, &impl, &keys, &storage, &data, &PyTuple_Type, &sizes,
                          &PyTuple_Type, &strides, &plain)) {
        return -1;
    }
    probe->impl = impl;
    probe->keys = keys;
    probe->storage = storage;
    probe->data = data;
    probe->plain = plain;
    probe->ndim = PyTuple_GET_SIZE(sizes);
    for (Py_ssize_t i = 0; i < probe->ndim && i < 8; i++) {
        probe->sizes[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i));
        probe->strides[i] = plain ? PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i)) : 0;
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* What is wrong with this torch, or NULL. */
static const char *calibrate(TensorAccess *torch, Probe *probes, Py_ssize_t n)
{
    if (!find_symbols(torch)) {
        return "torch's AOTI shim was not found";
    }
    torch->impl = find_offset(probes, n, impl_at, (Py_ssize_t)sizeof(PyObject), IMPL_END);
    if (torch->impl < 0) {
        return "the TensorImpl pointer was not found";
    }
    torch->keys = find_offset(probes, n, keys_at, 8, KEYS_END);
    if (torch->keys < 0) {
        return "the dispatch key set was not found";
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        void *handle = (char *)probes[i].tensor + torch->impl;
        if (torch->get_dtype(handle, &probes[i].dtype) || torch->get_device_type(handle, &probes[i].device_type) ||
            torch->get_device_index(handle, &probes[i].device_index)) {
            return "the AOTI shim failed";
        }
    }
    Py_ssize_t start = find_offset(probes, n, metadata_at, 8, torch->keys);
    Py_ssize_t size = start < 0 ? 0 : torch->keys + 8 - start;
    if (size > 0 && find_codes(torch, probes, n, start, torch->keys)) {
        torch->metadata = start;
        torch->nmetadata = size;
    }
    torch->storage = find_offset(probes, n, storage_at, 8, STORAGE_END);
    torch->data = torch->storage < 0 ? -1 : find_offset(probes, n, data_at, 8, DATA_END);
    if (torch->data < 0) {
        torch->storage = -1;
    }
    return NULL;
}

PyDoc_STRVAR(calibrate_doc, "calibrate_tensors(libraries, probes)\n--\n\n"
                            "Finds the offsets; probes are (tensor, _cdata, key set, storage's _cdata, data pointer, "
                            "sizes, strides, plain).\nNone, or a str that says why tensors must be read by Python.");

static PyObject *calibrate_tensors(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *paths, *items;
    if (!PyArg_ParseTuple(args, "OO!", &paths, &PyList_Type, &items) || torch_libraries_open(paths) < 0) {
        return NULL;
    }
    TensorAccess *torch = &tensor_access;
    torch->native = false;
    torch->nmetadata = 0;
    Py_ssize_t n = PyList_GET_SIZE(items);
    Probe *probes = NEW_ARRAY(Probe, n);
    if (probes == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (read_probe(PyList_GET_ITEM(items, i), &probes[i]) < 0) {
            PyMem_Free(probes);
            return NULL;
        }
    }
    const char *problem = n < 8 ? "too few tensors to calibrate with" : calibrate(torch, probes, n);
    PyMem_Free(probes);
    torch->native = problem == NULL;
    return problem == NULL ? Py_NewRef(Py_None) : PyUnicode_FromString(problem);
}

/* ---- what Python tells, and asks ---- */

static int replace(PyObject **target, PyObject *value)
{
    Py_XSETREF(*target, Py_NewRef(value));
    return 0;
}

PyDoc_STRVAR(register_doc,
             "register_tensors(base, common, facts, overlap, value_types, plain_keys, device_codes)\n--\n\n"
             "Makes torch known: from now on TENSOR checks can be built, read by Python until calibrated.");

static PyObject *register_tensors(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *base, *tensor, *parameter, *facts, *overlap, *value_types, *device_codes;
    unsigned long long plain_keys;
    if (!PyArg_ParseTuple(args, "O!(O!O!)OOOKO!", &PyType_Type, &base, &PyType_Type, &tensor, &PyType_Type, &parameter,
                          &facts, &overlap, &value_types, &plain_keys, &PyDict_Type, &device_codes)) {
        /* Parameter's class is an instance of a metaclass: O! accepts subclasses of type */
        return NULL;
    }
    TensorAccess *torch = &tensor_access;
    PyObject *requires_grad = PyObject_GetAttrString(base, "requires_grad");
    PyObject *is_leaf = PyObject_GetAttrString(base, "is_leaf");
    if (requires_grad == NULL || is_leaf == NULL || register_constant_types(value_types) < 0) {
        Py_XDECREF(requires_grad);
        Py_XDECREF(is_leaf);
        return NULL;
    }
    torch->base = (PyTypeObject *)Py_NewRef(base);
    torch->common[0] = (PyTypeObject *)Py_NewRef(tensor);
    torch->common[1] = (PyTypeObject *)Py_NewRef(parameter);
    torch->plain_keys = plain_keys;
    replace(&torch->facts, facts);
    replace(&torch->overlap, overlap);
    replace(&torch->device_codes, device_codes);
    Py_XSETREF(torch->requires_grad_getter, requires_grad);
    Py_XSETREF(torch->is_leaf_getter, is_leaf);
    if (torch->dtype_codes == NULL && (torch->dtype_codes = PyDict_New()) == NULL) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *set_dtype_codes(PyObject *Py_UNUSED(module), PyObject *codes)
{
    PyObject *dtype, *code;
    Py_ssize_t pos = 0;
    if (!PyDict_Check(codes)) {
        PyErr_SetString(PyExc_TypeError, "codes is a dict");
        return NULL;
    }
    while (PyDict_Next(codes, &pos, &dtype, &code)) {
        int number, item_size;
        if (!PyArg_ParseTuple(code, "ii", &number, &item_size)) {
            return NULL;
        }
        if (number >= 0 && number < MAX_DTYPES) {
            tensor_access.item_sizes[number] = (uint8_t)item_size;
        }
    }
    replace(&tensor_access.dtype_codes, codes);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(read_doc, "tensor_read(tensor)\n--\n\n(keys, dtype code, device type code, device index, requires_grad, "
                       "sizes, strides, is_leaf) read natively.");

static PyObject *sizes_tuple(const int64_t *sizes, int64_t n)
{
    PyObject *result = PyTuple_New(n);
    for (int64_t i = 0; result != NULL && i < n; i++) {
        put_item(&result, i, PyLong_FromLongLong(sizes[i]));
    }
    return result;
}

static PyObject *tensor_read(PyObject *Py_UNUSED(module), PyObject *tensor)
{
    const TensorAccess *torch = &tensor_access;
    if (!torch->native || !PyObject_TypeCheck(tensor, torch->base)) {
        PyErr_SetString(PyExc_TypeError, "not a tensor, or tensors were not calibrated");
        return NULL;
    }
    uint64_t keys = tensor_keys(tensor);
    if (keys & ~torch->plain_keys) {
        return PyLong_FromUnsignedLongLong(keys);
    }
    Metadata found;
    if (!tensor_metadata_read(tensor, &found)) {
        PyErr_SetString(PyExc_RuntimeError, "the AOTI shim failed");
        return NULL;
    }
    return Py_BuildValue("KiiiONNO", (unsigned long long)keys, found.dtype, found.device_type, found.device_index,
                         torch->requires_grad == NULL                ? Py_None
                         : torch->requires_grad(tensor_impl(tensor)) ? Py_True
                                                                     : Py_False,
                         sizes_tuple(found.sizes, found.ndim), sizes_tuple(found.strides, found.ndim),
                         torch->is_leaf == NULL                  ? Py_None
                         : torch->is_leaf(tensor_handle(tensor)) ? Py_True
                                                                 : Py_False);
}

PyDoc_STRVAR(restrict_doc,
             "restrict_tensors(what)\n--\n\nAfter a failed self test: 'native' reads every tensor by Python, "
             "'metadata' only gives up comparing raw bytes, 'requires_grad', 'is_leaf' and 'storage' ask "
             "Python for that.");

static PyObject *restrict_tensors(PyObject *Py_UNUSED(module), PyObject *what)
{
    TensorAccess *torch = &tensor_access;
    if (PyUnicode_CompareWithASCIIString(what, "native") == 0) {
        torch->native = false;
    } else if (PyUnicode_CompareWithASCIIString(what, "metadata") == 0) {
        torch->nmetadata = 0;
    } else if (PyUnicode_CompareWithASCIIString(what, "requires_grad") == 0) {
        torch->requires_grad = NULL;
    } else if (PyUnicode_CompareWithASCIIString(what, "is_leaf") == 0) {
        torch->is_leaf = NULL;
    } else if (PyUnicode_CompareWithASCIIString(what, "storage") == 0) {
        torch->storage = -1;
    } else {
        PyErr_Format(PyExc_ValueError, "no part %R", what);
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *tensor_access_info(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    const TensorAccess *torch = &tensor_access;
    return Py_BuildValue("{sOsOsnsnsnsnsnsOsO}", "registered", torch->base != NULL ? Py_True : Py_False, "native",
                         torch->native ? Py_True : Py_False, "impl", torch->impl, "keys", torch->keys, "metadata",
                         torch->metadata, "metadata_bytes", torch->nmetadata, "storage", torch->storage,
                         "requires_grad", torch->requires_grad != NULL ? Py_True : Py_False, "is_leaf",
                         torch->is_leaf != NULL ? Py_True : Py_False);
}

static PyObject *tensor_facts(PyObject *Py_UNUSED(module), PyObject *tensor)
{
    if (tensor_access.base == NULL || !PyObject_TypeCheck(tensor, tensor_access.base)) {
        Py_RETURN_NONE;
    }
    return PyObject_CallOneArg(tensor_access.facts, tensor);
}

static PyObject *py_tensors_overlap(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *a, *b;
    if (!PyArg_ParseTuple(args, "OO", &a, &b)) {
        return NULL;
    }
    int overlap = tensors_overlap(a, b);
    return overlap < 0 ? NULL : PyBool_FromLong(overlap);
}

static PyObject *py_tensor_span(PyObject *Py_UNUSED(module), PyObject *tensor)
{
    Span span = {0};
    PyTypeObject *base = tensor_access.base;
    if (base == NULL || !PyObject_TypeCheck(tensor, base) || tensor_span_update(tensor, &span) < 0) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("(KK)", (unsigned long long)span.start, (unsigned long long)span.end);
}

static PyObject *py_shape_hash(PyObject *Py_UNUSED(module), PyObject *slots)
{
    if (!PyTuple_Check(slots) || PyTuple_GET_SIZE(slots) > 256) {
        PyErr_SetString(PyExc_TypeError, "shape_hash takes a tuple of at most 256 objects");
        return NULL;
    }
    int which[256], n = (int)PyTuple_GET_SIZE(slots);
    for (int i = 0; i < n; i++) {
        which[i] = i;
    }
    return PyLong_FromUnsignedLongLong(shape_hash(((PyTupleObject *)slots)->ob_item, which, n));
}

static PyMethodDef methods[] = {
    {"calibrate_tensors", calibrate_tensors, METH_VARARGS, calibrate_doc},
    {"register_tensors", register_tensors, METH_VARARGS, register_doc},
    {"set_dtype_codes", set_dtype_codes, METH_O, "Takes {dtype: (code, item size)}."},
    {"tensor_read", tensor_read, METH_O, read_doc},
    {"tensor_facts", tensor_facts, METH_O, "The TensorSpec of a tensor, asked of Python; None for anything else."},
    {"restrict_tensors", restrict_tensors, METH_O, restrict_doc},
    {"tensor_access_info", tensor_access_info, METH_NOARGS, "What calibration found."},
    {"tensors_overlap", py_tensors_overlap, METH_VARARGS, "Whether the spans of two tensors' elements intersect."},
    {"tensor_span", py_tensor_span, METH_O, "Where a tensor's elements begin and end; None: it cannot be told."},
    {"shape_hash", py_shape_hash, METH_O, "The hash of the shapes of a tuple of tensors."},
    {NULL, NULL, 0, NULL},
};

int tensor_calibrate_init(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
