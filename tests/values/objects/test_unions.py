"""Generic aliases and unions at run time, dicts keyed by classes and functions."""

from __future__ import annotations

import abc
import types
import typing
from collections.abc import Iterable, Sequence

import torch

import framelift
from tests.helpers import check
from tests.helpers.record import Record
from tests.values.cases import Cases, vector

cases = Cases()
X = vector()
ALIAS = list[int]
UNION = int | None
TABLES = {torch.Tensor: 1, torch.nn.Parameter: 2, int: 3}


def double(x):
    return x * 2


def half(x):
    return x / 2


BY_FUNCTION = {double: 1, half: 2}


@cases(X)
def aliases_made(x):
    made = dict[str, list[int]]
    return x + 1, made, made.__origin__ is dict, list[int].__args__, tuple[int, ...]


@cases(X)
def aliases_of_abstract_classes(x):
    made = Sequence[int]
    return x + 1, made, made.__origin__ is Sequence, typing.cast(Iterable[int], [1])


@cases(X)
def aliases_called(x):
    return x + 1, list[int](), dict[str, int](a=1), ALIAS((1, 2))


class Keeps:
    __class_getitem__ = classmethod(types.GenericAlias)


@cases(X, expect_breaks=1)
def an_alias_called_that_marks_what_it_makes(x):
    return x + 1, Keeps[int]().__orig_class__.__args__


@cases(X)
def aliases_read(x):
    return x + 1, typing.get_origin(ALIAS) is list, typing.get_args(ALIAS), typing.get_origin(int)


@cases(X)
def unions_read(x):
    return x + 1, typing.get_args(UNION), typing.get_origin(UNION) is types.UnionType, hasattr(UNION, "nothing")


@cases(X)
def unions_of_aliases(x):
    made = Sequence[int] | tuple[int, ...]
    return x + 1, made, list[int] | None, int | ALIAS | str, ALIAS | ALIAS, typing.cast(made | None, x)


@cases(X, expect_breaks=None, expect_ops=0)
def aliases_with_other_operators(x):
    try:
        return ALIAS + 1
    except TypeError as error:
        return x + 1, str(error)


@cases(X, expect_breaks=None, expect_ops=0)
def instances_of_a_union_with_an_alias(x):
    try:
        return isinstance("s", int | list[int])
    except TypeError as error:
        return x + 1, str(error)


@cases(X)
def unions_compared_with_others(x):
    return x + 1, UNION == "int", UNION != 3, 3 == UNION, UNION is UNION


@cases(X)
def not_subscriptable(x):
    try:
        return int[3]
    except TypeError as error:
        return x + 1, str(error)


@cases(X, X, changed=[(X, 3), (X, torch.nn.Parameter(X)), (X, "s")])
def keyed_by_class(x, y):
    return x + TABLES.get(type(y), 9)


@cases(X, double, changed=[(X, half), (X, abs)])
def keyed_by_function(x, function):
    return x + BY_FUNCTION.get(function, 7)


class Generic(abc.ABC):
    """A class that answers subscripts itself."""

    def __class_getitem__(cls, item):
        return (cls, item)


@cases(X)
def own_subscript(x):
    return x + 1, Generic[3]


UserId = typing.NewType("UserId", int)
T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    def __init__(self, value):
        self.value = value


class OtherMeta(type):
    def __eq__(cls, other):
        return cls is other

    __hash__ = type.__hash__


class Other(metaclass=OtherMeta):
    pass


@cases(X)
def casts(x):
    y = typing.cast(typing.Optional[int], 3)  # noqa: UP045
    z = typing.cast(typing.Union[int, str, None], "z")  # noqa: UP007
    return x + y, z, typing.cast(typing.List[typing.Tuple[int, ...]], [])  # noqa: UP006


@cases(X)
def expressions(x):
    found = typing.Dict[str, typing.List[int]], typing.Callable[[int], str], typing.Literal["a", 1]  # noqa: UP006
    return x + Box[int](3).value, found, typing.get_args(found[0]), typing.get_origin(Box[int]) is Box


@cases(X, expect_breaks=None)
def expressions_with_a_metaclass_that_compares(x):
    return x + 1, typing.Optional[Other]  # noqa: UP045


@cases(X)
def new_types(x):
    return x + UserId(3), UserId.__name__


@cases(X)
def checks_by_stand_ins(x):
    sequence, both = typing.Sequence, typing.Union[int, str]  # noqa: UP006, UP007, UP035
    checked = [isinstance(value, sequence) for value in ([], (), {}, "a", x)]
    return x + 1, checked, isinstance(3, (both, list)), isinstance(2.5, both), issubclass(list, sequence)


@cases(X)
def kinds_of_bound_methods(x):
    bound = (
        "a".upper,
        (5).__add__,
        [].__len__,
        [].__getitem__,
        {}.get,
        object().__repr__,
        Box(1).__init__,
        Box(1).__str__,
    )
    return x + 1, [type(method) for method in bound]


@cases(X)
def texts(x):
    made = (
        list[int],
        dict[str, torch.Tensor],
        tuple[()],
        tuple[int, ...],
        list[list[int]],
        int | None,
        str | list[int],
    )
    return x + 1, [str(expression) for expression in made], repr(made[0])


@cases(X)
def members_of_unions_come_once(x):
    made = (int | str) | int, int | int, str | None | str, list[int] | int | None
    return x + 1, [str(expression) for expression in made], (int | int) is int, [part.__args__ for part in made[::2]]


@cases(X, expect_breaks=None)
def unions_that_are_compared(x):
    return x + 1, list[int] | list[int], list[int] | list[str], {int | str: 1}[str | int], len({int | str, str | int})


@cases(X, expect_breaks=None)
def starred_aliases(x):
    made = tuple[*tuple[int, str]], tuple[int, ...], [*tuple[int]][0], list[[int, str]]
    return x + 1, [repr(expression) for expression in made]


@cases(X, [*tuple[int, ...]][0], changed=[(X, [*tuple[int]][0]), (X, list[...]), (X, list[None]), (X, list[int])])
def aliases_given(x, alias):
    return x + 1, repr(alias), alias.__origin__, str(list[alias])


VARIABLE = typing.TypeVar("VARIABLE")


@cases(X, expect_breaks=None)
def unions_of_type_variables(x):
    try:
        return x + 1, str(VARIABLE | None), str(int | VARIABLE)
    except TypeError as error:
        return x + 2, str(error)


test_programs = cases.test


def test_sets_of_classes():
    known = {int, torch.Tensor, double}

    def f(x, y):
        return x + (1 if type(y) in known else 2) + (10 if str in known else 20)

    lifted = framelift.compile(f, backend="eager")
    assert lifted(X, X).equal(X + 21)
    assert lifted(X, "s").equal(X + 22)
    known.add(str)
    assert lifted(X, "s").equal(X + 11)
    known.discard(torch.Tensor)
    assert lifted(X, X).equal(X + 12)
    known.add(float)
    with Record().listening() as record:
        assert lifted(X, X).equal(X + 12)
    assert not record.captures


def test_unions_with_tensors() -> None:
    def f(x):
        number = float | torch.Tensor
        return x + 1, isinstance(x, number), isinstance(2, torch.nn.Parameter | float), str(list[torch.Tensor | float])

    check(f, vector(), expect_breaks=None)
