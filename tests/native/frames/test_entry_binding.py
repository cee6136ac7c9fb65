"""A lifted callable binds arguments as CPython does: same slots, or the same TypeError."""

from __future__ import annotations

import itertools
from types import FunctionType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framelift.native import _core
from tests.native.entry_helpers import accept, lift

NAMES = "abcdefgh"


def outcome(callable: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    try:
        return callable(*args, **kwargs)
    except TypeError as error:
        return str(error)


def make(
    posonly: int, positional: int, defaults: int, kwonly: int, kwdefaults: int, star: bool, stars: bool
) -> FunctionType:
    names = iter(NAMES)
    front = list(itertools.islice(names, posonly + positional))
    keyword = list(itertools.islice(names, kwonly))
    spelled = [f"{name}='{name}0'" if i >= len(front) - defaults else name for i, name in enumerate(front)]
    if posonly:
        spelled.insert(posonly, "/")
    if star or keyword:
        spelled.append("*args" if star else "*")
    spelled += [f"{name}='{name}1'" if i < kwdefaults else name for i, name in enumerate(keyword)]
    if stars:
        spelled.append("**kw")
    slots = front + keyword + ["args"] * star + ["kw"] * stars
    namespace: dict[str, Any] = {}
    result = "(" + "".join(f"{name}, " for name in slots) + ")"
    exec(f"def f({', '.join(spelled)}): return {result}\ndef r({', '.join(slots)}): return {result}", namespace)
    accept(namespace["f"], namespace["r"])
    return namespace["f"]


@st.composite
def signatures(draw: st.DrawFn) -> FunctionType:
    posonly, positional, kwonly = (draw(st.integers(0, 2)) for _ in range(3))
    return make(
        posonly,
        positional,
        draw(st.integers(0, posonly + positional)),
        kwonly,
        draw(st.integers(0, kwonly)),
        draw(st.booleans()),
        draw(st.booleans()),
    )


@settings(max_examples=200, deadline=None)
@given(
    signatures(),
    st.lists(st.integers(), max_size=6),
    st.dictionaries(st.sampled_from(NAMES), st.integers(), max_size=5),
)
def test_equals_cpython(function: FunctionType, args: list[int], kwargs: dict[str, int]) -> None:
    lifted = lift(function)
    assert outcome(lifted, tuple(args), kwargs) == outcome(function, tuple(args), kwargs)
    assert lifted.table.misses == 0


def test_every_slot_kind_by_hand() -> None:
    def f(a, b=2, /, c=3, *args, d, e=5, **kw):
        return "function"

    def r(a, b, c, d, e, args, kw):
        return a, b, c, args, d, e, kw

    accept(f, r)
    lifted = lift(f)
    assert lifted(1, d=4) == (1, 2, 3, (), 4, 5, {})
    assert lifted(1, 9, 8, 7, 6, d=4, z=1) == (1, 9, 8, (7, 6), 4, 5, {"z": 1})
    assert lifted(1, c=0, e=0, d=0, a=10) == (1, 2, 0, (), 0, 0, {"a": 10})
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'd'"):
        lifted(1)


def test_defaults_are_read_when_called() -> None:
    def f(a, b=1, *, c=2):
        return "function"

    def r(a, b, c):
        return a, b, c

    accept(f, r)
    lifted = lift(f)
    assert lifted(0) == (0, 1, 2)
    f.__defaults__ = (10, 11)
    f.__kwdefaults__ = {"c": 12}
    assert lifted() == (10, 11, 12)
    f.__defaults__ = None
    f.__kwdefaults__ = None
    with pytest.raises(TypeError):
        lifted(0)


def test_keywords_that_are_not_interned_or_not_plain_strings() -> None:
    class Name(str):
        def __eq__(self, other):
            return str(other) == "a"

        __hash__ = str.__hash__

    def f(a, b=0):
        return "function"

    accept(f, lambda a, b: (a, b))
    lifted = lift(f)
    assert lifted(**{"".join(["", "a"]): 1}) == (1, 0)
    assert lifted(**{Name("zzz"): 1}) == (1, 0)


def test_replaced_code_is_followed() -> None:
    def f(a):
        return "f"

    def g(a, b=2):
        return "g"

    accept(f, lambda a: ("f", a))
    lifted = lift(f)
    assert lifted(1) == ("f", 1)
    old = lifted.table
    f.__code__, f.__defaults__ = g.__code__, g.__defaults__
    assert lifted(1) == "g"
    assert lifted.table is not old
    assert lifted.table is _core.table_for(g.__code__, old.key)
    accept(f, lambda a, b: ("g", a, b))
    assert lifted(1) == ("g", 1, 2)


def test_many_arguments_leave_the_small_buffer() -> None:
    names = [f"a{i}" for i in range(200)]
    namespace: dict[str, Any] = {}
    exec(f"def f({', '.join(names)}, *rest): pass\ndef r({', '.join(names)}, rest): return a0, a199, rest", namespace)
    accept(namespace["f"], namespace["r"])
    values = [object() for _ in range(201)]
    assert lift(namespace["f"])(*values) == (values[0], values[199], (values[200],))
