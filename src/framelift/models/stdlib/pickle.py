"""Models of `pickle.dumps` and `pickle.loads`.

What an object is made of again is recorded as a *recipe*, a tree of plain tuples, instead of as bytes: these are not
known while capturing, and nearly all that programs do with them is to load them. What cannot be pickled is left to
Python, which says so.
"""

from __future__ import annotations

import _compat_pickle
import _pickle
import copyreg
import pickle
import sys
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from framelift import controls
from framelift.models.registry import Missing, models


def pickled(recipe: Any, protocol: int) -> bytes:
    """Bytes of which only the recipe is known; the interpreter has a value for them."""
    raise NotImplementedError  # never called: values/ has a primitive for it


def recipe_of(data: Any) -> Any:
    """The recipe and the protocol of such bytes; the interpreter knows."""
    raise NotImplementedError  # never called: values/ has a primitive for it


@models(_pickle.dumps)
def dumps(obj: Any, protocol: Any = None, *, fix_imports: Any = True, buffer_callback: Any = None) -> bytes:
    if protocol is None:
        protocol = pickle.DEFAULT_PROTOCOL
    if protocol < 0:
        protocol = pickle.HIGHEST_PROTOCOL
    elif protocol > pickle.HIGHEST_PROTOCOL:
        raise ValueError(f"pickle protocol must be <= {pickle.HIGHEST_PROTOCOL}")
    if not fix_imports or buffer_callback is not None:
        controls.graph_break("pickle.dumps() with other than the usual options")
    return pickled(Recorder(protocol).record(obj), protocol)


@models(_pickle.loads)
def loads(
    data: Any, /, *, fix_imports: Any = True, encoding: Any = "ASCII", errors: Any = "strict", buffers: Any = ()
) -> Any:
    if not fix_imports or encoding != "ASCII" or errors != "strict" or buffers:
        controls.graph_break("pickle.loads() with other than the usual options")
    recipe, protocol = recipe_of(data)
    return Player(protocol).play(recipe)


_PLAIN = (type(None), bool, int, float, str, bytes)
_SINGLETON_TYPES = (None, NotImplemented, ...)


class Recorder:
    """Writes recipes. An object that is met again is referred to by the number it got."""

    def __init__(self, protocol: int) -> None:
        self.protocol = protocol
        self.known: list[Any] = []

    def record(self, obj: Any) -> Any:
        kind = type(obj)
        if kind in _PLAIN:
            return ("plain", obj)
        for number, other in enumerate(self.known):
            if other is obj:
                return ("known", number)
        if kind is tuple or (kind is frozenset and self.protocol >= 4):
            parts = [self.record(item) for item in obj]
            return ("made", kind, parts, self._number(obj))
        if kind is list:
            number = self._number(obj)
            return ("list", number, [self.record(item) for item in obj])
        if kind is dict:
            number = self._number(obj)
            return ("dict", number, [(self.record(key), self.record(value)) for key, value in obj.items()])
        if kind is set and self.protocol >= 4:
            number = self._number(obj)
            return ("set", number, [self.record(item) for item in obj])
        if kind is FunctionType:
            return self._record_global(obj, None)
        if kind is type:
            return self._record_type(obj)
        return self._record_object(obj, kind)

    def _number(self, obj: Any) -> int:
        for other in self.known:
            if other is obj:
                controls.graph_break("pickling of what contains itself")
        self.known.append(obj)
        return len(self.known) - 1

    def _record_type(self, cls: Any) -> Any:
        for singleton in _SINGLETON_TYPES:
            if cls is type(singleton):
                return ("type", singleton)
        return self._record_global(cls, None)

    def _record_object(self, obj: Any, kind: Any) -> Any:
        if kind is MethodType:
            reduced: Any = (getattr, (obj.__self__, obj.__func__.__name__))
        elif kind is BuiltinFunctionType and type(obj.__self__) is ModuleType:
            reduced = obj.__qualname__
        else:
            reduce: Any = copyreg.dispatch_table.get(kind, Missing)
            if reduce is not Missing:
                reduced = reduce(obj)
            elif issubclass(kind, type):
                return self._record_global(obj, None)
            else:
                reduced = obj.__reduce_ex__(self.protocol)
        if isinstance(reduced, str):
            return self._record_global(obj, reduced)
        if not isinstance(reduced, tuple) or not 2 <= len(reduced) <= 6:
            controls.graph_break("pickling by a __reduce_ex__() that gives something else")
        return self._record_reduced(obj, *reduced)

    def _record_reduced(
        self, obj: Any, make: Any, args: Any, state: Any = None, items: Any = None, pairs: Any = None, put: Any = None
    ) -> Any:
        if not isinstance(args, tuple) or not callable(make):
            controls.graph_break("pickling by a __reduce_ex__() that gives something else")
        name = getattr(make, "__name__", "")
        if self.protocol >= 2 and name == "__newobj_ex__":
            cls, first, named = args
            how: Any = ("new", self._record_class(cls, obj), self.record(first), self.record(named))
        elif self.protocol >= 2 and name == "__newobj__":
            how = ("new", self._record_class(args[0], obj), self.record(args[1:]), None)
        else:
            how = ("call", self.record(make), self.record(args), None)
        number = self._number(obj)
        appended = None if items is None else [self.record(item) for item in items]
        stored = None if pairs is None else [(self.record(key), self.record(value)) for key, value in pairs]
        setter = None if put is None else self.record(put)
        return ("object", number, how, appended, stored, None if state is None else self.record(state), setter)

    def _record_class(self, cls: Any, obj: Any) -> Any:
        if cls is not obj.__class__ or not hasattr(cls, "__new__"):
            controls.graph_break("pickling of an object for another class")
        return self.record(cls)

    def _record_global(self, obj: Any, name: Any) -> Any:
        if name is None:
            name = getattr(obj, "__qualname__", None) or obj.__name__
        module: Any = getattr(obj, "__module__", None)
        if module is None or _find(module, name) is not obj:
            controls.graph_break("pickling of what is not found by its name")
        self.known.append(obj)
        if self.protocol < 3:
            module, name = _renamed(
                module, name, _compat_pickle.REVERSE_NAME_MAPPING, _compat_pickle.REVERSE_IMPORT_MAPPING
            )
        return ("global", len(self.known) - 1, module, name)


