"""`functools.partial`: a callable with some of its arguments; also instances of its subclasses."""

from __future__ import annotations

import functools
import sys
import types
from typing import TYPE_CHECKING, Any

from framelift.breaks import FL0102, GraphBreak
from framelift.guards.source import Source
from framelift.values.containers.dicts import DictValue, pairs
from framelift.values.core import protocol as py
from framelift.values.core.exceptions import raise_error
from framelift.values.core.lookup import (
    has_default,
    is_subclass,
    mro_of,
    name_in_errors,
    name_of,
    own_entries,
    qualified_name_of,
    raw_lookup,
)
from framelift.values.core.primitives import primitive
from framelift.values.functions.reloaded import twin_class
from framelift.values.objects import attributes
from framelift.values.objects.classes import ClassValue, note_instantiable
from framelift.values.objects.instances import UserObjectValue

if TYPE_CHECKING:
    from framelift.capture.lift import Lift
    from framelift.residual.generator import Generator

_PARTS = ("func", "args", "keywords")


def partial_base(cls: type) -> type | None:
    """The C class that instances of `cls` are partials of; None for every other class."""
    return next((base for base in mro_of(cls) if base is functools.partial or _is_twin(base)), None)


def _is_twin(cls: type) -> bool:
    return name_of(cls) == functools.partial.__name__ and twin_class(cls) is functools.partial


