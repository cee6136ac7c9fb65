"""`copy.copy` and `copy.deepcopy` of plain data and objects."""

from __future__ import annotations

import copy
import enum
import pickle

import torch

import framelift
from tests.helpers import check
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()


class Mode(enum.Enum):
    FAST = 1


class Config:
    """Attributes, some under another name."""

    attribute_map = {"size": "hidden"}

    def __init__(self, hidden, **kwargs):
        self.hidden = hidden
        self.__dict__.update(kwargs)

    def __setattr__(self, key, value):
        if key in super().__getattribute__("attribute_map"):
            key = super().__getattribute__("attribute_map")[key]
        super().__setattr__(key, value)

    def __getattribute__(self, key):
        if key != "attribute_map" and key in super().__getattribute__("attribute_map"):
            key = super().__getattribute__("attribute_map")[key]
        return super().__getattribute__(key)


class Stateful:
    def __init__(self, n):
        self.n = n

    def __setstate__(self, state):
        self.n = state["n"] + 1


class Own:
    def __deepcopy__(self, memo):
        return 5

    def __copy__(self):
        return 6


def config(**kwargs):
    return Config(4, names=["a", "b"], nested={"k": (1, [2])}, dtype=torch.float32, mode=Mode.FAST, **kwargs)


@cases(X, config(), changed=[(X, config(extra=1)), (X, Config(5))])
def deep_copied_object(x, c):
    d = copy.deepcopy(c)
    d.size = 7
    d.hidden = d.hidden + 1
    if hasattr(d, "names"):
        d.names.append("c")
    return x * d.size, c.size, d


@cases(X, config())
def shallow_copied_object(x, c):
    d = copy.copy(c)
    d.size = 7
    return x * d.size, d.names is c.names, d


@cases(X, [1, [2, {"a": [3]}], (4, [5]), (6, 7)], changed=[(X, [1]), (X, [1, 2])])
def deep_copied_data(x, data):
    made = copy.deepcopy(data)
    made.append(x + 1)
    return made, data, [a is b for a, b in zip(made, data)]


@cases(X, [1, [2]])
def shallow_copied_data(x, data):
    return x + 1, copy.copy(data), copy.copy((1, data)), copy.copy({"a": data}), copy.copy({1}), copy.copy(3)


@cases(X)
def shared_parts(x):
    inner = [1]
    both = {"a": inner, "b": inner}
    made = copy.deepcopy(both)
    made["a"].append(2)
    cyclic = [x]
    cyclic.pop()
    cyclic.append(cyclic)
    other = copy.deepcopy(cyclic)
    return x + len(made["b"]), inner, other[0] is other


@cases(X, Stateful(1))
def set_state(x, s):
    return x + copy.deepcopy(s).n + copy.copy(s).n


@cases(X, Own())
def copies_itself(x, own):
    return x + copy.deepcopy(own) + copy.copy(own)


class Slotted:
    __slots__ = ("first", "__second", "third")

    def __init__(self, first, second):
        self.first = first
        self.__second = second
        self.third = None

    @property
    def second(self):
        return self.__second


class Reduced:
    def __init__(self, *args):
        self.args = args

    def __reduce__(self):
        return Reduced, (*self.args, [1]), {"extra": [2]}


class ReducedByProtocol:
    def __init__(self, protocol=None):
        self.protocol = protocol

    def __reduce_ex__(self, protocol):
        return ReducedByProtocol, (protocol,)


class Newly:
    def __new__(cls, *args, **kwargs):
        made = super().__new__(cls)
        made.given = (args, kwargs)
        return made

    def __getnewargs_ex__(self):
        return (1, [2]), {"key": 3}


class NewlyByPosition(Newly):
    def __init_subclass__(cls):
        pass

    __getnewargs_ex__ = property()

    def __getnewargs__(self):
        return (4,)


class Stating:
    def __init__(self):
        self.seen = 0

    def __getstate__(self):
        return {"seen": self.seen + 1}


class Names(list):
    pass


class Table(dict):
    pass


@cases(X, Slotted(1, [2]))
def slots(x, s):
    deep, shallow = copy.deepcopy(s), copy.copy(s)
    return x + deep.first, deep.second is s.second, shallow.second is s.second, deep.second


@cases(X)
def slots_that_are_unset(x):
    made = Slotted(1, 2)
    del made.third
    return x + 1, hasattr(copy.copy(made), "third"), copy.deepcopy(made).first


