"""Functions of the standard library that turn plain data into plain data: run while capturing, on constants."""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.values.core import protocol as py
from framelift.values.core.exceptions import raise_error
from framelift.values.core.lookup import class_lookup, is_subclass, name_of
from framelift.values.core.primitives import primitive

if TYPE_CHECKING:
    from framelift.capture.lift import Lift

_FUNCTIONS: tuple[Callable[..., Any], ...] = (struct.pack, struct.unpack, struct.calcsize)
_FUNCTIONS += (json.encoder.encode_basestring, json.encoder.encode_basestring_ascii)
_FUNCTIONS += (json.decoder.scanstring,)  # type: ignore[attr-defined]


def _register() -> None:
    for function in _FUNCTIONS:

        def run(lift: Lift, *args: Any, _function: Callable[..., Any] = function) -> Any:
            return py.fold(lift, _function, *[lift.constant(argument) for argument in args])

        primitive(function)(run)


_register()


# What functions of json may be told that is plain data; anything else is a function of the program's.
_PLAIN_OPTIONS = {"skipkeys", "ensure_ascii", "check_circular", "allow_nan", "indent", "separators", "sort_keys"}


@primitive(json.dumps)
def _dumps(lift: Lift, obj: Any, **options: Any) -> Any:
    return _as_plain_data(lift, json.dumps, obj, options)


@primitive(json.loads)
def _loads(lift: Lift, text: Any, **options: Any) -> Any:
    return _as_plain_data(lift, json.loads, text, options)


def _as_plain_data(lift: Lift, function: Callable[..., Any], argument: Any, options: dict[str, Any]) -> Any:
    if not options.keys() <= _PLAIN_OPTIONS:
        return lift.inline(lift.known_object(function), [argument], options)
    plain = {name: lift.constant(option) for name, option in options.items()}
    return py.fold(lift, function, lift.constant(argument), **plain)


@primitive(os.fspath)
def _fspath(lift: Lift, path: Any) -> Any:
    kind = lift.type_of(path)
    if _is_text(kind):
        return path
    if class_lookup(lift, kind, "__fspath__") is None:
        raise_error(TypeError, f"expected str, bytes or os.PathLike object, not {name_of(kind)}")
    found = py.call(lift, lift.special_method(path, "__fspath__", "path"), [], {})
    if not _is_text(py.type_of(found)):
        what = f"expected {name_of(kind)}.__fspath__() to return str or bytes, not {name_of(py.type_of(found))}"
        raise_error(TypeError, what)
    return found


def _is_text(kind: type) -> bool:
    return is_subclass(kind, str) or is_subclass(kind, bytes)


@primitive(sys.intern)
def _intern(lift: Lift, text: Any, /) -> Any:
    kind = lift.type_of(text)
    if kind is not str and is_subclass(kind, str):
        raise_error(TypeError, f"can't intern {name_of(kind)}")
    return py.fold(lift, sys.intern, lift.constant(text))