class PartialValue(UserObjectValue, models=functools.partial):
    """`given` holds `func`, `args` and `keywords`, as far as they were read or given."""

    __slots__ = ("given", "base", "has_dict")

    def __init__(self, cls: type, source: Source | None = None, concrete: Any = None) -> None:
        super().__init__(cls, source, concrete)
        base = partial_base(cls)
        assert base is not None
        self.base = base
        self.given: dict[str, Any] = {}
        # A partial has a `__dict__` from when it is first asked for it.
        self.has_dict = False

    def describe(self) -> str:
        return name_of(self.cls)

    def default(self, name: str) -> Any:
        return raw_lookup(self.base, name)

    # -- its parts -----------------------------------------------------------------------------------------------

    def part(self, lift: Lift, name: str) -> Any:
        if name not in self.given:
            assert self.source is not None
            self.note(lift)
            if not has_default(lift, self.cls, name, raw_lookup(self.base, name)):
                self.refuse(f"reading {name!r}, which its class hides,")
            self.given[name] = lift.wrap(getattr(self.concrete, name), self.source.child("GETATTR", name))
        return self.given[name]

    def get_slot(self, lift: Lift, descriptor: Any) -> Any:
        if descriptor.__objclass__ is self.base:
            return self.part(lift, descriptor.__name__)
        return super().get_slot(lift, descriptor)

    def set_slot(self, lift: Lift, descriptor: Any, value: Any) -> None:
        if descriptor.__objclass__ is self.base:
            raise_error(AttributeError, "readonly attribute")
        super().set_slot(lift, descriptor, value)

    def delete_slot(self, lift: Lift, descriptor: Any) -> None:
        if descriptor.__objclass__ is self.base:
            raise_error(AttributeError, "readonly attribute")
        super().delete_slot(lift, descriptor)

    def computed(self, lift: Lift, descriptor: Any) -> Any:
        if descriptor.__name__ == "__dict__":
            lift.journal.touch(self)
            self.has_dict = True
        return super().computed(lift, descriptor)

    def first(self, lift: Lift) -> tuple[list[Any], dict[str, Any]]:
        """The arguments it has."""
        named = {lift.constant(name): value for name, value in pairs(lift, self.part(lift, "keywords"))}
        return py.items(lift, self.part(lift, "args")), named

    # -- its methods ---------------------------------------------------------------------------------------------

    def call(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not has_default(lift, self.cls, "__call__", raw_lookup(self.base, "__call__")):
            return super().call(lift, args, kwargs)
        model = lift.promised_model(self)
        if model is not None:
            return model(lift, args, kwargs)
        return self._call_function(lift, args, kwargs)

    def _call_function(self, lift: Lift, args: list[Any], kwargs: dict[str, Any]) -> Any:
        first, named = self.first(lift)
        if not all(isinstance(name, str) for name in named):
            raise_error(TypeError, "keywords must be strings")
        return py.call(lift, self.part(lift, "func"), [*first, *args], named | kwargs)

    def inherited(self, lift: Lift, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call the method `name` of the C class."""
        if name == "__call__":
            return self._call_function(lift, args, kwargs)
        method = _METHODS.get(name)
        if method is None or kwargs or len(args) != method[1]:
            self.refuse(f"{name}() with these arguments")
        return method[0](lift, self, *args)

    def text_again(self) -> str | None:
        return "..."

    def shown(self, lift: Lift) -> str:
        first, named = self.first(lift)
        shown = [self.part(lift, "func"), *first]
        parts = [lift.text(part, "repr") for part in shown]
        parts += [f"{key}={lift.text(value, 'repr')}" for key, value in named.items()]
        return f"{self._name()}({', '.join(parts)})"

    def _name(self) -> str:
        if self.cls is self.base:
            return name_in_errors(self.cls)
        module = own_entries(self.cls).get("__module__")
        if sys.version_info < (3, 13) or module == "builtins":
            return name_of(self.cls)
        if type(module) is not str:
            self.refuse("repr() with a module that is no name")
        return f"{module}.{qualified_name_of(self.cls)}"

    def reduced(self, lift: Lift) -> Any:
        func, args, keywords = (self.part(lift, name) for name in _PARTS)
        namespace = self.namespace(lift)
        has_names = self.has_dict or (namespace is not None and py.truth(lift, namespace))
        state = lift.tuple([func, args, keywords, namespace if has_names else None])
        return lift.tuple([lift.known_object(self.cls), lift.tuple([func]), state])

    def set_state(self, lift: Lift, state: Any) -> None:
        parts = py.items(lift, state) if is_subclass(lift.type_of(state), tuple) else []
        if len(parts) != 4 or not self._fits(lift, *parts[:3]):
            raise_error(TypeError, "invalid partial state")
        func, args, keywords, names = parts
        if self.source is not None or not (names is None or py.has_type(names, dict)):
            self.refuse("__setstate__()")
        lift.journal.touch(self)
        if not py.has_type(args, tuple):
            args = lift.tuple(py.items(lift, args))
        if keywords is None or not py.has_type(keywords, dict):
            keywords = DictValue({} if keywords is None else dict(pairs(lift, keywords)))
        self.given = {"func": func, "args": args, "keywords": keywords}
        self._namespace, self.has_dict = names, names is not None

    def _fits(self, lift: Lift, func: Any, args: Any, keywords: Any) -> bool:
        return (
            _is_callable(lift, func)
            and is_subclass(lift.type_of(args), tuple)
            and (keywords is None or is_subclass(lift.type_of(keywords), dict))
        )

    # -- change and the way back ---------------------------------------------------------------------------------

    def state(self) -> Any:
        return super().state(), dict(self.given), self.has_dict

    def restore(self, state: Any) -> None:
        inner, self.given, self.has_dict = state
        super().restore(inner)

    def parts(self) -> list[Any]:
        return [*super().parts(), *self.given.values()]

    def rebuild_new(self, generate: Generator) -> None:
        generate.known_object(self.base)
        generate.load_method("__new__")
        generate.known_object(self.cls)
        generate.known_object(len)  # any callable: the parts follow, which may have the partial among them
        generate.call(2)
        generate.remember(self)
        generate.known_object(self.base)
        generate.load_method("__setstate__")
        generate.load_remembered(self)
        for name in _PARTS:
            generate.value(self.given[name])
        generate.constant(None)
        generate.build_tuple(4)
        generate.call(2)
        generate.pop_top()

    def fills_namespace(self) -> bool:
        return self.has_dict or (self._namespace is not None and bool(self._namespace.overlay))


# Methods of the C class, and how many arguments they take.
_METHODS: types.MappingProxyType[str, Any] = types.MappingProxyType(
    {
        "__repr__": (lambda lift, value: value.shown(lift), 0),
        "__reduce__": (lambda lift, value: value.reduced(lift), 0),
        "__setstate__": (lambda lift, value, state: value.set_state(lift, state), 1),
        "__getattribute__": (lambda lift, value, name: attributes.read(lift, value, lift.constant(name)), 1),
        "__setattr__": (lambda lift, value, name, new: attributes.write(lift, value, lift.constant(name), new), 2),
        "__delattr__": (lambda lift, value, name: attributes.delete(lift, value, lift.constant(name)), 1),
    }
)


def _is_callable(lift: Lift, value: Any) -> bool:
    return py.truth(lift, py.call(lift, lift.known_object(callable), [value], {}))


@primitive(functools.partial.__new__)
def _new(lift: Lift, cls: Any, /, *args: Any, **keywords: Any) -> Any:
    if not isinstance(cls, ClassValue) or partial_base(cls.concrete) is None:
        raise GraphBreak(FL0102, what=f"__new__ of {py.describe(cls)}")
    cls.note(lift)
    if not args:
        raise_error(TypeError, "type 'partial' takes at least one argument")
    function, first = args[0], list(args[1:])
    if not _is_callable(lift, function):
        raise_error(TypeError, "the first argument must be callable")
    if isinstance(function, PartialValue) and _is_taken_apart(lift, function, partial_base(cls.concrete)):
        inner_first, inner = function.first(lift)
        first, keywords = [*inner_first, *first], inner | keywords
        function = function.part(lift, "func")
    note_instantiable(lift, cls.concrete)
    made = PartialValue(cls.concrete)
    made.given = {"func": function, "args": lift.tuple(first), "keywords": DictValue(dict(keywords))}
    return made


def _is_taken_apart(lift: Lift, inner: PartialValue, base: type | None) -> bool:
    """Whether a partial of this one calls its function directly: not if it has attributes."""
    if inner.base is not base:
        inner.refuse("partial() of one of another copy of its module")
    namespace = inner.namespace(lift)
    is_bare = not inner.has_dict and (namespace is None or not py.truth(lift, namespace))
    return is_bare and (_LOSES_CALLS or has_default(lift, inner.cls, "__call__", raw_lookup(inner.base, "__call__")))


class _WithCall(functools.partial[Any]):
    def __call__(self) -> None: ...


# Whether the interpreter takes a partial apart whose class has a `__call__` of its own (CPython 3.13 does).
_LOSES_CALLS = not isinstance(functools.partial(_WithCall(len)).func, _WithCall)


@primitive(functools.partial)
def _partial(lift: Lift, *args: Any, **keywords: Any) -> Any:
    return _new(lift, lift.known_object(functools.partial), *args, **keywords)
