/* Tensor metadata, read without torch's headers: through torch's AOTI C shim and offsets calibrated at run time. */
#ifndef FRAMELIFT_TENSOR_PROBE_H
#define FRAMELIFT_TENSOR_PROBE_H

#include "guards/tree.h"

#define IN_PLACE   5 /* dimensions a TensorImpl has room for itself */
#define MAX_DTYPES 64
#define ANY_SIZE   INT64_MIN /* an entry of sizes or strides that may be anything */

/* What is known about the torch of this process; all zero until calibrate.py has run. */
typedef struct {
    PyTypeObject *base;             /* torch._C.TensorBase; NULL: torch was never used */
    PyTypeObject *common[2];        /* Tensor and Parameter: no __torch_function__ of their own */
    PyObject *facts;                /* tensor -> TensorSpec, in Python: the slow way, always right */
    PyObject *overlap;              /* (tensor, tensor) -> bool, likewise */
    PyObject *dtype_codes;          /* dtype -> (code, item size) */
    PyObject *device_codes;         /* device type's name -> code */
    uint8_t item_sizes[MAX_DTYPES]; /* by code */
    uint64_t plain_keys;            /* tensors with no other dispatch keys keep their metadata where we read it */
    bool native;                    /* calibrated: plain tensors are read by offset and shim */
    Py_ssize_t impl;                /* offset of the TensorImpl pointer in the Python object */
    Py_ssize_t keys;                /* offset of the dispatch key set in the TensorImpl */
    Py_ssize_t metadata;            /* offset of the number of dimensions, then room for 5 sizes and 5 strides */
    Py_ssize_t nmetadata; /* bytes from there to the end of the key set, with all other metadata; 0: not found */
    Py_ssize_t dtype;     /* among them: offset in the TensorImpl of the data type's code, one byte */
    Py_ssize_t device;    /* likewise of the device's type and index, two bytes */
    Py_ssize_t storage;   /* offset of the StorageImpl pointer; -1: not found */
    Py_ssize_t data;      /* offset of the data pointer in the StorageImpl */
    int (*get_dim)(void *, int64_t *);
    int (*get_sizes)(void *, int64_t **);
    int (*get_strides)(void *, int64_t **);
    int (*get_dtype)(void *, int32_t *);
    int (*get_device_type)(void *, int32_t *);
    int (*get_device_index)(void *, int32_t *);
    int (*get_storage_offset)(void *, int64_t *);
    bool (*requires_grad)(const void *); /* NULL: the Python getter is called */
    bool (*is_leaf)(const void *);       /* NULL: likewise */
    PyObject *requires_grad_getter;
    PyObject *is_leaf_getter;
} TensorAccess;

extern TensorAccess tensor_access;

/* What a plain tensor says about itself. */
typedef struct {
    int64_t ndim;
    const int64_t *sizes, *strides;
    int32_t dtype, device_type, device_index;
} Metadata;

bool tensor_metadata_read(PyObject *tensor, Metadata *metadata); /* false: torch failed */
/* Where the first element of a tensor of the host is; NULL: it cannot be told natively. */
const char *tensor_memory(PyObject *tensor);

/* -1 in a flag or ndim: anything. */
struct TensorGuard {
    PyTypeObject *type;
    uint64_t keys;
    bool any_keys;
    bool native;   /* a tensor with these keys is read without Python */
    bool in_place; /* and has so few dimensions that `words` tell */
    int8_t requires_grad;
    int8_t is_leaf;
    uint8_t dtype_byte, dtype_mask;
    uint16_t device_bytes, device_mask;
    int ndim;
    /* What sizes and strides stand in the TensorImpl; a mask of 0 where they may be anything. */
    uint64_t words[2 * IN_PLACE], masks[2 * IN_PLACE];
    int32_t dtype, device_type, device_index;
    int64_t *sizes, *strides; /* NULL: anything */
    Held type_held;
    PyObject *spec[9]; /* as given; the type is in type_held */
};