@cases(X, Reduced(1, [2]))
def reduced(x, r):
    deep, shallow = copy.deepcopy(r), copy.copy(r)
    return x + 1, deep.args, deep.extra, shallow.args, deep.args[1] is r.args[1], shallow.args[1] is r.args[1]


@cases(X)
def reduced_by_protocol(x):
    return x + copy.copy(ReducedByProtocol()).protocol, copy.deepcopy(ReducedByProtocol()).protocol


@cases(X)
def new_arguments(x):
    made = Newly()
    made.more = 5
    return x + 1, copy.copy(made).given, copy.deepcopy(made).given, copy.copy(made).more


@cases(X, Stating())
def own_state(x, s):
    return x + copy.copy(s).seen, copy.deepcopy(copy.deepcopy(s)).seen


@cases(X)
def subclasses_of_containers(x):
    names, table = Names([1, [2]]), Table(a=[3])
    names.tag, table.tag = "n", ["t"]
    deep, shallow = copy.deepcopy(names), copy.copy(names)
    deeper, shallower = copy.deepcopy(table), copy.copy(table)
    return (
        (x + 1, type(deep), list(deep), deep.tag, deep[1] is names[1], shallow[1] is names[1]),
        (type(deeper), dict(deeper), deeper.tag, deeper["a"] is table["a"], shallower["a"] is table["a"]),
    )


@cases(X)
def sets(x):
    made = {1, 2, 3}
    return x + len(copy.deepcopy(made)), copy.copy(made) == made, copy.deepcopy(made) is made


@cases(X)
def memo_is_used(x):
    inner, replaced = [1], [2]
    return x + 1, copy.deepcopy([inner, [3]], {id(inner): replaced})


@cases(X)
def said_by_objects(x):
    class Local:
        pass

    made = Local()
    made.n = 1
    reduced = made.__reduce_ex__(4)
    return x + 1, reduced[1] == (Local,), reduced[2:], made.__getstate__(), object().__getstate__()


@cases(X)
def cannot_be_copied(x):
    class Shy:
        def __reduce_ex__(self, protocol):
            raise TypeError("no")

    class Void:
        __reduce_ex__ = None

    found = []
    for made in (Shy(), Void()):
        for function in (copy.copy, copy.deepcopy):
            try:
                function(made)
            except TypeError as error:
                found.append(str(error))
    return x + 1, found


test_programs = cases.test


def test_aliases_are_guarded():
    def f(x, a, b):
        made = copy.deepcopy([a, b])
        made[0].append(1)
        return x + len(made[1])

    lifted = framelift.compile(f, backend="eager")
    assert lifted(X, [], []).equal(X)
    same = []
    assert lifted(X, same, same).equal(X + 1)


def test_a_method_added_later_is_seen():
    class Plain:
        def __init__(self):
            self.n = 1

    def f(x, p):
        return x + copy.deepcopy(p).n

    lifted = framelift.compile(f, backend="eager")
    assert lifted(X, Plain()).equal(X + 1)
    Plain.__deepcopy__ = lambda self, memo: type("Other", (), {"n": 9})
    assert lifted(X, Plain()).equal(X + 9)


def test_iterators_are_copied_and_pickled_where_they_are():
    def program(x):
        table, members, word = {"a": 1, "b": 2}, {1}, "abc"
        iterators = [
            iter([1, 2, 3]),
            iter((1, 2, 3)),
            iter(word),
            iter(range(2, 9, 3)),
            iter(table),
            iter(table.values()),
            reversed(table),
            iter(table.items()),
            iter(members),
            reversed([1, 2]),
            enumerate([1, 2], 4),
            map(abs, [-1, -2]),
            zip([1, 2], "ab", strict=False),
            filter(None, [0, 1, 2]),
        ]
        found = []
        for iterator in iterators:
            next(iterator)
            again = pickle.loads(pickle.dumps(iterator))
            twin = copy.copy(iterator)
            found.append((type(again) is type(iterator), list(again), list(copy.deepcopy(iterator)), list(twin)))
            found.append((list(iterator), list(pickle.loads(pickle.dumps(iterator)))))
        moved = iter([1, 2, 3])
        moved.__setstate__(2)
        return x + 1, found, list(moved), iter([1]).__reduce__()[1:]

    check(program, torch.ones(2), fullgraph=True)
