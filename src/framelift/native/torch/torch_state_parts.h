/* The parts of torch's state and how each is read; calibrate.py registers them. */
#ifndef FRAMELIFT_TORCH_STATE_PARTS_H
#define FRAMELIFT_TORCH_STATE_PARTS_H

#include "tensor_probe.h"

#define THREAD_KEYS      "_ZN3c104impl26raw_local_dispatch_key_setE"
#define THREAD_AUTOGRAD  "_ZN3c1013AutogradState13get_tls_stateEv"
#define THREAD_FUNCTIONS "_ZN2at4impl22PythonTorchFunctionTLS9get_stateEv"

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

typedef struct {
    Part all[MAX_PARTS_OF_STATE];
    int count;
    /* The same parts sorted by how they are read. */
    const uint8_t *bytes[MAX_PARTS_OF_STATE];
    int calls[MAX_PARTS_OF_STATE], asked[MAX_PARTS_OF_STATE];
    int nbytes, ncalls, nasked;
    const void *context;       /* torch's at::Context */
    Py_ssize_t autograd_flags; /* offset of the byte in the thread's AutogradState */
    int64_t registration;      /* counts register_state(): older snapshots match nothing */
} StateParts;

extern StateParts state_parts;

/* What a function of torch's without arguments answers; NULL if there is none of this name. */
const void *call_for_address(const char *name);

#endif
