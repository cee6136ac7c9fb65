"""`functools`: `singledispatch` finds implementations as Python does, also when some are added later; `cmp_to_key`."""

from __future__ import annotations

import abc
import collections.abc
import fractions
import functools
import numbers
import weakref

import torch

import framelift
from tests.values.programs import Programs, follow, x

programs = Programs()


@functools.singledispatch
def scaled(value, x):
    return "any", x


@scaled.register
def _(value: int, x):
    return "int", x * value


@scaled.register(list)
def _(value, x):
    return "list", x * len(value)


@scaled.register(torch.Tensor)
def _(value, x):
    return "tensor", value + x


@functools.singledispatch
def sized(value):
    return "any"


sized.register(collections.abc.Sized, lambda value: "sized")
sized.register(collections.abc.Sequence, lambda value: "sequence")
sized.register(tuple, lambda value: "tuple")


class Scaler:
    factor = 2

    @functools.singledispatchmethod
    def scale(self, value):
        return value

    @scale.register
    def _(self, value: int):
        return value * self.factor

    @scale.register
    def _(self, value: str):
        return value * self.factor


class Flag(int):
    pass


@functools.singledispatch
def kind(value):
    return "any"


kind.register(numbers.Integral, lambda value: "integral")
kind.register(numbers.Real, lambda value: "real")
kind.register(collections.abc.Mapping, lambda value: "mapping")
kind.register(collections.abc.Iterable, lambda value: "iterable")


class Pairs(collections.abc.Mapping):
    def __getitem__(self, key):
        return 1

    def __iter__(self):
        return iter("ab")

    def __len__(self):
        return 2


@functools.singledispatch
def ambiguous(value):
    return "any"


class First(abc.ABC):
    pass


class Second(abc.ABC):
    pass


@First.register
@Second.register
class Both:
    pass


ambiguous.register(First, lambda value: 1)
ambiguous.register(Second, lambda value: 2)


@programs
def by_class(x):
    return [scaled(value, x) for value in (1, True, Flag(3), [1, 2], x, None, "a")]


@programs
def by_abstract_class(x):
    return x + 1, sized([1]), sized({}), sized((1,)), sized(3), sized("a")


@programs
def by_numbers_and_protocols_of_containers(x):
    values = (1, True, Flag(2), 1.5, 2j, Pairs(), {}, [], "a", None, x, fractions.Fraction(1, 2), range(3), iter([]))
    return x + 1, [kind(value) for value in values]


@programs
def by_two_abstract_classes_alike(x):
    try:
        return ambiguous(Both())
    except RuntimeError as error:
        return x + 1, str(error)


class Watching(type):
    asked = 0

    def __eq__(cls, other):
        Watching.asked += 1
        return cls is other

    __hash__ = type.__hash__


class Watched(metaclass=Watching):
    def __iter__(self):
        return iter(())


@programs(expect_breaks=None)
def by_a_class_that_compares_in_a_way_of_its_own(x):
    return x + 1, kind(Watched())


@programs
def by_a_class_of_the_program(x):
    class Row(Pairs):
        pass

    class Items:
        def __iter__(self):
            return iter(())

    return x + 1, kind(Row()), kind(Items())


@programs
def methods(x):
    scaler = Scaler()
    return x + scaler.scale(3), scaler.scale("ab"), scaler.scale(None), scaler.scale.__name__


SCALER = Scaler()


@programs
def methods_of_an_object_from_outside(x):
    return x + SCALER.scale(3), SCALER.scale("ab")


@programs
def methods_without_arguments(x):
    try:
        Scaler().scale()
    except (TypeError, IndexError) as error:
        return x + 1, str(error)


@programs
def asked_for(x):
    return x + 1, scaled.dispatch(int)(2, x), scaled.dispatch(Flag) is scaled.registry[int], list(scaled.registry)[1:3]


@programs
def made_in_the_program(x):
    log = []

    @functools.singledispatch
    def show(value):
        return "any"

    @show.register
    def show_int(value: int):
        log.append(value)
        return "int"

    show.register(type(None), lambda value: "none")
    return x + 1, show(1), show("a"), show(None), show(True), log, show_int(3)


@programs
def without_arguments(x):
    try:
        scaled()
    except TypeError as error:
        return x + 1, str(error)


@programs(expect_breaks=None, expect_ops=2, expect_hit=False)  # it makes a class
def with_a_cache_that_is_seen(x):
    seen = []

    class Cache(dict):
        def __setitem__(self, key, value):
            seen.append(key)
            super().__setitem__(key, value)

    original, weakref.WeakKeyDictionary = weakref.WeakKeyDictionary, Cache
    try:

        @functools.singledispatch
        def show(value):
            return "any"

    finally:
        weakref.WeakKeyDictionary = original
    return x + 1, show(1), x + 2, show("a"), show(2), seen


@programs()
def comparison_functions(x):
    longest_first = functools.cmp_to_key(lambda a, b: len(b) - len(a))
    return x + 1, sorted(["a", "ccc", "bb"], key=longest_first), max(["a", "ccc"], key=longest_first)


@programs()
def keys_of_comparison_functions(x):
    make = functools.cmp_to_key(mycmp=lambda a, b: a - b)
    said = [type(make).__name__, type(make(1)) is type(make), make.obj, make(obj=3).obj]
    for wrong in (lambda: make(1) < 1, lambda: make < make, lambda: hash(make(1)), lambda: 1 == make(1)):
        try:
            wrong()
        except (TypeError, AttributeError) as error:
            said.append(str(error))
    return x + 1, said, make(1) < make(2), make(1) == make(2), make(2) >= make(2)


@programs(expect_breaks=None, expect_ops=0)
def keys_of_comparison_functions_behind_a_break(x):
    make = functools.cmp_to_key(lambda a, b: b - a)
    one = make(1)
    framelift.graph_break()
    return x + 1, sorted([1, 3, 2], key=make), one < make(0), type(one)


test_programs = programs.test()


def test_a_later_registration_is_seen():
    @functools.singledispatch
    def kind(value):
        return 1

    def fn(x):
        return x + kind("a") + kind(3)

    follow(
        fn,
        (x(),),
        lambda: kind.register(int, lambda value: 10),
        lambda: kind.register(collections.abc.Hashable, lambda value: 100),
        lambda: kind.register(str, lambda value: 1000),
    )


def test_a_class_that_is_registered_later_is_seen():
    class Mine:
        pass

    mine = Mine()
    follow(lambda x: (x + 1, kind(mine)), (x(),), lambda: collections.abc.Iterable.register(Mine))
