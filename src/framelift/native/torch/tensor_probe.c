/* Reading and checking tensor metadata. See tensor_probe.h; the calibration itself is in tensor_calibrate.c. */
#include "tensor_probe.h"

TensorAccess tensor_access = {.impl = -1, .keys = -1, .storage = -1, .data = -1};

enum { TYPE, KEYS, DTYPE, DEVICE, REQUIRES_GRAD, SIZES, STRIDES, IS_LEAF, LAYOUT, NFIELDS };

/* ---- specifications ---- */

static int read_sizes(PyObject *sizes, int *ndim, int64_t **out)
{
    if (sizes == Py_None) {
        return 0;
    }
    if (!PyTuple_Check(sizes) || PyTuple_GET_SIZE(sizes) > 64) {
        PyErr_Format(PyExc_TypeError, "sizes and strides are tuples of int or None, not %.100R", sizes);
        return -1;
    }
    int n = (int)PyTuple_GET_SIZE(sizes);
    if (*ndim >= 0 && *ndim != n) {
        PyErr_SetString(PyExc_ValueError, "sizes and strides differ in length");
        return -1;
    }
    *ndim = n;
    *out = NEW_ARRAY(int64_t, n);
    if (*out == NULL) {
        return -1;
    }
    for (int i = 0; i < n; i++) {
        PyObject *size = PyTuple_GET_ITEM(sizes, i);
        (*out)[i] = size == Py_None ? ANY_SIZE : PyLong_AsLongLong(size);
        if ((*out)[i] == -1 && PyErr_Occurred()) {
            return -1;
        }
    }
    return 0;
}

static int read_flag(PyObject *flag, int8_t *out)
{
    int truth = flag == Py_None ? -1 : PyObject_IsTrue(flag);
    *out = (int8_t)truth;
    return truth < 0 && flag != Py_None ? -1 : 0;
}

/* Codes the shim answers with; unknown ones leave the guard to the slow way. */
static int read_codes(TensorGuard *guard, PyObject *dtype, PyObject *device)
{
    guard->dtype = guard->device_type = guard->device_index = INT32_MIN;
    if (dtype != Py_None) {
        PyObject *code = PyDict_GetItemWithError(tensor_access.dtype_codes, dtype);
        if (code == NULL) {
            guard->native = false;
        } else {
            guard->dtype = (int32_t)PyLong_AsLong(PyTuple_GET_ITEM(code, 0));
        }
    }
    if (device != Py_None) {
        PyObject *name = PyObject_GetAttrString(device, "type"), *index = PyObject_GetAttrString(device, "index");
        PyObject *code = name != NULL ? PyDict_GetItemWithError(tensor_access.device_codes, name) : NULL;
        if (code == NULL || index == NULL) {
            guard->native = false;
        } else {
            guard->device_type = (int32_t)PyLong_AsLong(code);
            guard->device_index = index == Py_None ? -1 : (int32_t)PyLong_AsLong(index);
        }
        Py_XDECREF(name);
        Py_XDECREF(index);
    }
    return PyErr_Occurred() ? -1 : 0;
}

static void expect_in_place(TensorGuard *guard)
{
    guard->in_place = tensor_access.nmetadata != 0 && guard->ndim >= 0 && guard->ndim <= IN_PLACE;
    for (int i = 0; guard->in_place && i < guard->ndim; i++) {
        guard->words[i] = guard->sizes != NULL ? (uint64_t)guard->sizes[i] : 0;
        guard->masks[i] = guard->sizes == NULL || guard->sizes[i] == ANY_SIZE ? 0 : UINT64_MAX;
        guard->words[IN_PLACE + i] = guard->strides != NULL ? (uint64_t)guard->strides[i] : 0;
        guard->masks[IN_PLACE + i] = guard->strides == NULL || guard->strides[i] == ANY_SIZE ? 0 : UINT64_MAX;
    }
    const int8_t device[2] = {(int8_t)guard->device_type, (int8_t)guard->device_index};
    memcpy(&guard->device_bytes, device, sizeof(device));
    guard->device_mask = guard->device_type == INT32_MIN ? 0 : UINT16_MAX;
    guard->dtype_byte = (uint8_t)guard->dtype;
    guard->dtype_mask = guard->dtype == INT32_MIN ? 0 : UINT8_MAX;
}

