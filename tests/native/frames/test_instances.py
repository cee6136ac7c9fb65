"""Attributes that residual code stores in objects it made."""

from __future__ import annotations

import collections
from typing import Any

import pytest

from framelift.native import _core


class Plain:
    pass


class Watchful:
    """Has a property, a plain attribute and a method of the names that are stored, and refuses to be changed."""

    plain = 1

    @property
    def computed(self) -> int:
        return 2

    def method(self) -> None: ...

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(name)


@pytest.mark.parametrize("make", [Plain, Watchful, collections.OrderedDict, ValueError, lambda: lambda: None])
def test_they_are_in_its_dict_in_their_order(make: Any) -> None:
    names = ("method", "computed", "plain", "other", "__doc__")
    made = make()
    _core.store_attributes(made, names, *range(5))
    assert list(object.__getattribute__(made, "__dict__").items()) == list(zip(names, range(5), strict=True))


def test_what_the_class_says_comes_first_afterwards() -> None:
    made = Watchful()
    _core.store_attributes(made, ("computed", "plain"), "stored", "stored")
    assert (made.computed, made.plain) == (2, "stored")


def test_an_object_without_a_dict_takes_none() -> None:
    with pytest.raises(AttributeError):
        _core.store_attributes(object(), ("a",), 1)


@pytest.mark.parametrize("arguments", [(), (Plain(),), (Plain(), ("a",)), (Plain(), ["a"], 1), (Plain(), ("a",), 1, 2)])
def test_names_and_values_have_to_match(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="a tuple of names and a value for each"):
        _core.store_attributes(*arguments)
