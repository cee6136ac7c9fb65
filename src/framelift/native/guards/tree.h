/* What the files of the guard tree share. */
#ifndef FRAMELIFT_GUARD_TREE_H
#define FRAMELIFT_GUARD_TREE_H

#include "guards.h"

#if SINCE_313
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <internal/pycore_setobject.h>
#pragma GCC diagnostic pop
#endif

/* Accessors, checks and relations come in kinds: each is one row of the table in its file, and adding a kind is adding
 * a row and its functions. One numbering for all three, so that a number alone says what failed. Only the numbers that
 * this code asks for have names in C. */
enum {
    ACCESS_ARG = 0,
    ACCESS_FUNCTION = 1,
    ACCESS_KNOWN = 2, /* the last that starts a tree */
    CHECK_TYPE = 100,
    CHECK_IS = 101,
    CHECK_EQUALS = 103,
    CHECK_TENSOR = 113,
    REL_SAME = 200,
    FAILED_STATE = 300,
    FAILED_DEAD = 301
};

/* The row of a table whose numbers count up from the first one's; NULL: there is none. */
#define ROW_OF(table, wanted)                                                                                          \
    ((size_t)((wanted) - (table)[0].number) < Py_ARRAY_LENGTH(table) ? &(table)[(wanted) - (table)[0].number] : NULL)
/* Gives Python the number of a row, which is to be that of its place. */
int add_kind(PyObject *module, const char *prefix, const char *name, int number, size_t expected);
/* Those of all rows: 0, or -1 with an exception set. */
#define ADD_KINDS(module, prefix, table)                                                                               \
    ({                                                                                                                 \
        int added = 0;                                                                                                 \
        for (size_t i = 0; added == 0 && i < Py_ARRAY_LENGTH(table); i++) {                                            \
            size_t expected_number = (size_t)(table)[0].number + i;                                                    \
            added = add_kind(module, prefix, (table)[i].name, (table)[i].number, expected_number);                     \
        }                                                                                                              \
        added;                                                                                                         \
    })

/* What a program loads of a member, and its steps: the binary ones, then those on one number. */
#define LOAD_KINDS(X)                                                                                                  \
    X(VALUE, 0)                                                                                                        \
    X(SIZE, 1)                                                                                                         \
    X(STRIDE, 2)                                                                                                       \
    X(LENGTH, 3)                                                                                                       \
    X(ITEM, 4)
#define PROGRAM_STEPS(X)                                                                                               \
    X(CONST, 0)                                                                                                        \
    X(LOAD, 1)                                                                                                         \
    X(CHECK, 2)                                                                                                        \
    X(ADD, 3)                                                                                                          \
    X(SUB, 4)                                                                                                          \
    X(MUL, 5)                                                                                                          \
    X(FLOORDIV, 6)                                                                                                     \
    X(MOD, 7)                                                                                                          \
    X(POW, 8)                                                                                                          \
    X(TRUEDIV, 9)                                                                                                      \
    X(MIN, 10)                                                                                                         \
    X(MAX, 11)                                                                                                         \
    X(EQ, 12)                                                                                                          \
    X(NE, 13)                                                                                                          \
    X(LT, 14)                                                                                                          \
    X(LE, 15)                                                                                                          \
    X(AND, 16)                                                                                                         \
    X(OR, 17)                                                                                                          \
    X(SAME, 18)                                                                                                        \
    X(FLOATPOW, 19)                                                                                                    \
    X(NOT, 20)                                                                                                         \
    X(TO_FLOAT, 21)                                                                                                    \
    X(FLOOR, 22)                                                                                                       \
    X(CEIL, 23)                                                                                                        \
    X(TRUNC, 24)                                                                                                       \
    X(SINGLE, 25)

#define AS_LOAD(name, number) LOAD_##name = number,
#define AS_STEP(name, number) PROGRAM_##name = number,
enum { LOAD_KINDS(AS_LOAD) };
enum { PROGRAM_STEPS(AS_STEP) };

