"""The keys of an OrderedDict, read from its list."""

from __future__ import annotations

from collections import OrderedDict

import pytest

from framelift.native import _core


class Asked:
    def __init__(self):
        self.asked = 0

    def __hash__(self):
        self.asked += 1
        return 17

    def __eq__(self, other):
        self.asked += 1
        return self is other


class Sub(OrderedDict):
    def __iter__(self):
        raise AssertionError("asked")


def moved():
    d = OrderedDict.fromkeys("abcdefghij" * 3)
    d.move_to_end("c")
    d.move_to_end("f", last=False)
    del d["a"]
    d.popitem()
    return d


@pytest.mark.parametrize("make", [OrderedDict, lambda: OrderedDict(a=1), moved, lambda: Sub(a=1, b=2)])
def test_keys_in_order(make):
    d = make()
    assert _core.ordered_keys(d) == list(OrderedDict.__iter__(d))


def test_nobody_is_asked():
    keys = [Asked(), Asked()]
    d = OrderedDict.fromkeys(keys)
    before = [key.asked for key in keys]
    assert [id(key) for key in _core.ordered_keys(d)] == [id(key) for key in keys]
    assert [key.asked for key in keys] == before


def test_other_objects_are_refused():
    with pytest.raises(TypeError, match="OrderedDict"):
        _core.ordered_keys({})
