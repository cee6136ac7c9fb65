"""The journal: every change the traced program makes to a value, so that it can be undone and replayed.

Capture never touches a real object of the user. A value that is about to change is `touch`ed: its state is saved for
undoing (once per step of the outermost frame), and if it stands for an object that outlives the frame it is listed
for replay. Replay brings each real object to the final state of its value, in the order of first change, after the
graph has returned.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from itertools import repeat
from operator import is_
from typing import Any, Protocol, cast

from framelift.guards.source import Source


class Changeable(Protocol):
    """What the journal can undo: values, and the modes of torch."""

    @property
    def source(self) -> Source | None: ...

    def state(self) -> Any: ...

    def restore(self, state: Any) -> None: ...

    def is_as_it_was(self, state: Any) -> bool: ...


class Replayed(Changeable, Protocol):
    """What stands for an object that outlives the frame: a value."""

    @property
    def has_twins(self) -> bool: ...

    def python_type(self) -> type: ...

    def describe(self) -> str: ...

    def replay(self, emit: Any) -> None: ...

    def put_back(self, emit: Any) -> None: ...


class Journal:
    """Undo and replay for one capture."""

    def __init__(self) -> None:
        self._saved: list[tuple[Changeable, Any]] = []
        self._touched: set[int] = set()
        self.changed: list[Replayed] = []
        self._changed_before = 0
        self._watched: list[Changeable] | None = None

    def touch(self, value: Changeable) -> None:
        """Call before changing `value`."""
        if self._watched is not None and value.source is not None:
            self._watched.append(value)
        if id(value) in self._touched:
            return
        self._touched.add(id(value))
        self._saved.append((value, value.state()))
        if value.source is not None and not any(map(is_, self.changed, repeat(value))):
            # Only values have a source: modes are of the process, not of an input.
            self.changed.append(cast("Replayed", value))

    def perform(self, call: Replayed) -> None:
        """Have `call` replayed here, in the order of the program."""
        if self._watched is not None:
            self._watched.append(call)
        self._saved.append((call, ()))
        self.changed.append(call)

    @contextmanager
    def watched(self) -> Iterator[list[Changeable]]:
        """What changes in this block and outlives the frame, also if it changed before."""
        outer, self._watched = self._watched, []
        try:
            yield self._watched
        finally:
            if outer is not None:
                outer += self._watched
            self._watched = outer

    def begin_step(self) -> None:
        """What happened so far is final; what follows can be undone up to here."""
        if self._saved:
            self._saved = []
            self._touched = set()
            self._changed_before = len(self.changed)

    def since_step(self) -> list[Changeable]:
        """What changed since the last `begin_step`."""
        return [value for value, _ in self._saved]

    @property
    def leaves_traces(self) -> bool:
        """Whether something that outlives the frame is another than when the journal began."""
        before = {id(value): state for value, state in self._saved}
        return any(id(value) not in before or not value.is_as_it_was(before[id(value)]) for value in self.changed)

    def changes(self, values: Container[int]) -> bool:
        """Whether one of these values, given by their ids, is another than when the journal began."""
        return any(id(value) in values and not value.is_as_it_was(state) for value, state in self._saved)

    def roll_back(self) -> None:
        """Undo everything since the last `begin_step`."""
        for value, state in reversed(self._saved):
            value.restore(state)
        del self.changed[self._changed_before :]
        self.begin_step()