/* ---- held.c ---- */

/* Set once an object that a tree depends on has died; shared by the tree and the callbacks of its weak references. */
typedef struct {
    PyObject_HEAD bool dead;
} Death;

extern PyTypeObject Death_Type, ByParts_Type;

#define MAX_PARTS 16

typedef struct {
    Py_ssize_t offset;
    PyObject *value;
    PyObject *anchor; /* owned, or NULL */
} HeldPart;

/* Where an Enum class keeps a member. */
typedef struct {
    PyObject *key; /* owned in a Held; NULL: nowhere */
    int table;
} MemberPlace;

/* An object a guard compares with. Constants are held strongly; anything of the user's by a weak reference whose
 * callback sets `dead`, so that a pointer comparison can never meet a new object at an old address. What takes no weak
 * references is told by its parts instead (property, staticmethod, slot descriptors, ...), or, a member of an Enum
 * class, by its class and where that keeps it. */
typedef struct {
    PyObject *object;
    PyObject *anchor; /* owned: the object itself or a weak reference; NULL where only parts are held */
    bool constant;    /* compared by value where a check compares values */
    Py_hash_t hash;   /* of a constant */
    int nparts;
    HeldPart *parts;    /* owned: room for MAX_PARTS, or NULL */
    MemberPlace member; /* of a member that its class keeps: its one part is the class */
} Held;

int held_init(Held *held, PyObject *object, Death *death);
void held_clear(Held *held);
/* New reference; None once it is dead; a ByParts for what is held by parts. */
PyObject *held_get(const Held *held);
bool held_is_dead(const Held *held);

bool has_its_parts(const Held *held); /* only while there is an object at its address */

static inline bool held_is(const Held *held, PyObject *found)
{
    return found == held->object && (held->parts == NULL || has_its_parts(held));
}

bool constant_type(PyTypeObject *type);
bool is_constant(PyObject *object);
bool constants_equal(PyObject *a, PyObject *b);              /* the same type and value all the way down */
bool held_matches(const Held *held, PyObject *found);        /* constants_equal() or held_is() */
bool held_refers_to_same(const Held *held, PyObject *found); /* both are weak references to one living object */
int register_constant_types(PyObject *types);

/* ---- enum.c ---- */

/* Where the Enum class of an object keeps it (borrowed); false for what is no member, whatever its class is called. */
bool member_place(PyObject *object, MemberPlace *place);
bool is_kept(PyTypeObject *cls, const MemberPlace *place, PyObject *object);

/* ---- what a memo notes of accessors and checks (record.c) ---- */

typedef struct Check Check;
typedef struct Node Node;
typedef struct Recorder Recorder;

/* LATE: it comes after all words, by walking. */
typedef enum { NOTED, LATE, FAILED } Noted;

/* Versions and sizes that stand for checks of an object and for the steps to its children; each is noted once. */
typedef struct {
    bool dict_version, type_version, size, items;
} Needed;

typedef struct {
    Noted (*note)(Recorder *recorder, int node, PyObject *parent);
    Needed needs; /* noted of the parent, for all its children at once */
    bool fixed;   /* cannot be exchanged in a steady object */
    bool outside; /* tells nothing about the inside of the parent */
} AccessMemo;

/* Where no memo is named, an accessor comes late. */
extern const AccessMemo memo_of_dict_item, memo_of_type_lookup, memo_of_instance_dict, memo_of_slot, memo_of_type_of,
    memo_of_member, memo_of_list_item, memo_of_fixed_item, memo_of_field, memo_of_fixed_field;

typedef struct {
    Noted (*note)(Recorder *recorder, int node, const Check *check, PyObject *object);
    bool inside; /* words inside the object are noted, so that its layout must be known first */
} CheckMemo;

extern const CheckMemo memo_of_nothing, memo_unless_steady, memo_always, memo_of_length, memo_of_dict, memo_of_keys,
    memo_of_set, memo_of_class, memo_of_cell, memo_of_tensor, memo_late, memo_late_inside;

