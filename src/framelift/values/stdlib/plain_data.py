"""Functions of the standard library that turn plain data into plain data: run while capturing, on constants."""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framelift.values.core import protocol as py
from framelift.values.core.lookup import class_lookup, is_subclass, name_of
from framelift.values.core.primitives import primitive
from framelift.values.core.stand_ins import answering, raise_what, stand_in
from framelift.values.objects.instances import method_of_protocol

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

_FUNCTIONS: tuple[Callable[..., Any], ...] = (struct.pack, struct.unpack, struct.calcsize)
_FUNCTIONS += (json.encoder.encode_basestring, json.encoder.encode_basestring_ascii)
_FUNCTIONS += (json.decoder.scanstring,)  # type: ignore[attr-defined]


def _register() -> None:
    for function in _FUNCTIONS:

        def run(tracer: Tracer, *args: Any, _function: Callable[..., Any] = function) -> Any:
            return py.fold(tracer, _function, *[tracer.constant(argument) for argument in args])

        primitive(function)(run)


_register()


# What functions of json may be told that is plain data; anything else is a function of the program's.
_PLAIN_OPTIONS = {"skipkeys", "ensure_ascii", "check_circular", "allow_nan", "indent", "separators", "sort_keys"}


@primitive(json.dumps)
def _dumps(tracer: Tracer, obj: Any, **options: Any) -> Any:
    return _as_plain_data(tracer, json.dumps, obj, options)


@primitive(json.loads)
def _loads(tracer: Tracer, text: Any, **options: Any) -> Any:
    return _as_plain_data(tracer, json.loads, text, options)


def _as_plain_data(tracer: Tracer, function: Callable[..., Any], argument: Any, options: dict[str, Any]) -> Any:
    if not options.keys() <= _PLAIN_OPTIONS:
        return tracer.inline(tracer.known_object(function), [argument], options)
    plain = {name: tracer.constant(option) for name, option in options.items()}
    return py.fold(tracer, function, tracer.constant(argument), **plain)


@primitive(os.fspath)
def _fspath(tracer: Tracer, path: Any) -> Any:
    kind = tracer.type_of(path)
    if _is_text(kind):
        return path
    if class_lookup(tracer, kind, "__fspath__") is None:
        raise_what(os.fspath, stand_in(kind))
    found = py.call(tracer, method_of_protocol(tracer, path, "__fspath__", "path"), [], {})
    if not _is_text(py.type_of(found)):
        raise_what(os.fspath, answering(kind, "__fspath__", stand_in(py.type_of(found))))
    return found


def _is_text(kind: type) -> bool:
    return is_subclass(kind, str) or is_subclass(kind, bytes)


@primitive(sys.intern)
def _intern(tracer: Tracer, text: Any, /) -> Any:
    kind = tracer.type_of(text)
    if kind is not str and is_subclass(kind, str):
        raise_what(sys.intern, type(name_of(kind), (str,), {})())
    return py.fold(tracer, sys.intern, tracer.constant(text))
