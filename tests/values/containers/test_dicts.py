"""Dictionaries: reading, changing, order, views, and the dict types of `collections`."""

from __future__ import annotations

import collections
import sys
from collections import Counter, OrderedDict, defaultdict

import pytest
import torch

import framelift
from tests.helpers import check, transcript
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()
TABLE = {"relu": 1, "gelu": 2}
BY_TYPE = {int: 1, float: 2, str: 3}


@cases(X, {"a": 1, "b": 2}, changed=[(X, {"a": 1, "b": 3}), (X, {"a": 1}), (X, {"b": 2, "a": 1})])
def iterates(x, d):
    for key, value in d.items():
        x = x * value + len(key)
    return x, list(d)


@cases(X, {"a": 1}, changed=[(X, {"a": 1, "b": 5}), (X, {"b": 1})])
def membership(x, d):
    if "b" in d:
        return x + d["b"]
    return x + d.get("a", 7)


@cases(X, {"a": X})
def writes(x, d):
    d["b"] = x + 1
    d["a"] = d["a"] * 2
    return d


@cases(X, {"a": 1, "b": 2, "c": 3})
def del_and_reinsert(x, d):
    del d["a"]
    d["a"] = x + 1
    return list(d), d


@cases(X, {"a": 1, "b": 2, "c": 3})
def delete_then_write_without_reading(x, d):
    del d["b"]
    d["d"] = x + 1
    d["b"] = 5
    d["c"] = 6
    return d


@cases(X, {"a": 1, "b": 2})
def cleared(x, d):
    d.clear()
    d["z"] = x + 1
    d["a"] = 2
    return d, len(d)


@cases(X, {"a": 1, "b": 2})
def popped(x, d):
    a = d.pop("a")
    b = d.pop("zz", 7)
    c = d.popitem()
    return x + a + b, c, d


@cases(X, {"a": 1})
def setdefaults(x, d):
    d.setdefault("a", 5)
    d.setdefault("b", []).append(x + 1)
    d.setdefault("b", []).append(2)
    return d


@cases(X, {"a": 1, "b": 2})
def updates(x, d):
    d.update({"b": 3, "c": x + 1})
    d.update([("d", 4)])
    d.update(e=5)
    d |= {"a": 9}
    return d, d | {"f": 1}, {"f": 1} | d


@cases(X, {"a": 1, "b": 2})
def live_views(x, d):
    keys, values, items = d.keys(), d.values(), d.items()
    d["c"] = 3
    return x + len(keys), list(keys), list(values), list(items), "c" in keys, ("c", 3) in items, 3 in values


@cases(X, {"a": 1, "b": 2})
def views_returned(x, d):
    d["c"] = x + 1
    return list(d.keys()), d.values()


@cases(X, {"a": 1, "b": 2})
def changed_while_iterating(x, d):
    y = x + 1
    try:
        for key in d:
            d[key + "x"] = 1
    except RuntimeError as error:
        return y, str(error), d


@cases(X, {"a": 1, "b": 2})
def deleted_while_iterating(x, d):
    y = x + 1
    try:
        for key in d:
            del d[key]
    except RuntimeError as error:
        return y, str(error), d


@cases(X, {"a": 1, "b": 2})
def values_replaced_while_iterating(x, d):
    for key in d:
        d[key] = x * d[key]
    return d


@cases(X, {"a": 1, "b": 2}, expect_breaks=None, expect_ops=0)
def keys_exchanged_while_iterating(x, d):
    y = x + 1
    seen = []
    try:
        for key in d:
            seen.append(key)
            del d[key]
            d[key + key] = 1
            if len(seen) > 4:
                break
    except RuntimeError as error:
        seen.append(str(error))
    return y, seen, d


@cases(X, {1: "a", 2.5: "b", (1, 2): "c", None: "d", "s": "e"})
def keys_of_many_kinds(x, d):
    return x + 1, d[1], d[1.0], d[True], d[2.5], d[(1, 2)], d[None], list(d)


@cases(X, {"a": 1})
def errors(x, d):
    y = x + 1
    found = []
    for n in range(6):
        try:
            if n == 0:
                d["zz"]
            elif n == 1:
                del d["zz"]
            elif n == 2:
                d.pop("zz")
            elif n == 3:
                {}.popitem()
            elif n == 4:
                d[[1]]
            elif n == 5:
                d[{}] = 1
        except (KeyError, TypeError) as error:
            found.append((type(error), error.args, str(error)))
    return y, found


