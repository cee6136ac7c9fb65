"""The event stream: who emits, who listens.

A listener names the events it wants; emitting one that nobody wants costs a dictionary lookup, and a producer asks
`wanted(GuardsBuilt)` before it builds an event that is dear to make.

    >>> seen = []
    >>> with listening(seen.append, GraphBroke):
    ...     emit(GraphBroke(0, "FL0000", "example", "file.py", 1))
    >>> len(seen)
    1
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from framelift.locks import Lock
from framelift.report.events import EVENTS, Event

Listener = Callable[[Any], object]
_Table = Mapping[type[Event], tuple[Listener, ...]]
_NOBODY: _Table = MappingProxyType({})


class Stream:
    """Listeners by event type. Tables are replaced, never changed, so emitting needs no lock."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: _Table = _NOBODY
        # Listeners of one context (a test, an explain()) hear what happens in that context only.
        self._context: ContextVar[_Table] = ContextVar("framelift_listeners", default=_NOBODY)
        self._captures = itertools.count()

    def new_capture(self) -> int:
        """The number that the events of one capture share."""
        return next(self._captures)

    def emit(self, event: Event) -> None:
        kind = type(event)
        for listener in self._process.get(kind, ()):
            listener(event)
        for listener in self._context.get().get(kind, ()):
            listener(event)

    def wanted(self, kind: type[Event]) -> bool:
        """Whether anybody listens to this kind of event here."""
        return kind in self._process or kind in self._context.get()

    def subscribe(self, listener: Listener, *kinds: type[Event]) -> Callable[[], None]:
        """Hear these kinds of events (all, if none is named) in the whole process; returns the way to stop."""
        hook = functools.partial(listener)  # an identity of its own: the same listener may subscribe twice
        with self._lock:
            self._process = _with(self._process, hook, kinds)

        def unsubscribe() -> None:
            with self._lock:
                self._process = _without(self._process, hook)

        return unsubscribe

    @contextmanager
    def listening(self, listener: Listener, *kinds: type[Event]) -> Iterator[None]:
        """Hear these kinds of events (all, if none is named) of this context, inside the block."""
        token = self._context.set(_with(self._context.get(), listener, kinds))
        try:
            yield
        finally:
            self._context.reset(token)


def _with(table: _Table, listener: Listener, kinds: tuple[type[Event], ...]) -> _Table:
    return {**table, **{kind: (*table.get(kind, ()), listener) for kind in kinds or EVENTS}}


def _without(table: _Table, listener: Listener) -> _Table:
    kept = {kind: tuple(other for other in listeners if other is not listener) for kind, listeners in table.items()}
    return {kind: listeners for kind, listeners in kept.items() if listeners}


# The one stream of the process. State has an owner: this object; reading it is the rooms' only way to be heard.
STREAM = Stream()
emit = STREAM.emit
wanted = STREAM.wanted
subscribe = STREAM.subscribe
listening = STREAM.listening
new_capture = STREAM.new_capture
