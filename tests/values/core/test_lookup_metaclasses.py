"""A `__getattribute__` of a metaclass answers for the attributes of its classes."""

from __future__ import annotations

import framelift
from tests.values.programs import Programs, x

programs = Programs()


class Meta(type):
    def __getattribute__(cls, name):
        if name == "answered":
            return ("answered", super().__getattribute__("field"))
        if name == "refused":
            raise AttributeError(name)
        return type.__getattribute__(cls, name)


class Made(metaclass=Meta):
    field = 3
    refused = 4


class WithFallback(Meta):
    def __getattr__(cls, name):
        return f"no {name}"


class Both(metaclass=WithFallback):
    field = 5
    refused = 6


@programs
def the_metaclass_is_asked(x):
    return (
        x + Made.field,
        Made.answered,
        getattr(Made, "refused", None),
        Both.refused,
        Both.absent,
        hasattr(Made, "gone"),
    )


@programs
def what_it_raises_is_raised(x):
    try:
        Made.refused
    except AttributeError as error:
        return x + 1, str(error)


test_programs = programs.test()


def test_another_one_is_seen():
    class Changing(type):
        pass

    class Some(metaclass=Changing):
        field = 1

    def f(x):
        return x + Some.field

    lifted = framelift.compile(f, backend="eager", fullgraph=True)
    assert lifted(x()).equal(x() + 1)
    Changing.__getattribute__ = lambda cls, name: 10
    assert lifted(x()).equal(x() + 10)


def test_one_written_in_c_gives_what_type_gives():
    from torch._C import _SDPBackend as Kernel  # its metaclass is written in C

    assert type(Kernel).__getattribute__ is not type.__getattribute__

    def f(x):
        return x + int(Kernel.MATH), getattr(Kernel, "NOWHERE", 3), hasattr(Kernel, "MATH"), Kernel.__name__

    assert framelift.compile(f, backend="eager", fullgraph=True)(x())[1:] == f(x())[1:]


def test_one_written_in_c_that_gives_something_else_is_not_traced():
    from torch._C import _SDPBackend as Kernel

    def f(x):
        members = Kernel.__members__  # computed anew, by a descriptor of its own kind
        return x + 1, sorted(members)

    assert framelift.compile(f, backend="eager")(x())[1] == f(x())[1]


def test_patterns_do_not_ask_it():
    asked = []

    class Asked(type):
        def __getattribute__(cls, name):
            asked.append(name)
            return type.__getattribute__(cls, name)

    class Some(metaclass=Asked):
        pass

    def f(x, some):
        match some:
            case [_, _]:
                return x
            case {"a": 1}:
                return x
            case _:
                return x + 1

    some = Some()
    asked.clear()
    assert framelift.compile(f, backend="eager", fullgraph=True)(x(), some).equal(x() + 1)
    assert not asked