@cases(X)
def made_by_the_program(x):
    d = dict(a=1, b=x + 1)
    e = dict([("c", 2)], d=3)
    f = dict(e, z=1)
    g = dict.fromkeys("ab", 0)
    h = {**d, **e, "a": 5}
    return d, e, f, g, h, dict(), dict(zip("ab", (1, 2)))


@cases(X)
def deleted_from_new(x):
    d = {"a": 1, "b": x + 1}
    del d["a"]
    d["a"] = 2
    e = d.copy()
    e["c"] = d
    return d, e, d == {"a": 2, "b": d["b"]}, d != {}


@cases(X, {"a": {"b": {"c": 1}}})
def nested(x, d):
    d["a"]["b"]["c"] = x + 1
    d["a"]["new"] = d["a"]["b"]
    return d, d["a"]["b"]["c"] * 2


@cases(X)
def self_containing(x):
    d = {"x": x + 1}
    d["self"] = d
    return d


@cases(X, {"a": 1})
def input_made_self_containing(x, d):
    d["self"] = d
    d["y"] = x + 1
    return d["self"]["self"]["a"]


@cases(X, {"b": 2, "a": 1})
def reprs(x, d):
    return x + 1, repr(d), str({}), repr(d.keys()), repr(d.values()), repr(d.items()), f"{d}"


@cases(X, {"a": 1, "b": 2}, {"b": 3, "c": 4})
def key_sets(x, d, e):
    return x + 1, sorted(d.keys() & e.keys()), sorted(d.keys() | e), sorted(d.keys() - e.keys()), d.keys() == {"a", "b"}


@cases(X, {"a": 1, "b": 2})
def reversed_dict(x, d):
    return x + 1, list(reversed(d)), list(reversed(d.items())), list(reversed(d.values()))


@cases(X, "relu", changed=[(X, "gelu"), (X, "none")])
def global_table(x, name):
    return x * TABLE[name] if name in TABLE else x


@cases(X, 1, changed=[(X, 1.5), (X, "s"), (X, None)])
def by_type(x, value):
    return x * BY_TYPE.get(type(value), 10)


@cases(X)
def tensors_as_keys(x):
    y = x + 1
    d = {y: 1, x: 2}
    return y, d[y], d[x], y in d, len(d)


@cases(X)
def tuples_with_tensors_as_keys(x):
    y = x + 1
    d = {(y, 1): 1}
    return y, d[(y, 1)], (y, 2) in d, (x, 1) in d


@cases(X, OrderedDict(a=1, b=2), changed=[(X, OrderedDict(b=2, a=1)), (X, {"a": 1, "b": 2})])
def ordered_input(x, d):
    for key, value in d.items():
        x = x * value + ord(key)
    return x, d, type(d)


@cases(X, OrderedDict(a=1, b=2, c=3))
def ordered_moves(x, d):
    d.move_to_end("a")
    d.move_to_end("c", last=False)
    d["z"] = x + 1
    return d, list(d)


@cases(X, OrderedDict(a=1, b=2, c=3))
def ordered_pops(x, d):
    first = d.popitem(last=False)
    last = d.popitem()
    return x + first[1], last, d


@cases(X)
def ordered_made(x):
    d = OrderedDict([("a", 1), ("b", x + 1)])
    d.move_to_end("a")
    e = OrderedDict(b=1, a=2)
    return d, e, e == OrderedDict(a=2, b=1), e == {"a": 2, "b": 1}, repr(e), OrderedDict()


@cases(X, OrderedDict(a=1, b=2), OrderedDict(b=2, a=1), {"a": 1, "b": 2})
def ordered_comparison(x, d, e, f):
    return x + 1, d == e, d == f, f == e, d != e


@cases(X, OrderedDict(a=1, b=2))
def ordered_missing(x, d):
    y = x + 1
    found = []
    for n in range(3):
        try:
            if n == 0:
                d["q"]
            elif n == 1:
                d.move_to_end("q")
            elif n == 2:
                OrderedDict().popitem()
        except KeyError as error:
            found.append(str(error))
    return y, found


@cases(X)
def defaultdict_made(x):
    d = defaultdict(list)
    d["a"].append(x + 1)
    d["a"].append(2)
    e = defaultdict(int, z=1)
    e["q"] += 5
    f = defaultdict(lambda: "zero")
    return d, e, f["k"], d.get("nope"), "nope" in d, len(d), d.default_factory


@cases(X, defaultdict(list, a=[1]), changed=[(X, defaultdict(list, b=[2]))])
def defaultdict_input(x, d):
    d["a"].append(x + 1)
    d["c"]
    return d, sorted(d)