/* ---- access.c ---- */

typedef struct TensorGuard TensorGuard;

/* An object is reached by one of three: where its parent keeps it, what is found there, or what is made of it. None of
 * them sets an exception; NULL is a miss. */
typedef struct {
    int number;
    const char *name;
    int (*init)(Node *node, PyObject *argument, Death *death);
    PyObject *(*argument)(const Node *node); /* what init() was given, as far as it is alive */
    PyObject **(*place)(const Node *node, PyObject *parent);
    PyObject *(*find)(const Node *node, PyObject *parent); /* borrowed */
    PyObject *(*make)(const Node *node, PyObject *parent); /* a new reference; goes before the others */
    const AccessMemo *memo;
    PyTypeObject *owner; /* a field: of objects of this type */
    Py_ssize_t offset;   /* ... at this offset */
    PyObject *otherwise; /* what stands for NULL at a place */
    bool is_dict;        /* what is reached always is a dictionary */
} AccessKind;

struct Node {
    const AccessKind *kind;
    int parent;       /* index in the tree's own order; -1: root */
    int end;          /* one past the last node below this one */
    int wanted;       /* index among the values that relations and outputs use, or -1 */
    int original;     /* index in the specification */
    Py_ssize_t index; /* ARG, LIST_ITEM, TUPLE_ITEM; offset of SLOT */
    Held held;        /* KNOWN, DICT_ITEM's key, TYPE_LOOKUP's and GETATTR's name, SLOT's class */
    Check *checks;
    int nchecks;
};

const AccessKind *access_kind(int number); /* NULL, with an exception set: there is none */

/* One step from `parent`; a new reference, or NULL for a miss (no exception set). */
PyObject *access_step(const Node *node, PyObject *parent);
PyObject *access_borrowed(const Node *node, PyObject *parent); /* where it is kept, or found */

/* What the functools.lru_cache `wrapper` holds for a key, borrowed; NULL where it would call its function. */
PyObject *lru_result(const Node *node, PyObject *wrapper);

/* Built-in iterators, as they stand. What one that walks a sequence gives in so many steps (new; NULL past the end),
 * and its list, tuple or dictionary (borrowed; NULL once the end was met). A dictionary that has changed its size since
 * has neither an item nor an end ahead. */
PyObject *iterator_ahead(PyObject *object, Py_ssize_t steps);
PyObject *iterator_sequence(PyObject *object);
bool is_walking_iterator(PyObject *object);

/* ---- storage.c ---- */

/* At import: a name of a module, new. */
PyObject *imported(const char *module_name, const char *name);

enum { FOUND = 1, ABSENT = 0, UNDECIDED = -1 };

/* What d[key] finds, without calling __eq__ or __hash__ of a user's key: UNDECIDED where that would be needed. */
int dict_find(PyObject *dict, const Held *key, PyObject **value);

bool is_deque(PyObject *object);
/* What a deque holds, whatever its class says; a new reference. */
PyObject *deque_item(PyObject *deque, Py_ssize_t index);

/* The attributes that a threading.local has in this thread, new; NULL for anything else. */
PyObject *thread_dict(const Node *node, PyObject *object);

/* What a context variable was set to in the current context, new; NULL where it was not, whatever its default. */
PyObject *context_own(PyObject *variable);

/* Where the instance dictionary is stored; NULL if the object has none. Creates the dictionary like obj.__dict__. */
PyObject **instance_dict_slot(PyObject *object);

/* Items in the storage of a built-in container, also of a subclass with its own __len__; -1 for anything else. */
Py_ssize_t stored_length(PyObject *object);

/* ---- check.c ---- */

typedef struct {
    int number;
    const char *name;
    int (*init)(Check *check, PyObject *argument, Death *death);
    PyObject *(*argument)(const Check *check); /* what init() was given, as far as it is alive */
    int (*holds)(const Check *check, PyObject *object);
    const CheckMemo *memo;
} CheckKind;

