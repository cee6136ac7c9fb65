"""What CPython's test modules that are not run regularly found, as small programs."""

from __future__ import annotations

import operator
import types

from tests.values.programs import Programs

programs = Programs()


# -- asking about classes --------------------------------------------------------------------------------------------


class SaysYes(type):
    def __subclasscheck__(cls, other):
        return other == 5


class Asked(metaclass=SaysYes):
    pass


class WithBases:
    def __init__(self, *bases):
        self.__bases__ = bases


@programs
def metaclass_is_asked_about_anything(x):
    return x + 1, issubclass(5, Asked), issubclass(6, (Asked, Asked)), issubclass(5, ())


@programs(expect_breaks=None)
def objects_that_stand_for_classes(x):
    base = WithBases()
    try:
        found = issubclass(WithBases(base), WithBases)
    except TypeError as error:
        found = str(error)
    return x + 1, found


@programs
def subclass_of_what_is_no_class(x):
    try:
        issubclass(5, (str, int))
    except TypeError as error:
        return x + 1, str(error)


# -- numbers ---------------------------------------------------------------------------------------------------------


class OwnIndex(int):
    def __index__(self):
        return int(self) + 1


class TrueIndex:
    def __index__(self):
        return True


@programs
def numbers_are_not_asked_for_their_index(x):
    number = OwnIndex(2)
    return x + 1, number.__index__(), operator.index(number), [1, 2, 3, 4][number], "abcd"[number:], hex(number)


@programs(expect_breaks=None, expect_ops=0)
def index_that_is_no_plain_number(x):
    return x + 1, operator.index(TrueIndex()), [1, 2][TrueIndex()]


# -- modules ---------------------------------------------------------------------------------------------------------


@programs(expect_breaks=None, expect_hit=None)
def what_modules_have_from_their_type(x):
    return x + 1, hasattr(types, "__eq__"), types.__annotations__, types.__str__() == str(types)


test_programs = programs.test()
