"""`functools.singledispatch`: implementations are found as Python finds them, also when some are added later."""

from __future__ import annotations

import abc
import collections.abc
import fractions
import functools
import numbers
import weakref

import torch

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
