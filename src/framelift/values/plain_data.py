"""Functions of the standard library that turn plain data into plain data: run while capturing, on constants."""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.values import protocol as py
from framelift.values.primitives import primitive

if TYPE_CHECKING:
    from framelift.capture.lift import Lift

_FUNCTIONS: tuple[Callable[..., Any], ...] = (json.loads, sys.intern, struct.pack, struct.unpack, struct.calcsize)


def _register() -> None:
    for function in _FUNCTIONS:

        def run(lift: Lift, *args: Any, _function: Callable[..., Any] = function) -> Any:
            return py.fold(lift, _function, *[lift.constant(argument) for argument in args])

        primitive(function)(run)


_register()


@primitive(json.dumps)
def _dumps(
    lift: Lift,
    obj: Any,
    *,
    skipkeys: Any = False,
    ensure_ascii: Any = True,
    check_circular: Any = True,
    allow_nan: Any = True,
    indent: Any = None,
    separators: Any = None,
    sort_keys: Any = False,
) -> Any:
    options = {
        "skipkeys": skipkeys,
        "ensure_ascii": ensure_ascii,
        "check_circular": check_circular,
        "allow_nan": allow_nan,
        "indent": indent,
        "separators": separators,
        "sort_keys": sort_keys,
    }
    plain = {name: lift.constant(option) for name, option in options.items()}
    return py.fold(lift, json.dumps, lift.constant(obj), **plain)


@primitive(os.fspath)
def _fspath(lift: Lift, path: Any) -> Any:
    if py.has_type(path, str, bytes):
        return path
    return py.call(lift, lift.special_method(path, "__fspath__", "path"), [], {})