@cases(X, defaultdict(None, a=1))
def defaultdict_without_factory(x, d):
    y = x + d["a"]
    try:
        d["b"]
    except KeyError as error:
        return y, str(error), d


@cases(X, expect_breaks=None)
def counters(x):
    y = x + 1
    c = Counter("abca")
    c.update("aa")
    c["z"] += 2
    return y, c, c.most_common(1), c["missing"], sorted(c.elements())


@cases(X, Counter("aab"), expect_breaks=None)
def counter_input(x, c):
    y = x + 1
    return y * c["a"], c["nope"], sorted(c)


@cases(X, collections.deque([1, 2, 3]), expect_breaks=None)
def deque_input(x, q):
    y = x + 1
    q.append(4)
    return y, q.popleft(), list(q), len(q)


@cases(X, {"b": 1, "a": 2})
def sorted_dict(x, d):
    return x + 1, sorted(d), sorted(d.items(), key=lambda p: p[1]), max(d, key=d.get), min(d.values()), sum(d.values())


@cases(X, {"a": 1, "b": 2})
def unpacked_dict(x, d):
    a, b = d
    (k, v), *rest = d.items()
    return x + v, a, b, k, rest


@cases(X, {})
def empty_dict(x, d):
    d["a"] = 1
    return (x + 1 if d else x - 1), bool({}), not d


@cases(X, {"a": [1]}, {"b": 2})
def items_moved_between(x, d, e):
    e["l"] = d.pop("a")
    e["l"].append(x + 1)
    return e["l"] is e["l"]


test = cases.test


def test_order_of_an_ordered_dict_changed_later():
    def f(x, d):
        for key, value in d.items():
            x = x * value + ord(key)
        return x

    d = OrderedDict(a=1, b=2)
    lifted = framelift.compile(f, backend="eager")
    x = vector()
    assert lifted(x, d).equal(f(x, d))
    d.move_to_end("a")
    assert lifted(x, d).equal(f(x, d))


class Hashed:
    asked: list[str] = []

    def __hash__(self):
        self.asked.append("hash")
        return 1

    def __eq__(self, other):
        self.asked.append("==")
        return self is other


@pytest.mark.parametrize("use", [lambda x, d: x + len(d), lambda x, d: x * bool(d), lambda x, d: x + sum(d.values())])
def test_keys_of_an_ordered_dict_are_asked_by_the_program_alone(use):
    x, d = vector(), OrderedDict([(Hashed(), 1), (Hashed(), 2)])
    lifted = framelift.compile(use, backend="eager")
    asked = []
    for function in (use, lifted, lifted):
        Hashed.asked.clear()
        function(x, d)
        asked.append(Hashed.asked.copy())
    assert len(asked[0]) >= len(asked[1]) == len(asked[2])  # iterators in C ask more often than traced ones


def test_entries_are_guarded_one_by_one():
    def f(x, d):
        return x + d["a"]

    x = vector()
    calls = [(x, {"a": 1}), (x, {"a": 1, "b": 2}), (x, {"b": 0, "a": 1})]
    assert transcript(f, calls) == "miss hit hit"


def test_absent_key_is_guarded():
    def f(x, d):
        return x + d.get("a", 5)

    x = vector()
    assert transcript(f, [(x, {}), (x, {"b": 1}), (x, {"a": 1})]).startswith("miss hit miss(")


def test_aliased_dicts():
    def f(x, a, b):
        a["k"] = x + 1
        return "k" in b, a is b

    d = {}
    check(f, vector(), d, d, changed=[(vector(), {}, {})])
    check(f, vector(), {}, {}, changed=[(vector(), d, d)])


def test_written_entry_of_an_input_keeps_its_place():
    def f(x, d):
        d["a"] = x + 1
        return d

    d = {"a": 0, "b": 1}
    lifted = framelift.compile(f, backend="eager")
    assert lifted(vector(), d) is d
    assert list(d) == ["a", "b"]


def test_default_factory_is_guarded():
    def f(x, d):
        return x + len(d["new"])

    lifted = framelift.compile(f, backend="eager")
    x = vector()
    assert lifted(x, defaultdict(list)).equal(x)
    assert lifted(x, defaultdict(lambda: "abc")).equal(x + 3)


def by_tensor(table, x):
    found = table[x] * 2 if x in table else x
    table[x] = found
    return found


def without_tensor(table, x):
    taken = table.pop(x)
    del table[int]
    return taken + 1


