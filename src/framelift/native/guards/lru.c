/* What a functools.lru_cache holds for a key. The cache is not exposed, but the garbage collector may visit it: first
 * the type and (key, result, type of the link) for each link of a bounded cache, at the end the six objects below. */
#include "tree.h"

enum { AT_CACHE, AT_FUNCTION, AT_MARK, AT_LINK_TYPE, AT_INFO_TYPE, AT_NAMESPACE, TAIL };

typedef struct {
    PyObject *last[TAIL]; /* a ring */
    Py_ssize_t seen;
    PyObject *wanted, *result; /* second walk: the key whose result is wanted */
    PyObject *before[2];
    PyObject *link_type;
} Visit;

static int note_tail(PyObject *object, void *state)
{
    Visit *visit = state;
    visit->last[visit->seen++ % TAIL] = object;
    return 0;
}

static int find_result(PyObject *object, void *state)
{
    Visit *visit = state;
    if (visit->seen > 0 && visit->seen % 3 == 0 && object == visit->link_type && visit->before[0] == visit->wanted) {
        visit->result = visit->before[1];
        return 1;
    }
    visit->seen++;
    visit->before[0] = visit->before[1];
    visit->before[1] = object;
    return 0;
}

static traverseproc visits_cache;

int guard_lru_init(PyObject *Py_UNUSED(module))
{
    PyObject *type = imported("_functools", "_lru_cache_wrapper");
    if (type != NULL && PyType_Check(type)) {
        visits_cache = ((PyTypeObject *)type)->tp_traverse;
    }
    Py_XDECREF(type);
    return type == NULL ? -1 : 0;
}

PyObject *lru_result(const Node *node, PyObject *wrapper)
{
    PyTypeObject *type = Py_TYPE(wrapper);
    /* By what it visits, which is the same in every copy of the module. */
    if (type->tp_traverse == NULL || type->tp_traverse != visits_cache) {
        return NULL;
    }
    Visit visit = {.seen = 0};
    type->tp_traverse(wrapper, note_tail, &visit);
    if (visit.seen <= TAIL) {
        return NULL;
    }
    PyObject *tail[TAIL];
    for (int i = 0; i < TAIL; i++) {
        tail[i] = visit.last[(visit.seen + i) % TAIL];
    }
    if (!PyDict_CheckExact(tail[AT_CACHE]) || !Py_IS_TYPE(tail[AT_MARK], &PyBaseObject_Type) ||
        !PyType_Check(tail[AT_LINK_TYPE]) || !PyType_Check(tail[AT_INFO_TYPE]) ||
        !PyDict_CheckExact(tail[AT_NAMESPACE])) {
        return NULL;
    }
    PyObject *value = NULL;
    if (dict_find(tail[AT_CACHE], &node->held, &value) != FOUND) {
        return NULL;
    }
    if ((PyObject *)Py_TYPE(value) != tail[AT_LINK_TYPE]) {
        return value;
    }
    Visit search = {.seen = 0, .link_type = tail[AT_LINK_TYPE]};
    Py_ssize_t pos = 0;
    PyObject *stored, *link;
    while (PyDict_Next(tail[AT_CACHE], &pos, &stored, &link)) {
        if (link == value) {
            search.wanted = stored;
            type->tp_traverse(wrapper, find_result, &search);
            break;
        }
    }
    return search.result;
}