struct Check {
    const CheckKind *kind;
    int op;           /* COMPARE: Py_LT ... */
    bool expected;    /* COMPARE */
    Py_ssize_t count; /* LENGTH, or the number of held items */
    Held *held;       /* one object, or `count` keys or items */
    TensorGuard *tensor;
};

int check_init(Check *check, int number, PyObject *argument, Death *death);
void check_clear(Check *check);

/* 1 holds, 0 does not, -1 error */
static inline int check_holds(const Check *check, PyObject *object)
{
    return check->kind->holds(check, object);
}

/* ---- the tree ---- */

typedef struct Memo Memo;
typedef struct Program Program;

#define MAX_MEMOS 16 /* instances of one class that call the same code in turn, each with its memo */

/* One root and all below it: nodes [start, end), whose wanted values are [wanted, wanted + nwanted). */
typedef struct {
    int start, end;
    int wanted, nwanted;
    int nmemos, next;   /* next: the one to go when there is no more room */
    int pause, backoff; /* walks to do without noting a memo, because memos were of no use */
    PyObject *roots[MAX_MEMOS];
    Memo *memos[MAX_MEMOS];
} Segment;

typedef struct {
    int segment, local; /* index of the segment, and in its wanted values */
} Value;

/* Where a tensor's elements were, and the metadata that said so. */
typedef struct {
    uint64_t metadata[20];
    uintptr_t data, start, end;
} Span;

typedef struct RelationKind RelationKind;

typedef struct {
    const RelationKind *kind;
    bool expected; /* OVERLAP */
    bool native;   /* OVERLAP, DISJOINT: the tensors are read without Python */
    int count, nwritten;
    int *nodes; /* as given; DISJOINT: first those that are written to, then the others */
    Value *values;
    int inside; /* SAME, DISTINCT: the segment all values are of, or -1 */
    /* DISTINCT, of more than two: the pointers of memos that were found distinct, and which memos those were. */
    int *starts;   /* by segment: where its values start; they are sorted for this */
    uint64_t *ids; /* by segment */
    PyObject **table;
    size_t mask;
    Span *spans; /* DISJOINT: the spans that were found disjoint */
    bool known;
    Program *program; /* PROGRAM */
} Relation;

typedef struct {
    int node, fetched;
    Value value;
} Output;

typedef struct {
    PyObject_HEAD Death *death;
    PyObject *state; /* a TorchState, or NULL */
    PyObject *names; /* tuple of str in the order of the specification, or NULL */
    int nslots, nfetched;
    int nnodes, nsegments, nleaves, nrelations, noutputs, nwanted;
    int late;          /* checks under way that may be running Python code */
    bool asks_python;  /* some relation may */
    bool strict;       /* every check is compared with the reference in Python */
    Node *nodes;       /* parents before children, each subtree in one piece */
    Segment *segments; /* the first nleaves have a single node */
    Relation *relations;
    int *crossing, ncrossing; /* those that no single memo settles */
    Output *outputs;
} GuardTree;

/* ---- build.c ---- */

int tree_build(GuardTree *tree, PyObject *nodes, PyObject *relations);
void tree_clear(GuardTree *tree);

/* ---- walk.c ---- */

/* Where a check failed, for explain(). */
typedef struct {
    int kind;        /* ACCESS_*, CHECK_*, REL_*, FAILED_* */
    int node;        /* in the tree's own order; -1: none */
    int check;       /* index in the node's checks, -1 for an accessor */
    int relation;    /* index, or -1 */
    PyObject *found; /* owned: the object that did not fit, or NULL */
} Failure;

/* The whole check: 1 hit, 0 miss, -1 error. With a failure to fill in, every node is walked; without, memos are used.
 */
int tree_check(GuardTree *tree, PyObject *const *slots, PyObject *function, PyObject **fetched, Failure *failure);

/* ---- relation.c ---- */

/* The values of a segment in one check, and the memo they come from (NULL: they were walked to). */
typedef struct {
    PyObject *const *wanted;
    Memo *memo;
} Found;