def _renamed(module: str, name: str, names: dict[Any, Any], modules: dict[str, str]) -> tuple[str, str]:
    """What something was called in Python 2, or is called in Python 3."""
    if (module, name) in names:
        found: tuple[str, str] = names[module, name]
        return found
    return modules.get(module, module), name


def _find(module: str, name: str) -> Any:
    found = sys.modules.get(module, Missing)
    for part in name.split("."):
        found = Missing if part == "<locals>" else getattr(found, part, Missing)
    return found


class Player:
    """Makes objects by recipes."""

    def __init__(self, protocol: int) -> None:
        self.protocol = protocol
        self.made: dict[int, Any] = {}

    def play(self, recipe: Any) -> Any:
        kind = recipe[0]
        if kind == "plain":
            return recipe[1]
        if kind == "known":
            return self.made[recipe[1]]
        if kind == "type":
            return type(recipe[1])
        if kind == "made":
            self.made[recipe[3]] = made = recipe[1]([self.play(part) for part in recipe[2]])
            return made
        if kind == "list":
            self.made[recipe[1]] = items = []
            for part in recipe[2]:
                items.append(self.play(part))
            return items
        if kind == "dict":
            self.made[recipe[1]] = entries = {}
            for key, value in recipe[2]:
                entries[self.play(key)] = self.play(value)
            return entries
        if kind == "set":
            self.made[recipe[1]] = members = set()
            for part in recipe[2]:
                members.add(self.play(part))
            return members
        if kind == "global":
            self.made[recipe[1]] = found = self._find(recipe[2], recipe[3])
            return found
        return self._make(*recipe[1:])

    def _find(self, module: str, name: str) -> Any:
        if self.protocol < 3:
            module, name = _renamed(module, name, _compat_pickle.NAME_MAPPING, _compat_pickle.IMPORT_MAPPING)
        found = _find(module, name)
        if found is Missing:
            controls.graph_break("unpickling of what is not found by its name")
        return found

    def _make(self, number: int, how: Any, appended: Any, stored: Any, state: Any, setter: Any) -> Any:
        way, function, args, named = how
        called, given = self.play(function), self.play(args)
        keywords = {} if named is None else self.play(named)
        obj = called.__new__(called, *given, **keywords) if way == "new" else called(*given)
        self.made[number] = obj
        if appended:
            self._append(obj, [self.play(part) for part in appended])
        for key, value in stored or ():
            obj[self.play(key)] = self.play(value)
        if setter is not None:
            self.play(setter)(obj, self.play(state))
        elif state is not None:
            _set_state(obj, self.play(state))
        return obj

    def _append(self, obj: Any, items: list[Any]) -> None:
        extend: Any = getattr(obj, "extend", Missing)
        if extend is not Missing:
            extend(items)
            return
        for item in items:
            obj.append(item)


def _set_state(obj: Any, state: Any) -> None:
    own: Any = getattr(obj, "__setstate__", Missing)
    if own is not Missing:
        own(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        if not isinstance(state, dict):
            controls.graph_break("unpickling of a state that is no dictionary")
        names = obj.__dict__
        for name, value in state.items():
            names[name] = value
    for name, value in (slots or {}).items():
        setattr(obj, name, value)
