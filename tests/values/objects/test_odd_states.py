"""Objects in states that programs rarely bring about, and what building a list asks of them."""

import collections
import datetime
import functools
import types

import pytest
import torch

import framelift
from tests.helpers import check
from tests.helpers.record import Record


class MakesLists(collections.defaultdict):
    def __init__(self, *args):
        self.default_factory = list


class PlainSubclass(collections.defaultdict):
    pass


class Hides(collections.defaultdict):
    default_factory = None


class OwnFrozenset(frozenset):
    pass


class OwnDate(datetime.date):
    pass


class OwnDelta(datetime.timedelta):
    pass


class Shows:
    value = None

    def __repr__(self):
        return repr(self.value)


def set_of_itself():
    shows = Shows()
    shows.value = OwnFrozenset([shows])
    return shows.value


class Slotted:
    __slots__ = ("a",)


class Module(types.ModuleType):
    pass


def with_a_number_as_keyword():
    made = functools.partial(dict)
    made.keywords[1] = 2
    return made


class OwnOrderedDict(collections.OrderedDict):
    pass


class OwnText(str):
    pass


def changed_by_dict(kind=collections.OrderedDict):
    made = kind(a=1)
    dict.__setitem__(made, "b", 2)
    return made


class Asked:
    """Says what was asked of it."""

    def __init__(self):
        self.log = []

    def __iter__(self):
        self.log.append("iter")
        return iter([1, 2])

    def __len__(self):
        self.log.append("len")
        return 2


class Hesitant(Asked):
    def __len__(self):
        self.log.append("len")
        raise TypeError

    def __length_hint__(self):
        self.log.append("hint")
        return NotImplemented


class Refusing(Asked):
    def __len__(self):
        raise ValueError("not countable")


class Grows(list):
    def __len__(self):
        self.append(9)
        return 1


def default_of_a_missing_key(x, d):
    return x + len(d["a"]), dict(d)


def default_factory(x, d):
    return x + 1, d.default_factory is None


def hash_of_a_number(x, v):
    return x + 1, hash(v) == object.__hash__(v), hash(v) == hash(v), {v: 1}[v]


def call_of_a_partial(x, p):
    try:
        return x + 1, p()
    except TypeError as error:
        return x + 2, str(error)


def keyword_of_a_partial(x, p):
    p.keywords[1] = 2
    return call_of_a_partial(x, p)


def text_of_a_number(x, n):
    try:
        return x + 1, len(str(n)), f"{n}"[:2]
    except ValueError as error:
        return x + 2, str(error)


def rest_of_a_number(x, n):
    return x + n % 7, n + 1 > n


def keys_of_an_ordered_dict(x, d):
    return x + 1, list(d), len(d)


def slot_filled_and_emptied(x, s):
    s.a = 1
    del s.a
    framelift.graph_break()
    return x + hasattr(s, "a")


def name_of_a_module(x, m):
    try:
        return x + 1, m.__name__, m.other
    except AttributeError as error:
        return x + 2, str(error)


def items_replaced_under_an_iterator(x, pair):
    iterator, items = pair
    framelift.graph_break()
    for index in range(len(items)):
        items[index] = 9
    return x + 1, list(iterator)


def lists_of(x, asked):
    made = [0]
    made.extend(asked)
    made += asked
    first, *rest = asked
    made[1:] = asked
    found = list(asked), tuple(asked), sorted(asked), [*asked], (*asked, 3), (lambda *args: args)(*asked)
    return x + len(made), found, set(asked), sum(asked), max(asked), dict(zip(asked, asked, strict=True)), asked


def list_of_one(x, values):
    return x + 1, list(values), tuple(values)


def numbers_of_texts(x, text):
    try:
        return x + int(text), int(text, 2), float(text)
    except ValueError as error:
        return x, str(error)


def numbers_of_texts_made(x, _):
    class OwnBytes(bytes):
        pass

    return numbers_of_texts(x, OwnText("101")), numbers_of_texts(x, OwnBytes(b"101")), numbers_of_texts(x, OwnText("b"))


def texts(x, obj):
    return x + 1, repr(obj), str(obj), f"{obj}", f"{obj!r}", "%s" % (obj,), str([obj])


def equal_methods(x, pair):
    given, items = pair
    found = given == items.append, items.append == given, given != items.append, given in (items.pop, items.append)
    own = items.append == items.append, "a".join == "a".join, x.add == x.add, [].append == items.append
    return x + 1, found, own, given is items.append