static inline PyObject *value_of(const Found *found, Value value)
{
    return found[value.segment].wanted[value.local];
}

struct RelationKind {
    int number;
    const char *name;
    /* Reads what the specification says; members are numbered as there, and `order` says where that node is. */
    int (*init)(GuardTree *tree, Relation *relation, PyObject *argument, const int *order);
    PyObject *(*argument)(const GuardTree *tree, const Relation *relation);      /* what init() was given */
    int (*prepare)(GuardTree *tree, Relation *relation);                         /* once all nodes are there; or NULL */
    int (*holds)(const GuardTree *tree, Relation *relation, const Found *found); /* 1, 0, -1 error */
    PyObject *(*failure)(const Relation *relation);                              /* what words are made of */
    bool of_pointers; /* while a memo finds the same objects, nothing changes */
};

int relation_init(GuardTree *tree, Relation *relation, int number, PyObject *argument, const int *order);
int relation_prepare(GuardTree *tree, Relation *relation);
void relation_clear(Relation *relation);

static inline int relation_holds(const GuardTree *tree, int index, const Found *found)
{
    Relation *relation = &tree->relations[index];
    return relation->kind->holds(tree, relation, found);
}

/* ---- program.c ---- */

Program *program_new(PyObject *given, int members);
void program_free(Program *program);
PyObject *program_given(const Program *program);
/* Tells which members are tensors that are read natively; false where Python has to be asked for some. */
bool program_prepare(Program *program, const bool *natively);
int program_holds(Program *program, const Value *values, const Found *found); /* 1, 0 */
PyObject *program_failure(const Program *program); /* (what was given, the fact that failed or -1, the numbers) */

/* ---- record.c, memo.c ---- */

typedef uint64_t Bits __attribute__((may_alias));

typedef struct {
    const Bits *address;
    uint64_t expected;
} Word;

typedef enum { WORDS, LOOKUP, CHECK } OperationKind;

typedef struct {
    OperationKind kind;
    int node;           /* LOOKUP: the node looked up */
    int first, count;   /* WORDS */
    const Check *check; /* CHECK */
    PyObject *object;   /* CHECK: its object; LOOKUP: the dictionary */
    PyObject *expected; /* LOOKUP */
} Operation;

typedef struct {
    PyObject *tensor;
    const char *impl; /* when the memo was made: only to have it in the cache in time */
    TensorGuard *guard;
} TensorCheck;

enum { FIXED = -2, FREE = -1 };

/* A growing array; `what` is its item type. */
#define ARRAY(what)                                                                                                    \
    struct {                                                                                                           \
        what *items;                                                                                                   \
        int count, room;                                                                                               \
    }

struct Memo {
    PyObject *root; /* the key; a pointer only, nothing in a memo is held */
    uint64_t id;    /* changes whenever a wanted value does */
    uint64_t hits;
    bool related; /* the relations inside the segment were found to hold */
    ARRAY(Word) words;
    ARRAY(int) owners; /* node of each word; ~node for a version word, which can be mended */
    ARRAY(Operation) operations;
    ARRAY(TensorCheck) tensors;
    ARRAY(int) late;
    PyObject **objects;   /* of the segment's nodes */
    PyObject **wanted;    /* of the segment's wanted nodes */
    PyTypeObject **types; /* of the segment's nodes' objects */
    int *exchange;        /* of the segment's nodes: FIXED, FREE, or the index of its one tensor check */
};

extern uint64_t memo_last_id;
bool memo_has_check(const Node *node, int number);
bool memo_reads_inside(const GuardTree *tree, int index);

Memo *memo_record(const GuardTree *tree, const Segment *segment, PyObject *const *values);
void memo_free(Memo *memo);

/* 1 all is as it was, 0 a check does not hold, -1 something changed: walk */
int memo_check(const GuardTree *tree, const Segment *segment, Memo *memo);

/* Whether stores to every dictionary change its version; found out at import. */
extern bool dict_versions_reliable;

#endif
