"""The dict types of `collections`: ordered and with a default."""

from __future__ import annotations

import itertools
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from framelift.guards.reading import stored_items, stored_keys
from framelift.guards.source import Source
from framelift.values.containers.dicts import MISSING, DictValue, dict_inside, pairs
from framelift.values.containers.namespaces import NamespaceValue
from framelift.values.core import protocol as py
from framelift.values.core.base import Value
from framelift.values.core.constants import is_constant
from framelift.values.core.construct import make_tuple
from framelift.values.core.exceptions import raise_error
from framelift.values.core.hash_keys import from_key, stored_again
from framelift.values.core.lookup import instance_dict
from framelift.values.core.methods import method
from framelift.values.core.primitives import primitive
from framelift.values.core.refusals import Operation
from framelift.values.core.stand_ins import raise_by, raise_no_attribute, raise_what

if TYPE_CHECKING:
    from framelift.values.core.emitter import Emitter
    from framelift.values.core.tracer import Tracer


def is_in_order(given: OrderedDict[Any, Any]) -> bool:
    """Whether the keys it has are those it has in order."""
    return set(map(id, stored_keys(given))) == set(map(id, dict.__iter__(given)))


def _unpacked(tracer: Tracer, pair: Any, position: int) -> list[Any]:
    """The key and the value of an item, which `OrderedDict` takes apart as the left side of an assignment would."""
    halves = list(itertools.islice(py.each(tracer, pair), 3))
    if len(halves) != 2:
        raise_what(OrderedDict, [(0,) * len(halves)])
    return halves


