"""`collections`: every class and method, with odd arguments, in one graph."""

from __future__ import annotations

import copy
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, UserString, defaultdict, deque, namedtuple

import framelift
from tests.library.outcomes import outcomes
from tests.values.programs import Programs, x

programs = Programs()
Point = namedtuple("Point", "a b", defaults=[3])


class Plain(deque):
    """Nothing of its own."""


class Ring(deque):
    def __init__(self, items=(), size=2):
        super().__init__(items, maxlen=size)
        self.seen = 0

    def append(self, item):
        self.seen += 1
        super().append(item)

    def __len__(self):
        return 100 + super().__len__()

    def __getitem__(self, index):
        return "got", super().__getitem__(index)


class Walks(deque):
    def __iter__(self):
        return iter("zz")


class Adds:
    def __radd__(self, other):
        return "added"


@programs(fullgraph=True)
def a_deque_at_both_ends(x):
    d = deque(maxlen=2)
    d.extend([1, 2, 3])
    d += [4]
    doubled = d * 2
    d *= 3
    joined = d + deque([9])
    found = [3 in d, d == deque([3, 4]), d < deque([5]), d != [3, 4], 2 * d, d + Adds()]
    return x + d[0], d, doubled, joined, doubled.maxlen, found, list(reversed(d)), max(d), "-".join(deque("ab"))


@programs(fullgraph=True)
def searches_in_a_deque(x):
    d = deque("abcabc")
    return x + d.index("c", 3), outcomes(
        lambda: d.index("c", 0, 1),
        lambda: d.index("b", -3),
        lambda: d.remove("q"),
        lambda: d[99],
        lambda: d[0:1],
        lambda: d + [1],
        lambda: d + Plain([1]),
        lambda: d * "a",
        lambda: [1] + d,
        lambda: d - d,
        lambda: d < 3,
        lambda: deque([], "a"),
        lambda: deque([], -1),
        lambda: d.insert(99, "z"),
        lambda: hash(d),
    )


@programs(args=(x(), deque([1, 2, 3]), deque([4], 2)), fullgraph=True)
def changes_given_deques(x, d, bounded):
    backwards = reversed(d)
    first = next(backwards)
    rest = list(backwards)
    d *= 2
    d[0] = x
    bounded += [5, 6]
    bounded *= 3
    return x + first, rest, type(backwards).__name__, d.index(3, 3)


RINGS = [(x(), Ring([1, 2], size=4)), (x(), Ring([1, 2, 3], 4)), (x(), Ring([1, 2])), (x(), Plain([1]))]


@programs(args=RINGS[0], changed=RINGS[1:], fullgraph=True)
def a_given_instance_of_a_subclass_of_deque(x, ring):
    ring.append(5)
    ring.rotate(1)
    return x * len(ring), ring[0], list(ring), ring.maxlen, ring == deque([1]), 5 in ring, repr(ring)


@programs(fullgraph=True)
def an_instance_of_a_subclass_of_deque_is_made(x):
    ring = Ring([x, 1, 2])
    ring.append(3)
    ring.appendleft(x)
    return x + 1, ring, ring.seen, len(ring), list(reversed(ring)), Walks([1, 2])[0], list(Walks([1]))


@programs(args=(x(), Plain([3, 1]), Plain([1], 1)), fullgraph=True)
def copies_of_instances_of_a_subclass_of_deque(x, a, b):
    c, d, e = a.copy(), copy.copy(b), Plain("ab")
    e += "c"
    e *= 2
    e.remove("b")
    b[0] = x
    more = a + deque([2]), b * 2, 2 * a, deque([5]) + a, copy.deepcopy(a)
    return x + 1, c, d, d.maxlen, e, a < deque([9]), deque([3, 1]) == a, more, sorted(a), bool(Plain())


@programs(args=(x(), defaultdict(int, a=1)), fullgraph=True)
def the_factory_of_a_defaultdict_is_set(x, given):
    made = defaultdict(None, a=1)
    missing = outcomes(lambda: made["b"], lambda: made.__missing__("b"), lambda: given.__missing__("z"))
    made.default_factory = given.default_factory = list
    made["l"].append(3)
    given["l"].append(4)
    return x + 1, missing, made, given.default_factory, copy.copy(made), given.copy(), made | {"q": 1}


