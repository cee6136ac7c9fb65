"""Faults planted in framelift, one at a time, to see that the random programs find them.

Each one takes away, or bends, one thing in guards, journal or code generation. A fault whose target is gone raises
when it is planted: then it must be brought up to date.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

from framelift.effects.journal import Journal
from framelift.graph import GraphBuilder
from framelift.guards.guardset import GuardSet
from framelift.residual.emitter import ResidualEmitter
from framelift.values.containers.dicts import DictValue
from framelift.values.containers.namespaces import NamespaceValue
from framelift.values.containers.sequences import ListValue, TupleValue
from tests.fuzz.run import failure_of, write

# Processes are forked from one that has imported torch and framelift.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.fuzz.faults", "framelift.api"])


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> Callable[[], None]:
    """A fault: `owner.name` becomes `make(what it was)`."""
    return lambda: setattr(owner, name, make(getattr(owner, name)))


def _without_guard(check: str) -> Callable[[], None]:
    def forgetful(add: Any) -> Any:
        return lambda self, source, kind, *rest: None if kind == check else add(self, source, kind, *rest)

    return _replace(GuardSet, "add", forgetful)


def _without_relation(kind: str) -> Callable[[], None]:
    def forgetful(relate: Any) -> Any:
        return lambda self, relation: None if relation.kind == kind else relate(self, relation)

    return _replace(GuardSet, "_relate", forgetful)


def _does_nothing(_: Any) -> Any:
    return lambda *args, **kwargs: None


def _keeps_the_first_change(touch: Any) -> Any:
    """Objects that change later in the program are not listed for replay."""

    def wrong(self: Journal, value: Any) -> None:
        before = len(self.changed)
        touch(self, value)
        if before and len(self.changed) > before:
            self.changed.pop()

    return wrong


def _forgets_what_was_changed(roll_back: Any) -> Any:
    def wrong(self: Journal) -> None:
        del self.changed[self._changed_before :]
        self.begin_step()

    return wrong


def _loses_the_last(replay: Any) -> Any:
    """All items but the last are written back."""

    def wrong(self: Any, generate: Any) -> None:
        items = self._items
        if self.source is not None and items and len(items) > 1:
            self._items = items[:-1]
        replay(self, generate)
        self._items = items

    return wrong


def _backwards(rebuild: Any) -> Any:
    def wrong(self: Any, generate: Any) -> None:
        items = self._items
        self._items = None if items is None else items[::-1]
        rebuild(self, generate)
        self._items = items

    return wrong


def _first_output(graph_output: Any) -> Any:
    """Whatever result of the graph is asked for, the first one is given."""

    def wrong(self: Any, value: Any) -> None:
        graph_output(self, self.outputs[0] if self.outputs else value)
        if id(value) not in self._output_index:
            self._output_index[id(value)] = 0

    return wrong


def _remembers_nothing(value: Any) -> Any:
    """Every use of a list makes a new one."""

    def wrong(self: Any, item: Any) -> None:
        if isinstance(item, ListValue):
            self._remembered.pop(id(item), None)
        value(self, item)

    return wrong


FAULTS: dict[str, Callable[[], None]] = {
    "guards: numbers and strings are not compared": _without_guard("EQUALS"),
    "guards: outcomes of comparisons are not": _without_guard("COMPARE"),
    "guards: lengths are not": _without_guard("LENGTH"),
    "guards: the keys of dicts are not": _without_guard("DICT_KEYS"),
    "guards: absent keys may appear": _without_guard("KEY_ABSENT"),
    "guards: tensors may change shape": _without_guard("TENSOR"),
    "guards: two names of one object may part": _without_relation("SAME"),
    "guards: two objects may become one": _without_relation("DISTINCT"),
    "journal: nothing is undone at a break": _replace(Journal, "roll_back", _forgets_what_was_changed),
    "journal: only the first object is replayed": _replace(Journal, "touch", _keeps_the_first_change),
    "journal: lists are not replayed": _replace(ListValue, "replay", _does_nothing),
    "journal: dicts are not replayed": _replace(DictValue, "replay", _does_nothing),
    "journal: the graph is not rolled back": _replace(GraphBuilder, "rollback", _does_nothing),
    "journal: the last item of a list is lost": _replace(ListValue, "replay", _loses_the_last),
    "code: tuples are rebuilt backwards": _replace(TupleValue, "rebuild", _backwards),
    "code: lists are rebuilt backwards": _replace(ListValue, "rebuild", _backwards),
    "code: a list used twice becomes two": _replace(ResidualEmitter, "value", _remembers_nothing),
    "code: the first output is given for all": _replace(ResidualEmitter, "graph_output", _first_output),
    "code: instances lose their attributes": _replace(NamespaceValue, "fill_real", _does_nothing),
    "code: dicts are rebuilt empty": _replace(DictValue, "rebuild", lambda _: DictValue.rebuild_empty),
}


def found_by_programs(name: str, programs: int, size: int) -> int | None:
    """The first program, of so many, that differs with the fault and not without it; None if none does."""
    first = 0
    while (seed := _first_different(name, first, programs, size)) is not None:
        if failure_of(write(seed, size), seed) is None:
            return seed
        first = seed + 1
    return None


def _first_different(name: str, first: int, programs: int, size: int) -> int | None:
    """The first program that differs with the fault, which is planted in another process."""
    receiver, sender = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_search, args=(name, range(first, programs), size, sender))
    process.start()
    sender.close()
    found: int | None = receiver.recv()
    process.join()
    return found


def _search(name: str, seeds: range, size: int, sender: Any) -> None:
    FAULTS[name]()
    sender.send(next((seed for seed in seeds if failure_of(write(seed, size), seed) is not None), None))
