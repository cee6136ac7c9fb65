"""`copy` and `deepcopy`: what classes say about their copies, shared parts and cycles, in one graph."""

from __future__ import annotations

import copy
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple

from tests.values.programs import Programs, x

programs = Programs()


class Cfg:
    def __init__(self, **k):
        self.__dict__.update(k)

    def __eq__(self, o):
        return isinstance(o, Cfg) and vars(self) == vars(o)

    __hash__ = None


class Slot:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a = a
        self.b = b


class HasGet:
    def __init__(s, v):
        s.v = v

    def __getstate__(s):
        return {"v": s.v, "z": 1}

    def __setstate__(s, st):
        s.__dict__.update(st)
        s.restored = True


class HasReduce:
    def __init__(s, v):
        s.v = v

    def __reduce__(s):
        return (HasReduce, (s.v + 1,))


class HasRex(dict):
    def __init__(s, *a, k=2, **kw):
        super().__init__(*a, **kw)
        s.k = k


class HasCopy:
    def __init__(s):
        s.n = 0

    def __copy__(s):
        o = HasCopy()
        o.n = s.n + 1
        return o

    def __deepcopy__(s, memo):
        o = HasCopy()
        o.n = s.n + 10
        memo[id(s)] = o
        return o


class HasNewargs:
    def __new__(cls, a, *, b=1):
        o = object.__new__(cls)
        o.t = (a, b)
        return o

    def __getnewargs_ex__(s):
        return ((s.t[0],), {"b": s.t[1]})


class LS(list):
    pass


NT = namedtuple("NT", "a b", defaults=[3])


@programs(fullgraph=True)
def a_list_in_itself(x):
    a = [1]
    a.append(a)
    b = copy.deepcopy(a)
    return (x + 1, b[1] is b, b is not a, len(b))


@programs(fullgraph=True)
def shared_parts(x):
    s = [1, 2]
    d = {"p": s, "q": s}
    e = copy.deepcopy(d)
    return (x + 1, e["p"] is e["q"], e["p"] is not s)


@programs(fullgraph=True)
def a_memo_that_is_given(x):
    memo = {}
    s = [1]
    e = copy.deepcopy(s, memo)
    return (x + 1, e, memo[id(s)] is e, len(memo))


@programs(args=(x(), Cfg(a=1, items=[1, 2], n={"k": (1, 2)})), fullgraph=True)
def an_object_from_outside(x, c):
    e = copy.deepcopy(c)
    e.items.append(3)
    d = copy.copy(c)
    d.items.append(8)
    d.new = 1
    return (x * len(e.items), e, d, hasattr(c, "new"), e == c)


@programs(fullgraph=True)
def states_and_reductions(x):
    h = HasGet([1])
    a = copy.copy(h)
    b = copy.deepcopy(h)
    r = copy.deepcopy(HasReduce(3))
    q = copy.copy(HasReduce(3))
    return (x + 1, a.restored, a.v is h.v, b.v is h.v, b.z, r.v, q.v, hasattr(h, "restored"))


@programs(fullgraph=True)
def a_dict_with_attributes(x):
    h = HasRex({"a": [1]}, k=5, z=2)
    a = copy.copy(h)
    b = copy.deepcopy(h)
    return (x + a.k, a, b, type(b), a["a"] is h["a"], b["a"] is h["a"], b.k)


@programs(fullgraph=True)
def methods_that_copy(x):
    h = HasCopy()
    n = HasNewargs(1, b=[2])
    m = copy.copy(n)
    k = copy.deepcopy([n, n])
    return (x + copy.copy(h).n, copy.deepcopy([h, h])[1].n, m.t, k[0] is k[1], k[0].t)


@programs(fullgraph=True)
def containers(x):
    items = LS([1, 2])
    items.name = "n"
    a = copy.copy(items)
    b = copy.deepcopy(items)
    od = OrderedDict(a=[1])
    dd = defaultdict(list, a=[1])
    dq = deque([[1]], maxlen=3)
    c = Counter("aab")
    return (
        x + 1,
        type(a),
        a,
        a.name,
        b,
        b.name,
        copy.deepcopy(od),
        copy.copy(dd),
        copy.deepcopy(dd).default_factory,
        copy.deepcopy(dq),
        copy.copy(dq).maxlen,
        copy.copy(c),
        copy.deepcopy(c),
    )


@programs(fullgraph=True)
def what_is_not_copied(x):
    n = NT([1])
    m = copy.copy(n)
    k = copy.deepcopy(n)
    f = lambda: 1
    return (
        x + 1,
        m is n,
        m,
        k,
        k.a is n.a,
        copy.copy(f) is f,
        copy.deepcopy(f) is f,
        copy.copy(len) is len,
        copy.deepcopy(Cfg) is Cfg,
        copy.copy(None),
        copy.deepcopy(...),
        copy.copy(slice(1, 2)),
        copy.copy(range(3)),
    )


@programs(fullgraph=True)
def errors(x):
    return (x + 1, copy.Error, issubclass(copy.Error, Exception), copy.error is copy.Error)


@programs(fullgraph=True)
def a_cycle_of_objects(x):
    a = Cfg(n=1)
    b = Cfg(parent=a)
    a.child = b
    c = copy.deepcopy(a)
    return (x + c.n, c.child.parent is c, c.child is not b)


@programs(args=(x(), {"lr": 0.1, "betas": (0.9, 0.99), "nest": {"a": [1, 2]}}), fullgraph=True)
def a_configuration(x, cfg):
    c = copy.deepcopy(cfg)
    c["nest"]["a"].append(3)
    c.setdefault("z", 1)
    return (x * c["lr"], c, cfg)


test_programs = programs.test()