@programs(fullgraph=True)
def what_an_ordered_dict_takes_for_pairs(x):
    return x + 1, outcomes(
        lambda: OrderedDict([1]),
        lambda: OrderedDict([(1, 2, 3)]),
        lambda: OrderedDict([()]),
        lambda: OrderedDict().update([(1,)]),
        lambda: OrderedDict(["ab", "cde"]),
        lambda: OrderedDict(3),
        lambda: OrderedDict(["ab"], c=1),
        lambda: dict([1]),
        lambda: dict([(1,)]),
    )


@programs(fullgraph=True)
def counters(x):
    c = Counter({"a": 2, "b": 0})
    c.update([("k", 1)])
    c.update(a=3)
    c.subtract("aab")
    more = (
        c + Counter(a=1),
        c - Counter(a=9),
        c & Counter(a=1),
        c | Counter(z=3),
        +c,
        -c,
        Counter("ab") <= Counter("abb"),
    )
    errors = outcomes(lambda: Counter.fromkeys("ab"), lambda: Counter([[1]]), lambda: Counter(5), lambda: Counter(1, 2))
    return x + c.total(), c, more, c.most_common(1), list(c.elements()), c["nothing"], errors


@programs(args=(x(), ChainMap({"a": 1}, {"b": 2})), fullgraph=True)
def chain_maps(x, given):
    given["b"] = 7
    child = given.new_child({"z": 1})
    child["q"] = 2
    errors = outcomes(lambda: child.pop("b"), lambda: child["no"], lambda: ChainMap().popitem())
    return x * given["b"], child.maps, dict(child), child.parents == given, child | {"e": 1}, errors


@programs(args=(x(), UserList([1, 2]), UserDict(a=1), UserString("hey")), fullgraph=True)
def wrappers(x, items, entries, text):
    items.append(5)
    entries["z"] = 3
    del entries["a"]
    return x * items[-1], items + [1], items[1:], entries | {"q": 1}, text.upper() + "!", text[1:], text == "hey"


@programs(fullgraph=True)
def named_tuples(x):
    made = namedtuple("Made", ["x", "class", "x"], rename=True, defaults=(1, 2), module="here")
    point = Point._make([x, 1])
    errors = outcomes(
        lambda: Point(),
        lambda: Point(1, 2, 3),
        lambda: point._replace(zz=1),
        lambda: Point._make([1]),
        lambda: namedtuple("1a", "x"),
        lambda: namedtuple("A", "x x"),
    )
    return point.a + made(3)[0], point._replace(b=5)._asdict(), made._fields, made._field_defaults, errors, Point(1)


class Recent(OrderedDict):
    """Forgets what was used longest ago."""

    def __init__(self, size=2):
        super().__init__()
        self.size = size

    def __getitem__(self, key):
        print("item", key)
        value = super().__getitem__(key)
        self.move_to_end(key)
        return value

    def __setitem__(self, key, value):
        print("set", key)
        super().__setitem__(key, value)
        if len(self) > self.size:
            self.popitem(last=False)

    def __delitem__(self, key):
        print("delete", key)
        super().__delitem__(key)


def recent():
    made = Recent()
    made["a"], made["b"] = 1, 2
    return made


@programs(args=(x(), recent()), fullgraph=True)
def an_ordered_dict_with_item_methods(x, given):
    made = Recent(3)
    made["q"] = given["a"]
    given["c"] = x
    made.update(r=2)
    made |= {"s": 3, "t": 4}
    popped = made.pop("s"), made.popitem(), made.pop("none", 0)
    return x + 1, list(given), list(made.items()), "b" in given, given.get("b", 7), popped


test_programs = programs.test()


def test_a_break_between_changes_of_an_instance_of_a_subclass():
    def fn(x):
        ring = Ring([1], size=3)
        ring.append(x)
        framelift.graph_break()
        ring.append(x + 1)
        walk = reversed(ring)
        next(walk)
        framelift.graph_break()
        return x + ring.seen, list(walk), ring

    framelift.reset()
    lifted = framelift.compile(fn, backend="eager")
    for _ in range(2):
        expected, found = fn(x()), lifted(x())
        assert repr(expected) == repr(found)
