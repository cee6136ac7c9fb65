/* Entries (one specialisation each: guard tree + residual function) and the tables that hold them. */
#ifndef FRAMELIFT_TABLE_H
#define FRAMELIFT_TABLE_H

#include "bind.h"
#include "direct.h"

struct Table;

typedef struct {
    PyObject_HEAD struct Table *table; /* the table it is in; NULL once it was dropped */
    PyObject *tree;
    PyObject *residual; /* a Python function of nslots + nfetched positional arguments */
    PyObject *label;
    Py_ssize_t nslots, nfetched;
    Direct *direct; /* how to do what the residual function does without it; NULL if that cannot be */
    bool reruns;    /* the residual function may ask for the original to be run instead */
    bool leaves;    /* it may return a Tail */
    uint64_t hits;
    uint64_t used; /* the table's clock at the last hit */
} Entry;

typedef struct {
    uint64_t hash;
    Entry *entry; /* held by the table's entries; the index is emptied when one goes */
} Hint;

/* Two indices remember which entry took a call last time: by the values of the arguments, and by their shapes only. */
enum { BY_VALUE, BY_SHAPE, NINDICES };
enum { HINTS_PER_SET = 4 };

typedef struct Table {
    PyObject_HEAD PyObject *weakrefs;
    PyObject *key;
    PyObject *watches;  /* weak references to what the key holds weakly; NULL if nothing */
    PyCodeObject *code; /* the code object that owns this table, NULL if none (any longer); it outlives this pointer */
    Entry **entries;    /* in order of installation */
    Entry *recent;      /* the one that took the last call; one of entries */
    Py_ssize_t count, capacity;
    Hint *index[NINDICES];
    Py_ssize_t nsets; /* sets per index, a power of two; 0: no index yet */
    uint64_t clock;
    uint64_t hits, misses;
    bool skip;                     /* the frame hook leaves this code alone under this key, */
    bool cut;                      /* and with it everything its frames call */
    struct Table *previous, *next; /* all tables of the process */
} Table;

extern PyTypeObject Entry_Type;
extern PyTypeObject Table_Type;

void table_drop_dead(Table *table);    /* entries that cannot be hit any more */
void table_forget_hints(Table *table); /* whenever an entry leaves */

/* Finds the entry whose guards accept the call: a new reference, with what it fetched in the call's room (references
 * the caller drops by entry_drop_fetched). NULL: none (*failed false) or an exception (*failed true). */
Entry *table_lookup(Table *table, Call *call, PyObject *function, bool *failed);

/* 1 the entry accepts the call (fetched as above), 0 it does not, -1 exception set. */
int entry_check(Entry *entry, Call *call, PyObject *function);
void entry_count_hit(Entry *entry);

static inline void entry_drop_fetched(Entry *entry, Call *call)
{
    PyObject **fetched = call->room + call->nslots;
    for (Py_ssize_t i = 0; i < entry->nfetched; i++) {
        Py_DECREF(fetched[i]);
    }
}

/* Tables of code objects (code_tables.c). A code object owns its tables through its extra data. */
Table *table_find(PyCodeObject *code, PyObject *key, bool *failed); /* new reference; NULL: none, or failed */
Table *table_find_or_make(PyCodeObject *code, PyObject *key);       /* new reference */
void table_disown(Table *table);                                    /* the code lets go of it */
bool code_is_never_lifted(PyCodeObject *code);
int code_never_lift(PyCodeObject *code);

#endif