static int guard_init(TensorGuard *guard, PyObject *spec, bool example, Death *death)
{
    PyObject *type = PyTuple_GET_ITEM(spec, TYPE);
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, tensor_access.base)) {
        PyErr_Format(PyExc_TypeError, "%.100R is not a tensor type", type);
        return -1;
    }
    if (held_init(&guard->type_held, type, death) < 0) {
        return -1;
    }
    guard->type = (PyTypeObject *)type;
    guard->ndim = -1;
    guard->native = tensor_access.native;
    for (int i = KEYS; i < NFIELDS; i++) {
        /* Being a leaf is only asked where a specification says so. */
        bool anything = i >= PyTuple_GET_SIZE(spec) || (example && i == IS_LEAF);
        guard->spec[i] = Py_NewRef(anything ? Py_None : PyTuple_GET_ITEM(spec, i));
    }
    guard->any_keys = guard->spec[KEYS] == Py_None;
    guard->keys = guard->any_keys ? 0 : PyLong_AsUnsignedLongLong(guard->spec[KEYS]);
    if (PyErr_Occurred() || read_codes(guard, guard->spec[DTYPE], guard->spec[DEVICE]) < 0 ||
        read_flag(guard->spec[REQUIRES_GRAD], &guard->requires_grad) < 0 ||
        read_flag(guard->spec[IS_LEAF], &guard->is_leaf) < 0 ||
        read_sizes(guard->spec[SIZES], &guard->ndim, &guard->sizes) < 0 ||
        read_sizes(guard->spec[STRIDES], &guard->ndim, &guard->strides) < 0) {
        return -1;
    }
    if (guard->any_keys || (guard->keys & ~tensor_access.plain_keys)) {
        guard->native = false; /* plain keys also mean that the layout is strided */
    }
    bool common = guard->type == tensor_access.common[0] || guard->type == tensor_access.common[1];
    if (!common && ((guard->requires_grad >= 0 && tensor_access.requires_grad == NULL) ||
                    (guard->is_leaf >= 0 && tensor_access.is_leaf == NULL))) {
        guard->native = false; /* the getter of a subclass may run its __torch_function__ */
    }
    expect_in_place(guard);
    return 0;
}

TensorGuard *tensor_guard_new(PyObject *argument, Death *death)
{
    if (tensor_access.base == NULL) {
        PyErr_SetString(PyExc_RuntimeError,
                        "tensors were not calibrated: call framelift.native.torch.calibrate.ensure()");
        return NULL;
    }
    bool example = PyObject_TypeCheck(argument, tensor_access.base);
    PyObject *spec = example ? PyObject_CallOneArg(tensor_access.facts, argument) : Py_NewRef(argument);
    if (spec == NULL) {
        return NULL;
    }
    TensorGuard *guard = NULL;
    if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) <= STRIDES || PyTuple_GET_SIZE(spec) > NFIELDS) {
        PyErr_Format(PyExc_TypeError, "TENSOR takes a tensor or a TensorSpec, not %.100R", spec);
    } else if ((guard = NEW_ARRAY(TensorGuard, 1)) != NULL && guard_init(guard, spec, example, death) < 0) {
        tensor_guard_free(guard);
        guard = NULL;
    }
    Py_DECREF(spec);
    return guard;
}

void tensor_guard_free(TensorGuard *guard)
{
    held_clear(&guard->type_held);
    for (int i = 0; i < NFIELDS; i++) {
        Py_CLEAR(guard->spec[i]);
    }
    PyMem_Free(guard->sizes);
    PyMem_Free(guard->strides);
    PyMem_Free(guard);
}

PyObject *tensor_guard_spec(const TensorGuard *guard)
{
    PyObject *spec = PyTuple_New(NFIELDS);
    if (spec != NULL) {
        PyTuple_SET_ITEM(spec, TYPE, held_get(&guard->type_held));
        for (int i = KEYS; i < NFIELDS; i++) {
            PyTuple_SET_ITEM(spec, i, Py_NewRef(guard->spec[i]));
        }
    }
    return spec;
}

/* ---- checking ---- */

static bool sizes_match(const int64_t *expected, const int64_t *found, int n)
{
    for (int i = 0; i < n; i++) {
        if (expected[i] != found[i] && expected[i] != ANY_SIZE) {
            return false;
        }
    }
    return true;
}

/* A flag that torch only answers from Python; of a type without __torch_function__, so that it is C code that runs. */
static int flag_from_getter(PyObject *getter, PyObject *tensor)
{
    PyObject *value = Py_TYPE(getter)->tp_descr_get(getter, tensor, (PyObject *)Py_TYPE(tensor));
    if (value == NULL) {
        PyErr_Clear();
        return -2;
    }
    Py_DECREF(value);
    return value == Py_True;
}

static int tensor_requires_grad(PyObject *tensor)
{
    return tensor_access.requires_grad != NULL ? tensor_access.requires_grad(tensor_impl(tensor))
                                               : flag_from_getter(tensor_access.requires_grad_getter, tensor);
}

