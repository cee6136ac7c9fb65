"""What CPython's own tests found, as small programs. One section per family of values."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import enum
import itertools
import operator
import sys

import pytest
import torch

import framelift
from framelift import config
from tests.helpers import check
from tests.values.programs import Programs, x

programs = Programs()


class Oops(Exception):
    pass


# -- exceptions ------------------------------------------------------------------------------------------------------


@programs
def no_traceback_before_it_is_raised(x):
    error = Oops(1)
    before = error.__traceback__
    try:
        raise error
    except Oops:
        during = error.__traceback__ is not None
    return x + 1, before, during, error.with_traceback(None).__traceback__


@programs
def raised_again_in_another_handler(x):
    error = Oops(1)
    contexts = []
    for kind in (KeyError, IndexError):
        try:
            try:
                raise kind
            except (KeyError, IndexError):
                raise error
        except Oops:
            contexts.append(type(error.__context__))
    return x + 1, contexts


@programs
def circle_of_contexts_is_cut(x):
    first, second = Oops(1), Oops(2)
    try:
        try:
            raise first
        except Oops:
            raise second
    except Oops:
        try:
            raise first
        except Oops:
            return x + 1, first.__context__ is second, second.__context__


@programs
def own_circle_of_contexts(x):
    first, second = Oops(1), Oops(2)
    first.__context__, second.__context__ = second, first
    try:
        try:
            raise first
        except Oops:
            raise KeyError
    except KeyError as error:
        return x + 1, error.__context__ is first


@programs
def context_removed_in_the_handler(x):
    try:
        try:
            raise KeyError
        except KeyError:
            try:
                raise Oops(1)
            except Oops as error:
                error.__context__ = None
                raise
    except Oops as error:
        return x + 1, error.__context__


@programs
def handler_of_something_else(x):
    try:
        try:
            raise ValueError
        except (ValueError, 42):
            return x
    except TypeError as error:
        return x + 1, str(error)


# -- long loops and large objects ------------------------------------------------------------------------------------


def many_rounds(x, n):
    total = 0
    for i in range(n):
        total += i % 3
    return x + total


def many_calls(x, n):
    def fibonacci(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    return x + fibonacci(n)


def many_items(x, n):
    return x + len(set(range(n))) + len([0] * n)


@pytest.mark.parametrize(("program", "n"), [(many_rounds, 1000), (many_calls, 12), (many_items, 5000)])
def test_what_takes_too_long_to_trace_is_left_to_python(program, n):
    with config.patch(trace_limit=100):
        check(program, x(), n, expect_breaks=1, expect_ops=0)
    framelift.reset()
    check(program, x(), n, expect_breaks=0)


@programs(expect_breaks=1, expect_ops=0)
def product_without_memory(x):
    try:
        [1, 2] * (2**62)
    except (MemoryError, OverflowError):
        return x + 1


@programs(expect_breaks=1, expect_ops=0)
def constants_without_memory(x):
    try:
        "ab" * (2**62)
    except (MemoryError, OverflowError):
        return x + 1


# -- subclasses of containers ----------------------------------------------------------------------------------------


class Set(set):
    pass


class Colour(str, enum.Enum):
    RED = "r"
    NONE = ""


@programs
def set_made_of_too_many_arguments(x):
    s = Set()
    try:
        s.__init__(s, 2)
    except TypeError as error:
        return x + 1, str(error)


@programs(expect_breaks=1)
def two_sets_that_cross_a_break(x):
    x = x + 1
    first, second = Set([1, 2]), Set(["a"])
    framelift.graph_break()
    return x, first, second


@programs
def truth_of_a_member_that_is_a_string(x):
    return x + 1, bool(Colour.RED), not Colour.NONE, [c.name for c in Colour if c]


@programs
def sets_are_sought_as_if_they_were_frozen(x):
    outer = {frozenset({1, 2}), frozenset("a"), frozenset()}
    log = [{1, 2} in outer, Set([1, 2]) in outer, {3} in outer]
    outer.remove(Set("a"))
    outer.discard(set())
    try:
        outer.remove({7})
    except KeyError as error:
        log.append(error.args)
    return x + 1, outer, log


@programs
def counters_are_equal_to_dicts(x):
    counted = collections.Counter("aab")
    return x + 1, counted == {"a": 2, "b": 1}, {"a": 2, "b": 1} == counted, counted != {"a": 2}


class Dict(dict):
    def __eq__(self, other):
        LOG.append("eq")
        return NotImplemented

    def __ror__(self, other):
        LOG.append("ror")
        return NotImplemented

    __hash__ = None


LOG = []


@programs
def a_subclass_is_asked_once(x):
    return x + 1, {1: 2} == Dict({1: 2}), {1: 2} != Dict({1: 3}), LOG.copy()


class Adding:
    def __iadd__(self, other):
        return "in place"


class AddingMore(Adding):
    def __radd__(self, other):
        return "reflected"


@programs
def in_place_goes_before_a_subclass(x):
    value = Adding()
    value += AddingMore()
    return x + 1, value


@programs
def dicts_joined_with_their_subclasses(x):
    ordered, default = collections.OrderedDict(a=1), collections.defaultdict(int, b=2)
    results = [{"c": 3} | ordered, {"c": 3} | default, ordered | {"c": 3}, default | {"c": 3}]
    return x + 1, [type(result) for result in results], results


@programs
def factory_that_cannot_be_called(x):
    try:
        collections.defaultdict({})
    except TypeError as error:
        return x + 1, str(error), collections.defaultdict(None)


class Ordered(collections.OrderedDict):
    pass


@programs(expect_breaks=None)
def ordered_dict_behind_its_back(x):
    ordered = Ordered([(1, 1), (2, 2)])
    dict.__delitem__(ordered, 1)
    try:
        return x + 1, list(ordered.items())
    except KeyError as error:
        return x + 1, error.args


@programs
def methods_that_are_equal(x):
    first, second = [], []
    return x + 1, first.append == first.append, first.append == second.append, first.append != first.pop


class Mutating:
    def __init__(self, where):
        self.where = where

    def __eq__(self, other):
        self.where.clear()
        return False


@programs
def deque_changed_by_a_comparison(x):
    where = collections.deque([1, 2])
    try:
        Mutating(where) in where
    except RuntimeError as error:
        return x + 1, str(error)


class Mixed(int, enum.Enum):
    ONE = 1


@programs
def text_of_a_member_that_is_a_number(x):
    return x + 1, "{} {}".format(Mixed.ONE, 2), "%s" % Mixed.ONE, "%s %d" % (Mixed.ONE, Mixed.ONE), f"{Mixed.ONE}"


class Counted:
    def __init__(self):
        self.asked = 0

    def __hash__(self):
        self.asked += 1
        return 1


@programs(expect_breaks=None, expect_ops=0)
def hashes_are_asked_for_once(x):
    key, table = Counted(), {}
    table.setdefault(key, 1)
    table.pop(key)
    return x + 1, key.asked


@programs
def items_without_a_hash(x):
    first, second = {"a": [1], "b": [2]}, {"a": [1], "b": [3], "c": []}
    return x + 1, [
        first.items() == {"b": [2], "a": [1]}.items(),
        first.items() != second.items(),
        {"a": [1]}.items() < second.items(),
        second.items() >= {"c": []}.items(),
        first.items() <= second.items(),
    ]


class Clearing:
    def __init__(self, lists):
        self.lists = lists

    def __eq__(self, other):
        for each in self.lists:
            each.clear()
        return False


@programs
def lists_changed_by_their_comparison(x):
    first, second = [], [1]
    first.append(Clearing([first, second]))
    return x + 1, first == second, first


class Slotted:
    __slots__ = ("a",)


@programs
def class_with_a_list_of_slots(x):
    class Listed:
        __slots__ = ["a"]  # noqa: RUF012

    made = Listed()
    made.a = 3
    return x + 1, made.a, Listed.__slots__


@programs(expect_breaks=4, expect_hit=False)
def class_that_hides_its_class(x):
    class Hiding:
        __class__ = property(lambda self: int)

    return x + 1, isinstance(Hiding(), int)


@programs
def class_derived_from_one_with_slots(x):
    class Derived(Slotted):
        __slots__ = ("b",)

    return x + 1, Derived.__slots__


@programs
def class_with_a_dict_derived_from_one_with_slots(x):
    class Derived(Slotted):
        pass

    return x + 1, Derived().__dict__


@programs
def list_seen_while_it_is_sorted(x):
    numbers, seen = [3, 1, 2], []

    def key(n):
        seen.append(list(numbers))
        return n

    numbers.sort(key=key)

    def grow(n):
        numbers.append(n)
        return -n

    try:
        numbers.sort(key=grow)
    except ValueError as error:
        return x + 1, numbers, seen, str(error)


@programs
def sorting_that_fails(x):
    results = []
    for mixed in ([3, 1, 2, "a", 0], list(range(20, 0, -1)) + [None]):
        for backwards in (False, True):
            copy = list(mixed)
            try:
                copy.sort(reverse=backwards)
            except TypeError as error:
                results.append((copy, str(error)))
    return x + 1, results


class Matched:
    __match_args__ = (None,)


@programs
def names_of_a_pattern_that_are_none(x):
    try:
        match Matched():
            case Matched(_):
                return x
    except TypeError as error:
        return x + 1, str(error)


# -- iterators -------------------------------------------------------------------------------------------------------


@programs
def groups_end_with_the_next(x):
    kept = [list(group) for _, group in list(itertools.groupby("aabbc"))]
    return x + 1, kept, [(key, list(group)) for key, group in itertools.groupby([1, 3, 2, 4], lambda n: n % 2)]


@programs
def groups_are_read_when_asked_for(x):
    log = []

    def noted(n):
        log.append(n)
        return n // 2

    for key, group in itertools.groupby(range(4), noted):
        log.append(("key", key))
        log.append(list(group))
    return x + 1, log


@programs
def iterators_check_their_arguments(x):
    said = []
    for make in (
        lambda: itertools.compress(None, [1]),
        lambda: itertools.count("a"),
        lambda: itertools.zip_longest(3),
        lambda: itertools.cycle(3),
        lambda: itertools.accumulate(3),
        lambda: itertools.takewhile(bool, 3),
        lambda: itertools.starmap(bool, 3),
        lambda: itertools.repeat(1, "a"),
        lambda: itertools.islice([], -1),
        lambda: itertools.islice([], 0, 1, 0),
        lambda: itertools.islice([], "a"),
    ):
        try:
            make()
        except (TypeError, ValueError) as error:
            said.append((type(error), str(error)))
    return x + 1, said


@programs(expect_breaks=4)
def groups_asked_for_in_the_middle(x):
    def key(n):
        if n == 2:
            next(groups, None)
        return n

    groups = itertools.groupby(range(4), key)
    return x + 1, [n for n, _ in groups]


@programs
def sentinel_in_a_nested_call(x):
    def ask():
        if len(asked) < 3:
            asked.append(1)
            return next(iterator, None)
        return 0

    asked = []
    iterator = iter(ask, 0)
    log = [next(iterator, "end"), next(iterator, "end")]

    def stop():
        raise StopIteration

    return x + 1, log, list(iter(stop, 1))


# -- sequences -------------------------------------------------------------------------------------------------------


@programs
def slices_without_a_step(x):
    said = []
    for act in (lambda s: s[::0], lambda s: s.__delitem__(slice(0, 1, 0)), lambda s: s.__setitem__(slice(0, 1, 0), [])):
        try:
            act([1, 2])
        except ValueError as error:
            said.append(str(error))
    try:
        (1, x)[::0]
    except ValueError as error:
        said.append(str(error))
    return x + 1, said


@programs
def ranges_longer_than_an_index(x):
    numbers = iter(range(2**70))
    return x + 1, next(numbers), next(numbers), list(zip(range(2**65), "ab"))


# -- the stack -------------------------------------------------------------------------------------------------------


def test_no_room_for_the_question_whether_a_frame_is_lifted():
    """A program may lower the limit so far that only its own calls fit."""

    def leaf(x):
        return x + 1

    def lower(x):
        before = sys.getrecursionlimit()
        depth = 1
        while True:
            try:
                sys.setrecursionlimit(depth)
                break
            except RecursionError:
                depth += 1
        try:
            sys.setrecursionlimit(depth + 2)
            return leaf(x)
        finally:
            sys.setrecursionlimit(before)

    assert framelift.compile(lower, backend="eager")(x()).equal(x() + 1)


# -- namespaces ------------------------------------------------------------------------------------------------------


class Holder:
    pass


@programs
def copies_of_namespaces(x):
    made = Holder()
    made.a, made.b = x, 2
    copied = made.__dict__.copy()
    copied.pop("a")
    merged = made.__dict__ | {"c": 3}
    return x + 1, copied, sorted(merged), sorted(vars(made))


# -- hash tables and texts -------------------------------------------------------------------------------------------


class CountingHashes(int):
    def __init__(self, *args):
        self.hashed = 0

    def __hash__(self):
        self.hashed += 1
        return int.__hash__(self)


@programs
def hashes_of_keys_are_not_asked_for_again(x):
    table = dict.fromkeys(map(CountingHashes, range(5)))
    made = set(table)
    made.difference(table)
    made.symmetric_difference_update(table)
    again = dict.fromkeys(frozenset(table), 1)
    return x + 1, [key.hashed for key in table], len(again)


class Showing:
    value = None

    def __repr__(self):
        return f"<{self.value!r}>"


@programs
def containers_within_themselves(x):
    found = []
    for wrap in (lambda w: [w], lambda w: {1: w}, lambda w: {w}, lambda w: frozenset([w]), lambda w: (w,)):
        showing = Showing()
        showing.value = wrap(showing)
        found.append((repr(showing.value), str(showing.value)))
    circle = []
    circle.append(circle)
    queue, ordered = collections.deque([1], 3), collections.OrderedDict(a=1)
    queue.append(queue)
    ordered["b"] = ordered
    return x + 1, found, repr(circle), repr([1, [1]]), repr(queue), repr(ordered)


# -- attributes ------------------------------------------------------------------------------------------------------


class OnlySet:
    def __set__(self, instance, value):
        instance.__dict__["field"] = value * 2


class HasOnlySet:
    field = OnlySet()


@programs
def descriptor_that_can_only_be_set(x):
    made = HasOnlySet()
    before = made.field is HasOnlySet.__dict__["field"] if hasattr(HasOnlySet, "nothing") else type(made.field)
    made.field = 3
    return x + made.field, before


# -- iterators -------------------------------------------------------------------------------------------------------


@programs(expect_breaks=None, expect_ops=0)
def iterators_keep_their_type_over_a_break(x):
    y = x + 1
    made = itertools.combinations("abc", 2)
    first = next(made)
    framelift.graph_break()
    return y, first, type(made), list(made)


# -- small rules ------------------------------------------------------------------------------------------------------


class Odd:
    def __float__(self):
        return "text"

    def __int__(self):
        return 1.5


@programs
def conversions_that_give_something_else(x):
    found = []
    for kind in (float, int):
        try:
            kind(Odd())
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


class Failing:
    @property
    def __eq__(self):  # noqa: PLE0302  (no method)
        raise AttributeError("no comparison")

    __hash__ = None


@programs
def comparisons_whose_lookup_fails(x):
    made = Failing()
    return x + 1, made == made, made == Failing()


@programs
def super_without_what_it_needs(x):
    def deleted(a):
        del a
        super()

    def unknown(a):
        super()

    def nothing():
        super()

    class Empty:
        def method(self):
            nonlocal __class__
            del __class__
            super()

    found = []
    for function, args in ((deleted, [1]), (unknown, [1]), (nothing, []), (Empty().method, [])):
        try:
            function(*args)
        except RuntimeError as error:
            found.append(str(error))
    return x + 1, found


class Growing:
    def __init__(self, table):
        self.table = table

    def __hash__(self):
        return 1

    def __eq__(self, other):
        self.table[f"key {len(self.table)}"] = 1
        return False


@programs
def dict_that_grows_while_it_is_merged(x):
    table = {}
    table[Growing(table)] = 1
    target = {Growing(table): 2}
    try:
        target.update(table)
    except RuntimeError as error:
        return x + 1, str(error)


@programs
def list_that_is_changed_and_changed_back_while_it_is_sorted(x):
    items = [3, 1, 2]

    def key(item):
        items.append(item)
        items.pop()
        return item

    try:
        items.sort(key=key)
    except ValueError as error:
        return x + 1, str(error), items


@programs
def tee_entered_while_it_runs(x):
    class Source:
        first = True

        def __iter__(self):
            return self

        def __next__(self):
            if self.first:
                self.first = False
                return next(second)
            return 1

    first, second = itertools.tee(Source())
    try:
        next(first)
    except RuntimeError as error:
        return x + 1, str(error)


@programs
def deleting_an_attribute_that_is_not_there(x):
    class Some:
        pass

    try:
        del Some.field
    except AttributeError as error:
        return x + 1, str(error)


class Left:
    def __or__(self, other):
        return "left"

    def __ror__(self, other):
        return "right"


class Right(Left):
    pass


class Overriding(Left):
    def __ror__(self, other):
        return "own"


@programs
def reflected_operators_go_first_where_they_are_overridden(x):
    return x + 1, Left() | Right(), Left() | Overriding(), Right() | Left()


class Powerful(int):
    def __pow__(self, other, mod=None):
        return ("pow", int(other), mod)


@programs
def powers_with_a_modulus(x):
    return x + 1, pow(Powerful(2), 3, 5), pow(2, 3, 5)


@programs
def cells_that_are_not_handed_on(x):
    class Meta(type):
        def __new__(mcs, name, bases, namespace):
            namespace.pop("__classcell__", None)
            return super().__new__(mcs, name, bases, namespace)

    try:

        class Made(metaclass=Meta):
            def method(self):
                return __class__

    except RuntimeError as error:
        return x + 1, str(error)


@programs(expect_breaks=None, expect_hit=False, expect_ops=0)
def names_that_are_no_text(x):
    class Some:
        pass

    found = []
    for function in (type.__setattr__, setattr, object.__setattr__):
        try:
            function(Some if function is type.__setattr__ else Some(), b"x", 1)
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


@programs
def documentation_by_a_descriptor(x):
    class Doc:
        def __get__(self, instance, owner):
            return f"doc of {instance is None}"

    class Documented:
        __doc__ = Doc()

    return x + 1, Documented.__doc__, Documented().__doc__


@programs
def metaclass_attributes_that_can_only_be_set(x):
    class Meta(type):
        pass

    class Made(metaclass=Meta):
        pass

    Made.field = 42
    Meta.field = OnlySet()
    return x + Made.field


@programs
def deque_changed_by_a_count(x):
    queue = collections.deque()

    class Emptying:
        def __eq__(self, other):
            queue.clear()
            return NotImplemented

    queue.append(Emptying())
    try:
        queue.count(3)
    except RuntimeError as error:
        return x + 1, str(error)


def test_objects_that_are_their_own_namespace():
    def f(x):
        class Own(dict):
            def __init__(self):
                self.__dict__ = self

        made = Own()
        made.attr = x + 1
        return made["attr"]

    assert framelift.compile(f, backend="eager")(torch.ones(1)).equal(torch.full((1,), 2.0))


@programs(expect_breaks=None, expect_hit=False)
def set_iterators_say_how_much_is_left_behind_a_break(x):
    iterator = iter({1, 2, 3})
    next(iterator)
    y = x + 1
    framelift.graph_break()
    return y, iterator.__length_hint__(), len(list(iterator))


class Base:
    def method(self):
        return "base"


class AsksSuper(Base):
    def own_class(self):
        return super().__class__

    def shadowed(self):
        class super:  # noqa: A001
            method = "shadow"

        return super().method


@programs
def super_has_a_class_and_can_be_shadowed(x):
    return x + 1, AsksSuper().own_class(), AsksSuper().shadowed()


@programs
def slot_that_shadows_a_class_variable(x):
    try:

        class Shadowed:
            __slots__ = ("field",)
            field = 1

    except ValueError as error:
        return x + 1, str(error)


@programs
def what_is_no_sequence_is_told_by_the_search(x):
    found = []
    for function in (bisect.insort_left, bisect.insort_right, bisect.bisect):
        try:
            function(10, 10)
        except TypeError as error:
            found.append(str(error))
    return x + 1, found


@programs
def hints_of_iterators(x):
    iterators = [iter([1, 2]), iter((1,)), iter("abc"), iter({1, 2, 3}), iter(range(4))]
    before = [operator.length_hint(iterator) for iterator in iterators]
    for iterator in iterators:
        next(iterator)
    return x + 1, before, [iterator.__length_hint__() for iterator in iterators], operator.length_hint(zip([1]), 7)


@programs
def what_constants_have(x):
    return x + 1, dir(None), [name for name in dir(1) if not name.startswith("_")], sorted(object.__dir__("a"))


@programs(expect_hit=False)
def metaclasses_found_by_type(x):
    class Meta(type):
        def __new__(mcs, name, bases, namespace, *, note=None):
            return super().__new__(mcs, name, bases, namespace)

        def __init__(cls, name, bases, namespace, *, note=None):
            cls.note = (name, note)

    class Base(metaclass=Meta):
        pass

    made = type("Made", (Base,), {"field": 2}, note=3)
    return x + made.field, made.note, type("Other", (Base,), {}).note


class Complaining:
    def __set_name__(self, owner, name):
        raise ValueError(name)


@programs(expect_hit=False)
def names_that_attributes_refuse(x):
    try:

        class Made:
            field = Complaining()

    except (RuntimeError, ValueError) as error:
        return x + 1, type(error), str(error), type(error.__cause__), getattr(error, "__notes__", None)


@programs
def sets_keep_the_order_of_copies(x):
    grown = set("madagascar")
    copied = frozenset(grown)
    return x + 1, grown, copied, list(grown), list(copied)


@programs(expect_hit=False)
def parameters_of_dataclasses_that_are_no_fields(x):
    @dataclasses.dataclass
    class Made:
        first: int
        second: dataclasses.InitVar[int] = 3

        def __post_init__(self, second):
            self.third = self.first + second

    return x + Made(2).third, Made.__doc__


class Undecided(int):
    def __lt__(self, other):
        return NotImplemented

    def __eq__(self, other):
        return NotImplemented

    __hash__ = int.__hash__


class Complex(complex):
    pass


@programs
def numbers_that_leave_comparisons_to_the_other(x):
    zero, one = Undecided(0), Undecided(1)
    found = [zero < one, zero < 1, 0 < one, one < zero, zero == 0, zero == one, zero == Undecided(0), zero != 0.0]
    return x + 1, found, Complex(1 + 2j).imag, Complex(3).real, zero.numerator, one.imag, one.__class__


@programs(expect_breaks=None, expect_hit=False, expect_ops=0)
def classes_are_known_to_their_bases_behind_a_break(x):
    class Base:
        pass

    class Derived(Base):
        pass

    framelift.graph_break()
    return x + 1, [cls.__name__ for cls in Base.__subclasses__()]


test_programs = programs.test()


def test_long_lists_are_rebuilt_in_pieces():
    def f(x):
        items = []
        for n in range(3000):
            items.append((n, x))
        return x + 1, items, collections.deque(items), {n for n, _ in items}

    x = torch.ones(1)
    _, items, queue, numbers = framelift.compile(f, backend="eager", fullgraph=True)(x)
    assert items == [(n, x) for n in range(3000)] and list(queue) == items and numbers == set(range(3000))


def test_what_iterators_give_that_are_iterators_themselves():
    def fn(x):
        first, _ = itertools.tee([1, 2])
        _, group = next(itertools.groupby("aab"))
        return x + 1, type(first).__name__, type(group).__name__, hasattr(first, "send"), list(first), list(group)

    check(fn, torch.ones(2), fullgraph=True)


def test_the_module_of_a_class_made_in_the_program():
    def fn(x):
        made = collections.namedtuple("made", "a b")

        @dataclasses.dataclass
        class Holder:
            pair: made

        return x + 1, made.__module__ + "!", repr(made), tuple(dataclasses.asdict(Holder(made(1, 2)))["pair"])

    check(fn, torch.ones(2), expect_breaks=None)
