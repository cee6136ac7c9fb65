"""Python's own errors, in its own words: it is asked what it says of objects that it cannot tell from the program's.

    raise_what(operator.getitem, stand_in(cls), 0)             # 'Point' object is not subscriptable
    raise_what(iter, answering(cls, "__iter__", stand_in(int)))  # iter() returned non-iterator of type 'int'
    raise_by("a, b = given", given=[None])                     # not enough values to unpack (expected 2, got 1)

Nothing of the program's is among the operands: a stand-in is empty, and shares nothing with a class but its name.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, NoReturn

from framelift.breaks import FL0102, GraphBreak
from framelift.values.core import protocol as py
from framelift.values.core.exceptions import raise_error, raised_from
from framelift.values.core.lookup import name_in_errors, name_of

# Types in C of which there is an empty instance: what they say may be in words of their own. By identity: a class may
# compare in its own way.
_EMPTY: dict[int, Callable[[], Any]] = {id(slice): lambda: slice(None)}
_EMPTY |= {id(kind): kind for kind in (list, tuple, dict, set, frozenset, deque, OrderedDict, defaultdict)}
_EMPTY |= {id(kind): kind for kind in (str, bytes, bytearray, int, bool, float, complex)}
_EMPTY |= {id(kind): kind for kind in (type(None), type(NotImplemented), type(...))}


def raise_what(operation: Callable[..., Any], *operands: Any, **named: Any) -> NoReturn:
    """Raise in the program what an operation raises on constants and stand-ins."""
    try:
        operation(*operands, **named)
    except Exception as error:  # noqa: BLE001  (whatever it raises, the program raises)
        raise raised_from(error) from None
    raise GraphBreak(FL0102, what=f"{getattr(operation, '__name__', 'an operation')} that Python does not refuse")


def raise_by(statement: str, **operands: Any) -> NoReturn:
    """The same of a statement."""
    raise_what(exec, statement, operands)


def stand_in(cls: type, **methods: Any) -> Any:
    """An object that an error calls the same as instances of `cls`; it has no methods but these."""
    if not methods and id(cls) in _EMPTY:
        return _EMPTY[id(cls)]()
    return type(name_in_errors(cls), (), {"__module__": "builtins", **methods})()


def answering(cls: type, method: str, answer: Any) -> Any:
    """The same with a method that gives `answer`, which its caller is to refuse."""
    return stand_in(cls, **{method: lambda *_: answer})


def stand_in_for(value: Any) -> Any:
    """What stands for a value; a constant and a number stand for themselves."""
    number = py.key_like(value)
    return stand_in(py.type_of(value)) if number is None else number


def shown_as(text: str) -> Any:
    """An object with this text."""
    return stand_in(object, __repr__=lambda _: text)


def _words(operation: Callable[..., Any], *operands: Any) -> str:
    """What an operation says of operands that are named like the facts of a format."""
    try:
        operation(*operands)
    except Exception as error:  # noqa: BLE001  (whatever Python raises, its words are the answer)
        return str(error)
    raise AssertionError("Python does not refuse it")


# Asked once: programs often look for what is not there.
_NO_ATTRIBUTE = _words(getattr, type("{kind}", (), {})(), "{name}")
_NO_ATTRIBUTE_OF_CLASS = _words(getattr, type("{kind}", (), {}), "{name}")


def raise_no_attribute(kind: type | str, name: str) -> NoReturn:
    """Raise what is raised where an instance of `kind`, or of what errors call so, has no attribute of this name."""
    named = kind if isinstance(kind, str) else name_in_errors(kind)
    raise_error(AttributeError, _NO_ATTRIBUTE.format(kind=named, name=name))


def raise_no_attribute_of_class(cls: type, name: str) -> NoReturn:
    """The same for a class."""
    raise_error(AttributeError, _NO_ATTRIBUTE_OF_CLASS.format(kind=name_of(cls), name=name))


def raise_unhashable(cls: type) -> NoReturn:
    """Raise what `hash()` raises of an instance of `cls`, which has none."""
    raise_what(hash, stand_in(cls, __hash__=None))
