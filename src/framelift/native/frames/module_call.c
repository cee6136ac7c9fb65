/* What the classes of lifted modules have as `__call__`: three things to three that ask.
 *
 *     the class             a plain function, which torch.compile can take apart
 *     an instance           what one of its slots holds: no Python frame stands between a call and the lifted callable
 *     an instance, while    whatever Python says: somebody (FX, where it traces) has to hear of every call of a module,
 *     calls are watched     and so put another `__call__` into the class that all modules have as their base */
#include "common.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD PyObject *slot; /* descriptor of the slot */
    PyObject *of_class;           /* what the class answers with */
    PyTypeObject *base;           /* of all modules */
    PyObject *usual;              /* the base's `__call__` when nobody watches */
    PyObject *watched;            /* watched(instance) -> what to call */
    PyObject *weakrefs;           /* guards hold it weakly */
} ModuleCall;

static PyObject *call_name;

static PyObject *module_call_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"slot", "of_class", "base", "watched", NULL};
    PyObject *slot, *of_class, *base, *watched;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OO!O:ModuleCall", names, &PyMemberDescr_Type, &slot, &of_class,
                                     &PyType_Type, &base, &watched)) {
        return NULL;
    }
    ModuleCall *self = (ModuleCall *)type->tp_alloc(type, 0);
    if (self) {
        self->slot = Py_NewRef(slot);
        self->of_class = Py_NewRef(of_class);
        self->base = (PyTypeObject *)Py_NewRef(base);
        self->usual = Py_XNewRef(_PyType_Lookup(self->base, call_name));
        self->watched = Py_NewRef(watched);
    }
    return (PyObject *)self;
}

static int module_call_traverse(ModuleCall *self, visitproc visit, void *arg)
{
    Py_VISIT(self->slot);
    Py_VISIT(self->of_class);
    Py_VISIT(self->base);
    Py_VISIT(self->usual);
    Py_VISIT(self->watched);
    return 0;
}

/* The classes that it stands in go in cycles through their own `__mro__`, so nothing needs to be broken up here. */
static void module_call_dealloc(ModuleCall *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    Py_CLEAR(self->slot);
    Py_CLEAR(self->of_class);
    Py_CLEAR(self->base);
    Py_CLEAR(self->usual);
    Py_CLEAR(self->watched);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *module_call_get(ModuleCall *self, PyObject *instance, PyObject *Py_UNUSED(owner))
{
    if (!instance || instance == Py_None) {
        return Py_NewRef(self->of_class);
    }
    if (UNLIKELY(_PyType_Lookup(self->base, call_name) != self->usual)) {
        return PyObject_CallOneArg(self->watched, instance);
    }
    return Py_TYPE(self->slot)->tp_descr_get(self->slot, instance, (PyObject *)Py_TYPE(instance));
}

static PyMemberDef module_call_members[] = {
    {"slot", T_OBJECT_EX, offsetof(ModuleCall, slot), READONLY, "the slot that says what calls of instances call"},
    {"of_class", T_OBJECT_EX, offsetof(ModuleCall, of_class), READONLY, "what the class answers with"},
    {NULL, 0, 0, 0, NULL},
};

static PyTypeObject ModuleCall_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "framelift.native._core.ModuleCall",
    .tp_basicsize = sizeof(ModuleCall),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = module_call_new,
    .tp_dealloc = (destructor)module_call_dealloc,
    .tp_traverse = (traverseproc)module_call_traverse,
    .tp_descr_get = (descrgetfunc)module_call_get,
    .tp_members = module_call_members,
    .tp_weaklistoffset = offsetof(ModuleCall, weakrefs),
};

int module_call_init(PyObject *module)
{
    if (!call_name && !(call_name = PyUnicode_InternFromString("__call__"))) {
        return -1;
    }
    return PyModule_AddType(module, &ModuleCall_Type);
}