static int tensor_is_leaf(PyObject *tensor)
{
    return tensor_access.is_leaf != NULL ? tensor_access.is_leaf(tensor_handle(tensor))
                                         : flag_from_getter(tensor_access.is_leaf_getter, tensor);
}

/* Up to five sizes and strides stand in the TensorImpl itself, where calibration found them; others are asked of torch.
 */
bool tensor_metadata_read(PyObject *tensor, Metadata *metadata)
{
    const TensorAccess *torch = &tensor_access;
    const char *impl = tensor_impl(tensor);
    if (torch->nmetadata != 0 && *(const int64_t *)(impl + torch->metadata) <= IN_PLACE) {
        const int64_t *words = (const int64_t *)(impl + torch->metadata);
        *metadata = (Metadata){words[0],
                               words + 1,
                               words + 1 + IN_PLACE,
                               *(const uint8_t *)(impl + torch->dtype),
                               *(const int8_t *)(impl + torch->device),
                               *(const int8_t *)(impl + torch->device + 1)};
        return true;
    }
    void *handle = tensor_handle(tensor);
    int64_t *sizes, *strides;
    if (torch->get_dim(handle, &metadata->ndim) || torch->get_sizes(handle, &sizes) ||
        torch->get_strides(handle, &strides) || torch->get_dtype(handle, &metadata->dtype) ||
        torch->get_device_type(handle, &metadata->device_type) ||
        torch->get_device_index(handle, &metadata->device_index)) {
        return false;
    }
    metadata->sizes = sizes;
    metadata->strides = strides;
    return true;
}

static bool native_metadata_holds(const TensorGuard *guard, const Metadata *found)
{
    return (guard->ndim < 0 || guard->ndim == found->ndim) &&
           (guard->sizes == NULL || sizes_match(guard->sizes, found->sizes, guard->ndim)) &&
           (guard->strides == NULL || sizes_match(guard->strides, found->strides, guard->ndim)) &&
           (guard->dtype == INT32_MIN || guard->dtype == found->dtype) &&
           (guard->device_type == INT32_MIN ||
            (guard->device_type == found->device_type && guard->device_index == found->device_index));
}

bool tensor_metadata_holds(const TensorGuard *guard, PyObject *tensor)
{
    Metadata found;
    return tensor_metadata_read(tensor, &found) && native_metadata_holds(guard, &found);
}

bool tensor_flags_hold(const TensorGuard *guard, PyObject *tensor)
{
    return (guard->requires_grad < 0 || tensor_requires_grad(tensor) == guard->requires_grad) &&
           (guard->is_leaf < 0 || tensor_is_leaf(tensor) == guard->is_leaf);
}

/* One field of what Python says against the specification; None in a specification is anything. */
static bool field_matches(PyObject *expected, PyObject *found)
{
    if (expected == Py_None) {
        return true;
    }
    if (!PyTuple_CheckExact(expected)) {
        return constants_equal(expected, found);
    }
    if (!PyTuple_CheckExact(found) || PyTuple_GET_SIZE(found) != PyTuple_GET_SIZE(expected)) {
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(expected); i++) {
        PyObject *item = PyTuple_GET_ITEM(expected, i);
        if (item != Py_None && !constants_equal(item, PyTuple_GET_ITEM(found, i))) {
            return false;
        }
    }
    return true;
}

static int slow_holds(const TensorGuard *guard, PyObject *tensor)
{
    PyObject *found = PyObject_CallOneArg(tensor_access.facts, tensor);
    if (found == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) {
            return -1; /* KeyboardInterrupt and the like are the caller's */
        }
        PyErr_Clear();
        return 0;
    }
    int result = PyTuple_Check(found) && PyTuple_GET_SIZE(found) == NFIELDS;
    for (int i = KEYS; result && i < NFIELDS; i++) {
        result = field_matches(guard->spec[i], PyTuple_GET_ITEM(found, i));
    }
    Py_DECREF(found);
    return result;
}

int tensor_guard_holds(const TensorGuard *guard, PyObject *object)
{
    if (Py_TYPE(object) != guard->type) {
        return 0;
    }
    return guard->native ? tensor_guard_holds_native(guard, object) : slow_holds(guard, object);
}

/* ---- memory ---- */