TensorGuard *tensor_guard_new(PyObject *argument, Death *death);
void tensor_guard_free(TensorGuard *guard);
PyObject *tensor_guard_spec(const TensorGuard *guard);
/* Where a tensor begins in its memory, as a new int; NULL: no tensor, or torch failed. */
PyObject *tensor_offset(const Node *node, PyObject *object);

int tensor_guard_holds(const TensorGuard *guard, PyObject *object);

/* The halves of a native check: the slow one of sizes, strides, type and device; and the flags. */
bool tensor_metadata_holds(const TensorGuard *guard, PyObject *tensor);
bool tensor_flags_hold(const TensorGuard *guard, PyObject *tensor);

/* 1 if two tensors share memory, as far as the spans of their elements tell; -1 error */
int tensors_overlap(PyObject *a, PyObject *b);

/* Of a tensor that is read natively: 0 the span is the one given, 1 it was another and is set, -1 it cannot be told. */
int tensor_span_update(PyObject *tensor, Span *span);

void *torch_symbol(const char *name); /* from the libraries given to calibration; NULL: not found */
int torch_libraries_open(PyObject *paths);

static inline void *tensor_handle(PyObject *tensor)
{
    return (char *)tensor + tensor_access.impl;
}

static inline char *tensor_impl(PyObject *tensor)
{
    return *(char **)tensor_handle(tensor);
}

static inline uint64_t tensor_keys(PyObject *tensor)
{
    return *(uint64_t *)(tensor_impl(tensor) + tensor_access.keys);
}

/* The address of a tensor's storage; that of the storage object itself where there is no memory (a meta tensor). */
static inline uintptr_t tensor_data(PyObject *tensor)
{
    const char *storage = *(char **)(tensor_impl(tensor) + tensor_access.storage);
    uintptr_t data = storage != NULL ? *(const uintptr_t *)(storage + tensor_access.data) : 0;
    return data != 0 ? data : (uintptr_t)storage;
}

/* Sizes, strides, data type and device of a tensor, compared where they stand and without a branch for each. */
static inline bool tensor_metadata_holds_in_place(const TensorGuard *guard, const char *impl)
{
    const uint64_t *found = (const uint64_t *)(impl + tensor_access.metadata);
    uint16_t device;
    memcpy(&device, impl + tensor_access.device, sizeof(device));
    uint64_t difference = found[0] ^ (uint64_t)guard->ndim;
    difference |= (uint8_t)((*(const uint8_t *)(impl + tensor_access.dtype) ^ guard->dtype_byte) & guard->dtype_mask);
    difference |= (uint16_t)((device ^ guard->device_bytes) & guard->device_mask);
    found++;
    for (int i = 0; i < guard->ndim; i++) {
        difference |= (found[i] ^ guard->words[i]) & guard->masks[i];
        difference |= (found[IN_PLACE + i] ^ guard->words[IN_PLACE + i]) & guard->masks[IN_PLACE + i];
    }
    return difference == 0;
}

/* For a guard that is native. */
static inline bool tensor_guard_holds_native(const TensorGuard *guard, PyObject *tensor)
{
    if (Py_TYPE(tensor) != guard->type) {
        return false;
    }
    const char *impl = tensor_impl(tensor);
    if (*(const uint64_t *)(impl + tensor_access.keys) != guard->keys) {
        return false;
    }
    if (!(guard->in_place ? tensor_metadata_holds_in_place(guard, impl) : tensor_metadata_holds(guard, tensor))) {
        return false;
    }
    /* The most common question first, without a call to find out which way to ask it. */
    if (tensor_access.requires_grad != NULL && guard->is_leaf < 0) {
        return guard->requires_grad < 0 || tensor_access.requires_grad(impl) == guard->requires_grad;
    }
    return tensor_flags_hold(guard, tensor);
}

#endif