def test_tensors_as_keys():
    """A tensor is equal to itself only: which one it is must be guarded where a dict is asked for it."""
    x, y = torch.ones(2), torch.zeros(2)
    lifted = framelift.compile(by_tensor, backend="eager", fullgraph=True)
    mine, theirs = {y: torch.ones(2)}, {y: torch.ones(2)}
    for key in (x, y, x, y):
        assert torch.equal(by_tensor(mine, key), lifted(theirs, key))
    assert [key is other for key, other in zip(mine, theirs, strict=True)] == [True, True]
    assert all(torch.equal(mine[key], theirs[key]) for key in mine)


def test_deleting_keys_that_are_objects():
    x = torch.ones(2)
    table = {x: torch.ones(2), int: 1, 3: 4}
    assert torch.equal(
        framelift.compile(without_tensor, backend="eager", fullgraph=True)(table, x), torch.full((2,), 2.0)
    )
    assert table == {3: 4}


def test_ordered_dicts_have_attributes():
    def function(x, given):
        made = collections.OrderedDict(a=x)
        made.note = {"version": 1}
        made.note["more"] = given.note
        given.note = x + 1
        given.other = len(vars(made)) if hasattr(made, "__dict__") else 0
        return made, made.note, hasattr(made, "missing"), getattr(given, "nothing", 3)

    given = collections.OrderedDict(k=1)
    given.note = 5
    check(function, torch.ones(2), given)


def test_an_attribute_of_an_ordered_dict_that_changes_is_seen():
    def function(x, given):
        return x + given.note

    lifted = framelift.compile(function, backend="eager", fullgraph=True)
    given = collections.OrderedDict()
    for note in (1, 2):
        given.note = note
        assert lifted(torch.zeros(1), given).item() == note


def test_the_state_of_a_module():
    layer = torch.nn.Linear(2, 2)

    def function(x):
        state = layer.state_dict()
        return x + sum(value.sum() for value in state.values()), list(state), state._metadata[""]["version"]

    check(function, torch.ones(2), expect_breaks=None)


def test_a_missing_attribute_of_an_ordered_dict():
    def function(x, given):
        try:
            return given.nothing
        except AttributeError as error:
            return x + 1, str(error)

    check(function, torch.ones(2), collections.OrderedDict())


class _Counted:
    asked = 0

    def __hash__(self):
        return 3

    def __eq__(self, other):
        _Counted.asked += 1
        return type(self) is type(other)


def test_keys_of_ordered_dicts_are_compared_once_as_keys_and_once_for_their_order():
    def program(x):
        before = _Counted.asked
        first, second = (OrderedDict(dict.fromkeys((0, _Counted(), 4.2))) for _ in range(2))
        third = OrderedDict(dict.fromkeys((0, 4.2, _Counted())))
        return x + 1, first == second, first == third, _Counted.asked - before

    check(program, torch.ones(2), fullgraph=True)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="older interpreters do not notice, and may crash")
def test_an_ordered_dict_that_is_changed_by_its_comparison():
    def program(x):
        class Clearing:
            asked = 0

            def __hash__(self):
                return 3

            def __eq__(self, other):
                Clearing.asked += 1
                if Clearing.asked == 2:
                    first.clear()
                return True

        first, second = (OrderedDict(dict.fromkeys((0, Clearing()))) for _ in range(2))
        try:
            first == second  # noqa: B015
        except RuntimeError as error:
            return x + 1, str(error), first

    check(program, torch.ones(2), fullgraph=True)


@pytest.mark.parametrize("change", ["pop", "move_to_end", "popitem", "setdefault"])
@pytest.mark.parametrize("given", [0, 1, 2])
@pytest.mark.parametrize("part", ["keys", "values", "items"])
def test_an_iterator_over_an_ordered_dict_ends_with_the_last_key_and_fails_once(change, given, part):
    def function(x, table):
        walk = iter(getattr(table, part)())
        seen = [next(walk) for _ in range(given)]
        if change == "popitem":
            getattr(table, change)()
        else:
            getattr(table, change)("c" if change == "setdefault" else "a")
        for _ in range(3):
            try:
                seen.append(next(walk, "end"))
            except RuntimeError as error:
                seen.append(str(error))
        return x + 1, seen, table

    check(function, X, OrderedDict(a=1, b=2))


def test_a_loop_may_empty_an_ordered_dict_of_one_key():
    def function(x, table):
        try:
            for key in table:
                table.pop(key)
        except RuntimeError as error:
            return x + 1, str(error)
        return x + 2

    check(function, X, OrderedDict(a=1), changed=[(X, {"a": 1}), (X, OrderedDict()), (X, OrderedDict(a=1, b=2, c=3))])
    check(lambda x: function(x, OrderedDict(a=1)), X)