/* The bytes between the first and the last element; false if they cannot be told natively. */
static bool tensor_span(PyObject *tensor, uintptr_t *data, uintptr_t *start, uintptr_t *end)
{
    const TensorAccess *torch = &tensor_access;
    if (!torch->native || torch->storage < 0 || (tensor_keys(tensor) & ~torch->plain_keys)) {
        return false;
    }
    Metadata found;
    int64_t offset, last = 0;
    if (!tensor_metadata_read(tensor, &found) || torch->get_storage_offset(tensor_handle(tensor), &offset) ||
        found.dtype < 0 || found.dtype >= MAX_DTYPES || torch->item_sizes[found.dtype] == 0 ||
        tensor_data(tensor) == 0) {
        return false;
    }
    int64_t item_size = torch->item_sizes[found.dtype];
    bool empty = false;
    for (int64_t i = 0; i < found.ndim; i++) {
        empty |= found.sizes[i] == 0;
        last += (found.sizes[i] - 1) * found.strides[i];
    }
    *data = tensor_data(tensor);
    *start = *data + (uintptr_t)(offset * item_size);
    *end = empty ? *start : *start + (uintptr_t)((last + 1) * item_size);
    return true;
}

const char *tensor_memory(PyObject *tensor)
{
    uintptr_t data, start, end;
    /* (A tensor without memory of its own would give the address of its storage.) */
    return tensor_span(tensor, &data, &start, &end) && start != end ? (const char *)start : NULL;
}

int tensor_span_update(PyObject *tensor, Span *span)
{
    size_t bytes = (size_t)tensor_access.nmetadata;
    const char *metadata = tensor_impl(tensor) + tensor_access.metadata;
    /* Sizes of more than five dimensions are elsewhere. */
    bool in_place = bytes != 0 && bytes <= sizeof(span->metadata) && *(const int64_t *)metadata <= IN_PLACE;
    if (in_place && span->data != 0 && span->data == tensor_data(tensor) && !memcmp(metadata, span->metadata, bytes)) {
        return 0;
    }
    Span before = *span;
    if (!tensor_span(tensor, &span->data, &span->start, &span->end)) {
        return -1;
    }
    if (in_place) {
        memcpy(span->metadata, metadata, bytes);
    }
    return before.data == 0 || before.start != span->start || before.end != span->end;
}

int tensors_overlap(PyObject *a, PyObject *b)
{
    PyTypeObject *base = tensor_access.base;
    if (base == NULL || !PyObject_TypeCheck(a, base) || !PyObject_TypeCheck(b, base)) {
        return 0;
    }
    uintptr_t data, a_start, a_end, b_start, b_end;
    if (tensor_span(a, &data, &a_start, &a_end) && tensor_span(b, &data, &b_start, &b_end)) {
        return a_start < b_end && b_start < a_end && a_start != a_end && b_start != b_end;
    }
    PyObject *result = PyObject_CallFunctionObjArgs(tensor_access.overlap, a, b, NULL);
    if (result == NULL) {
        return -1;
    }
    int overlap = PyObject_IsTrue(result);
    Py_DECREF(result);
    return overlap;
}

/* ---- the hash that entries are looked up by ---- */

static inline bool is_tensor_type(PyTypeObject *type)
{
    return type == tensor_access.common[0] || type == tensor_access.common[1] ||
           PyType_IsSubtype(type, tensor_access.base);
}

PyObject *tensor_offset(const Node *Py_UNUSED(node), PyObject *object)
{
    const TensorAccess *torch = &tensor_access;
    if (Py_TYPE(object) != torch->common[0] && Py_TYPE(object) != torch->common[1]) {
        return NULL; /* a subclass may have other ideas */
    }
    int64_t offset;
    bool native = torch->native && !(tensor_keys(object) & ~torch->plain_keys);
    if (native && torch->get_storage_offset(tensor_handle(object), &offset)) {
        return NULL;
    }
    PyObject *result = native ? PyLong_FromLongLong(offset) : PyObject_CallMethod(object, "storage_offset", NULL);
    if (result == NULL) {
        PyErr_Clear();
    }
    return result;
}

uint64_t shape_hash(PyObject *const *slots, const int *which, int n)
{
    uint64_t hash = (uint64_t)n;
    for (int i = 0; i < n; i++) {
        PyObject *object = slots[which[i]];
        hash = mix_hash(hash, (uint64_t)(uintptr_t)Py_TYPE(object));
        if (!tensor_access.native || !is_tensor_type(Py_TYPE(object))) {
            continue;
        }
        uint64_t keys = tensor_keys(object);
        hash = mix_hash(hash, keys);
        Metadata found;
        if ((keys & ~tensor_access.plain_keys) || !tensor_metadata_read(object, &found)) {
            continue;
        }
        hash = mix_hash(hash, (uint64_t)found.ndim << 32 | (uint32_t)found.dtype);
        for (int64_t d = 0; d < found.ndim; d++) {
            hash = mix_hash(hash, (uint64_t)found.sizes[d]);
            hash = mix_hash(hash, (uint64_t)found.strides[d]);
        }
    }
    return hash;
}
