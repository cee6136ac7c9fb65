"""`isinstance` and `issubclass` with abstract classes, hooks and protocols."""

from __future__ import annotations

import abc
import collections
import collections.abc
import functools
import inspect
import numbers
import sys
import typing

import framelift
from tests.helpers import check
from tests.helpers.record import Record
from tests.values.programs import Programs, follow, x

programs = Programs()


class Sized:
    def __len__(self):
        return 3


class Quacks(abc.ABC):
    asked: typing.ClassVar[list] = []

    @classmethod
    def __subclasshook__(cls, other):
        cls.asked.append(other)
        return True if any("quack" in base.__dict__ for base in other.__mro__) else NotImplemented


class Duck:
    def quack(self):
        return 1


class Strict(abc.ABCMeta):
    def __instancecheck__(cls, instance):
        return super().__instancecheck__(instance) or instance == 5


class Special(metaclass=Strict):
    pass


class Below(Special):
    pass


@typing.runtime_checkable
class HasArea(typing.Protocol):
    def area(self) -> int: ...


@typing.runtime_checkable
class Titled(typing.Protocol):
    name: str


class Square:
    def __init__(self):
        self.name = "square"

    def area(self):
        return 4


@programs
def containers_and_numbers(x):
    kinds = (collections.abc.Hashable, collections.abc.Sized, collections.abc.Sequence, collections.abc.Mapping)
    kinds += (collections.abc.Callable, collections.abc.Iterator, numbers.Number, numbers.Integral, numbers.Real)
    values = ([], (), {}, "a", 1, 1.5, 2j, None, iter([]), len, collections.deque(), Sized(), x)
    return x + 1, [[isinstance(value, kind) for kind in kinds] for value in values], issubclass(Sized, kinds)


@programs
def protocols(x):
    square = Square()
    return x + 1, [isinstance(value, HasArea) for value in (square, 3)], issubclass(Square, HasArea)


# Since 3.12 attributes are looked for in a way of their own, those of tensors in C.
@programs(expect_breaks=None if sys.version_info >= (3, 12) else 0)
def a_tensor_and_a_protocol(x):
    return x + 1, isinstance(x, HasArea)


@programs
def protocols_of_attributes(x):
    return x + 1, isinstance(Square(), Titled), isinstance(3, Titled)


@programs
def a_metaclass_that_asks_the_abstract_class(x):
    return (
        x + 1,
        isinstance(Below(), Special),
        isinstance(5, Special),
        isinstance(6, Special),
        issubclass(Below, Special),
    )


@programs
def a_hook_that_has_answered(x):  # eager runs first
    return x + 1, isinstance(Duck(), Quacks), issubclass(int, Quacks)


class Abstract(abc.ABC):
    @abc.abstractmethod
    def method(self): ...


@programs
def abstract_or_not(x):
    class Made(Abstract):
        pass

    class Concrete(Abstract):
        def method(self):
            return 1

    return x + 1, [inspect.isabstract(cls) for cls in (Abstract, Made, Concrete, int, Duck)]


@programs
def ordered_in_full(x):  # eager runs first, and gives the functions of the library their names
    @functools.total_ordering
    class Version:
        def __init__(self, number):
            self.number = number

        def __eq__(self, other):
            return self.number == other.number

        def __lt__(self, other):
            return self.number < other.number

    one, two = Version(1), Version(2)
    return x + 1, one <= two, one > two, one >= one, max(one, two).number, Version.__ge__.__name__


test_programs = programs.test()


def test_a_method_that_is_no_longer_abstract_is_seen():
    class Changing(abc.ABC):
        @abc.abstractmethod
        def method(self): ...

    def change():
        Changing.method = lambda self: 1
        abc.update_abstractmethods(Changing)

    follow(lambda x: (x + 1, inspect.isabstract(Changing)), (x(),), change)


def test_another_name_is_given_by_python():
    def named():
        return 1

    def f(x, name):
        named.__name__ = name
        return x + 1

    lifted = framelift.compile(f, backend="eager")
    for name in ("named", "other", "other"):
        lifted(x(), name)
        assert named.__name__ == name


def test_capture_does_not_run_a_hook():
    class Goose:
        def quack(self):
            return 2

    def f(x):
        return x + 1, isinstance(Goose(), Quacks)

    record = Record()
    with record.listening():
        assert framelift.compile(f, backend="eager")(x())[1]
    assert len(record.breaks) == 1
    assert Quacks.asked.count(Goose) == 1


def test_a_hook_from_a_module_with_the_name_of_another():
    """Only the standard library's own hooks are known to run nothing."""
    asked = []
    names = {"__name__": "typing", "abc": abc, "asked": asked}
    exec(
        "class Hooked(abc.ABC):\n"
        "    @classmethod\n"
        "    def __subclasshook__(cls, other):\n"
        "        asked.append(other)\n"
        "        return NotImplemented\n",
        names,
    )
    hooked = names["Hooked"]
    record = Record()
    with record.listening():
        assert framelift.compile(lambda x: (x + 1, isinstance(x, hooked)), backend="eager")(x())[1] is False
    assert len(record.breaks) == 1 and len(asked) == 1


def test_a_registration_is_seen():
    class Other:
        pass

    other = Other()
    follow(
        lambda x: (x + 1, isinstance(other, collections.abc.Sized), isinstance(other, Special)),
        (x(),),
        lambda: collections.abc.Sized.register(Other),
        lambda: Special.register(Other),
    )


@typing.runtime_checkable
class HasValue(typing.Protocol):
    value: int


class Unasked:
    pass


class Valued:
    def __init__(self):
        self.value = 1


def test_protocols_with_data_answer_instance_checks_only():
    def program(v):
        v = v + 1
        try:
            issubclass(Unasked, HasValue)
        except TypeError as error:
            return v, str(error), isinstance(Valued(), HasValue), isinstance(Sized(), HasValue)
        return v

    check(program, x(), expect_breaks=None, expect_hit=False)