class OrderedDictValue(DictValue, models=OrderedDict):
    """A dict whose order can be changed; `reordered` says that replay has to bring its keys in order.

    Unlike plain dicts it has attributes: torch keeps the versions of modules in one, for instance.
    """

    __slots__ = ("reordered", "_namespace")
    assigns = (*DictValue.assigns, "reordered")
    kind = OrderedDict
    looks_ahead = True
    halves = staticmethod(_unpacked)

    def __init__(
        self, entries: dict[Any, Any] | None = None, source: Source | None = None, concrete: Any = None
    ) -> None:
        super().__init__(entries, source, concrete)
        self.reordered = False
        self._namespace: DictValue | None = None

    def note_facts(self, tracer: Tracer) -> None:
        if not is_in_order(self.concrete):
            self.refuse("use after methods of dict changed it")
        super().note_facts(tracer)

    def real_items(self) -> Iterable[tuple[Any, Any]]:
        return stored_items(self.concrete)

    def namespace(self, tracer: Tracer) -> DictValue:
        """The attributes that instances may have."""
        if self._namespace is None:
            if self.source is None:
                self._namespace = NamespaceValue(self)
            else:
                self._namespace = tracer.wrap(instance_dict(self.concrete), self.source.child("INSTANCE_DICT"))
        return self._namespace

    def attribute(self, tracer: Tracer, name: str) -> Any:
        if name == "__dict__":
            return self.namespace(tracer)
        if self.source is not None or self._namespace is not None:
            found = self.namespace(tracer).get_key(tracer, name) if name != "__class__" else MISSING
            if found is not MISSING:
                return found
        if not hasattr(OrderedDict, name):
            raise_no_attribute(OrderedDict, name)
        return super().attribute(tracer, name)

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        if hasattr(OrderedDict, name):
            self.refuse(Operation.SET_ATTRIBUTE, name=name)
        self.namespace(tracer).set_key(tracer, name, value)

    def changed_during_iteration(self, size_changed: bool) -> None:
        _raise_mutated()

    def compare(self, tracer: Tracer, operator: str, other: Any) -> Any:
        result = super().compare(tracer, operator, other)
        inside = dict_inside(tracer, other)
        if result is NotImplemented or not isinstance(inside, OrderedDictValue) or result == (operator == "!="):
            return result
        return self._has_keys_of(tracer, inside) == (operator == "==")

    def _has_keys_of(self, tracer: Tracer, other: OrderedDictValue) -> bool:
        """Whether the keys are equal one by one, now that each is known to be among the other's."""
        mine, theirs = list(self.entries(tracer)), list(other.entries(tracer))
        if all(map(is_constant, mine)) and all(map(is_constant, theirs)):
            return mine == theirs
        before = self.structure, other.structure
        for key, its in zip(mine, theirs, strict=False):
            equal = py.equal(tracer, from_key(key), from_key(its))
            if (self.structure, other.structure) != before:
                if sys.version_info < (3, 13):
                    self.refuse("comparison that changes it")
                _raise_mutated()
            if not equal:
                return False
        return len(mine) == len(theirs)

    def text(self, tracer: Tracer, conversion: str) -> str:
        if not self.entries(tracer):
            return "OrderedDict()"
        if repr(OrderedDict(a=1)) == "OrderedDict({'a': 1})":  # since Python 3.12
            return f"OrderedDict({super().text(tracer, conversion)})"
        pairs = [make_tuple((from_key(key), value)) for key, value in self.entries(tracer).items()]
        return f"OrderedDict([{', '.join(tracer.text(pair, 'repr') for pair in pairs)}])"

    def text_again(self) -> str | None:
        return "..."

    @method
    def popitem(self, tracer: Tracer, last: Any = True) -> Any:
        return self.pop_last(tracer, py.truth(tracer, last), OrderedDict().popitem)

    @method
    def move_to_end(self, tracer: Tracer, key: Any, last: Any = True) -> None:
        found = py.key_of(tracer, key)
        entries = self.entries(tracer)
        if found not in entries:
            raise_error(KeyError, key)
        at_end = py.truth(tracer, last)
        tracer.journal.touch(self)
        self.structure += 1
        self.reordered = True
        value = entries.pop(found)
        rest = dict(entries)
        entries.clear()
        entries.update({**rest, found: value} if at_end else {found: value, **rest})

    def is_as_it_was(self, state: Any) -> bool:
        return not self.reordered and super().is_as_it_was(state)

    def replay(self, emit: Emitter) -> None:
        super().replay(emit)
        if self.reordered:
            for key in self.overlay:
                self.emit_call(emit, "move_to_end", stored_again(key))
                emit.pop_top()

    def parts(self) -> list[Any]:
        return super().parts() if self._namespace is None else [*super().parts(), self._namespace]

    def rebuild(self, emit: Emitter) -> None:
        super().rebuild(emit)
        if isinstance(self._namespace, NamespaceValue):
            emit.fill_namespace(self._namespace)

    def rebuild_empty(self, emit: Emitter) -> None:
        emit.callable(OrderedDict)
        emit.call(0)