def equal_methods_of_classes(x, given):
    return x + 1, given == Asked.__init_subclass__, Asked.__init_subclass__ == given, given == Grows.__init_subclass__


def method_and_list():
    items = [1]
    return items.append, items


BY_CLASSES = {(Asked, Hesitant): 1, (Hesitant, Asked): 2, Asked: 3, ("a", Asked): 4}


def keys_of_classes(x, d):
    seconds = [key[1] for key in d if isinstance(key, tuple)]
    found = d[Asked], d[Asked, Hesitant], d.get((Asked, Asked)), d["a", Asked], d.get(Hesitant)
    return x + 1, found, seconds, [value for value in d.values()], list(d) == list(BY_CLASSES)


def number(text):
    return lambda: eval(text)


def deque_and_iterator():
    items = collections.deque([1, 2, 3])
    return iter(items), items


PROGRAMS = [
    (default_of_a_missing_key, MakesLists, 0),
    (default_of_a_missing_key, lambda: PlainSubclass(list), 0),
    (default_factory, MakesLists, 0),
    (default_factory, PlainSubclass, 0),
    (default_factory, lambda: Hides(list), None),
    (hash_of_a_number, number("float('nan')"), None),
    (hash_of_a_number, number("1.5"), None),
    (call_of_a_partial, with_a_number_as_keyword, 0),
    (keyword_of_a_partial, lambda: functools.partial(dict, a=1), 0),
    (text_of_a_number, number("10 ** 5000"), None),
    (text_of_a_number, number("10 ** 700"), None),
    (text_of_a_number, number("10 ** 600"), 0),
    (rest_of_a_number, number("10 ** 5000"), 0),
    (keys_of_an_ordered_dict, changed_by_dict, None),
    (keys_of_an_ordered_dict, lambda: changed_by_dict(OwnOrderedDict), None),
    (numbers_of_texts, lambda: OwnText(" 100 "), 0),
    (numbers_of_texts, lambda: OwnText("a"), 0),
    (numbers_of_texts_made, lambda: None, 0),
    (slot_filled_and_emptied, Slotted, None),
    (items_replaced_under_an_iterator, deque_and_iterator, None),
    (keys_of_classes, lambda: dict(BY_CLASSES), 0),
    (texts, lambda: OwnFrozenset([1]), 0),
    (texts, OwnFrozenset, 0),
    (texts, lambda: OwnDate(2020, 1, 2), 0),
    (texts, lambda: OwnDelta(1, 2), 0),
    (lists_of, Asked, 0),
    (lists_of, Hesitant, 0),
    (lists_of, Refusing, None),
    (list_of_one, lambda: Grows([1]), 0),
]


@pytest.mark.parametrize("program, make, breaks", PROGRAMS)
def test_programs(program, make, breaks):
    check(
        program,
        inputs=lambda: (torch.ones(2), make()),
        changed=[],
        expect_breaks=breaks,
        expect_ops=0,
        deterministic=program is not hash_of_a_number,  # that of an object is where it lies
    )


@pytest.mark.parametrize("kind", [types.ModuleType, Module])
@pytest.mark.parametrize("is_initialised", [False, True])
def test_a_module_that_is_nowhere_imported(kind, is_initialised):
    lifted, x = framelift.compile(name_of_a_module, backend="eager"), torch.ones(2)
    for _ in range(2):
        module = kind("a") if is_initialised else kind.__new__(kind)
        with Record().listening() as record:
            assert lifted(x, module)[1:] == name_of_a_module(x, module)[1:]
        assert not record.failures


@pytest.mark.parametrize(
    "program, make",
    [
        (texts, set_of_itself),
        (equal_methods, method_and_list),
        (equal_methods_of_classes, lambda: Asked.__init_subclass__),
    ],
)
def test_what_cannot_be_copied(program, make):
    lifted, x, given = framelift.compile(program, backend="eager"), torch.ones(2), make()
    with Record().listening() as record:
        results = [lifted(x, given), lifted(x, given), lifted(x, make())]
    assert all(result[1:] == program(x, given)[1:] for result in results)
    assert record.ops and not record.failures


def test_a_long_number_in_words():
    with Record().listening() as record:
        framelift.compile(rest_of_a_number, backend="eager")(torch.ones(2), 10**5000)
    assert any("an int of 16610 bits" in words for words in record.guards)
