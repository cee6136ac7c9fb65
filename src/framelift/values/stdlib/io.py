"""Text streams implemented in C, such as `sys.stdout`: what is written to them is journaled."""

from __future__ import annotations

import io
import types
from functools import partial
from typing import TYPE_CHECKING, Any

from framelift.models.side_effects import flush, write
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.lookup import has_default, is_subclass, raw_lookup
from framelift.values.core.methods import ModelMethodValue
from framelift.values.core.refusals import Operation
from framelift.values.tensors.deferred import DeferredValue, call_later

if TYPE_CHECKING:
    from framelift.values.core.tracer import Tracer

_BUFFERS = (io.BufferedWriter, io.BufferedRandom, io.FileIO, io.BytesIO)


def stream_base(cls: type) -> type | None:
    """The C class that writes for instances of `cls`."""
    return next((base for base in (io.TextIOWrapper, io.StringIO) if is_subclass(cls, base)), None)


class TextStreamValue(Value):
    """A stream that existed before the frame. Writing cannot fail: it is open, and takes the text."""

    __slots__ = ("stream_type",)

    def __init__(self, source: Any, concrete: Any) -> None:
        super().__init__(source, concrete)
        base = stream_base(type(concrete))
        assert base is not None
        self.stream_type = base

    def kept(self) -> Value:
        """Itself, for a call made later."""
        return self

    def attribute(self, tracer: Tracer, name: str) -> Any:
        model = _METHODS.get(name)
        default = raw_lookup(self.stream_type, name)
        if model is None or not has_default(tracer, type(self.concrete), name, default) or self._hides(tracer, name):
            self.refuse(Operation.ATTRIBUTE, name=name)
        return ModelMethodValue(self, name, partial(model, self, tracer))

    def _hides(self, tracer: Tracer, name: str) -> bool:
        """Whether the instance itself has something of that name."""
        assert self.source is not None
        namespace = tracer.wrap(self.concrete.__dict__, self.source.child("INSTANCE_DICT"))
        return bool(py.contains(tracer, namespace, name))

    def write(self, tracer: Tracer, text: Any, /) -> Any:
        if py.type_of(text) is not str:
            self.refuse(f"write() of {py.describe(text)}")
        self._note_open(tracer)
        self._note_encoding(tracer, text)
        call_later(tracer, write, [self, text])
        return DeferredValue(int, len, [text]) if isinstance(text, Value) else len(text)

    def flush(self, tracer: Tracer) -> None:
        self._note_open(tracer)
        call_later(tracer, flush, [self])

    def _note_open(self, tracer: Tracer) -> None:
        assert self.source is not None
        if (
            self.stream_type is io.TextIOWrapper
            and type(io.TextIOWrapper.__dict__["buffer"].__get__(self.concrete)) not in _BUFFERS
        ):
            self.refuse("write() to something that is not a file")
        closed = self.stream_type.__dict__["closed"].__get__(self.concrete)
        if closed:
            self.refuse("write() after it was closed")
        tracer.guard(self.source.child("GETATTR", "closed"), "IS", False)

    def _note_encoding(self, tracer: Tracer, text: Any) -> None:
        """Every encoding has the characters of ASCII; for others it must be one that has them all."""
        if self.stream_type is io.StringIO or (isinstance(text, str) and text.isascii()):
            return
        assert self.source is not None
        encoding = io.TextIOWrapper.__dict__["encoding"].__get__(self.concrete)
        if encoding.lower() not in ("utf-8", "utf8") or (isinstance(text, str) and not _has_no_surrogates(text)):
            self.refuse("write() of characters its encoding may not have")
        tracer.guard(self.source.child("GETATTR", "encoding"), "EQUALS", encoding)


def _has_no_surrogates(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


_METHODS: types.MappingProxyType[str, Any] = types.MappingProxyType(
    {"write": TextStreamValue.write, "flush": TextStreamValue.flush}
)