class DefaultDictValue(DictValue, models=defaultdict):
    """A dict that makes what it misses."""

    __slots__ = ("_factory", "factory_is_new")
    assigns = (*DictValue.assigns, "_factory", "factory_is_new")
    kind = defaultdict

    def __init__(
        self,
        entries: dict[Any, Any] | None = None,
        source: Source | None = None,
        concrete: Any = None,
        factory: Any = MISSING,
    ) -> None:
        super().__init__(entries, source, concrete)
        self._factory = factory
        self.factory_is_new = False  # the program has set it

    def make(self, entries: dict[Any, Any]) -> DictValue:
        return DefaultDictValue(entries, factory=self._factory)

    def factory(self, tracer: Tracer) -> Any:
        if self._factory is MISSING:
            assert self.source is not None
            self._factory = tracer.wrap(self.concrete.default_factory, self.source.child("GETATTR", "default_factory"))
        return self._factory

    def missing(self, tracer: Tracer, key: Any) -> Any:
        factory = self.factory(tracer)
        if py.same(tracer, factory, None):
            raise_error(KeyError, key)
        value = py.call(tracer, factory, [], {})
        self.set_item(tracer, key, value)
        return value

    def attribute(self, tracer: Tracer, name: str) -> Any:
        return self.factory(tracer) if name == "default_factory" else super().attribute(tracer, name)

    def set_attribute(self, tracer: Tracer, name: str, value: Any) -> None:
        if name != "default_factory":
            super().set_attribute(tracer, name, value)
            return
        self.note(tracer)
        tracer.journal.touch(self)
        self._factory, self.factory_is_new = value, True

    @method
    def __missing__(self, tracer: Tracer, key: Any, /) -> Any:
        return self.missing(tracer, key)

    def copy(self, tracer: Tracer) -> Any:
        self.factory(tracer)
        return self.make(dict(self.entries(tracer)))

    copy = __copy__ = method(copy)

    def binary(self, tracer: Tracer, operator: str, other: Any) -> Any:
        self.factory(tracer)
        return super().binary(tracer, operator, other)

    def reflected(self, tracer: Tracer, operator: str, other: Any) -> Any:
        self.factory(tracer)
        return super().reflected(tracer, operator, other)

    def text(self, tracer: Tracer, conversion: str) -> str:
        return f"defaultdict({tracer.text(self.factory(tracer), 'repr')}, {super().text(tracer, 'repr')})"

    def is_as_it_was(self, state: Any) -> bool:
        return not self.factory_is_new and super().is_as_it_was(state)

    def replay(self, emit: Emitter) -> None:
        super().replay(emit)
        if self.factory_is_new:
            emit.value(self._factory)
            emit.source(self.source)
            emit.store_attribute("default_factory")

    def parts(self) -> list[Any]:
        return [*super().parts(), *([] if self._factory is MISSING else [self._factory])]

    def rebuild_empty(self, emit: Emitter) -> None:
        emit.callable(defaultdict)
        emit.value(self._factory)
        emit.call(1)


def fill(tracer: Tracer, result: DictValue, source: Any, kwargs: dict[str, Any]) -> Value:
    """`result.update(source, **kwargs)`, for the constructors."""
    for key, value in pairs(tracer, source, result.halves):
        result.set_item(tracer, key, value)
    for name, value in kwargs.items():
        result.set_key(tracer, name, value)
    return result


@primitive(dict)
def _dict(tracer: Tracer, source: Any = (), /, **kwargs: Any) -> Any:
    return fill(tracer, DictValue({}), source, kwargs)


@primitive(OrderedDict)
def _ordered_dict(tracer: Tracer, source: Any = (), /, **kwargs: Any) -> Any:
    return fill(tracer, OrderedDictValue({}), source, kwargs)


@primitive(defaultdict)
def _default_dict(tracer: Tracer, factory: Any = None, source: Any = (), /, **kwargs: Any) -> Any:
    if not py.same(tracer, factory, None) and not py.truth(
        tracer, py.call(tracer, tracer.known_object(callable), [factory], {})
    ):
        raise_what(defaultdict, 0)
    return fill(tracer, DefaultDictValue({}, factory=factory), source, kwargs)


@primitive(dict.__dict__["fromkeys"], OrderedDict.__dict__["fromkeys"])
def _fromkeys(tracer: Tracer, cls: Any, keys: Any, value: Any = None, /) -> Any:
    cls.note(tracer)
    makers: dict[Any, Any] = {dict: DictValue, OrderedDict: OrderedDictValue}
    made_by = next((maker for kind, maker in makers.items() if kind is cls.concrete), None)
    result = py.call(tracer, cls, [], {}) if made_by is None else made_by({})
    if cls.concrete is dict:
        for key in py.keys(tracer, keys):
            result.set_key(tracer, key, value)
    else:
        for item in py.items(tracer, keys):
            py.set_item(tracer, result, item, value)
    return result


def _raise_mutated() -> NoReturn:
    raise_by("for key in given: given[key, key] = None", given=OrderedDict.fromkeys("ab"))
